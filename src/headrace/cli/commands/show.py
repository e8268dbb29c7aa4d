"""headrace show"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.model.schema import ViewSchema

EPILOG = """
headrace show revenue
headrace show revenue --order-by total:desc --limit 5
headrace show revenue --csv > revenue.csv
"""
SHOWN = 100  # rows of a table, unless asked otherwise


def run(
    view: Annotated[str, typer.Argument(metavar="VIEW", help="The view.")],
    *,
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
    """Show what a view holds, as of one commit.

    Reads what is published; works beside a running `headrace up` and without one. Of a view that has failed: what
    it held before, on which rows it failed, and why.
    """
    if csv and json:
        raise typer.BadParameter("--csv and --json cannot be given together")
    from headrace.cli import contents, published
    from headrace.serve import snapshot

    path = folder(project)
    name = published.find(path, view)
    failure = snapshot.failure(path, name)
    commit, schema, table = snapshot.contents(path, name)
    commit = failure["commit"] if failure else commit
    bound = limit if limit is not None or csv or json else SHOWN
    rows, total = contents.ordered(table, schema, order_by or [], bound)
    if csv:
        contents.write_csv(rows)
    elif json:
        from headrace.formats.json_tables import table_json

        failed = {"state": "failed", "reason": failure["reason"], "failing": failure["failing"]} if failure else {}
        head = {"view": name, "version": schema.version, "commit": commit, "total": total}
        display.emit({**head, **failed, **table_json(rows)})
    else:
        if failure:
            display.say(display.paint(display.plain(failure["reason"]), "red") + "\n")
        _print(name, commit, schema, rows, total)


def _print(name: str, commit: int, schema: ViewSchema, rows: pa.Table, total: int) -> None:
    from headrace.formats.json_tables import rows as cells

    display.say(f"{name} at commit {commit:,}: {display.counted(total, 'row')}\n")
    columns = [{"name": column.name, "type": column.type} for column in schema.columns]
    display.table(columns, cells(rows))
    if rows.num_rows < total:
        display.say(f"\n{rows.num_rows:,} of {total:,} rows (--limit shows more)")
