"""A table's contents as of any commit, from its changes in the log alone: no lock, no JVM, no state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.catalog.store import Catalog
from headrace.formats import recorded
from headrace.formats.types.arrow import schema as arrow_schema
from headrace.formats.types.json import nearest
from headrace.log.read import LogReader, removed
from headrace.log.sealed import newest_first
from headrace.model.bounds import NEVER, Deadline
from headrace.model.delivery import WEIGHT
from headrace.model.errors import HeadraceError
from headrace.model.schema import Relation
from headrace.model.transaction import DELETE, INSERT, OPERATION, STRICT, TRUNCATE, UNCHANGED, UPDATE
from headrace.serve.history import reader_of
from headrace.serve.snapshot import catalog_path
from headrace.state.rows import canonical, row_codes
from headrace.state.run import column
from headrace.state.sorting import stable_order

PART_ROWS = 262_144  # changes replayed together, at least: as many as the table holds, so that work grows evenly


def tables(project_path: Path) -> dict[str, Relation]:
    """The tables that views read or have read, by name."""
    if not catalog_path(project_path).exists():
        return {}
    catalog = Catalog(catalog_path(project_path), read_only=True)
    try:
        return {name: relation for name, (_, relation) in catalog.relations().items()}
    finally:
        catalog.close()


def known(project_path: Path, table: str) -> Relation:
    """The table of that name (SQL does not tell case apart), or ``source.no_table``."""
    found = tables(project_path)
    for name, relation in found.items():
        if name.lower() == table.lower():
            return relation
    why = "" if found else "no view has read a table yet"
    raise HeadraceError(
        "source.no_table", f"there is no table '{table}'", why=why, next=nearest(table, list(found)) if found else ""
    )


def commit_at(reader: LogReader, time_us: int, deadline: Deadline = NEVER) -> int:
    """The last commit that its source committed at ``time_us`` (microseconds since the epoch) or before; 0: none.

    Work: the heads of the frames since then, and once those of all that lie before them. Raises ``query.timeout``, and
    ``log.retained`` where it may be one that retention has removed.
    """
    for after, upto, sealed in newest_first(reader):
        deadline.check()
        if sealed is not None and sealed.earliest_us > time_us:
            continue
        last = 0
        for ref, meta in reader.frames(after, upto):
            if min(meta.committed_us) <= time_us:
                last = ref.first + max(i for i, at in enumerate(meta.committed_us) if at <= time_us)
        if last:
            return last
    base = reader.base
    if base.commit and base.origin.committed_us > time_us:
        raise removed(base, 0)
    return base.commit


def contents(
    project_path: Path,
    relation: Relation,
    upto: int,
    on_progress: Callable[[dict[str, Any]], None] = lambda event: None,
) -> pa.Table:
    """The rows of a table after commit ``upto``: its columns and ``_w``, how often the row is there.

    What ``on_conflict`` sets aside counts for nothing. Work: the rows of the log's base and the table's changes from
    there on. Memory: its rows and as many changes. Raises ``log.retained`` for a commit before the base.
    """
    reader = reader_of(project_path)
    while True:
        base = reader.base
        try:
            refs = [ref for ref in reader.refs(0, upto) if relation.name in ref.rows]
            replay, done, total = Replay(relation), 0, sum(ref.rows[relation.name] for ref in refs)
            for batch in reader.read(refs, relation.name, 0, upto):
                replay.add(batch)
                done += batch.num_rows
                on_progress({"text": f"replaying {relation.name}, changes", "done": done, "total": total})
        except HeadraceError as error:
            if error.code != "log.retained" or reader.base.commit == base.commit or reader.base.commit > upto:
                raise  # else another base has come meanwhile, which may do as well
        else:
            return replay.contents()


class Replay:
    """Changes gathered up to a number of rows, then taken together; a TRUNCATE forgets all before it.

    ``columns``: those of the relation, in the place of them these, which begin with them.
    """

    def __init__(self, relation: Relation, columns: pa.Schema | None = None) -> None:
        columns = columns or arrow_schema(relation.columns)
        self.key, self.names = relation.key, columns.names
        head = [pa.field(OPERATION, pa.int8()), pa.field(UNCHANGED, pa.binary())]
        self.form = pa.schema([*head, *columns])
        self.kept = columns.append(pa.field(WEIGHT, pa.int64())).empty_table()
        self.gathered: list[pa.Table] = []
        self.rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """The next changes of the table, as ``LogReader.read`` gives them."""
        head = [batch.column(OPERATION), recorded.marks(batch, self.names)]
        arrays = [canonical(recorded.values(batch, f.name, f.type)) for f in list(self.form)[len(head) :]]
        changes = pa.table([*head, *arrays], schema=self.form)
        truncates = np.flatnonzero(column(changes, OPERATION) == TRUNCATE)
        if len(truncates):
            changes = changes.slice(int(truncates[-1]) + 1)
            self.kept, self.gathered, self.rows = self.kept.slice(0, 0), [], 0
        self.gathered.append(changes)
        self.rows += changes.num_rows
        if self.rows >= max(PART_ROWS, self.kept.num_rows):
            self.settle()

    def settle(self) -> None:
        if self.rows:
            changes = pa.concat_tables(self.gathered)
            if self.key:
                self.kept = _by_key(self.key, self.names, self.kept, changes)
            else:
                self.kept = _by_row(self.names, self.kept, changes)
        self.gathered, self.rows = [], 0

    def contents(self) -> pa.Table:
        """The table after all that was added."""
        self.settle()
        return self.kept


def _by_key(key: Sequence[str], names: list[str], kept: pa.Table, changes: pa.Table) -> pa.Table:
    """The newest image of each key: the rows there are come first, as inserts."""
    there = {
        OPERATION: pa.array(np.full(kept.num_rows, INSERT, np.int8)),
        UNCHANGED: pa.nulls(kept.num_rows, pa.binary()),
    }
    images = pa.table([*there.values(), *kept.drop_columns(WEIGHT).columns], schema=changes.schema)
    rows = pa.concat_tables([images, changes])
    codes = row_codes([rows[name] for name in key])
    order = stable_order(codes)
    codes, operations = codes[order], column(rows, OPERATION)[order]
    if (operations & STRICT).any():
        taken = _without_conflict(codes, operations)
        order, codes, operations = order[taken], codes[taken], operations[taken] & (STRICT - 1)
    rows = rows.take(pa.array(order)).combine_chunks()
    new = np.r_[True, codes[1:] != codes[:-1]][: len(codes)]
    rows = _completed(names, rows, operations, new)
    last = np.r_[new[1:], True][: len(codes)]
    found = rows.filter(pa.array(last & (operations != DELETE))).select(names)
    return found.append_column(WEIGHT, pa.array(np.ones(found.num_rows, np.int64)))


def _without_conflict(codes: np.ndarray, operations: np.ndarray) -> np.ndarray:
    """Which changes, in order of key, are taken: no strict insert of a key that is there, or the others of none."""
    plain, strict = operations & (STRICT - 1), (operations & STRICT) != 0
    # What is set aside leaves its key as the change itself would have: only a strict update tells nothing of it.
    tells = np.where(strict & (plain == UPDATE), -1, np.arange(len(codes)))
    before = np.r_[-1, np.maximum.accumulate(tells)[:-1]][: len(codes)]
    there = (before >= 0) & (codes[before] == codes) & (plain[before] != DELETE)
    taken: np.ndarray = ~(strict & (there == (plain == INSERT)))
    return taken


def _completed(names: Sequence[str], rows: pa.Table, operations: np.ndarray, new: np.ndarray) -> pa.Table:
    """Columns that updates left out, from the image of the key before; NULL where it had none."""
    marked = np.flatnonzero(rows[UNCHANGED].is_valid().to_numpy())
    if not len(marked):
        return rows
    width = (len(names) + 7) // 8
    packed = b"".join(m[:width].ljust(width, b"\0") for m in rows[UNCHANGED].take(pa.array(marked)).to_pylist())
    left = np.zeros((len(operations), width * 8), bool)
    left[marked] = np.unpackbits(np.frombuffer(packed, np.uint8).reshape(-1, width), axis=1, bitorder="little")
    firsts = np.flatnonzero(new)
    start = np.repeat(firsts, np.diff(np.r_[firsts, len(new)]))
    for place, name in enumerate(names):
        if left[:, place].any():
            source = np.maximum.accumulate(np.where(left[:, place], -1, np.arange(len(new))))
            nothing = (source < start) | ((source != np.arange(len(new))) & (operations[source] == DELETE))
            values = rows[name].combine_chunks().take(pa.array(source, mask=nothing))
            rows = rows.set_column(rows.column_names.index(name), name, values)
    return rows


def _by_row(names: list[str], kept: pa.Table, changes: pa.Table) -> pa.Table:
    """How often each row is there; a delete of one that is not counts for nothing."""
    weights = np.r_[column(kept, WEIGHT), np.where(column(changes, OPERATION) & (STRICT - 1) == DELETE, -1, 1)]
    rows = pa.concat_tables([kept.select(names), changes.select(names)])
    codes = row_codes([rows[name] for name in names])
    order = stable_order(codes)
    firsts = np.flatnonzero(np.r_[True, np.diff(codes[order]) != 0][: len(order)])
    sums = np.cumsum(weights[order])
    before = np.repeat((sums - weights[order])[firsts], np.diff(np.r_[firsts, len(order)]))
    counts = sums - before  # within each row, if deletes could go below zero: what they went below counts for nothing
    lowest = np.minimum.reduceat(counts, firsts) if len(firsts) else counts
    copies = counts[np.r_[firsts[1:], len(order)] - 1] - np.minimum(lowest, 0) if len(firsts) else counts
    found = rows.take(pa.array(order[firsts][copies > 0]))
    return found.append_column(WEIGHT, pa.array(copies[copies > 0]))
