"""Orders of whole numbers, several times as fast as numpy's; others are left to numpy.

numpy sorts numbers with the processor's vectors, but neither indices in a stable way nor by several columns. Both are
had from one sort of numbers whose high bits are the values and whose low bits are the places.
Record: docs/decisions/0038-sorting.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[Any]
Places = npt.NDArray[np.int64]

WHOLE = "iub"  # kinds of numpy's
FEW = 1024  # of so few numpy's own take no longer
RUNS = 8  # so many sorted ones after each other numpy merges in less time


def stable_order(numbers: Numbers) -> Places:
    """``np.argsort(numbers, kind="stable")``."""
    count = len(numbers)
    whole, wide = numbers.dtype.kind in WHOLE, numbers.dtype.itemsize >= 4
    if count < FEW or not (whole and wide) or np.count_nonzero(numbers[1:] < numbers[:-1]) < RUNS:
        return np.argsort(numbers, kind="stable")
    values, bits = _from_zero(numbers)
    low = (count - 1).bit_length()
    lost = np.uint64(max(0, bits + low - 64))
    both = values >> lost  # in place from here on: to clear new pages takes as long as what is done with them
    both <<= np.uint64(low)
    both |= np.arange(count, dtype=np.uint64)
    both.sort()
    both &= np.uint64((1 << low) - 1)
    order = both.view(np.int64)
    if lost:
        ordered = values[order]
        if (ordered[1:] < ordered[:-1]).any():  # some differ in no bits but those that were lost
            return _in_turn([values >> np.uint64(32), values & np.uint64(0xFFFFFFFF)])
    return order


def lexical_order(words: Sequence[Numbers]) -> Places:
    """``np.lexsort(words[::-1])``: by the first, where that is equal by the second, and so on; at least one."""
    if len(words) == 1:
        return stable_order(words[0])
    if len(words[0]) < FEW or any(word.dtype.kind not in WHOLE for word in words) or _in_order(words):
        return np.lexsort(words[::-1])
    packed, used = list[npt.NDArray[np.uint64]](), 64
    for word in words:
        values, bits = _from_zero(word)
        if used + bits > 64:
            packed.append(values)
            used = bits
        elif bits:
            packed[-1] = packed[-1] << np.uint64(bits) | values
            used += bits
    if not packed:  # all are equal
        return np.arange(len(words[0]))
    order = stable_order(packed[0])
    ordered = packed[0][order]
    return order if len(packed) == 1 or (ordered[1:] != ordered[:-1]).all() else _in_turn(packed)


def _in_order(words: Sequence[Numbers]) -> bool:
    """Whether they are so already, which numpy finds at once."""
    tied = np.ones(len(words[0]) - 1, np.bool_)
    for word in words:
        if (tied & (word[1:] < word[:-1])).any():
            return False
        tied &= word[1:] == word[:-1]
    return True


def _in_turn(words: Sequence[Numbers]) -> Places:
    """The same: by the last of them first, as each of the others leaves what is equal in order."""
    order = stable_order(words[-1])
    for word in words[-2::-1]:
        order = order[stable_order(word[order])]
    return order


def distinct_numbers(numbers: Numbers) -> Numbers:
    """``np.unique(numbers)``."""
    ordered = np.sort(numbers)
    return ordered[np.r_[True, ordered[1:] != ordered[:-1]]] if len(ordered) else ordered


def among(numbers: Numbers, others: Numbers) -> npt.NDArray[np.bool_]:
    """``np.isin(numbers, others)``; in order, and the more so where both are, it takes less time."""
    if not len(others):
        return np.zeros(len(numbers), np.bool_)
    ordered = np.sort(others)
    found: npt.NDArray[np.bool_] = ordered[np.minimum(np.searchsorted(ordered, numbers), len(ordered) - 1)] == numbers
    return found


def matches(left: Numbers, right: Numbers) -> tuple[Places, Places]:
    """All (i, j) with ``left[i] == right[j]``; ``right`` is sorted."""
    low = np.searchsorted(right, left, "left")
    count = np.searchsorted(right, left, "right") - low
    first = np.cumsum(count) - count
    return np.repeat(np.arange(len(left)), count), np.arange(int(count.sum())) - np.repeat(first - low, count)


def _from_zero(numbers: Numbers) -> tuple[npt.NDArray[np.uint64], int]:
    """The numbers less the least of them, and the bits of the greatest of these."""
    least, most = int(numbers.min()), int(numbers.max())
    values = numbers.astype(np.uint64)  # of a negative one modulo 2 ** 64, as what is taken away
    values -= np.uint64(least % (1 << 64))
    return values, (most - least).bit_length()
