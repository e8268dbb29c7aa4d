"""headrace help"""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO
from typing import Annotated

import typer

from headrace.catalog.document import did_you_mean
from headrace.cli import display
from headrace.cli.options import JsonOption
from headrace.control.error_code import explained
from headrace.model.errors import CODES, HeadraceError

EPILOG = """
headrace help                       # every command
headrace help groups dead ls        # one of them
headrace help sql.unknown_relation  # what an error means, what brings it about, what mends it
"""


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
    if not json:
        _command(words or [])
        return
    with redirect_stdout(StringIO()) as text:
        try:
            _command(words or [])
        except SystemExit as ended:
            if ended.code:
                raise
    display.emit({"help": text.getvalue()})


def _command(words: list[str]) -> None:
    """Raises ``config.unknown_key`` for one word that is neither a command nor a code."""
    from headrace.cli.main import SECTIONS, app

    commands = [name for names in SECTIONS.values() for name in names]
    if len(words) == 1 and words[0] not in commands:
        raise HeadraceError(
            "config.unknown_key", f"there is no command and no error code '{words[0]}'",
            next=did_you_mean(words[0], [*commands, *CODES]) or "`headrace help`, or docs/reference/errors.md",
        )  # fmt: skip
    app()([*words, "--help"], prog_name="headrace")


def _code(code: str, json: bool) -> None:
    found = explained(code)
    if json:
        display.emit(found)
        return
    display.say(display.paint(f"[{code}] {found['meaning']}", "bold"))
    for label in ("cause", "repair"):
        display.say(f"  {label + ':':<8} {found[label]}")
