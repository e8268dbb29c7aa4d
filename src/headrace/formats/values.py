"""Values on their way from the bytes of a database server to Arrow."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

SHOWN_CHARACTERS_MAX = 80  # of a value, in errors

Integers = npt.NDArray[np.int64]


class UnfitValue(Exception):
    """A value that its column's type cannot hold: its row in the array, its text and the reason."""

    def __init__(self, row: int, text: str, why: str) -> None:
        super().__init__(why)
        self.row, self.why = row, why
        self.text = text if len(text) <= SHOWN_CHARACTERS_MAX else text[:SHOWN_CHARACTERS_MAX] + "..."


def remedy(table: str, column: str) -> str:
    """What a user can do about a column with values that are not carried."""
    return (
        f"have it carried as text, which views CAST: `as_text: [{table}.{column}]` in the source's file, then "
        "`headrace stop` and `headrace up`; the table is copied anew"
    )


def gather(
    data: npt.NDArray[np.uint8], starts: Integers, lengths: Integers, valid: npt.NDArray[np.bool_]
) -> pa.BinaryArray:
    """The byte strings ``data[start : start + length]``, null where not ``valid``; at most 2 GiB in all.

    Values that lie one after another are gathered by Arrow, to which ``data`` is values with other bytes between.
    """
    count, whole = len(starts), bool(valid.all())
    lengths = lengths if whole else np.where(valid, lengths, 0)
    ends = starts + lengths
    first, last = starts, ends
    if not whole:  # a null has no place of its own: it lies where the value before it ends
        last = np.maximum.accumulate(np.where(valid, ends, 0))
        first = np.where(valid, starts, last)
    if count and bool((first[1:] >= last[:-1]).all()):
        bounds = np.empty(2 * count, dtype=np.int32)
        bounds[0::2], bounds[1::2] = first, last
        spread = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)])
        places = np.arange(0, 2 * count, 2, dtype=np.int32)
        return spread.take(pa.array(places, mask=None if whole else ~valid))
    offsets = np.zeros(count + 1, dtype=np.int32)
    offsets[1:] = np.cumsum(lengths)
    view = memoryview(data)  # type: ignore[arg-type]
    content = b"".join([view[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)])
    validity = None if whole else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    return pa.Array.from_buffers(pa.binary(), count, [validity, pa.py_buffer(offsets), pa.py_buffer(content)])
