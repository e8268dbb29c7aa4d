"""The least and the greatest of values that only come: one number a group, which more values can only move one way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.formats.types.arrow import to_arrow

Integers = npt.NDArray[np.int64]
# Types whose values are whole numbers of at most 64 bits, in their order.
WHOLE = ("tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz")


def refuse_gone(weights: Integers) -> None:
    """Raises ``ArithmeticError`` where a row went: the answer is not in what is kept."""
    if len(weights) and weights.min() < 0:
        raise ArithmeticError(
            "a row went from a table that rows only come to; `headrace rebuild VIEW` makes the view from those left"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Least:
    """The least value of each group, for what ``headrace.circuit.slots`` adds up: to add is to take the less of two.

    A group without values has the greatest number there is, which is no answer: it counts none.
    """

    values: Integers

    NONE: ClassVar[int] = np.iinfo(np.int64).max
    BETTER: ClassVar[np.ufunc] = np.minimum
    STORED: ClassVar[pa.DataType] = pa.int64()

    @classmethod
    def zeros(cls, count: int) -> Least:
        return cls(np.full(count, cls.NONE))

    @classmethod
    def accumulate(cls, values: pa.Array, weights: Integers, starts: Integers) -> Least:
        """Of each segment ``starts[s]:starts[s + 1]``, none of them empty; a row of weight 0 counts for nothing.

        ``values``: of a type of ``WHOLE``. Raises ``ArithmeticError`` for a negative weight.
        """
        refuse_gone(weights)
        numbers = (values.cast(pa.int32()) if pa.types.is_date32(values.type) else values).cast(pa.int64())
        numbers = numbers.fill_null(0).to_numpy(zero_copy_only=False)
        return cls(cls.BETTER.reduceat(np.where(weights > 0, numbers, cls.NONE), starts[:-1]))

    def __len__(self) -> int:
        return len(self.values)

    def __add__(self, other: Least) -> Least:
        """Elementwise; both of the same length."""
        return type(self)(self.BETTER(self.values, other.values))

    def take(self, indices: npt.NDArray[np.int64]) -> Least:
        return type(self)(self.values[indices])

    def cumsum(self, starts: Integers) -> Least:
        """Of each entry and those before it in its segment."""
        values, lengths = self.values.copy(), np.diff(starts)
        place = np.arange(len(values)) - np.repeat(starts[:-1], lengths)
        reach = 1
        while reach < lengths.max(initial=0):
            later = np.flatnonzero(place >= reach)
            values[later] = self.BETTER(values[later], values[later - reach])
            reach *= 2
        return type(self)(values)

    def to_arrow(self) -> pa.Array:
        return pa.array(self.values)

    @classmethod
    def from_arrow(cls, array: pa.Array | pa.ChunkedArray) -> Least:
        """The inverse of ``to_arrow``; NULL is a group without values."""
        return cls(array.fill_null(cls.NONE).to_numpy())

    def of(self, count: Integers, result: str) -> pa.Array:
        """As a type of ``WHOLE``; NULL where ``count`` is 0."""
        arrow = to_arrow(result)
        numbers = pa.array(self.values, mask=count == 0)
        return (numbers.cast(pa.int32()) if pa.types.is_date32(arrow) else numbers).cast(arrow)


class Greatest(Least):
    """The greatest value of each group; a group without values has the least number there is."""

    NONE = np.iinfo(np.int64).min
    BETTER = np.maximum
