"""headrace quarantine fix"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import display, set_aside
from headrace.cli.options import JsonOption, ProjectOption, folder

EPILOG = """
headrace quarantine fix orders:1042:3 id=17 amount=12.50
headrace quarantine fix orders:1042:3 --row '{"id": 17, "amount": "12.50", "note": null}'
headrace quarantine fix orders:1042:3 amount=12.50 --as replace
"""


def run(
    id: Annotated[str, typer.Argument(metavar="ID", help="As `headrace quarantine list` shows it.")],
    values: Annotated[
        list[str] | None, typer.Argument(metavar="COLUMN=VALUE", help="Other values; the rest of the row stays.")
    ] = None,
    *,
    row: Annotated[
        str | None, typer.Option("--row", metavar="JSON", help="The whole row in the place of the one kept.")
    ] = None,
    as_: set_aside.AsOption = None,
    project: ProjectOption = None,
    json: JsonOption = False,
) -> None:
    """Send a change of the quarantine again, corrected.

    Values are written as in a CSV file: nothing after the = is NULL, but empty text in a column of text. They are
    checked as a row that is pushed. The corrected change goes as `headrace quarantine replay` sends it, and the one
    that was kept leaves the quarantine; the log still has the transaction that it came with. Needs a running
    `headrace up`.
    """
    if bool(values) == (row is not None):
        raise typer.BadParameter("give COLUMN=VALUE once or more, or --row JSON")
    cells = dict(_cell(value) for value in values or ())
    from headrace.control.verbs import call

    path = folder(project)
    with display.working("sending") as progress:
        answer = call(path, "quarantine_fix", {"id": id, "cells": cells, "row": row, "as": as_}, progress)
    set_aside.sent(answer, json)


def _cell(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise typer.BadParameter(f"'{text}' is not COLUMN=VALUE")
    return name, value
