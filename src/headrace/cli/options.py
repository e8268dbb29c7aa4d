"""Options that every command takes."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from headrace.cli.display import OUTPUT

_Choice = TypeVar("_Choice", bound=StrEnum)


def _json(value: bool) -> bool:
    OUTPUT.json = OUTPUT.json or value
    return value


ProjectOption = Annotated[
    Path | None,
    typer.Option(
        "--project",
        "-p",
        metavar="DIR",
        envvar="HEADRACE_PROJECT",
        help="The project folder. Default: the nearest one upward with a headrace.yaml (or $HEADRACE_PROJECT).",
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", is_eager=True, callback=_json, help="Answer in JSON, for programs; errors too.")
]


def one_of(kind: type[_Choice], called: str, more: str = "") -> Callable[[str], _Choice]:
    """Reads an option that takes one of few. Wrong usage for another, with the nearest, all, and ``more``."""

    def read(text: str) -> _Choice:
        try:
            return kind(text)
        except ValueError:
            from headrace.catalog.document import did_you_mean  # loads the YAML reader

            near = did_you_mean(text, kind)
            what = f"there is no {called} '{text}'" + (f": {near}" if near else ".")
            raise typer.BadParameter(f"{what} There are {', '.join(kind)}{more}") from None

    return read


def folder(given: Path | None) -> Path:
    """The project folder that a command is about; ``project.not_found`` when there is none."""
    from headrace.catalog import project  # loads the YAML reader

    OUTPUT.project = project.at(given) if given is not None else project.find(Path.cwd())
    return OUTPUT.project
