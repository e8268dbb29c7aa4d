"""Intervals on their way between Spark and Arrow, whose exchange takes those of days to seconds alone.

Other intervals of days and times go as those; intervals of months, and those of months, days and time together, as
structs (see ``headrace.formats.types.arrow``). On the way back they get their own type again. At any depth.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    DayTimeIntervalType,
    MapType,
    StructField,
    StructType,
    YearMonthIntervalType,
)

from headrace.formats.types.arrow import DAYS, MICROSECONDS, MONTHS, from_arrow, quote, to_arrow

_HOUR, _MINUTE, _SECOND = 3_600_000_000, 60_000_000, 1_000_000
_DAYS_TO_SECONDS = "interval day to second"


@lru_cache(maxsize=4096)
def handed_type(type_text: str) -> str:
    """The type in which values of a type go over."""
    return from_arrow(to_arrow(type_text), exchanged=True) if "interval" in type_text else type_text


def differs(type_text: str) -> bool:
    """Whether values of the type go over in another one."""
    return handed_type(type_text) != type_text


def has_months(type_text: str) -> bool:
    """Whether there is an interval with months in values of the type."""
    return MONTHS in handed_type(type_text)


def handed_schema(columns: Iterable[tuple[str, str]]) -> StructType:
    """The columns of these names and types as ``mapInArrow`` has them come from Python.

    Made here, as Spark would parse a text of them: a third of a second, the first time.
    """
    return StructType([StructField(name, from_arrow_type(to_arrow(type_text))) for name, type_text in columns])


def to_hand_over(frame: DataFrame, columns: tuple[tuple[str, str], ...]) -> DataFrame:
    """The frame of these names and types, as Arrow takes it."""
    if not any(differs(type_text) for _, type_text in columns):
        return frame
    return frame.select(*[_over(F.col(quote(n)), t).alias(n) if differs(t) else F.col(quote(n)) for n, t in columns])


def taken_back(frame: DataFrame, columns: tuple[tuple[str, str], ...]) -> DataFrame:
    """What came from Arrow, in the types that it has in Spark."""
    if not any(differs(type_text) for _, type_text in columns):
        return frame
    return frame.select(*[_back(F.col(quote(n)), t).alias(n) if differs(t) else F.col(quote(n)) for n, t in columns])


def _over(column: Column, type_text: str) -> Column:
    return _changed(column, DataType.fromDDL(type_text), back=False)


def _back(column: Column, type_text: str) -> Column:
    return _changed(column, DataType.fromDDL(type_text), back=True)


def _changed(value: Column, kind: DataType, *, back: bool) -> Column:
    if "interval" not in kind.simpleString():
        return value
    if isinstance(kind, DayTimeIntervalType):
        return value.cast(kind if back else _DAYS_TO_SECONDS)
    if isinstance(kind, YearMonthIntervalType):
        return F.make_ym_interval(F.lit(0), value[MONTHS]).cast(kind) if back else _months(value)
    if isinstance(kind, CalendarIntervalType):
        return _calendar(value) if back else _parts(value)
    if isinstance(kind, ArrayType):
        return F.transform(value, lambda item: _changed(item, kind.elementType, back=back))
    if isinstance(kind, MapType):
        key_type, value_type = kind.keyType, kind.valueType
        entries = F.transform(
            F.map_entries(value),
            lambda e: F.struct(
                _changed(e["key"], key_type, back=back).alias("key"),
                _changed(e["value"], value_type, back=back).alias("value"),
            ),
        )
        return F.map_from_entries(entries)
    assert isinstance(kind, StructType)
    fields = [_changed(value.getField(f.name), f.dataType, back=back).alias(f.name) for f in kind.fields]
    return F.when(value.isNotNull(), F.struct(*fields))


def _months(value: Column) -> Column:
    return _struct(value, {MONTHS: value.cast("interval month").cast("int")})


def _parts(value: Column) -> Column:
    """From its text: to extract(), 25 hours are a day and an hour."""
    text = value.cast("string")

    def part(unit: str, kind: str) -> Column:
        found = F.nullif(F.regexp_extract(text, f"(-?[0-9.]+) {unit}", 1), F.lit(""))
        return F.coalesce(found.cast(kind), F.lit(0).cast(kind))

    months = part("years", "int") * 12 + part("months", "int")
    time = part("hours", "bigint") * _HOUR + part("minutes", "bigint") * _MINUTE
    time = time + (part("seconds", "decimal(18,6)") * _SECOND).cast("bigint")
    return _struct(value, {MONTHS: months, DAYS: part("days", "int"), MICROSECONDS: time})


def _struct(value: Column, parts: dict[str, Column]) -> Column:
    """NULL where the value is. Its fields may be too, or Arrow would not take it inside another NULL."""
    there = value.isNotNull()
    return F.when(there, F.struct(*[F.when(there, part).alias(name) for name, part in parts.items()]))


def _calendar(value: Column) -> Column:
    time, none = value[MICROSECONDS], F.lit(0)
    rest = time % _HOUR
    hours = F.call_function("div", time - rest, F.lit(_HOUR)).cast("int")
    seconds = rest.cast("decimal(18,0)") / F.lit(_SECOND).cast("decimal(7,0)")
    return F.make_interval(none, value[MONTHS], none, value[DAYS], hours, none, seconds.cast("decimal(18,6)"))
