"""init: a starter project, from one of the templates: a folder each, with a README.md of its own."""

from __future__ import annotations

import enum
from pathlib import Path

from headrace.model.errors import HeadraceError

TEMPLATES = Path(__file__).parent / "templates"
IGNORED = "# Headrace keeps the log, the state and the views here. Never commit it.\n.headrace/\n"  # .gitignore
LEFT = (Path(".gitignore"), Path("README.md"))  # one's own, where there is one: they stay, and hinder nothing


class Template(enum.StrEnum):
    """Where the data of the starter project comes from."""

    http = "http"
    postgres = "postgres"
    ctr = "ctr"
    files = "files"

    @property
    def about(self) -> str:
        """One line: the title of its README.md."""
        with (TEMPLATES / self.value / "README.md").open(encoding="utf-8") as file:
            return file.readline().lstrip("# ").strip()


def run(folder: Path, template: Template) -> list[str]:
    """Write the starter project into ``folder`` (made when missing); the files made, relative to it.

    Raises ``HeadraceError`` (project.exists), and writes nothing, when one of them is there already.
    """
    folder = folder.resolve()
    source = TEMPLATES / template.value
    paths = {path.relative_to(source): path for path in source.rglob("*") if path.is_file()}
    paths[Path("headrace.yaml")] = TEMPLATES / "headrace.yaml"
    files = {path: paths[path].read_text(encoding="utf-8") for path in paths} | {Path(".gitignore"): IGNORED}
    taken = sorted(path.as_posix() for path in files if (folder / path).exists() and path not in LEFT)
    if taken:
        raise HeadraceError(
            "project.exists",
            f"{folder} holds {', '.join(taken)} already",
            where=str(folder),
            why="`init` overwrites nothing",
            next="name an empty folder: `headrace init DIR`",
        )
    made: list[Path] = []
    try:
        made.extend(path for path in sorted(files) if _write(folder / path, files[path]))
    except OSError as error:
        for path in made:  # so that it can be tried again
            (folder / path).unlink(missing_ok=True)
        raise HeadraceError(
            "project.not_found",
            f"the project cannot be written to {folder}",
            where=str(error.filename or folder),
            why=error.strerror or str(error),
            next="name a folder that you may write to and that has space: `headrace init DIR`",
        ) from error
    return [path.as_posix() for path in made]


def _write(path: Path, text: str) -> bool:
    """Write a file that is not there; false when it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        file = path.open("x", encoding="utf-8")
    except FileExistsError:
        return False
    try:
        with file:
            file.write(text)
    except OSError:
        path.unlink()
        raise
    return True
