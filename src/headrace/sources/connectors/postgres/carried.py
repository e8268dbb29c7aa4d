"""Large values that a row takes along to its new key: PostgreSQL sends neither them nor anything else of the old row.

A row that was under key k before a change had there what the latest change of k left it; beyond the first change that
is at hand, what is stored under k. Such changes are followed back all at once, by doubling the steps of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.schema import Relation
from headrace.model.transaction import DELETE, INSERT, OPERATION, TRUNCATE, UNCHANGED
from headrace.sources.connectors.postgres.pgoutput import Integers

TAKEN_BYTES = 256 << 20  # of values at a time: below Arrow's 2 GiB of offsets
_NESTED_ROWS = 1024

# relation, keys (its key columns) -> the rows that are stored under them, before these changes; more of them do no harm
Stored = Callable[[Relation, pa.Table], pa.Table | None]


class NotThere(Exception):
    """There was no row under the old key of the change of that number; its large column ``name`` is not known."""

    def __init__(self, row: int, name: str) -> None:
        super().__init__(row, name)
        self.row, self.name = row, name


def completed(relation: Relation, changes: pa.Table, stored: Stored) -> pa.Table:
    """The changes, each insert with the values that it left out.

    An insert that leaves something out comes behind the delete of the row that it was. Raises ``NotThere``.
    Work: the changes, sorted by key, where there is such an insert, and one call of ``stored``.
    """
    if UNCHANGED not in changes.column_names:
        return changes
    operations = changes[OPERATION].to_numpy()
    marked = changes[UNCHANGED].is_valid().to_numpy()
    moved = np.flatnonzero(marked & (operations == INSERT))
    if not len(moved):
        return changes
    left = _left_out(changes[UNCHANGED], len(relation.columns))
    places = np.flatnonzero(left[moved].any(axis=0)).tolist()
    if not relation.key:
        raise NotThere(int(moved[0]), relation.names[places[0]])
    emptied = np.cumsum(operations == TRUNCATE)
    before = _before(_codes([changes[name] for name in relation.key]), emptied)
    count = changes.num_rows
    roots: dict[int, Integers] = {}
    for place in places:
        taking = np.flatnonzero(left[:, place])
        here = taking - (operations[taking] == INSERT)  # an insert takes what its delete took away
        step = np.arange(2 * count)  # from `count` on: what is stored under the key of that change
        step[taking] = np.where(before[here] < 0, count + here, before[here])
        while not np.array_equal(step, further := step[step]):
            step = further
        roots[place] = root = step[moved[left[moved, place]]]
        inside = root[root < count]
        if len(lost := np.flatnonzero(np.isin(operations[inside], [DELETE, TRUNCATE]))):
            raise NotThere(int(moved[left[moved, place]][root < count][lost[0]]), relation.names[place])
    wanted = np.unique(np.concatenate([root[root >= count] for root in roots.values()])) - count
    wanted = wanted[emptied[wanted] == 0]
    rows, at = _stored(relation, changes, wanted, stored)
    at_change = np.full(count, -1)
    at_change[wanted] = at
    for place, root in roots.items():
        name, into = relation.names[place], moved[left[moved, place]]
        outside = root >= count
        source = root.copy()
        source[outside] = at_change[root[outside] - count]
        if len(lost := np.flatnonzero(source < 0)):
            raise NotThere(int(into[lost[0]]), name)
        source[outside] += count
        index = np.arange(count)
        index[into] = source
        field = changes.schema.field(name)
        values = pa.chunked_array([*changes[name].chunks, *_as(rows, field)], field.type)
        changes = changes.set_column(changes.schema.get_field_index(name), field, _taken(values, index))
    return _without(changes, moved)


def _left_out(marks: pa.ChunkedArray, columns: int) -> npt.NDArray[np.bool_]:
    """Which columns each change leaves out, of ``_unchanged``."""
    width = (columns + 7) // 8
    marked = np.flatnonzero(marks.is_valid().to_numpy())
    packed = b"".join(marks.drop_null().to_pylist())
    found = np.zeros((len(marks), width * 8), bool)
    found[marked] = np.unpackbits(np.frombuffer(packed, np.uint8).reshape(-1, width), axis=1, bitorder="little")
    return found[:, :columns]


def _codes(columns: Sequence[pa.ChunkedArray]) -> Integers:
    """One number a row: equal values, equal numbers."""
    total = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        plain = pa.chunked_array([[str(v) for v in column.to_pylist()]]) if pa.types.is_nested(column.type) else column
        codes = plain.dictionary_encode(null_encoding="encode").combine_chunks()
        indices = pa.concat_arrays(
            [c.indices for c in codes.chunks] if isinstance(codes, pa.ChunkedArray) else [codes.indices]
        )
        numbers = indices.to_numpy().astype(np.int64)
        total = np.unique(total * (numbers.max(initial=0) + 1) + numbers, return_inverse=True)[1]
    return total


def _before(codes: Integers, emptied: Integers) -> Integers:
    """The change of the same key before each, -1 where there is none since the table was emptied."""
    groups = emptied * (codes.max(initial=0) + 1) + codes
    order = np.argsort(groups, kind="stable")
    before = np.full(len(codes), -1)
    same = groups[order[1:]] == groups[order[:-1]]
    before[order[1:][same]] = order[:-1][same]
    return before


def _stored(
    relation: Relation, changes: pa.Table, wanted: Integers, stored: Stored
) -> tuple[pa.Table | None, Integers]:
    """Stored rows, and for each wanted change the number of the one with its key, or -1."""
    if not len(wanted):
        return None, np.zeros(0, np.int64)
    keys = changes.select(list(relation.key)).take(pa.array(wanted))
    rows = stored(relation, keys)
    if rows is None or not rows.num_rows:
        return None, np.full(len(wanted), -1)
    both = [
        pa.chunked_array([*keys[n].chunks, *_as(rows, keys.schema.field(n))], keys.schema.field(n).type)
        for n in relation.key
    ]
    codes = _codes(both)
    of_code = np.full(int(codes.max()) + 1, -1)
    of_code[codes[len(wanted) :]] = np.arange(rows.num_rows)
    return rows, of_code[codes[: len(wanted)]]


def _as(rows: pa.Table | None, field: pa.Field) -> list[pa.Array]:
    return [] if rows is None else rows[field.name].cast(field.type).chunks


def _taken(values: pa.ChunkedArray, index: Integers) -> pa.ChunkedArray:
    return pa.chunked_array([c for part in _parts(values, index) for c in values.take(part).chunks], values.type)


def _parts(values: pa.ChunkedArray, index: Integers) -> Iterator[pa.Array]:
    """The index in parts whose values have at most ``TAKEN_BYTES``, about."""
    if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
        sizes = pc.binary_length(values).fill_null(0).to_numpy().astype(np.int64)[index]
    else:
        sizes = np.full(len(index), TAKEN_BYTES // _NESTED_ROWS)
    part = np.cumsum(sizes) // TAKEN_BYTES
    bounds = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), len(index)]
    for begin, end in pairwise(bounds):
        yield pa.array(index[begin:end])


def _without(changes: pa.Table, moved: Integers) -> pa.Table:
    """The changes without the marks of these."""
    place = changes.column_names.index(UNCHANGED)
    kept = np.ones(changes.num_rows, bool)
    kept[moved] = False
    marks = pc.if_else(pa.array(kept), changes[UNCHANGED], pa.scalar(None, pa.binary()))
    if marks.null_count == len(marks):
        return changes.remove_column(place)
    return changes.set_column(place, changes.schema.field(place), marks)
