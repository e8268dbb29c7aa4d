"""headrace quarantine show"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from headrace.cli import display
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace quarantine show orders:1042:3
headrace quarantine show orders:1042:3 --json | jq .row
"""


def run(
    id: Annotated[str, typer.Argument(metavar="ID", help="As `headrace quarantine list` shows it.")],
    *,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Show all that is known of one change in the quarantine.

    The table, where and when the change came from, why the table could not take it, the row whole, and the commands
    to go on with. Reads files; works beside a running `headrace up` and without one.
    """
    from headrace.serve.quarantined import entry

    found = entry(folder(project), id)
    if json:
        display.emit(found)
        return
    display.say(display.paint(display.plain(id), "bold"))
    place = f"{found['commit']:,}  {found['committed_at']}  {found['source']}  {found['position']}"
    for name, text in (("commit", place), ("change", found["operation"]), ("reason", found["reason"])):
        display.say(f"  {name + ':':<8} {display.plain(text)}")
    display.say("  row:")
    for name, value in found["row"].items():
        display.say(f"    {display.plain(name)} = {display.cell(value)}")
    display.say("next:")
    if found["key"]:
        display.say(f"  headrace sql {_quoted(_query(found))}   # what the table holds now")
        display.say(f"  headrace quarantine replay {id} --as replace   # this row in its place")
    display.say(f"  headrace quarantine replay {id}   # send it again as it is")
    display.say(f"  headrace quarantine fix {id} COLUMN=VALUE   # send it again, corrected")
    display.say(f"  headrace quarantine drop {id}")


def _query(found: Mapping[str, Any]) -> str:
    where = " AND ".join(f"`{name}` = {_literal(found['row'].get(name))}" for name in found["key"])
    return f"SELECT * FROM `{found['table']}` WHERE {where}"  # noqa: S608 - shown, not run


def _literal(value: Any) -> str:
    """A JSON value as SQL: a text is taken as the column's type."""
    if isinstance(value, str):
        text = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{text}'"
    return "NULL" if value is None else str(value).lower()


def _quoted(text: str) -> str:
    """One argument of a shell."""
    from shlex import quote

    return display.plain(quote(text))
