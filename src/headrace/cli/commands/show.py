"""headrace show"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli import display, moment
from headrace.cli.options import JsonOption, ProjectOption, folder

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.model.schema import ViewSchema
    from headrace.serve.past import NotPublished

EPILOG = """
headrace show revenue
headrace show revenue --order-by total:desc --limit 5
headrace show revenue --csv > revenue.csv
headrace show revenue --at 1042             # as it was after commit 1042
headrace show orders                        # a table, as the log has it
headrace show orders --at 1042              # after commit 1042
headrace show orders --at 2026-03-01T08:00  # after the last commit by that time
"""
SHOWN = 100  # rows of a table, unless asked otherwise


def run(
    view: Annotated[str, typer.Argument(metavar="VIEW", help="The view, or a table that views read.")],
    *,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="COMMIT|TIME", help=f"As it was after {moment.HINT}."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", metavar="N", min=0, help=f"Rows to show. Default: {SHOWN}; all as JSON or CSV."),
    ] = None,
    order_by: Annotated[
        list[str] | None, typer.Option("--order-by", "-o", metavar="COLUMN[:desc]", help="Sort by it; may be repeated.")
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Answer in CSV with a header line.")] = False,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Show what a view or a table holds, as of one commit.

    Reads what is published; works beside a running `headrace up` and without one. Of a view that has failed: what
    it held before, on which rows it failed, and why.

    With --at a view is as it was published, after one of the last 256 steps (with `transactions: each`, after each
    commit), or one that a sink lacks. As of any other commit that the log has, its query of today is run by Spark over
    the tables as they were then, and it is said so. It is exact or refused.

    A table is made from the log, at its end or as of any commit or time that the log still has: the work is that of
    its changes up to there, the memory that of its rows.
    """
    if csv and json:
        raise typer.BadParameter("--csv and --json cannot be given together")
    from headrace.cli import contents, published

    path = folder(project)
    if published.is_view(path, view) or (at is None and not published.is_table(path, view)):
        held = _view(path, published.find(path, view), at)
    else:
        held = _table(path, view, at)
    bound = limit if limit is not None or csv or json else SHOWN
    rows, total = contents.ordered(held.rows, held.schema, order_by or [], bound)
    if csv:
        contents.write_csv(rows)
    elif json:
        from headrace.formats.json_tables import table_json

        head = {**held.head, "commit": held.commit, **held.recomputed, "total": total, **held.failed}
        display.emit({**head, **table_json(rows)})
    else:
        if held.failed:
            display.say(display.paint(display.plain(held.failed["reason"]), "red") + "\n")
        _print(held, rows, total)


@dataclass(frozen=True, slots=True)
class _Held:
    """What is shown: its name in ``head``, the commit, ``rows`` with ``_w``; ``failed`` of a view that is.

    ``recomputed``: ``{"recomputed": true, "clock"}`` of a view that was computed for this, else nothing.
    """

    head: dict[str, Any]
    commit: int
    schema: ViewSchema
    rows: pa.Table
    failed: dict[str, Any]
    recomputed: dict[str, Any] = field(default_factory=dict)


def _view(path: Path, name: str, at: str | None) -> _Held:
    from headrace.serve import past, snapshot

    if at:
        try:
            then, schema, rows = past.contents(path, name, *moment.parse(at, "--at"))
        except past.NotPublished as error:
            return _recomputed(path, name, error)
        return _Held({"view": name, "version": schema.version}, then, schema, rows, {})
    failure = snapshot.failure(path, name)
    commit, schema, rows = snapshot.contents(path, name)
    head = {"view": name, "version": schema.version}
    if failure is None:
        return _Held(head, commit, schema, rows, {})
    failed = {"state": "failed", "reason": failure["reason"], "failing": failure["failing"]}
    return _Held(head, failure["commit"], schema, rows, failed)


def _recomputed(path: Path, name: str, error: NotPublished) -> _Held:
    """A view as of a commit that nothing published tells of; says that it is computed, and why."""
    from headrace.control import show
    from headrace.control.verbs import call
    from headrace.serve import history

    with display.working(f"computing {name}") as progress:
        answer = call(path, "show", {"view": name, "commit": error.commit}, progress)
    clock = history.time_text(answer["clock_us"])
    at = f", its clock at {clock}" if clock else ""
    if not display.OUTPUT.json:
        text = f"recomputed: {name} as it is defined now, over the log up to commit {error.commit:,}{at}"
        display.say(f"{text} ({display.plain(error.why)})", error=True)
    head, told = {"view": name, "version": error.schema.version}, {"recomputed": True, "clock": clock}
    return _Held(head, error.commit, error.schema, show.table(answer), {}, told)


def _table(path: Path, name: str, at: str | None) -> _Held:
    from headrace.model.schema import ViewSchema
    from headrace.serve import history, replay

    commit, time_us = moment.parse(at, "--at") if at else (None, None)
    relation = replay.known(path, name)
    reader = history.reader_of(path)
    end = reader.end
    if time_us is not None:
        commit = replay.commit_at(reader, time_us)
    elif commit is not None and commit > end:
        raise typer.BadParameter(f"the log ends at commit {end}", param_hint="--at")
    upto = end if commit is None else commit
    with display.working(f"replaying {relation.name}") as progress:
        rows = replay.contents(path, relation, upto, progress)
    schema = ViewSchema(relation.name, 0, relation.columns, relation.key)
    return _Held({"table": relation.name}, upto, schema, rows, {})


def _print(held: _Held, rows: pa.Table, total: int) -> None:
    from headrace.formats.json_tables import rows as cells

    display.say(f"{held.schema.name} at commit {held.commit:,}: {display.counted(total, 'row')}\n")
    columns = [{"name": column.name, "type": column.type} for column in held.schema.columns]
    display.table(columns, cells(rows))
    if rows.num_rows < total:
        display.say(f"\n{rows.num_rows:,} of {total:,} rows (--limit shows more)")
