"""What the commands of stored queries share."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headrace.cli import display

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="As `headrace queries ls` shows it.")]


def line(commit: int, change: dict[str, Any], *, first: bool) -> str:
    """A match on one line of a terminal."""
    sign, style = ("+", "" if first else "green") if change["weight"] > 0 else ("-", "red")
    text = "  ".join(f"{display.plain(name)}={display.cell(value)}" for name, value in change["row"].items())
    times = f"  (x{abs(change['weight'])})" if abs(change["weight"]) != 1 else ""
    shown = f"{sign} {change['query']}: {text}{times}"
    return f"{commit:>8} {display.paint(shown, style)}"
