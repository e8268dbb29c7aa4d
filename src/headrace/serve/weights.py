"""How often each row of a part is there: never changed; what comes after shares each block that it leaves as it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.state.sorting import stable_order

Numbers = npt.NDArray[np.int64]
SHIFT = 13  # bits of a place within its block: to change one row copies 64 KiB
_WITHIN = (1 << SHIFT) - 1


@dataclass(frozen=True, slots=True)
class Weights:
    """``alive``: how many rows have another weight than 0.

    Work of ``at`` and ``less``: the places, and of each block that has one of them a step; ``less`` copies it.
    """

    blocks: tuple[Numbers, ...]
    alive: int

    @classmethod
    def of(cls, weights: Numbers) -> Weights:
        starts = range(0, len(weights), 1 << SHIFT)
        return cls(tuple(weights[start : start + (1 << SHIFT)] for start in starts), int(np.count_nonzero(weights)))

    def __len__(self) -> int:
        return ((len(self.blocks) - 1) << SHIFT) + len(self.blocks[-1]) if self.blocks else 0

    @property
    def most(self) -> int:
        """The greatest of them; 0 of no rows."""
        return max((int(block.max()) for block in self.blocks), default=0)

    def all(self) -> Numbers:
        """Of each row, copied."""
        return np.concatenate(self.blocks) if self.blocks else np.empty(0, np.int64)

    def column(self) -> pa.ChunkedArray:
        """Of each row, without a copy."""
        return pa.chunked_array([pa.array(block) for block in self.blocks], pa.int64())

    def at(self, places: Numbers) -> Numbers:
        found = np.empty(len(places), np.int64)
        for block, mine in _by_block(places):
            found[mine] = self.blocks[block][places[mine] & _WITHIN]
        return found

    def less(self, places: Numbers, amounts: Numbers) -> Weights:
        """The rows at these places, each of which may come several times, so much less often. May fall below 0."""
        blocks, alive = list(self.blocks), self.alive
        for block, mine in _by_block(places):
            changed = blocks[block].copy()
            np.subtract.at(changed, places[mine] & _WITHIN, amounts[mine])
            alive += int(np.count_nonzero(changed)) - int(np.count_nonzero(blocks[block]))
            blocks[block] = changed
        return Weights(tuple(blocks), alive)


def _by_block(places: Numbers) -> Iterator[tuple[int, Numbers | slice]]:
    """(a block, which of the places are in it), for each block that has any."""
    blocks = places >> SHIFT
    if len(places) and blocks.min() == blocks.max():
        yield int(blocks[0]), slice(None)
        return
    order = stable_order(blocks)
    ordered = blocks[order]
    for mine in np.split(order, np.flatnonzero(np.diff(ordered)) + 1) if len(order) else ():
        yield int(blocks[mine[0]]), mine
