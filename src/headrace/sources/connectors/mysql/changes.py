"""Row images of many transactions -> one change table per relation (see ``headrace.model.transaction``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats import values as formats
from headrace.formats.types import arrow as arrow_types
from headrace.model import transaction as model
from headrace.model.errors import HeadraceError
from headrace.sources.connectors.mysql import announce, columns
from headrace.sources.connectors.mysql.charsets import Charsets
from headrace.sources.connectors.mysql.images import Field, Images, Integers, Values
from headrace.sources.connectors.mysql.introspect import SourceTable

CHUNK_BYTES = 128 << 20  # decoded at a time: keeps every column below Arrow's 2 GiB of offsets

WRITE, UPDATE, DELETE, EMPTY = range(4)
WhereOf = Callable[[int], str]  # transaction ordinal -> its place in the log, for errors


@dataclass(frozen=True, slots=True)
class Rows:
    """What one event did to rows of one table: ``body`` holds its images, of an update the old and the new in turn."""

    place: tuple[str, str]
    kind: int
    fields: tuple[Field, ...] = ()
    body: bytes = b""


class RefusedTransaction(Exception):
    """The transaction of that ordinal holds a row that cannot be taken; ``error`` is what the user is told."""

    def __init__(self, ordinal: int, table: SourceTable, error: HeadraceError) -> None:
        super().__init__(str(error))
        self.ordinal, self.table, self.error = ordinal, table, error


class Decoder:
    """Row images -> change tables."""

    def __init__(self, charsets: Charsets, where: str) -> None:
        self._charsets, self._where = charsets, where

    def decode(
        self, rows: Sequence[Rows], ordinals: Sequence[int], tables: Mapping[tuple[str, str], SourceTable],
        where_of: WhereOf,
    ) -> dict[str, pa.Table]:  # fmt: skip
        """Change tables by relation name; rows of tables that are not in ``tables`` are left out.

        ``ordinals[i]`` is the transaction of ``rows[i]``. Raises ``RefusedTransaction`` with source.row, source.schema.
        """
        by_table: dict[tuple[str, str], list[int]] = {}
        for number, one in enumerate(rows):
            if one.place in tables:
                by_table.setdefault(one.place, []).append(number)
        found: dict[str, pa.Table] = {}
        for place, numbers in by_table.items():
            table = tables[place]
            pieces = [
                self._piece(table, [rows[n] for n in piece], [ordinals[n] for n in piece], where_of)
                for piece in _pieces(rows, numbers)
            ]
            found[table.relation.name] = pa.concat_tables(pieces)
        return found

    def _piece(self, table: SourceTable, rows: list[Rows], ordinals: list[int], where_of: WhereOf) -> pa.Table:
        """Events with one layout of rows, or one that empties the table."""
        schema = _schema(table)
        if rows[0].kind == EMPTY:
            count = len(rows)
            operations = np.full(count, model.TRUNCATE, dtype=np.int8)
            empty = [pa.nulls(count, field.type) for field in schema][2:]
            return pa.Table.from_arrays([pa.array(ordinals, pa.int32()), pa.array(operations), *empty], schema=schema)
        try:
            places = announce.places(table, rows[0].fields, self._where)
        except HeadraceError as error:
            raise _refused(ordinals[0], table, error, where_of) from error
        try:
            images = _Images(rows, ordinals)
        except (ValueError, IndexError) as error:
            what = f"table {table.relation.name}: rows cannot be read"
            raise _refused(ordinals[0], table, HeadraceError("source.setup", what, why=str(error)), where_of) from error
        values = images.values(frozenset(place for place in places if place >= 0))
        converted: dict[int, pa.Array] = {}

        def column(number: int, chosen: Integers | None) -> pa.Array:
            typed, place = table.relation.columns[number], places[number]
            count = len(images.ordinals) if chosen is None else len(chosen)
            if place < 0:
                return pa.nulls(count, arrow_types.to_arrow(typed.type))
            some = values[place] if chosen is None else values[place].take(chosen)
            try:
                return columns.from_images(
                    some, table.columns[number], rows[0].fields[place], typed.type, self._charsets
                )
            except formats.UnfitValue as unfit:
                row = unfit.row if chosen is None else int(chosen[unfit.row])
                raise _unfit(table, typed.name, unfit, int(images.ordinals[row]), where_of) from unfit

        key = [table.relation.names.index(name) for name in table.relation.key]
        chosen, operations = None, images.operations
        if images.updates:
            if key:
                converted = {number: column(number, None) for number in key}
            chosen, operations = images.resolved([converted[number] for number in key])
        arrays = [
            converted[number].take(pa.array(chosen)) if number in converted else column(number, chosen)
            for number in range(len(places))
        ]
        kept = images.ordinals if chosen is None else images.ordinals[chosen]
        return pa.Table.from_arrays([pa.array(kept.astype(np.int32)), pa.array(operations), *arrays], schema=schema)


class _Images:
    """The images of some events: of each its transaction and what it does to its row."""

    def __init__(self, rows: Sequence[Rows], ordinals: Sequence[int]) -> None:
        self._images = Images([one.body for one in rows], rows[0].fields)
        counts = self._images.counts
        kinds = np.repeat(np.asarray([one.kind for one in rows]), counts)
        within = np.arange(len(kinds)) - np.repeat(np.cumsum(counts) - counts, counts)
        self.ordinals: Integers = np.repeat(np.asarray(ordinals, dtype=np.int64), counts)
        self.operations = np.where(kinds == DELETE, model.DELETE, model.INSERT).astype(np.int8)
        self._old = np.flatnonzero((kinds == UPDATE) & (within % 2 == 0))
        self.updates = len(self._old) > 0

    def values(self, wanted: frozenset[int]) -> dict[int, Values]:
        return self._images.values(wanted)

    def resolved(self, key: Sequence[pa.Array]) -> tuple[Integers, npt.NDArray[np.int8]]:
        """(the images that make rows, their operations): an update whose key has changed is a delete and an insert."""
        old, operations = self._old, self.operations.copy()
        operations[old] = model.DELETE
        kept = np.ones(len(operations), dtype=bool)
        if key:
            same = np.ones(len(old), dtype=bool)
            for values in key:
                equal = pc.equal(values.take(pa.array(old)), values.take(pa.array(old + 1)))
                same &= equal.fill_null(False).to_numpy(zero_copy_only=False)
            kept[old[same]] = False
            operations[old[same] + 1] = model.UPDATE
        chosen = np.flatnonzero(kept)
        return chosen, operations[chosen]


def _pieces(rows: Sequence[Rows], numbers: Sequence[int]) -> Iterator[list[int]]:
    """Runs of events of one layout of rows, of at most CHUNK_BYTES each, or of one event."""
    piece: list[int] = []
    size = 0
    for number in numbers:
        one = rows[number]
        if piece:
            last = rows[piece[-1]]
            alike = last.fields == one.fields and (last.kind == EMPTY) == (one.kind == EMPTY)
            if not alike or size + len(one.body) > CHUNK_BYTES:
                yield piece
                piece, size = [], 0
        piece.append(number)
        size += len(one.body)
    yield piece


def _schema(table: SourceTable) -> pa.Schema:
    fields = [pa.field(model.ORDINAL, pa.int32()), pa.field(model.OPERATION, pa.int8())]
    return pa.schema([*fields, *arrow_types.schema(table.relation.columns)])


def _unfit(
    table: SourceTable, column: str, unfit: formats.UnfitValue, ordinal: int, where_of: WhereOf
) -> RefusedTransaction:
    name = table.relation.name
    what = f"table {name}: column {column}: the value {unfit.text!r} cannot be carried"
    error = HeadraceError("source.row", what, why=unfit.why, next=formats.remedy(name, column))
    return _refused(ordinal, table, error, where_of)


def _refused(ordinal: int, table: SourceTable, error: HeadraceError, where_of: WhereOf) -> RefusedTransaction:
    where = ", ".join(part for part in (error.where, where_of(ordinal)) if part)
    return RefusedTransaction(
        ordinal, table, HeadraceError(error.code, error.what, where=where, why=error.why, next=error.next)
    )
