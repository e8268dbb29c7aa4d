"""Row messages of many transactions -> one change table per relation (see ``headrace.model.transaction``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats import values
from headrace.formats.types import arrow as arrow_types
from headrace.model import transaction as model
from headrace.model.errors import HeadraceError
from headrace.model.schema import Relation
from headrace.sources.connectors.postgres import carried, columns, pgoutput
from headrace.sources.connectors.postgres.pgoutput import Integers, Kinds, RowMessages, Tuples
from headrace.sources.connectors.postgres.streamed import OnDisk

CHUNK_BYTES = 256 << 20  # decoded at a time: keeps every column below Arrow's 2 GiB of offsets
HEADER = 25  # XLogData: kind, three eight-byte fields

LsnOf = Callable[[int], str]  # transaction ordinal -> the LSN of its commit, for errors
Places = tuple[int, ...]  # per column of a relation its place in the rows as they were sent; -1: they have it no more
# relation, numbers of row messages -> runs of these: the width of their rows (None: the relation's) and places, or None
# where they are left out
Layout = Callable[[int, Integers], Iterator[tuple[slice, int | None, Places | None]]]


class RefusedTransaction(Exception):
    """The transaction of that ordinal holds a row that cannot be taken; ``error`` is what the user is told."""

    def __init__(self, ordinal: int, error: HeadraceError) -> None:
        super().__init__(str(error))
        self.ordinal, self.error = ordinal, error


def decode(
    messages: Sequence[bytes],
    ordinals: Integers,
    relations: Mapping[int, Relation],
    lsn_of: LsnOf,
    layout: Layout | None = None,
    stored: carried.Stored = lambda relation, keys: None,
) -> dict[str, pa.Table]:
    """Change tables by relation name; messages of relations that are not in ``relations`` (by oid) are left out.

    ``messages`` carry ``HEADER`` bytes of transport each; ``ordinals[i]`` is the transaction of message i. Without
    ``layout`` rows have their relation's columns. ``stored``: the rows as they were before the first message.
    Raises ``RefusedTransaction`` with source.row, source.schema or source.no_identity, naming table, column and LSN.
    """
    parts: dict[Relation, list[pa.Table]] = {}
    kept = messages.put if isinstance(messages, OnDisk) else _as_it_is
    for piece in _pieces(messages):
        rows = RowMessages(messages[piece], HEADER)
        for oid in np.unique(rows.relations).tolist():
            relation = relations.get(oid)
            if relation is not None:
                chosen = np.flatnonzero(rows.relations == oid)
                same: tuple[tuple[slice, None, Places], ...] = ((slice(None), None, ()),)
                for run, sent, places in layout(oid, chosen + (piece.start or 0)) if layout else same:
                    if places is None:
                        continue
                    of_run = ordinals[piece][chosen[run]]
                    decoder = _Decoder(relation, rows, chosen[run], of_run, lsn_of, sent, places)
                    parts.setdefault(relation, []).append(kept(decoder.table()))
    joined = {relation: _joined(tables) for relation, tables in parts.items()}
    return {relation.name: _completed(relation, table, lsn_of, stored) for relation, table in joined.items()}


def _as_it_is(table: pa.Table) -> pa.Table:
    return table


def _joined(tables: list[pa.Table]) -> pa.Table:
    """The tables one after another; where some have ``_unchanged``, all do."""
    table = pa.concat_tables(tables, promote_options="default")
    names = [name for name in table.column_names if name != model.UNCHANGED]
    return table if names == table.column_names else table.select([*names[:2], model.UNCHANGED, *names[2:]])


def _completed(relation: Relation, table: pa.Table, lsn_of: LsnOf, stored: carried.Stored) -> pa.Table:
    try:
        return carried.completed(relation, table, stored)
    except carried.NotThere as missing:
        ordinal = table[model.ORDINAL][missing.row].as_py()
        raise RefusedTransaction(
            ordinal,
            HeadraceError(
                "source.row",
                f"table {relation.name}: an update changed the key of a row but not its large column '{missing.name}', "
                "which PostgreSQL then leaves out, and nothing is known of the row under its old key",
                where=f"LSN {lsn_of(ordinal)}",
                why="the table has changed otherwise than by rows: such a table is copied anew within seconds",
                next="it is tried again by itself; if it stays so: `headrace stop`, `headrace drop --source` with the "
                "source's name, then `headrace up`: its tables are copied anew, in place of what was there",
            ),
        ) from missing


def _pieces(messages: Sequence[bytes]) -> Iterator[slice]:
    """Runs of messages of at most CHUNK_BYTES each, or of one message."""
    if isinstance(messages, OnDisk):
        yield from messages.pieces()
        return
    start, size = 0, 0
    if sum(map(len, messages)) > CHUNK_BYTES:
        for at, message in enumerate(messages):
            if size and size + len(message) > CHUNK_BYTES:
                yield slice(start, at)
                start, size = at, 0
            size += len(message)
    yield slice(start, len(messages))


@dataclass(frozen=True, slots=True)
class _Rows:
    """Some output rows: the message each comes from, its place within that message, its operation, its values."""

    message: Integers
    place: int  # 0: before the other row of the same message (a delete before its insert)
    operation: npt.NDArray[np.int8]
    kinds: Kinds
    starts: Integers
    lengths: Integers


class _Decoder:
    """One relation's row messages of one piece."""

    def __init__(
        self, relation: Relation, rows: RowMessages, chosen: Integers, ordinals: Integers, lsn_of: LsnOf,
        sent: int | None, places: Places,
    ) -> None:  # fmt: skip
        self.relation, self.rows, self.ordinals, self.lsn_of = relation, rows, ordinals, lsn_of
        self.at = rows.at[chosen]
        self.kind = rows.kinds[chosen]
        self.width = len(relation.columns)
        self.sent = self.width if sent is None else sent  # columns of the rows as they came
        self.places = None if sent is None or places == tuple(range(sent)) else np.asarray(places)
        self.key = [relation.names.index(name) for name in relation.key]

    def table(self) -> pa.Table:
        """``_t``, ``_op``, ``_unchanged`` when some row has it, then the relation's columns."""
        kinds = np.unique(self.kind).tolist()
        if kinds == [pgoutput.INSERT]:  # by far the most frequent case needs no sorting
            every = np.arange(len(self.at))
            ordered = self._from(every, self._tuples(every, self.at + 6), model.INSERT)
        else:
            ordered = self._merge(list(self._parts()))
        names = [model.ORDINAL, model.OPERATION]
        arrays: list[pa.Array] = [
            pa.array(self.ordinals[ordered.message].astype(np.int32)),
            pa.array(ordered.operation),
        ]
        unchanged = _bitmaps(ordered.kinds)
        if unchanged is not None:
            names.append(model.UNCHANGED)
            arrays.append(unchanged)
        for number, column in enumerate(self.relation.columns):
            texts = self._texts(ordered, number)
            try:
                arrays.append(columns.convert(texts, column.type))
            except values.UnfitValue as error:
                raise self._unfit(int(ordered.message[error.row]), column.name, error) from error
        fields = [pa.field(name, array.type) for name, array in zip(names, arrays, strict=False)]
        return pa.Table.from_arrays(arrays, schema=pa.schema([*fields, *arrow_types.schema(self.relation.columns)]))

    def _parts(self) -> Iterator[_Rows]:
        """Output rows by kind of message, each kind in the order of its messages."""
        mark = self.rows.bytes[np.minimum(self.at + 5, len(self.rows.bytes) - 1)]
        insert = self.kind == pgoutput.INSERT
        update = self.kind == pgoutput.UPDATE
        plain = np.flatnonzero(insert | (update & (mark == pgoutput.NEW)))
        if len(plain):
            tuples = self._tuples(plain, self.at[plain] + 6)
            operations = np.where(insert[plain], model.INSERT, model.UPDATE).astype(np.int8)
            self._need_identity(plain[operations == model.UPDATE])
            yield _Rows(plain, 1, operations, tuples.kinds, tuples.starts, tuples.lengths)
        deleted = np.flatnonzero(self.kind == pgoutput.DELETE)
        if len(deleted):
            self._need_identity(deleted)
            yield self._delete(deleted, self._tuples(deleted, self.at[deleted] + 6))
        with_old = np.flatnonzero(update & (mark != pgoutput.NEW))
        if len(with_old):
            self._need_identity(with_old)
            yield from self._updates_with_old(with_old)
        truncated = np.flatnonzero(self.kind == pgoutput.TRUNCATE)
        if len(truncated):
            zeros = np.zeros((self.width, len(truncated)), dtype=np.int64)
            nulls = np.full(zeros.shape, pgoutput.NULL, dtype=np.uint8)
            operation = np.full(len(truncated), model.TRUNCATE, dtype=np.int8)
            yield _Rows(truncated, 1, operation, nulls, zeros, zeros)

    def _updates_with_old(self, messages: Integers) -> Iterator[_Rows]:
        """Updates that carry an old key or an old row: a delete and an insert where the identity has changed.

        Such an insert leaves out a large value that is in neither (see ``carried``).
        """
        old = self._tuples(messages, self.at[messages] + 6)
        new = self._tuples(messages, old.end + 1)
        # An unchanged large value is in the old tuple when that is complete, or when it belongs to the key.
        known = (new.kinds == pgoutput.UNCHANGED_TOAST) & (old.kinds == pgoutput.TEXT)
        kinds = np.where(known, old.kinds, new.kinds)
        starts = np.where(known, old.starts, new.starts)
        lengths = np.where(known, old.lengths, new.lengths)
        same = np.full(len(messages), bool(self.key))
        for number in self.key:
            before = self._column(old.kinds, old.starts, old.lengths, number)
            after = self._column(kinds, starts, lengths, number)
            same &= np.asarray(pc.equal(before, after).fill_null(False))
        moved = np.flatnonzero(~same)
        if len(moved):
            yield self._delete(messages[moved], _select(old, moved))
        operation = np.where(same, model.UPDATE, model.INSERT).astype(np.int8)
        yield _Rows(messages, 1, operation, kinds, starts, lengths)

    def _delete(self, messages: Integers, old: Tuples) -> _Rows:
        for number in self.key:
            missing = np.flatnonzero(old.kinds[number] != pgoutput.TEXT)
            if len(missing):
                raise self._refuse(
                    int(messages[missing[0]]),
                    "source.schema",
                    f"an old row came without its key column '{self.relation.names[number]}'",
                    why="the table's primary key or replica identity was changed while it was followed",
                    next="`headrace stop`, `headrace drop --source` with the source's name, then `headrace up`: its "
                    "tables are copied anew, in place of what was there",
                )
        operation = np.full(len(messages), model.DELETE, dtype=np.int8)
        return _Rows(messages, 0, operation, old.kinds, old.starts, old.lengths)

    def _merge(self, parts: list[_Rows]) -> _Rows:
        """All rows in the order they happened."""
        message = np.concatenate([part.message for part in parts])
        place = np.concatenate([np.full(len(part.message), part.place) for part in parts])
        order = np.lexsort((place, message))
        return _Rows(
            message[order],
            0,
            np.concatenate([part.operation for part in parts])[order],
            np.concatenate([part.kinds for part in parts], axis=1)[:, order],
            np.concatenate([part.starts for part in parts], axis=1)[:, order],
            np.concatenate([part.lengths for part in parts], axis=1)[:, order],
        )

    def _from(self, messages: Integers, tuples: Tuples, operation: int) -> _Rows:
        operations = np.full(len(messages), operation, dtype=np.int8)
        return _Rows(messages, 0, operations, tuples.kinds, tuples.starts, tuples.lengths)

    def _tuples(self, messages: Integers, at: Integers) -> Tuples:
        widths = self.rows.widths(at)
        wrong = np.flatnonzero(widths != self.sent)
        if len(wrong):
            why = f"it has {widths[wrong[0]]}, not {self.sent}"
            problem = "a row does not have its relation's columns"
            raise self._refuse(int(messages[wrong[0]]), "source.schema", problem, why=why)
        tuples = self.rows.tuples(at, self.sent)
        places = self.places
        if places is None:
            return tuples
        kinds = np.where((places < 0)[:, None], pgoutput.NULL, tuples.kinds[places]).astype(np.uint8)
        return Tuples(
            kinds, tuples.starts[places], np.where(kinds == pgoutput.TEXT, tuples.lengths[places], 0), tuples.end
        )

    def _texts(self, rows: _Rows, number: int) -> pa.BinaryArray:
        return self._column(rows.kinds, rows.starts, rows.lengths, number)

    def _column(self, kinds: Kinds, starts: Integers, lengths: Integers, number: int) -> pa.BinaryArray:
        return values.gather(self.rows.bytes, starts[number], lengths[number], kinds[number] == pgoutput.TEXT)

    def _need_identity(self, messages: Integers) -> None:
        if self.relation.updates or not len(messages):
            return
        raise self._refuse(
            int(messages[0]),
            "source.no_identity",
            "an update or a delete, though the table was followed as insert-only",
            why="it had neither a primary key nor REPLICA IDENTITY FULL when it was first followed",
            next="drop the views that read it, give the table a primary key, then create the views again",
        )

    def _unfit(self, message: int, column: str, error: values.UnfitValue) -> RefusedTransaction:
        problem = f"column {column}: the value {error.text!r} cannot be carried"
        advice = values.remedy(self.relation.name, column)
        return self._refuse(message, "source.row", problem, why=error.why, next=advice)

    def _refuse(self, message: int, code: str, problem: str, why: str, next: str = "") -> RefusedTransaction:
        ordinal = int(self.ordinals[message])
        what, where = f"table {self.relation.name}: {problem}", f"LSN {self.lsn_of(ordinal)}"
        return RefusedTransaction(ordinal, HeadraceError(code, what, where=where, why=why, next=next))


def _select(tuples: Tuples, chosen: Integers) -> Tuples:
    return Tuples(tuples.kinds[:, chosen], tuples.starts[:, chosen], tuples.lengths[:, chosen], tuples.end[chosen])


def _bitmaps(kinds: Kinds) -> pa.BinaryArray | None:
    """Per row the bitmap of its unchanged columns, null for complete rows; None when every row is complete."""
    unchanged = kinds == pgoutput.UNCHANGED_TOAST
    incomplete = unchanged.any(axis=0)
    if not incomplete.any():
        return None
    packed = np.packbits(unchanged.T, axis=1, bitorder="little")
    fixed = pa.Array.from_buffers(
        pa.binary(packed.shape[1]),
        len(packed),
        [pa.py_buffer(np.packbits(incomplete, bitorder="little").tobytes()), pa.py_buffer(packed.tobytes())],
    )
    return fixed.cast(pa.binary())
