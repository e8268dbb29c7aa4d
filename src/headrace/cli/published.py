"""The views that are published: which there are, and the one that was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.catalog.project import STATE
from headrace.control.names import known_view
from headrace.model.errors import HeadraceError


def views(path: Path) -> list[dict[str, Any]]:
    """Every published view of the project; none before its first `up`."""
    if not _catalog(path).exists():
        return []
    from headrace.serve import snapshot  # loads pyarrow

    return snapshot.views(path)


def first_commit(path: Path) -> int:
    """The first commit that the log has left; 1 before the first `up`."""
    if not _catalog(path).exists():
        return 1
    from headrace.serve.history import reader_of  # loads pyarrow

    return reader_of(path).base.commit + 1


def sinks(path: Path) -> list[dict[str, Any]]:
    """Every sink that was ever written to: the commit it has reached, and how many it lacks of those published."""
    if not _catalog(path).exists():
        return []
    from headrace.catalog.store import Catalog

    catalog = Catalog(_catalog(path), read_only=True)
    try:
        last = catalog.last_published()
        end = last.upto if last else 0
        held = catalog.sinks().items()
        return [{"name": n, "state": "stopped", "frontier": at, "lag": end - at} for n, (at, _, _) in held]
    finally:
        catalog.close()


def find(path: Path, view: str) -> str:
    """The name of the published view that ``view`` means; ``view.unknown`` says if it is misspelt or not built yet."""
    names = _names(path)
    if view.lower() in {name.lower() for name in names}:
        return known_view(view, names)
    waiting = defined(path)
    if view.lower() in {name.lower() for name in waiting}:
        raise HeadraceError(
            "view.unknown",
            f"the view '{view}' is defined, but not built yet",
            where=f"views/{known_view(view, waiting)}.sql",
            next="`headrace up` builds it; `headrace apply` when `up` runs already",
        )
    return known_view(view, {*names, *waiting})


def relation(path: Path, name: str) -> str:
    """The name of the published view, else of the table that views read, that ``name`` means; errors are ``find``'s."""
    if is_view(path, name):
        return find(path, name)
    return known_view(name, {*_names(path), *defined(path), *_tables(path)})


def is_table(path: Path, name: str) -> bool:
    """Whether views read or have read a table of that name."""
    return name.lower() in {table.lower() for table in _tables(path)}


def is_view(path: Path, name: str) -> bool:
    """Whether a view of that name is published, or defined at least."""
    return name.lower() in {view.lower() for view in (*_names(path), *defined(path))}


def defined(path: Path) -> list[str]:
    """Names of the view files; their text is not looked at, so that a broken file does not hide the others."""
    return sorted(file.stem for file in (path / "views").glob("*.sql") if not file.name.startswith("."))


def _catalog(path: Path) -> Path:
    """Where the catalogue is once the project has run."""
    return path / STATE / "catalog.db"


def _tables(path: Path) -> list[str]:
    """Names of the tables that views read or have read."""
    if not _catalog(path).exists():
        return []
    from headrace.catalog.store import Catalog

    catalog = Catalog(_catalog(path), read_only=True)
    try:
        return list(catalog.relations())
    finally:
        catalog.close()


def _names(path: Path) -> list[str]:
    """Names of the published views; nothing of their contents is read."""
    if not _catalog(path).exists():
        return []
    from headrace.catalog.store import Catalog

    catalog = Catalog(_catalog(path), read_only=True)
    try:
        return list(catalog.views())
    finally:
        catalog.close()
