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
    """Show all that is known of one entry of the quarantine.

    The table, where and when it came from, why the table could not take it or the source not read it, the row whole,
    and the commands to go on with. Reads files; works beside a running `headrace up` and without one.
    """
    from headrace.serve.quarantined import entry

    found = entry(folder(project), id)
    if json:
        display.emit(found)
        return
    display.say(display.paint(display.plain(id), "bold"))
    (_refused if "payload" in found else _aside if "view" in found else _change)(id, found)


def _change(id: str, found: Mapping[str, Any]) -> None:
    place = f"{found['commit']:,}  " + (
        f"{found['committed_at']}  {found['source']}  {found['position']}"
        if found["committed_at"]
        else "(which retention has removed from the log)"
    )
    _told({"commit": place, "change": found["operation"], "reason": found["reason"]})
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


def _aside(id: str, found: Mapping[str, Any]) -> None:
    _told({
        "view": found["view"], "goes on without": f"{found['weight']:,} of {found['table']}",
        "since commit": f"{found['commit']:,}", "reason": found["reason"],
    })  # fmt: skip
    display.say("  row:")
    for name, value in found["row"].items():
        display.say(f"    {display.plain(name)} = {display.cell(value)}")
    display.say("next: correct or delete the row where it comes from, or edit the view; or")
    display.say(f"  headrace quarantine replay {id}   # try the view with it again")
    display.say(f"  headrace quarantine drop {id}   # leave it out of this list; the view goes on without")


def _refused(id: str, found: Mapping[str, Any]) -> None:
    beside = "nothing of the transaction was taken" if found["commit"] is None else f"commit {found['commit']:,}"
    told = {"source": found["source"], "table": found["table"], "place": found["place"], "reason": found["reason"]}
    _told({**told, "kept": found["kept_at"], "the rest": beside})
    display.say("  as it came:")
    for line in found["payload"].splitlines():
        display.say(f"    {display.plain(line)}")
    row = "ROW" if found["form"] != "request" else "TRANSACTION"
    display.say("next:")
    display.say(f"  headrace quarantine fix {id} --row {row}   # send it again, corrected, as JSON")
    display.say(f"  headrace quarantine replay {id}   # send it again as it is: the table may have other columns now")
    display.say(f"  headrace quarantine drop {id}")


def _told(values: Mapping[str, str]) -> None:
    width = max(map(len, values)) + 2
    for name, text in values.items():
        display.say(f"  {name + ':':<{width}}{display.plain(text)}")


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
