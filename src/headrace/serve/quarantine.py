"""Reading what tables could not take, from the files that the catalogue names; `headrace up` may run or not."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from headrace.catalog.quarantine import Change, SetAside
from headrace.catalog.store import Catalog
from headrace.formats.json_tables import rows
from headrace.formats.types.json import nearest
from headrace.model.errors import HeadraceError
from headrace.serve.snapshot import catalog_path
from headrace.state.run import column, open_run

FOLDER = "quarantine"
# First columns of a file: commit and place (int64; together with the table the change's id), operation and reason
# (string), and as in the log which columns were left out (binary, null: none). The table's columns follow by name.
HEAD = ("_commit", "_place", "_operation", "_reason", "_unchanged")
TEXT_MAX = 200


def counts(catalog: Catalog) -> dict[str, int]:
    """Table -> changes set aside; tables without any are left out."""
    found: dict[str, int] = {}
    for entry in catalog.set_aside():
        found[entry.relation] = found.get(entry.relation, 0) + entry.rows
    return found


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which changes are meant: those with an id in ``ids``, or all of ``table``, or without both all there are.

    ``upto``: of commits up to that one; None for every commit.
    """

    ids: Sequence[str] = ()
    table: str | None = None
    upto: int | None = None


def entries(project_path: Path, table: str | None, limit: int | None) -> tuple[list[dict[str, Any]], int]:
    """(what ``shown`` gives, oldest first; how many there are in all); with ``table`` None of every table."""
    catalog = Catalog(catalog_path(project_path), read_only=True)
    try:
        files = [e for e in catalog.set_aside() if table is None or e.relation == table]
        if table is not None:
            _known(catalog, table, files)
        found: list[dict[str, Any]] = []
        total = sum(entry.rows for entry in files)
        for entry, changes in there(catalog, files):
            if limit is not None and len(found) >= limit:
                break
            found += shown(entry.relation, changes if limit is None else changes.slice(0, limit - len(found)))
        return found, total
    finally:
        catalog.close()


def asked(project_path: Path, wanted: Chosen) -> list[dict[str, Any]]:
    """What ``shown`` gives of the changes that are meant. Raises as ``chosen``."""
    catalog = Catalog(catalog_path(project_path), read_only=True)
    try:
        return [change for table, changes in chosen(catalog, wanted) for change in shown(table, changes)]
    finally:
        catalog.close()


def chosen(catalog: Catalog, wanted: Chosen) -> list[tuple[str, pa.Table]]:
    """(table, its changes that are meant: ``HEAD``, then the columns it had then), each table's in the log's order.

    Raises ``HeadraceError``: quarantine.unknown for an id that is not there, source.no_table.
    """
    changes = [_change(id) for id in dict.fromkeys(wanted.ids)]
    files = catalog.set_aside()
    if wanted.table is not None:
        _known(catalog, wanted.table, files)
        files = [e for e in files if e.relation == wanted.table]
    if changes:
        files = [e for e in files if e.relation in {c.relation for c in changes}]
    left = set(changes)
    found = []
    for entry, kept in there(catalog, files):
        keep = np.ones(kept.num_rows, bool)
        if wanted.upto is not None:
            keep &= column(kept, HEAD[0]) <= wanted.upto
        if changes:
            those = named(entry.relation, kept)
            keep &= np.array([change in left for change in those], bool)
            left.difference_update(those)
        if keep.any():
            found.append((entry.relation, kept.filter(pa.array(keep))))
    if left:
        raise _absent(catalog, next(change for change in changes if change in left))
    return found


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
        rows = open_run(entry.path)
        if HEAD[1] not in rows.column_names:
            rows = rows.add_column(1, HEAD[1], pa.array(_counted(column(rows, HEAD[0]))))
        yield entry, without(gone[entry.relation], rows)


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


def line(change: Mapping[str, Any]) -> str:
    """What ``shown`` gives, as a line of text."""
    return f"{change['id']}  {change['operation']} {text(change['row'])}: {change['reason']}"


def left_out(marks: bytes | None, ordinal: int) -> bool:
    """Whether a change left that column out, by its ``_unchanged``."""
    return marks is not None and len(marks) > ordinal // 8 and bool(marks[ordinal // 8] >> ordinal % 8 & 1)


def _counted(commits: np.ndarray) -> np.ndarray:
    """Places for a file of a version that did not write them: the changes of each commit counted from 1."""
    return np.arange(1, len(commits) + 1) - np.searchsorted(commits, commits)


def _known(catalog: Catalog, table: str, files: Collection[SetAside]) -> None:
    known = sorted({*catalog.relations(), *(e.relation for e in files)})
    if table not in known:
        raise HeadraceError("source.no_table", f"there is no table '{table}'", next=nearest(table, known))


def _change(id: str) -> Change:
    change = Change.of(id)
    if change is None:
        raise HeadraceError(
            "quarantine.unknown", f"'{id}' is no id of the quarantine", why="an id is TABLE:COMMIT:N",
            next="`headrace quarantine list` shows the ids",
        )  # fmt: skip
    return change


def _absent(catalog: Catalog, change: Change) -> HeadraceError:
    left = catalog.left(change)
    if left is None:
        why = "nothing with that id was ever set aside"
    else:
        why = "it was dropped" if left.commit is None else f"it was sent again in commit {left.commit}"
    return HeadraceError(
        "quarantine.unknown", f"{change.id} is not in the quarantine", why=why,
        next="`headrace quarantine list` shows what is",
    )  # fmt: skip
