"""The least and the greatest of values that only come: one value a group, which more values can only move one way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.types.arrow import to_arrow
from headrace.state.rows import one_array

Integers = npt.NDArray[np.int64]
# Types whose values are whole numbers of at most 64 bits, in their order.
WHOLE = ("tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz")
TEXT = "string"  # ordered by its bytes; one with a collation is not


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
        return self.made(self.BETTER(self.values, other.values))

    def made(self, values: Integers) -> Least:
        """Of the same kind."""
        return type(self)(values)

    def take(self, indices: npt.NDArray[np.int64]) -> Least:
        return self.made(self.values[indices])

    def cumsum(self, starts: Integers) -> Least:
        """Of each entry and those before it in its segment."""
        values, lengths = self.values.copy(), np.diff(starts)
        place = np.arange(len(values)) - np.repeat(starts[:-1], lengths)
        reach = 1
        while reach < lengths.max(initial=0):
            later = np.flatnonzero(place >= reach)
            values[later] = self.BETTER(values[later], values[later - reach])
            reach *= 2
        return self.made(values)

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


@dataclass(frozen=True, slots=True, eq=False)
class LeastText(Least):
    """The least text of each group: ``values`` are places in ``texts``, which are distinct and rise."""

    texts: pa.Array = field(default_factory=lambda: pa.array([], pa.string()))

    STORED: ClassVar[pa.DataType] = pa.string()

    @classmethod
    def accumulate(cls, values: pa.Array, weights: Integers, starts: Integers) -> LeastText:
        """See ``Least``; ``values`` of type ``TEXT``."""
        refuse_gone(weights)
        places, texts = _placed(values, cls.NONE)
        return cls(cls.BETTER.reduceat(np.where(weights > 0, places, cls.NONE), starts[:-1]), texts)

    def __add__(self, other: Least) -> Least:
        both = pa.concat_arrays([self.to_arrow(), other.to_arrow()])
        places, texts = _placed(both, self.NONE)
        return type(self)(self.BETTER(places[: len(self)], places[len(self) :]), texts)

    def made(self, values: Integers) -> Least:
        return type(self)(values, self.texts)

    def to_arrow(self) -> pa.Array:
        return self.texts.take(pa.array(self.values, mask=self.values == self.NONE))

    @classmethod
    def from_arrow(cls, array: pa.Array | pa.ChunkedArray) -> LeastText:
        return cls(*_placed(one_array(array), cls.NONE))

    def of(self, count: Integers, result: str) -> pa.Array:
        """As texts; NULL where ``count`` is 0."""
        return self.texts.take(pa.array(self.values, mask=(count == 0) | (self.values == self.NONE)))


class GreatestText(LeastText):
    """The greatest text of each group."""

    NONE = Greatest.NONE
    BETTER = Greatest.BETTER


def _placed(values: pa.Array, none: int) -> tuple[Integers, pa.Array]:
    """The place of each value among the distinct ones in order, ``none`` for NULL; and these."""
    encoded = values.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary)
    places = np.empty(len(order), np.int64)
    places[order.to_numpy()] = np.arange(len(order))
    indices = encoded.indices.fill_null(0).to_numpy()
    found = places[indices] if len(order) else np.zeros(len(values), np.int64)
    if values.null_count:
        found = np.where(values.is_null().to_numpy(zero_copy_only=False), none, found)
    return found, encoded.dictionary.take(order)
