"""What the commands share that take rows of a view by filters."""

from __future__ import annotations

from typing import Annotated

import typer

WhereOption = Annotated[
    list[str] | None,
    typer.Option("--where", metavar="FILTER", help="COLUMN=OP.VALUE, region=eq.north; may be repeated."),
]


def pairs(texts: list[str] | None) -> list[tuple[str, str]]:
    """(column, ``eq.north``) of each."""
    found = []
    for text in texts or ():
        column, equals, wanted = text.partition("=")
        if not equals:
            raise typer.BadParameter(f"'{text}' is no COLUMN=OP.VALUE", param_hint="--where")
        found.append((column, wanted))
    return found
