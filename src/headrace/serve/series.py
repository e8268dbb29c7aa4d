"""A relation's rows by time: a value for each bucket, empty ones filled, beside that of the period before."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import Literal
from zoneinfo import ZoneInfo

import pyarrow as pa

from headrace.formats.types.duckdb import compose, identifier
from headrace.model.errors import HeadraceError
from headrace.serve.buckets import Buckets, Length

Fill = Literal["null", "zero", "previous", "linear", "none"]
AGGREGATES = ("count", "sum", "avg", "min", "max", "median")
BUCKETS_MAX = 100_000
SLOTS = "headrace_slots"  # what the buckets are registered as
UTC = ZoneInfo("UTC")
_VALUE = re.compile(r"(\w+)\((.+)\)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Series:
    """``value``: (aggregate, column or None for every row). ``begin`` and ``end``: microseconds since the epoch."""

    time: str
    every: Length
    value: tuple[str, str | None] = ("count", None)
    by: tuple[str, ...] = ()
    fill: Fill = "null"
    compare: Length | None = None
    zone: ZoneInfo = UTC
    begin: int | None = None
    end: int | None = None

    def slots(self, first: int | None, last: int | None) -> pa.Table:
        """The buckets of rows from ``first`` to ``last``, or of what was asked for: ``start``, whether it is
        ``wanted``, and the start of the one ``earlier``; the last one is beyond them. Raises ``HeadraceError``:
        api.request, where there are too many, or some beyond the years 1 to 9999.
        """
        begin = first if self.begin is None else self.begin
        try:
            return self._slots(begin, last if self.end is None else self.end - 1)
        except (OverflowError, ValueError):
            raise HeadraceError(
                "api.request", "buckets begin in the years 1 to 9999", where="from",
                why="there are times beyond, or what is compared lies there", next="'from' and 'to'",
            ) from None  # fmt: skip

    def _slots(self, begin: int | None, end: int | None) -> pa.Table:
        if begin is None or end is None or begin > end:
            return _table([], [], [])
        buckets, since = Buckets(self.every, self.zone), begin
        if self.compare is not None:
            since = min(begin, buckets.earlier(buckets.starts(begin, begin)[0], self.compare))
        count = (end - since) // self.every.least_us
        if count > BUCKETS_MAX:
            raise HeadraceError(
                "api.request", f"{count:,} buckets lie between the first and the last", where="every",
                next="longer ones, or 'from' and 'to'",
            )  # fmt: skip
        starts = buckets.starts(since, end)
        own = starts[bisect_right(starts, begin) - 1]
        wanted = [own <= start <= end for start in starts]
        if self.compare is None:
            return _table(starts, wanted, [None] * len(starts))
        moments = [
            buckets.earlier(start, self.compare) if is_one else since
            for start, is_one in zip(starts, wanted, strict=True)
        ]
        return _table(starts, wanted, [starts[max(0, bisect_right(starts, at) - 1)] for at in moments])


def _table(starts: list[int], wanted: list[bool], earlier: list[int] | list[None]) -> pa.Table:
    columns = [pa.array(starts, pa.int64()), pa.array(wanted, pa.bool_()), pa.array(earlier, pa.int64())]
    return pa.table(columns, names=["start", "wanted", "earlier"])


def aggregate(text: str) -> tuple[str, str | None]:
    """Of ``sum(amount)`` or ``count(*)``. Raises ``HeadraceError``: api.request."""
    found = _VALUE.fullmatch(text.strip())
    name = found[1].lower() if found else ""
    if found is None or name not in AGGREGATES or (found[2] == "*" and name != "count"):
        raise HeadraceError(
            "api.request", f"'{text}' is no value", where="value",
            next=f"count(*), or one of {', '.join(AGGREGATES)} of a column",
        )  # fmt: skip
    return name, None if found[2] == "*" else found[2].strip()


def statement(asked: Series, rows: str, value: str, shown: str) -> str:
    """The SQL of a series over ``SLOTS``.

    ``rows``: a SELECT of ``t`` (microseconds since the epoch), ``x`` and the columns ``b0 ..`` of ``asked.by``;
    ``value``: an aggregate of ``x``; ``shown``: how a bucket's ``start`` is told.
    """
    groups = [f"b{i}" for i in range(len(asked.by))]
    same = [f"{{of}}.{name} IS NOT DISTINCT FROM s.{name}" for name in groups]
    columns = [f"{shown} AS time", *(f"{b} AS {identifier(n)}" for b, n in zip(groups, asked.by, strict=True))]
    columns.append(f"{filled(asked.fill, groups)} AS value")
    if asked.compare is not None:
        columns.append(f"{'coalesce(earlier, 0)' if asked.fill == 'zero' else 'earlier'} AS before")
    every = "(SELECT 0 AS every)"
    if groups:
        every = compose(
            "(SELECT DISTINCT {groups} FROM buckets SEMI JOIN wanted USING (start))", groups=", ".join(groups)
        )
    return compose(
        "WITH buckets AS (SELECT {keys}, {value} AS value FROM"
        " (SELECT r.*, s.start FROM ({rows}) AS r ASOF JOIN {slots} AS s ON r.t >= s.start) GROUP BY ALL),"
        " wanted AS (SELECT start, earlier FROM {slots} WHERE wanted),"
        " found AS (SELECT s.* EXCLUDE (earlier), b.value, e.value AS earlier FROM (SELECT * FROM wanted, {every}) AS s"
        " {join} JOIN buckets AS b ON {same} LEFT JOIN buckets AS e ON {same_earlier})"
        " SELECT {columns} FROM found ORDER BY {order}",
        keys=", ".join(["start", *groups]), value=value, rows=rows, slots=identifier(SLOTS), every=every,
        join="INNER" if asked.fill == "none" else "LEFT",
        same=" AND ".join(["b.start = s.start", *(each.format(of="b") for each in same)]),
        same_earlier=" AND ".join(["e.start = s.earlier", *(each.format(of="e") for each in same)]),
        columns=", ".join(columns), order=", ".join(["start", *groups]),
    )  # fmt: skip


def filled(fill: Fill, groups: list[str]) -> str:
    """A bucket's value, or what stands for one that is not there."""
    by = f"PARTITION BY {', '.join(groups)} " if groups else ""
    if fill == "zero":
        return "coalesce(value, 0)"
    back = f"OVER ({by}ORDER BY start ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    if fill == "previous":
        return f"last_value(value IGNORE NULLS) {back}"
    if fill != "linear":
        return "value"
    ahead = f"OVER ({by}ORDER BY start ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)"
    at = "CASE WHEN value IS NOT NULL THEN start END"
    v0, t0 = (f"last_value({of} IGNORE NULLS) {back}" for of in ("value", at))
    v1, t1 = (f"first_value({of} IGNORE NULLS) {ahead}" for of in ("value", at))
    return f"CASE WHEN value IS NULL THEN {v0} + ({v1} - {v0}) * (start - {t0}) / ({t1} - {t0}) ELSE value END"
