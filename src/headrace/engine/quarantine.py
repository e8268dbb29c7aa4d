"""What tables could not take: kept with commit, operation and reason, in files that the catalogue names.

A strict change whose key is there already (an insert) or is not there (an update, a delete), and a delete of a row
that a table without a key does not hold. They are without effect on any view.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from headrace.catalog.quarantine import SetAside
from headrace.catalog.store import Catalog
from headrace.circuit.build import TABLE
from headrace.circuit.operators.changes import COMMIT, SEQUENCE
from headrace.circuit.operators.upsert import REFUSED
from headrace.engine.backfill import sync_names
from headrace.log.read import LogReader
from headrace.model.errors import HeadraceError
from headrace.model.schema import Relation
from headrace.model.transaction import DELETE, INSERT, OPERATION, SELF, STRICT, UNCHANGED, UPDATE
from headrace.serve import quarantine
from headrace.state.run import checksums, column, open_run, write_run

OPERATIONS = pa.array(["insert", "update", "delete"])
assert (INSERT, UPDATE, DELETE) == (0, 1, 2)


class Quarantine:
    """``refuses()``: tables that stop the engine rather than have anything set aside."""

    def __init__(
        self,
        folder: Path,
        catalog: Catalog,
        refuses: Callable[[], Collection[str]],
        tell: Callable[[dict[str, Any]], None],
    ) -> None:
        self.folder, self.catalog, self.refuses, self.tell = folder / quarantine.FOLDER, catalog, refuses, tell
        self.reader = LogReader(folder / "log")
        self.begun: dict[str, list[SetAside]] = {}  # table -> all there is of it, once ``save`` has told the catalogue

    def check(self, files: Iterable[Path], tables: Mapping[str, Relation], after: int, upto: int) -> None:
        """Raises ``source.conflict`` when a step set aside a change of a table that refuses to."""
        found = _by_table(files)
        for table in sorted(found.keys() & set(self.refuses())):
            rows = self.rows(tables[table], found[table], after, upto)
            rows = self.brought(rows, after, upto)
            if not rows.num_rows:
                continue
            first = quarantine.shown(table, rows.slice(0, 1))[0]
            raise HeadraceError(
                "source.conflict",
                f"{first['operation']} of {table}: {first['reason']}",
                where=f"commit {first['commit']}, row {quarantine.text(first['row'])}",
                why=f"{table} has `on_conflict: refuse`: nothing after commit {after} is published",
                next="`on_conflict: quarantine` in its source sets the change aside, and goes on",
            )

    def keep(
        self, files: Iterable[Path], tables: Mapping[str, Relation], number: int, after: int, upto: int
    ) -> list[SetAside]:
        """Durable files with what step ``number`` set aside, for the catalogue's transaction that publishes it."""
        kept = []
        for table, paths in _by_table(files).items():
            rows = self.rows(tables[table], paths, after, upto)
            left = quarantine.without(self.catalog.gone(table), rows).num_rows
            if not left:
                continue
            self.folder.mkdir(exist_ok=True)
            path = self.folder / f"{quote(table, safe='')}~{number}.arrow"
            write_run(path, rows)
            checksums(path, sync=True)
            sync_names([path])
            kept.append(SetAside(table, number, str(path), left))
            self.tell({"event": "table.quarantined", "table": table, "rows": left, "commit": upto})
        return kept

    def begin(self, files: Iterable[Path], relation: Relation, number: int, upto: int) -> None:
        """A table's contents were made from the whole log: what that set aside is all there is of it.

        But for what has left the quarantine since, which does not come back, and for what came before the log's base,
        in which it has left no trace. The catalogue still names what there was, until ``save``.
        """
        fresh = self.keep(files, {relation.name: relation}, number, 0, upto)
        self.begun[relation.name] = [*self.before(relation.name, number), *fresh]

    def save(self) -> None:
        """In the transaction that publishes tables that were made anew, what ``begin`` has found of them."""
        for table, entries in self.begun.items():
            self.catalog.forget_set_aside(table)
            self.catalog.put_set_aside(entries)
        self.begun.clear()

    def before(self, table: str, number: int) -> list[SetAside]:
        """What is set aside of a table by commits that the log has no more but in its base, in files of their own."""
        begin, kept = self.reader.base.commit, list[SetAside]()
        for entry, rows in quarantine.there(self.catalog, [e for e in self.catalog.set_aside() if e.relation == table]):
            old = rows.filter(pa.array(column(rows, quarantine.HEAD[0]) <= begin))
            if old.num_rows == rows.num_rows:
                kept.append(entry)
            elif old.num_rows:
                path = self.folder / f"{quote(table, safe='')}~{entry.step}.{number}.arrow"
                write_run(path, old)
                checksums(path, sync=True)
                sync_names([path])
                kept.append(SetAside(table, entry.step, str(path), old.num_rows))
        return kept

    def rows(self, relation: Relation, files: Iterable[Path], after: int, upto: int) -> pa.Table:
        """``quarantine.HEAD``, then the table's columns, in the order of the log."""
        found = pa.concat_tables([open_run(str(path)) for path in files]).sort_by(SEQUENCE)
        refs = [ref for ref in self.reader.refs(after, upto) if relation.name in ref.rows]
        read = self.reader.read(refs, relation.name, after, upto)
        commits = np.concatenate([batch.column(COMMIT).to_numpy() for batch in read])
        ordinals = column(found, SEQUENCE)
        places = ordinals - np.searchsorted(commits, commits[ordinals]) + 1
        operations = column(found, OPERATION) & (STRICT - 1)
        head = [
            pa.array(commits[ordinals]),
            pa.array(places),
            OPERATIONS.take(pa.array(operations)),
            pa.array(_reasons(relation)).take(pa.array(operations)),
            found[UNCHANGED],
        ]
        values = [found[f"c{i}"] for i in range(len(relation.columns))]
        return pa.table([*head, *values], names=[*quarantine.HEAD, *relation.names])

    def brought(self, rows: pa.Table, after: int, upto: int) -> pa.Table:
        """Those that sources have brought: what was sent again from the quarantine goes back into it at worst."""
        own = [commit for commit, origin in self.reader.origins(after, upto) if origin.source == SELF]
        return rows.filter(pa.array(~np.isin(column(rows, quarantine.HEAD[0]), own)))


def _reasons(relation: Relation) -> list[str]:
    """Why an insert, an update, a delete cannot be taken."""
    if not relation.key:
        return ["", "", "there is no such row"]
    key = f"its key ({', '.join(relation.key)})"
    return [f"{key} is there already", f"{key} is not there", f"{key} is not there"]


def _by_table(files: Iterable[Path]) -> dict[str, list[Path]]:
    """Files of what was set aside, by table. A task that ran twice wrote equal ones: one counts."""
    chosen: dict[tuple[str, str], Path] = {}
    for path in sorted(files):
        name, part = path.name.split("~")[:2]
        chosen.setdefault((name.removeprefix(REFUSED + TABLE), part), path)
    found: dict[str, list[Path]] = {}
    for (table, _), path in sorted(chosen.items()):
        found.setdefault(table, []).append(path)
    return found
