"""Changes as the log has recorded them, read as the columns that their table has now."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.model.transaction import OPERATION, ORDINAL, UNCHANGED

_HEAD = {"_c", ORDINAL, OPERATION, UNCHANGED}


def values(batch: pa.RecordBatch, name: str, arrow: pa.DataType) -> pa.Array:
    """A column of these changes in the type that it has now; null where it was not there, or of a type with no way to
    that one: a table that was altered so is emptied and copied anew later in the log.
    """
    place = batch.schema.get_field_index(name)
    if place < 0:
        return pa.nulls(batch.num_rows, arrow)
    try:
        return batch.column(place).cast(arrow)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(batch.num_rows, arrow)


def marks(batch: pa.RecordBatch, names: Sequence[str]) -> pa.Array:
    """``_unchanged`` of these changes, bit n for the n-th of ``names``; a column that was not there then is kept."""
    place = batch.schema.get_field_index(UNCHANGED)
    if place < 0:
        return pa.nulls(batch.num_rows, pa.binary())
    found = batch.column(place)
    then = [name for name in batch.schema.names if name not in _HEAD]
    if then == list(names) or found.null_count == len(found):
        return found
    at = {name: number for number, name in enumerate(then)}
    moved = [None if mark is None else _moved(mark, [at.get(name, -1) for name in names]) for mark in found.to_pylist()]
    return pa.array(moved, pa.binary())


def _moved(mark: bytes, places: Sequence[int]) -> bytes:
    bits = np.unpackbits(np.frombuffer(mark, np.uint8), bitorder="little")
    set_now = [place < 0 or (place < len(bits) and bool(bits[place])) for place in places]
    return np.packbits(np.array(set_now), bitorder="little").tobytes()
