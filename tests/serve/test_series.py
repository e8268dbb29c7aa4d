"""Goal: rows by time are the buckets, values, fillings and comparisons that were asked for, in any time zone.

Method: random rows around days on which clocks change, published by hand; oracle: plain Python with its own time zones,
one bucket after the other.
"""

from __future__ import annotations

import random
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from headrace.api import answers
from headrace.catalog.store import Catalog, StepShape, ViewRecord
from headrace.formats.types.arrow import to_arrow
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column, ViewSchema
from headrace.serve import buckets, series
from headrace.serve.database import Limits
from headrace.serve.mirror import Mirror
from headrace.serve.questions import Questions
from headrace.serve.relation import Filter
from headrace.serve.series import BUCKETS_MAX, Series
from headrace.state.run import write_run

EPOCH, HOUR = datetime(1970, 1, 1, tzinfo=UTC), 3_600_000_000
SCHEMA = ViewSchema(
    "sales", 1,
    (Column("id", "bigint", False), Column("at", "timestamp"), Column("t", "timestamp_ntz"), Column("day", "date"),
     Column("the region", "string"), Column("amount", "decimal(10,2)"), Column("x", "int")),
    ("id",),
)  # fmt: skip
# Clocks change here in 2026: by an hour at night, at midnight (forth: no midnight; back: two of them), by half an hour.
CHANGES = {
    "UTC": (3, 29), "Europe/Berlin": (3, 29), "America/New_York": (11, 1), "America/Havana": (3, 8), "Asia/Beirut": (3, 29),
    "Australia/Lord_Howe": (4, 5), "Asia/Kolkata": (1, 1),
}  # fmt: skip
BACK = {"Europe/Berlin": (10, 25), "America/Havana": (11, 1), "Asia/Beirut": (10, 25), "Australia/Lord_Howe": (10, 4)}


def micros(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def drawn(rng: random.Random) -> list[dict[str, Any]]:
    rows = []
    days = [datetime(2026, *of, 12, tzinfo=UTC) for of in (*CHANGES.values(), *BACK.values())]
    for number in range(260):
        at = rng.choice(days) + timedelta(seconds=rng.randrange(-2 * 86_400, 2 * 86_400), microseconds=rng.randrange(9))
        gone = rng.random() < 0.04
        rows.append({
            "id": number, "at": None if gone else at, "t": None if gone else at.replace(tzinfo=None),
            "day": None if gone else at.date(), "the region": rng.choice(["north", "it's", None]),
            "amount": None if rng.random() < 0.1 else Decimal(rng.randrange(-500, 500)) / 100, "x": rng.randrange(9),
        })  # fmt: skip
    return rows


class Sales:
    def __init__(self, folder: Path) -> None:
        self.rows = drawn(random.Random(8))
        (folder / "views").mkdir(parents=True)
        (folder / "views/sales.sql").write_text("SELECT 1")
        (folder / "headrace.yaml").write_text("")
        (folder / ".headrace").mkdir()
        cells = [pa.array([row[c.name] for row in self.rows], to_arrow(c.type)) for c in SCHEMA.columns]
        weights = pa.array([1] * len(self.rows), pa.int64())
        table = pa.table([*cells, weights], names=[*(f"c{i}" for i in range(len(cells))), "_w"])
        path = folder / ".headrace/rows.arrow"
        write_run(path, table)
        catalog = Catalog(folder / ".headrace/catalog.db")
        catalog.put_view(ViewRecord(SCHEMA, "SELECT 1", "f", "live", "", 0))
        catalog.record_step(1, 0, 5, StepShape(), 0)
        catalog.publish(1, [], 1)
        catalog.put_base("sales@1", 1, 5, [str(path)], len(self.rows))
        catalog.close()
        self.questions = Questions(Mirror(folder))


@pytest.fixture(scope="module")
def sales(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sales]:
    made = Sales(tmp_path_factory.mktemp("series") / "shop")
    yield made
    made.questions.close()


# --- the oracle -------------------------------------------------------------------------------------------------------


def moment(wall: datetime, zone: ZoneInfo) -> int:
    """A wall time: of two the first one; where there is none, as if the clock had not changed yet."""
    return micros(wall.replace(tzinfo=zone))


class Buckets:
    def __init__(self, every: str, zone: str) -> None:
        self.number, self.unit = int(every.rstrip("smhdwoy")), every.lstrip("0123456789")
        self.zone = ZoneInfo(zone)

    def midnight(self, day: date) -> int:
        return moment(datetime(day.year, day.month, day.day), self.zone)

    def first_day(self, day: date) -> date:
        """Of the bucket of whole days that a day is in."""
        if self.unit in ("mo", "y"):
            months = self.number * (12 if self.unit == "y" else 1)
            at = (day.year * 12 + day.month - 1) // months * months
            return date(at // 12, at % 12 + 1, 1)
        begin = date(1970, 1, 5) if self.unit == "w" else date(1970, 1, 1)
        length = self.number * (7 if self.unit == "w" else 1)
        return begin + timedelta(days=(day - begin).days // length * length)

    def starts(self, us: int) -> Iterator[int]:
        """From the one that holds a moment on."""
        day = (EPOCH + timedelta(microseconds=us)).astimezone(self.zone).date()
        if self.unit not in "smh":
            at = self.first_day(day)
            while True:
                yield self.midnight(at)
                later = at + timedelta(days=1)
                while self.first_day(later) == at:
                    later += timedelta(days=1)
                at = later
        length = {"s": HOUR // 3600, "m": HOUR // 60, "h": HOUR}[self.unit] * self.number
        while True:
            begin, end = self.midnight(day), self.midnight(day + timedelta(days=1))
            for at in range(begin, end, length):
                if at + length > us:
                    yield at
            day += timedelta(days=1)

    def holding(self, us: int) -> int:
        found = 0
        for at in self.starts(us):
            if at > us:
                break
            found = at
        return found


def valued(function: str, values: Sequence[Any]) -> Any:
    if function == "count(*)":
        return len(values)
    there = [value for value in values if value is not None]
    if function == "count":
        return len(there)
    if not there:
        return None
    known: dict[str, Any] = {"sum": sum, "min": min, "max": max, "avg": statistics.mean, "median": statistics.median}
    return known[function](there)


def earlier(at: int, compare: str, zone: str) -> int:
    number, unit = int(compare.rstrip("smhdwoy")), compare.lstrip("0123456789")
    if unit == "h":
        return at - number * HOUR
    wall = (EPOCH + timedelta(microseconds=at)).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    if unit == "mo":
        months = wall.year * 12 + wall.month - 1 - number
        last = (date((months + 1) // 12, (months + 1) % 12 + 1, 1) - timedelta(days=1)).day
        return moment(wall.replace(year=months // 12, month=months % 12 + 1, day=min(wall.day, last)), ZoneInfo(zone))
    return moment(wall - timedelta(days=number * (7 if unit == "w" else 1)), ZoneInfo(zone))


def expected(
    rows: Sequence[dict[str, Any]], *, every: str, zone: str, value: str, by: Sequence[str], fill: str, compare: str | None,
    begin: int | None, end: int | None,
) -> list[tuple[Any, ...]]:  # fmt: skip
    buckets = Buckets(every, zone)
    function, _, column = value.removesuffix(")").partition("(")
    held: dict[tuple[int, tuple[Any, ...]], list[Any]] = defaultdict(list)
    for row in (row for row in rows if row["at"] is not None):
        key = buckets.holding(micros(row["at"])), tuple(row[name] for name in by)
        held[key].append(None if column == "*" else row[column])
    values = {key: valued("count(*)" if column == "*" else function, of) for key, of in held.items()}
    first = min(at for at, _ in values) if begin is None else buckets.holding(begin)
    last = max(at for at, _ in values) if end is None else buckets.holding(end - 1)
    starts = []
    for at in buckets.starts(first):
        if at > last:
            break
        starts.append(at)
    groups = {group for at, group in values if first <= at <= last} if by else {()}
    told = []
    for group in groups:
        line = [values.get((at, group)) for at in starts]
        there = [i for i, v in enumerate(line) if v is not None]
        for place, at in enumerate(starts):
            found = line[place]
            before, after = [i for i in there if i <= place], [i for i in there if i >= place]
            if found is None and fill == "zero":
                found = 0
            elif found is None and fill == "previous" and before:
                found = line[before[-1]]
            elif found is None and fill == "linear" and before and after:
                (i, j), part = (before[-1], after[0]), at - starts[before[-1]]
                found = float(line[i]) + float(line[j] - line[i]) * part / (starts[j] - starts[i])
            past: tuple[Any, ...] = ()
            if compare is not None:
                then = values.get((buckets.holding(earlier(at, compare, zone)), group))
                past = (0 if then is None and fill == "zero" else then,)
            if fill != "none" or (at, group) in values:
                told.append((at, *group, found, *past))
    return sorted(told, key=order)


def order(row: Sequence[Any]) -> list[Any]:
    return [(cell is None, cell) for cell in row[:2]]


# --- the tests --------------------------------------------------------------------------------------------------------


def close(found: Any, wanted: Any) -> bool:
    if isinstance(found, float):
        return wanted is not None and abs(found - float(wanted)) <= 1e-9 * max(1.0, abs(found))
    return bool(found == wanted)


@pytest.mark.parametrize("seed", range(63))
def test_series_are_those_of_plain_python(sales: Sales, seed: int) -> None:
    rng = random.Random(seed)
    zone = list(CHANGES)[seed % len(CHANGES)]
    every = rng.choice(["15m", "1h", "6h", "8h", "1d", "2d", "1w", "1mo", "3mo", "1y"])
    value = rng.choice(
        ["count(*)", "count(amount)", "sum(amount)", "sum(x)", "avg(x)", "min(amount)", "max(x)", "median(amount)"]
    )
    fill = rng.choice(["null", "zero", "previous", "linear", "none"])
    by = rng.choice([(), (), ("the region",)])
    compare = rng.choice([None, "1h", "24h", "1d", "1w", "1mo"])
    day = datetime(2026, *rng.choice([CHANGES[zone], BACK.get(zone, CHANGES[zone])]), 12, tzinfo=UTC)
    begin = micros(day - timedelta(hours=rng.randrange(60))) if every in ("15m", "1h") or rng.random() < 0.5 else None
    end = micros(day + timedelta(hours=rng.randrange(1, 60))) if begin is not None else None
    asked = Series(
        "AT", buckets.bucket(every), series.aggregate(value), by, fill,  # type: ignore[arg-type]
        buckets.length(compare, where="compare") if compare else None, buckets.zone(zone), begin, end,
    )  # fmt: skip
    answer = sales.questions.series("Sales", asked, [Filter("x", "lt", 7)])
    rows = [row for row in sales.rows if row["x"] < 7]
    wanted = expected(
        rows, every=every, zone=zone, value=value, by=by, fill=fill, compare=compare, begin=begin, end=end
    )  # fmt: skip
    assert answer.table.column_names == ["time", *by, "value", *(["before"] if compare else [])]
    assert answers.type_text(answer.table.schema.field("time").type) == "timestamp"
    times = answer.table["time"].cast(pa.int64()).to_pylist()
    found = sorted(zip(times, *(c.to_pylist() for c in answer.table.columns[1:]), strict=True), key=order)
    assert [row[0] for row in found] == [row[0] for row in wanted]
    assert times == sorted(times) and answer.commit == 5
    for one, other in zip(found, wanted, strict=True):
        assert all(map(close, one, other)), (one, other)


def test_times_without_a_zone_and_days(sales: Sales) -> None:
    base = {"every": buckets.bucket("1d"), "fill": "none"}
    instants = sales.questions.series("sales", Series("at", **base)).table  # type: ignore[arg-type]
    for column, kind in (("t", pa.timestamp("us")), ("day", pa.date32())):
        told = sales.questions.series("sales", Series(column, **base)).table  # type: ignore[arg-type]
        assert told["time"].type == kind
        assert told["value"].equals(instants["value"])
        assert told["time"].cast(pa.date32()).equals(instants["time"].cast(pa.date32()))
    hours = sales.questions.series("sales", Series("at", buckets.bucket("1h")), limits=Limits(rows=5))
    assert (hours.table.num_rows, hours.more) == (5, True)
    nothing = sales.questions.series("sales", Series("at", buckets.bucket("1h"), by=("x",)), [Filter("x", "gt", 99)])
    assert (nothing.table.num_rows, nothing.table.column_names) == (0, ["time", "x", "value"])


def test_what_cannot_be_is_refused(sales: Sales) -> None:
    hour, day = buckets.bucket("1h"), buckets.bucket("1d")
    for asked, what in (
        (Series("amount", day), "amount is no time"), (Series("tt", day), "has no column 'tt'"),
        (Series("day", hour), "day has no hours"), (Series("t", day, zone=buckets.zone("Asia/Kolkata")), "t has no time zone"),
        (Series("at", day, ("sum", "the region")), "the region is no number"),
        (Series("at", day, ("min", "the region"), fill="linear"), "the region is no number"),
        (Series("at", day, by=("regio",)), "has no column 'regio'"),
        (Series("at", buckets.bucket("1s")), "buckets lie between"),
    ):  # fmt: skip
        with pytest.raises(HeadraceError, match=what) as caught:
            sales.questions.series("sales", asked)
        assert caught.value.next
    for make, text in (
        (buckets.bucket, "7h"), (buckets.bucket, "0h"), (buckets.bucket, "1 hour"), (lambda text: buckets.length(text, where="compare"), "-1d"),
        (series.aggregate, "sum(*)"), (series.aggregate, "stddev(x)"), (series.aggregate, "x"), (buckets.zone, "Mars'/--"),
    ):  # fmt: skip
        with pytest.raises(HeadraceError, match=r"api\.request"):
            make(text)
    assert BUCKETS_MAX < 10_000_000


def test_zones_are_looked_for_on_the_disk_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = list[str]()

    def looked() -> set[str]:
        looks.append("at the disk")
        return {"Europe/Berlin"}

    monkeypatch.setattr("zoneinfo.available_timezones", looked)
    buckets._zones.cache_clear()
    try:
        for _ in range(3):
            assert buckets.zone("Europe/Berlin").key == "Europe/Berlin"
            with pytest.raises(HeadraceError, match="no time zone"):
                buckets.zone("Europe/Nowhere")
    finally:
        buckets._zones.cache_clear()
    assert len(looks) == 1
