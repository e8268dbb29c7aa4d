"""headrace quarantine list"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace quarantine list
headrace quarantine list orders --limit 5
headrace quarantine list --json | jq -r '.changes[] | [.id, .reason] | @tsv'
"""
SHOWN = 100  # changes in text, unless asked otherwise


def run(
    table: Annotated[str | None, typer.Argument(metavar="TABLE", help="Of this table or view only.")] = None,
    *,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", metavar="N", min=0, help=f"Changes to show. Default: {SHOWN}; all as JSON."),
    ] = None,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """List what tables could not take and sources could not read.

    Changes, oldest first of each table: an insert of a key that is there already, an update or delete of one that is
    not, where the source says `on_conflict: quarantine`; a delete of a row that a table without a key does not hold.
    Then rows of files and requests over HTTP that do not fit their columns, where the source says
    `on_error: quarantine`. No view has seen any of it. Then rows that a view's SQL throws on, where the view begins
    with `-- on_error: set_aside`: it goes on without them.

    Each line begins with the id by which the other commands take it: TABLE:COMMIT:N, the N-th change of the table in
    that commit; SOURCE:N of what a source could not read; VIEW:COMMIT:N of what a view goes on without. Reads files;
    works beside a running `headrace up` and without one.
    """
    from headrace.serve import quarantine

    path = folder(project)
    changes, total = quarantine.entries(path, table, limit if limit is not None or json else SHOWN)
    if json:
        display.emit({"total": total, "changes": changes})
        return
    if not total:
        display.say(f"nothing is set aside{f' of {display.plain(table)}' if table else ''}")
    for change in changes:
        display.say(display.plain(quarantine.line(change)))
    if len(changes) < total:
        display.say(f"\n{len(changes):,} of {total:,} changes (--limit shows more)")
