"""Stored queries of a project: ``searches/NAME.yaml`` with ``view`` and ``query``, in version control as views are."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import yaml

from headrace.catalog.document import did_you_mean, load
from headrace.catalog.project import check_name, files
from headrace.catalog.synced import synced
from headrace.model.definition import StoredQuery
from headrace.model.errors import HeadraceError

FOLDER = "searches"
KEYS = ("view", "query")
_Stamp = tuple[int, int, int]


class StoredQueries:
    """The files as they are whenever they are read; those that did not change since are not read again."""

    def __init__(self, project: Path) -> None:
        self.project = project
        self._read: dict[str, tuple[_Stamp, StoredQuery | HeadraceError]] = {}

    def read(self) -> tuple[dict[str, StoredQuery], dict[str, HeadraceError]]:
        """(queries, what is wrong with the others), by name in order. A file that is wrong does not hide the rest; one
        that would not be read at all is among the others by the name of its file, with its ending.

        Work: 0.4 ms for each file that is new or has changed, a look at each of the others.
        """
        found, stray = {}, list[HeadraceError]()
        for name, path in files(self.project, FOLDER, ".yaml", stray):
            try:
                look = path.stat()
            except FileNotFoundError:
                continue  # it went while the others were looked at
            stamp = (look.st_mtime_ns, look.st_size, look.st_ino)
            known = self._read.get(name)
            found[name] = known if known and known[0] == stamp else (stamp, self._one(path))
        self._read = found
        queries = {name: of for name, (_, of) in found.items() if isinstance(of, StoredQuery)}
        wrong = {name: of for name, (_, of) in found.items() if isinstance(of, HeadraceError)}
        return queries, wrong | {error.where.removeprefix(f"{FOLDER}/"): error for error in stray}

    def _one(self, path: Path) -> StoredQuery | HeadraceError:
        try:
            return _read(self.project, path)
        except HeadraceError as error:
            return error


def add(project: Path, query: StoredQuery) -> Path:
    """Write the file of a new query, all of it or nothing. Raises ``HeadraceError``: config.invalid, search.exists."""
    check_name(f"{FOLDER}/{query.name}.yaml", query.name)
    path = project / FOLDER / f"{query.name}.yaml"
    there = {name.lower(): file for name, file in files(project, FOLDER, ".yaml", [])}
    if query.name.lower() in there:
        raise _exists(query, there[query.name.lower()].relative_to(project))
    try:
        return _written(path, query, os.link)
    except FileExistsError:  # it has come since
        raise _exists(query, path.relative_to(project)) from None


def change(project: Path, query: StoredQuery) -> Path:
    """Write the file of a query that there is anew, all of it or nothing. Raises ``HeadraceError`` (search.unknown)."""
    return _written(_file(project, query.name), query, os.replace)


def remove(project: Path, name: str) -> Path:
    """Remove the file of a query; where it was. Raises ``HeadraceError`` (search.unknown)."""
    path = _file(project, name)
    path.unlink()
    return path


def find(project: Path, name: str) -> StoredQuery:
    """The stored query of that name, in any case. Raises ``HeadraceError``: search.unknown, or what is wrong with its
    file. Work: a look at the names of all, and the reading of this one."""
    return _read(project, _file(project, name))


def names(project: Path) -> list[str]:
    """Of all that have a file, in order; those that would not be read at all are not told of."""
    return [name for name, _ in files(project, FOLDER, ".yaml", [])]


def _read(project: Path, path: Path) -> StoredQuery:
    document = load(path, project)
    for key in document.values:
        if key not in KEYS:
            raise document.unknown(key, KEYS)
    for key in KEYS:
        if key not in document.values:
            raise document.invalid(f"'{key}' is missing", next="view: orders\nquery: late parcel")
        if not isinstance(document.values[key], str):
            raise document.invalid(f"'{key}' must be text", key, next=f'{key}: "{document.values[key]}"')
    return StoredQuery(path.stem, document.values["view"], document.values["query"], path)


def _file(project: Path, name: str) -> Path:
    there = {known.lower(): file for known, file in files(project, FOLDER, ".yaml", [])}
    if name.lower() not in there:
        raise unknown(name, [file.stem for file in there.values()])
    return there[name.lower()]


def _written(path: Path, query: StoredQuery, placed: Callable[[Path, Path], None]) -> Path:
    """The file, on the disk. ``placed``: how what is written gets its name. Threads and processes may do it at once."""
    path.parent.mkdir(exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    values = {"view": query.view, "query": query.query}
    try:
        partial.write_text(yaml.safe_dump(values, allow_unicode=True, sort_keys=False), encoding="utf-8")
        synced(partial)
        placed(partial, path)
        synced(path.parent)
    finally:
        partial.unlink(missing_ok=True)
    return path


def _exists(query: StoredQuery, where: Path) -> HeadraceError:
    return HeadraceError(
        "search.exists", f"there is a stored query '{query.name}' already", where=str(where),
        next=f"`headrace queries change {query.name}` gives it other words, or take another name",
    )  # fmt: skip


def unknown(name: str, known: Sequence[str]) -> HeadraceError:
    """The error for a name that no stored query has, with the nearest one."""
    listed = f"stored queries: {', '.join(known[:20])}" if known else "`headrace queries add` makes one"
    return HeadraceError(
        "search.unknown", f"there is no stored query '{name}'", where=FOLDER, next=did_you_mean(name, known) or listed
    )
