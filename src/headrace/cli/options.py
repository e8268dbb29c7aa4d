"""Options that every command takes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.display import OUTPUT


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


def folder(given: Path | None) -> Path:
    """The project folder that a command is about; ``project.not_found`` when there is none."""
    from headrace.catalog import project  # loads the YAML reader

    OUTPUT.project = project.at(given) if given is not None else project.find(Path.cwd())
    return OUTPUT.project
