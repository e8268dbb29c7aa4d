"""headrace help"""

from __future__ import annotations

import re
from typing import Annotated

import typer

from headrace.cli import display
from headrace.cli.options import JsonOption
from headrace.model.errors import CODES, HeadraceError

EPILOG = """
headrace help                       # every command
headrace help groups dead ls        # one of them
headrace help sql.unknown_relation  # what an error means, what brings it about, what mends it
"""
_LINK = re.compile(r"\[[^\]]+\]\(([^)]+)\)")  # of Markdown, to a page beside that of the errors


def run(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND-OR-CODE", help="A command, or the code of an error.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Explain a command, or the code of an error.

    The code stands in brackets at the beginning of an error. docs/reference/errors.md has all of them.
    """
    if words and len(words) == 1 and ("." in words[0] or words[0] in CODES):
        _code(words[0].strip("[]"), json)
        return
    from headrace.cli.main import app

    app()([*(words or ()), "--help"], prog_name="headrace")


def _code(code: str, json: bool) -> None:
    from headrace.catalog.document import did_you_mean
    from headrace.model.remedies import REMEDIES

    if code not in CODES:
        raise HeadraceError(
            "config.unknown_key",
            f"there is no error code '{code}'",
            why="the codes are those of this version of Headrace",
            next=did_you_mean(code, CODES) or "docs/reference/errors.md lists all of them",
        )
    remedy = REMEDIES[code]
    if json:
        display.emit({"code": code, "meaning": CODES[code], "cause": remedy.cause, "repair": remedy.repair})
        return
    display.say(display.paint(f"[{code}] {CODES[code]}", "bold"))
    for label, text in (("cause", remedy.cause), ("repair", remedy.repair)):
        linked = _LINK.sub(r"docs/reference/\1", text)
        display.say(f"  {label + ':':<8} {linked}")
