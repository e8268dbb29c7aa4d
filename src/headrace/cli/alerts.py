"""What the commands of alerts share."""

from __future__ import annotations

from typing import Annotated

import typer

SinkArgument = Annotated[str, typer.Argument(metavar="SINK", help="A sink of type webhook, mail or page.")]
NumbersArgument = Annotated[
    list[int] | None, typer.Argument(metavar="N", help="Dead letters, as `headrace alerts ls` numbers them.")
]
AllOption = Annotated[bool, typer.Option("--all", help="All dead letters of the sink.")]


def chosen(numbers: list[int] | None, everything: bool) -> list[int]:
    """The numbers that a command is about; none stands for all."""
    if bool(numbers) == everything:
        raise typer.BadParameter("name dead letters, or give --all")
    return numbers or []
