"""The places of rows by their hashes, in 8 bytes a row: never changed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.serve.weights import Numbers

Hashes = npt.NDArray[np.uint64]
_BLOCK = 1 << 15  # rows at a time: to clear the pages of a second array takes as long as to sort one


@dataclass(frozen=True, slots=True)
class Index:
    """``entries``, in order: as many high bits of a row's hash as there is room for, and its place below them.

    Of a million rows 44 bits are left of a hash, so that one row in sixteen million is found beside another by chance.
    """

    entries: Hashes

    @classmethod
    def of(cls, hashes: Hashes) -> Index:
        """Of each row's hash by its place. Their memory becomes that of the index."""
        low = np.uint64(_bits(hashes))
        hashes >>= low
        hashes <<= low
        for begin in range(0, len(hashes), _BLOCK):
            block = hashes[begin : begin + _BLOCK]
            block |= np.arange(begin, begin + len(block), dtype=np.uint64)
        hashes.sort()
        return cls(hashes)

    def probe(self, hashes: Hashes) -> tuple[Numbers, Numbers]:
        """(index of the hash, place) of the rows that have one of these hashes, and perhaps of others."""
        below = np.uint64((1 << _bits(self.entries)) - 1)
        first = hashes & ~below
        low = self.entries.searchsorted(first, "left")
        count = self.entries.searchsorted(first | below, "right") - low
        if not count.any():
            return low[:0], low[:0]
        index = np.repeat(np.arange(len(hashes)), count)
        entries = self.entries[np.arange(len(index)) - np.repeat(np.cumsum(count) - count - low, count)]
        return index, (entries & below).view(np.int64)


def _bits(numbers: Hashes) -> int:
    """Of a place among so many."""
    return max(len(numbers) - 1, 0).bit_length()
