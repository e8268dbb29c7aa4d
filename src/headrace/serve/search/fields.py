"""The columns of a view as fields of an index: what stands in it for a value, and what a word of a query means there.

Texts are words. Numbers, booleans, dates and timestamps are numbers, compared exactly: a decimal of up to 18 digits as
a whole number of its last place, a time in microseconds; longer decimals as doubles. All other types are the words of
their JSON text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.types.arrow import to_arrow
from headrace.formats.types.spelled import value
from headrace.model.schema import Column, ViewSchema
from headrace.serve.search.library import tantivy
from headrace.state.rows import one_array

WORDS, WHOLE, REAL, FLAG, TIME = "words", "whole", "real", "flag", "time"
# Fields beside the columns: which of these are NULL, the row's hash, where it is kept, how often it is there; and, of
# one document alone, how far the index is.
NULLS, HASH, PLACE, WEIGHT, FRONTIER = "nulls", "hash", "place", "weight", "frontier"
Number = int | float
_EXACT_DIGITS = 18  # of a decimal whose whole number fits into 64 bits
_NUMBER = re.compile(r"[+-]?(\d{1,400}(\.\d{0,400})?|\.\d{1,400})([eE][+-]?\d{1,3})?")
_TIME = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?\s?(Z|[+-]\d\d:\d\d)?)?)?)?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Field:
    """A column; ``id``: its name in the index, which is none of the query language's. ``scale``: of a decimal."""

    id: str
    name: str
    type: str
    kind: str
    scale: int = 0

    def span(self, word: str) -> tuple[Number, Number] | None:
        """The least and the greatest value that ``word`` means here; None for a word that means none.

        A date or a part of one is all the time it names. The least is above the greatest where the word lies between
        two values that the column can have.
        """
        if self.kind == FLAG:
            found = {"true": 1, "false": 0}.get(word.lower())
            return None if found is None else (found, found)
        if self.kind == TIME:
            return _time_span(word)
        if not _NUMBER.fullmatch(word):
            return None
        if self.kind == WHOLE:
            exact = Fraction(word) * 10**self.scale
            return math.ceil(exact), math.floor(exact)
        nearest = float(np.float32(word)) if self.type == "float" else float(word)
        return nearest + 0.0, nearest + 0.0

    def beyond(self, number: Number, way: int) -> Number:
        """The next value after ``number`` (``way`` 1) or before it (-1)."""
        return number + way if self.kind != REAL else math.nextafter(number, way * math.inf)


def _time_span(word: str) -> tuple[int, int] | None:
    found = _TIME.fullmatch(word)
    if found is None:
        return None
    year, month, day, hour, minute, second, part, zone = found.groups()
    try:
        begin = datetime(int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0), int(second or 0))
        if zone not in (None, "Z"):
            begin -= datetime.strptime(zone, "%z").utcoffset() or timedelta()
    except (ValueError, OverflowError):
        return None
    first = (begin.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND + int((part or "0").ljust(6, "0"))
    if month is None or day is None:
        after = (int(year), int(month) + 1) if month and int(month) < 12 else (int(year) + 1, 1)
        days = (datetime(after[0], after[1], 1) - begin).days if after[0] < 10_000 else 31 if month else 366
        length = timedelta(days=days)
    elif hour is None:
        length = timedelta(days=1)
    elif second is None:
        length = timedelta(minutes=1)
    else:
        length = timedelta(microseconds=10 ** (6 - len(part or "")))
    return first, first + length // _MICROSECOND - 1


def fields(schema: ViewSchema) -> tuple[Field, ...]:
    """A field for each column, in order."""
    return tuple(_field(f"c{place}", column) for place, column in enumerate(schema.columns))


def _field(id: str, column: Column) -> Field:
    arrow = to_arrow(column.type)
    if pa.types.is_decimal(arrow):
        exact = arrow.precision <= _EXACT_DIGITS
        return Field(id, column.name, column.type, WHOLE if exact else REAL, arrow.scale if exact else 0)
    if pa.types.is_boolean(arrow):
        kind = FLAG
    elif pa.types.is_integer(arrow):
        kind = WHOLE
    elif pa.types.is_floating(arrow):
        kind = REAL
    else:
        kind = TIME if pa.types.is_date(arrow) or pa.types.is_timestamp(arrow) else WORDS
    return Field(id, column.name, column.type, kind)


def index_schema(of: Sequence[Field]) -> Any:
    """The schema of an index over these fields."""
    made = tantivy().SchemaBuilder()
    for field in of:
        if field.kind == WORDS:
            made.add_text_field(field.id)
        elif field.kind == REAL:
            made.add_float_field(field.id, indexed=True, fast=True)
        else:
            made.add_integer_field(field.id, indexed=True, fast=True)
    made.add_text_field(NULLS, tokenizer_name="raw", index_option="basic")
    made.add_unsigned_field(HASH, indexed=True, fast=True)
    made.add_unsigned_field(PLACE, fast=True)
    made.add_integer_field(WEIGHT, fast=True)
    made.add_text_field(FRONTIER, stored=True, tokenizer_name="raw", index_option="basic")
    return made.build()


def documents(of: Sequence[Field], columns: Sequence[Any], beside: dict[str, Any], schema: Any) -> Iterator[Any]:
    """A document for each row. ``columns``: those of the fields, ``beside``: arrays of other fields.

    Work: a loop over the rows, as tantivy takes one document at a time; all values are made by column before.
    """
    lists = {field.id: _listed(numbers(field, column)) for field, column in zip(of, columns, strict=True)}
    lists |= {name: array.tolist() for name, array in beside.items()}
    if (absent := _nulls(of, columns)) is not None:
        lists[NULLS] = absent
    names, make = list(lists), tantivy().Document.from_dict
    for row in zip(*lists.values(), strict=True):
        yield make(dict(zip(names, row, strict=True)), schema)


def _listed(array: pa.Array) -> list[Any]:
    """The values, an empty list for each NULL: a field without a value."""
    cells = array.to_pylist()
    return [[] if cell is None else cell for cell in cells] if array.null_count else cells


def numbers(field: Field, column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """What stands in the index for a column's values: texts, int64 or float64."""
    array = one_array(column)
    if field.kind == WORDS:
        return texts(array)
    if field.kind == REAL:
        return pc.add(array.cast(pa.float64()), 0.0)  # -0.0 equals 0.0, as in SQL
    if pa.types.is_decimal(array.type):
        low = np.frombuffer(array.buffers()[1], np.int64)[::2][array.offset : array.offset + len(array)]
        return pa.array(low, mask=array.is_null().to_numpy(zero_copy_only=False))
    if pa.types.is_date(array.type):
        array = array.cast(pa.timestamp("us"))
    return array.cast(pa.int64())


def texts(array: pa.Array) -> pa.Array:
    """The text whose words are searched; of what is no text itself, its JSON."""
    if pa.types.is_string(array.type) or pa.types.is_integer(array.type):
        return array.cast(pa.string())
    spelled = (value(cell) for cell in array.to_pylist())
    return pa.array(
        [s if s is None or isinstance(s, str) else json.dumps(s, ensure_ascii=False) for s in spelled], pa.string()
    )


def _nulls(of: Sequence[Field], columns: Sequence[Any]) -> list[list[str]] | None:
    """Of each row the fields that are NULL; None where no row has any."""
    holed = [(field.id, column.is_null()) for field, column in zip(of, columns, strict=True) if column.null_count]
    if not holed:
        return None
    flags = np.column_stack([np.asarray(mask) for _, mask in holed])
    kinds, which = np.unique(flags, axis=0, return_inverse=True)
    named = [[id for (id, _), absent in zip(holed, kind, strict=True) if absent] for kind in kinds.tolist()]
    return [named[place] for place in which.ravel().tolist()]
