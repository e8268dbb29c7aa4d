"""init: a starter project, from one of the templates."""

from __future__ import annotations

import enum
from pathlib import Path

from headrace.model.errors import HeadraceError

TEMPLATES = Path(__file__).parent / "templates"
# Files that no package carries by itself: a hidden one, and a few rows to begin with.
IGNORED = "# Headrace keeps the log, the state and the views here. Never commit it.\n.headrace/\n"
VISITS = """at,page,seconds
2026-03-01T08:00:00Z,/,12
2026-03-01T08:00:12Z,/prices,40
2026-03-01T08:01:03Z,/,7
2026-03-01T08:02:30Z,/prices,95
"""


class Template(enum.StrEnum):
    """Where the data of the starter project comes from."""

    http = "http"
    postgres = "postgres"
    files = "files"


def run(folder: Path, template: Template) -> list[str]:
    """Write the starter project into ``folder`` (made when missing); the files made, relative to it.

    Raises ``HeadraceError`` (project.exists), and writes nothing, when one of them is there already.
    """
    folder = folder.resolve()
    source = TEMPLATES / template.value
    paths = {path.relative_to(source): path for path in source.rglob("*") if path.is_file()}
    paths[Path("headrace.yaml")] = TEMPLATES / "headrace.yaml"
    files = {path: paths[path].read_text(encoding="utf-8") for path in paths} | {Path(".gitignore"): IGNORED}
    if template is Template.files:
        files[Path("incoming/visits-1.csv")] = VISITS
    taken = sorted(path.as_posix() for path in files if (folder / path).exists() and path.name != ".gitignore")
    if taken:
        raise HeadraceError(
            "project.exists",
            f"{folder} holds {', '.join(taken)} already",
            where=str(folder),
            why="`init` overwrites nothing",
            next="name an empty folder: `headrace init DIR`",
        )
    try:
        made = [path for path in sorted(files) if _write(folder / path, files[path])]
    except OSError as error:
        raise HeadraceError(
            "project.not_found",
            f"the project cannot be written to {folder}",
            where=str(error.filename or folder),
            why=error.strerror or str(error),
        ) from error
    return [path.as_posix() for path in made]


def _write(path: Path, text: str) -> bool:
    """Write a file that is not there; false when it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return False
    return True
