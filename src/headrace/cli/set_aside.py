"""Which changes of the quarantine a command is about, the question before it, and the answer to what was sent."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli import display

SHOWN = 20  # changes shown before a question

IdsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="ID", help="As `headrace quarantine list` shows them.")
]
TableOption = Annotated[str | None, typer.Option("--table", metavar="TABLE", help="All changes of this table.")]
AsOption = Annotated[
    str | None,
    typer.Option("--as", metavar="VERB", help="Send as insert, update, replace or delete. Default: as it was."),
]
AllOption = Annotated[bool, typer.Option("--all", help="All changes of every table.")]


def chosen(
    path: Path, ids: list[str] | None, table: str | None, everything: bool
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(arguments of the verb, the changes that it is about).

    What comes into the quarantine after this look is left out, as nobody has seen it.
    """
    if sum((bool(ids), table is not None, everything)) != 1:
        raise typer.BadParameter("name one ID or more, or give --table TABLE, or --all")
    from headrace.serve import quarantine

    with quarantine.opened(path) as catalog:
        found = quarantine.chosen(catalog, quarantine.Chosen(tuple(ids or ()), table))
    entries = found.shown()
    upto = max((entry["commit"] for entry in entries if "payload" not in entry), default=0)
    refused_upto = max((entry.number for entry in found.refused), default=0)
    return {"ids": ids or [], "table": table, "upto": upto, "refused_upto": refused_upto}, entries


def confirm(changes: Sequence[dict[str, Any]], verb: str) -> None:
    """Show what it is about, and ask; ends the command where the answer is no."""
    from headrace.serve.quarantine import line

    for change in changes[:SHOWN]:
        display.say(display.plain(line(change)), error=True)
    if len(changes) > SHOWN:
        display.say(f"... and {len(changes) - SHOWN:,} more", error=True)
    question = f"{verb} {display.counted(len(changes), 'change')}?"
    if not sys.stdin.isatty():
        raise typer.BadParameter(f"{question} This is not a terminal to ask at: say --yes")
    typer.confirm(question, abort=True, err=True)


def sent(answer: dict[str, Any], json: bool) -> None:
    """What a replay has answered."""
    if json:
        display.emit(answer)
        return
    display.say(f"sent again: {display.counted(answer['changes'], 'change')}, commit {answer['commit']}")
    if answer["again"] is None:
        display.say(f"the views are not there yet: headrace wait --token {answer['commit']}")
    for id in answer["again"] or ():
        display.say(f"still does not fit, and is kept as {display.plain(id)}")
