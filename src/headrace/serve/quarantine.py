"""Reading what tables could not take, from the files that the catalogue names; `headrace up` may run or not."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import orjson
import pyarrow as pa

from headrace.catalog.aside import AsideRow
from headrace.catalog.quarantine import Change, Left, Refused, SetAside, refused_number
from headrace.catalog.store import Catalog
from headrace.formats.json_tables import rows
from headrace.formats.types.json import nearest
from headrace.model.errors import HeadraceError
from headrace.serve.fitting import Room
from headrace.serve.snapshot import catalog_path
from headrace.state.run import column, open_run

FOLDER = "quarantine"
# First columns of a file: commit and place (int64; together with the table the change's id), operation and reason
# (string), and as in the log which columns were left out (binary, null: none). The table's columns follow by name.
HEAD = ("_commit", "_place", "_operation", "_reason", "_unchanged")
TEXT_MAX = 200


_Entry = TypeVar("_Entry", Refused, AsideRow)
Parts = list[tuple[str, pa.Table]]  # (table, changes of it: ``HEAD``, then the columns that it had then)


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which entries are meant: those with an id in ``ids``, or all of ``table``, or without both all there are.

    ``upto``: changes of commits, and ``refused_upto``: refused rows of numbers, up to that one; None for all.
    """

    ids: Sequence[str] = ()
    table: str | None = None
    upto: int | None = None
    refused_upto: int | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """Entries of the quarantine: changes that tables could not take, rows that sources could not read, and rows that
    views go on without."""

    changes: Parts
    refused: list[Refused]
    aside: list[AsideRow]

    @property
    def rows(self) -> int:
        return sum(int(changes.num_rows) for _, changes in self.changes) + len(self.refused) + len(self.aside)

    @property
    def relations(self) -> set[str | None]:
        """The tables and views that they tell of; None: see ``table_of``."""
        found: set[str | None] = {table for table, _ in self.changes}
        found.update(table_of(row) for row in self.refused)
        return found.union(*((row.view, feed_name(row)) for row in self.aside))

    def shown(self) -> list[dict[str, Any]]:
        """What ``shown``, ``shown_refused`` and ``shown_aside`` give."""
        of_changes = [change for table, changes in self.changes for change in shown(table, changes)]
        return of_changes + [shown_refused(row) for row in self.refused] + [shown_aside(row) for row in self.aside]


def counts(catalog: Catalog) -> dict[str, int]:
    """Table, or view that goes on without rows -> entries of it; those without any are left out."""
    found = catalog.refused_counts()
    for row in catalog.aside_shown():
        found[row.view] = found.get(row.view, 0) + 1
    for entry in catalog.set_aside():
        found[entry.relation] = found.get(entry.relation, 0) + entry.rows
    return found


def entries(
    project_path: Path, table: str | None, limit: int | None, most_bytes: int | None = None,
    reached: Callable[[str | None], bool] = lambda relation: True,
) -> tuple[list[dict[str, Any]], int]:  # fmt: skip
    """(what ``Found.shown`` gives, oldest first; how many there are in all); with ``table`` None of every table.

    The entries of ``reached`` tables and views alone; None: see ``table_of``. As many come as find room in
    ``most_bytes``; one that is larger by itself is left out.
    """
    with opened(project_path) as catalog:
        if table is not None:
            _known(catalog, table)
        files = [e for e in catalog.set_aside() if table in (None, e.relation) and reached(e.relation)]
        refused = [r for r in catalog.refused() if table in (None, r.row.relation) and reached(table_of(r))]
        aside = [
            r
            for r in catalog.aside_shown()
            if table in (None, r.view, feed_name(r)) and reached(r.view) and reached(feed_name(r))
        ]
        total = sum(entry.rows for entry in files) + len(refused) + len(aside)
        page, found = _Page(total if limit is None else limit, most_bytes), list[dict[str, Any]]()
        for entry, changes in there(catalog, files):
            if page.full:
                break
            found += shown(entry.relation, page.take(changes))
        found += [shown_refused(row) for row in page.chosen(refused, [r.row.payload for r in refused])]
        found += [shown_aside(row) for row in page.chosen(aside, [r.shown.encode() for r in aside])]
        return found, total


class _Page:
    """What finds room: at most ``left`` entries of ``most_bytes`` together, None: of any size."""

    def __init__(self, left: int, most_bytes: int | None) -> None:
        self._left, self._most = left, sys.maxsize if most_bytes is None else most_bytes
        self._room, self.full = Room(self._most), not left

    def take(self, rows: pa.Table) -> pa.Table:
        """The first of them, without those that no page has room for."""
        taken = [rows.slice(0, 0)]
        while rows.num_rows and not self.full:
            taken.append(self._room.take(rows, self._left))
            self._left -= taken[-1].num_rows
            rows = rows.slice(taken[-1].num_rows)
            self.full = not self._left or 0 < rows.slice(0, 1).nbytes <= self._most
            rows = rows.slice(1)
        return pa.concat_tables(taken)

    def chosen(self, entries: list[_Entry], texts: Sequence[bytes]) -> list[_Entry]:
        """The same of entries whose length is that of their ``texts``."""
        places = pa.array(range(len(texts)), pa.int32())
        kept = self.take(pa.table({"place": places, "text": pa.array(texts, pa.binary())}))
        return [entries[place] for place in kept["place"].to_pylist()]


@contextmanager
def opened(project_path: Path) -> Iterator[Catalog]:
    """The project's catalogue, to be read."""
    catalog = Catalog(catalog_path(project_path), read_only=True)
    try:
        yield catalog
    finally:
        catalog.close()


def chosen(catalog: Catalog, wanted: Chosen) -> Found:
    """The entries that are meant, each table's changes in the log's order.

    Raises ``HeadraceError``: quarantine.unknown for an id that is not there, source.no_table.
    """
    if wanted.table is not None:
        _known(catalog, wanted.table)
    aside = [row for row in catalog.aside_shown() if _wanted(row, wanted)]
    rest = set(wanted.ids) - {row.id for row in aside}
    if wanted.ids and not rest:
        return Found([], [], aside)
    wanted = replace(wanted, ids=[id for id in wanted.ids if id in rest])
    changes, numbers = _named(wanted.ids)
    return Found(_changes(catalog, wanted, changes), _refused(catalog, wanted, numbers), aside)


def _wanted(row: AsideRow, wanted: Chosen) -> bool:
    if wanted.ids:
        return row.id in wanted.ids
    return wanted.table in (None, row.view, feed_name(row)) and (wanted.upto is None or row.commit <= wanted.upto)


def table_of(entry: Refused) -> str | None:
    """The table that a refused row is of; None of a request, which is kept whole: its body names any that there are, or
    may be."""
    return None if entry.row.form == "request" else entry.row.relation


def feed_name(row: AsideRow) -> str:
    """The table or view that a row is one of."""
    return row.feed.partition("@")[0]


def _changes(catalog: Catalog, wanted: Chosen, changes: Collection[Change]) -> Parts:
    files = catalog.set_aside()
    if wanted.table is not None:
        files = [e for e in files if e.relation == wanted.table]
    if wanted.ids:
        files = [e for e in files if e.relation in {c.relation for c in changes}]
    left = set(changes)
    found = []
    for entry, kept in there(catalog, files):
        keep = np.ones(kept.num_rows, bool)
        if wanted.upto is not None:
            keep &= column(kept, HEAD[0]) <= wanted.upto
        if wanted.ids:
            those = named(entry.relation, kept)
            keep &= np.array([change in left for change in those], bool)
            left.difference_update(those)
        if keep.any():
            found.append((entry.relation, kept.filter(pa.array(keep))))
    if left:
        absent = next(change for change in changes if change in left)
        raise _absent(absent.id, catalog.left(absent))
    return found


def _refused(catalog: Catalog, wanted: Chosen, numbers: Mapping[str, tuple[str, int]]) -> list[Refused]:
    known = {entry.id: entry for entry in catalog.refused()}
    if wanted.ids:
        for id, (source, number) in numbers.items():
            if id not in known:
                raise _absent(id, catalog.left_refused(source, number))
        return sorted((known[id] for id in numbers), key=lambda entry: entry.number)
    return [
        entry
        for entry in known.values()
        if wanted.table in (None, entry.row.relation)
        and (wanted.refused_upto is None or entry.number <= wanted.refused_upto)
    ]


def named(table: str, changes: pa.Table) -> list[Change]:
    """Which changes of the log these are."""
    pairs = zip(column(changes, HEAD[0]).tolist(), column(changes, HEAD[1]).tolist(), strict=True)
    return [Change(table, commit, place) for commit, place in pairs]


def there(catalog: Catalog, files: Iterable[SetAside]) -> Iterator[tuple[SetAside, pa.Table]]:
    """Of each file the changes that have not left the quarantine: ``HEAD``, then the table's columns."""
    gone: dict[str, set[tuple[int, int]]] = {}
    for entry in files:
        if entry.relation not in gone:
            gone[entry.relation] = catalog.gone(entry.relation)
        yield entry, without(gone[entry.relation], written(entry))


def written(entry: SetAside) -> pa.Table:
    """All changes of a file, those too that have left: ``HEAD``, then the table's columns."""
    rows = open_run(entry.path)
    if HEAD[1] in rows.column_names:
        return rows
    return rows.add_column(1, HEAD[1], pa.array(_counted(column(rows, HEAD[0]))))


def without(gone: Collection[tuple[int, int]], changes: pa.Table) -> pa.Table:
    """The changes whose (commit, place) is not ``gone``."""
    if not gone:
        return changes
    pairs = zip(column(changes, HEAD[0]).tolist(), column(changes, HEAD[1]).tolist(), strict=True)
    return changes.filter(pa.array([pair not in gone for pair in pairs], pa.bool_()))


def shown(table: str, changes: pa.Table) -> list[dict[str, Any]]:
    """``{"id", "table", "commit", "operation", "reason", "row"}`` of each; the row without what was left out."""
    heads = zip(*(changes.column(i).to_pylist() for i in range(len(HEAD))), strict=True)
    names = changes.column_names[len(HEAD) :]
    cells = rows(changes.select(range(len(HEAD), changes.num_columns)))
    return [
        {
            "id": Change(table, commit, place).id, "table": table, "commit": commit, "operation": operation,
            "reason": reason,
            "row": {n: v for i, (n, v) in enumerate(zip(names, row, strict=True)) if not left_out(unchanged, i)},
        }
        for (commit, place, operation, reason, unchanged), row in zip(heads, cells, strict=True)
    ]  # fmt: skip


def text(row: Mapping[str, Any]) -> str:
    """A row for a line of text."""
    whole = "{" + ", ".join(f"{name}: {orjson.dumps(v).decode()}" for name, v in row.items()) + "}"
    return whole if len(whole) <= TEXT_MAX else whole[: TEXT_MAX - 1] + "…"


def shown_refused(entry: Refused) -> dict[str, Any]:
    """``{"id", "table", "commit", "source", "place", "reason", "payload"}``; the payload as text."""
    row = entry.row
    return {
        "id": entry.id, "table": row.relation, "commit": entry.commit, "source": entry.source, "place": row.place,
        "reason": row.reason, "payload": row.payload.decode("utf-8", "backslashreplace"),
    }  # fmt: skip


def shown_aside(row: AsideRow) -> dict[str, Any]:
    """``{"id", "view", "table", "commit", "weight", "reason", "row"}``; ``table``: what the view reads it from."""
    return {
        "id": row.id, "view": row.view, "table": feed_name(row), "commit": row.commit, "weight": row.weight,
        "reason": row.message, "row": orjson.loads(row.shown)["row"],
    }  # fmt: skip


def line(entry: Mapping[str, Any]) -> str:
    """What ``Found.shown`` gives, as a line of text."""
    if "payload" in entry:
        payload = entry["payload"] if len(entry["payload"]) <= TEXT_MAX else entry["payload"][: TEXT_MAX - 1] + "…"
        return f"{entry['id']}  {entry['place']} {payload}: {entry['reason']}"
    if "view" in entry:
        times = f", {entry['weight']} times" if entry["weight"] > 1 else ""
        return f"{entry['id']}  {entry['table']} {text(entry['row'])}{times}: {entry['reason']}"
    return f"{entry['id']}  {entry['operation']} {text(entry['row'])}: {entry['reason']}"


def left_out(marks: bytes | None, ordinal: int) -> bool:
    """Whether a change left that column out, by its ``_unchanged``."""
    return marks is not None and len(marks) > ordinal // 8 and bool(marks[ordinal // 8] >> ordinal % 8 & 1)


def _counted(commits: np.ndarray) -> np.ndarray:
    """Places for a file of a version that did not write them: the changes of each commit counted from 1."""
    return np.arange(1, len(commits) + 1) - np.searchsorted(commits, commits)


def _known(catalog: Catalog, table: str) -> None:
    kept = {*(e.relation for e in catalog.set_aside()), *catalog.refused_counts(), *catalog.views()}
    known = sorted({*catalog.relations(), *kept})
    if table not in known:
        raise HeadraceError("source.no_table", f"there is no table '{table}'", next=nearest(table, known))


def _named(ids: Iterable[str]) -> tuple[dict[Change, None], dict[str, tuple[str, int]]]:
    """(the changes, id -> source and number of the refused rows) with these ids."""
    changes, numbers = dict[Change, None](), dict[str, tuple[str, int]]()
    for id in ids:
        change, number = Change.of(id), refused_number(id)
        if change is not None:
            changes[change] = None
        elif number is not None:
            numbers[id] = number
        else:
            raise HeadraceError(
                "quarantine.unknown", f"'{id}' is no id of the quarantine",
                why="an id is TABLE:COMMIT:N of a change, SOURCE:N of a row that a source could not read",
                next="`headrace quarantine list` shows the ids",
            )  # fmt: skip
    return changes, numbers


def _absent(id: str, left: Left | None) -> HeadraceError:
    if left is None:
        why = "nothing with that id was ever set aside"
    else:
        why = "it was dropped" if left.commit is None else f"it was sent again in commit {left.commit}"
    return HeadraceError(
        "quarantine.unknown", f"{id} is not in the quarantine", why=why, next="`headrace quarantine list` shows what is"
    )
