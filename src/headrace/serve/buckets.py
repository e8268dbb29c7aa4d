"""Buckets of time in a time zone: of days and more they begin at local midnight, of less they are counted from it in
elapsed time, so that a day of 23 or 25 hours has so many buckets of an hour.

Moments are microseconds since the epoch. Of a wall time that the clock shows twice the first one counts, and where it
shows none the moment at which it goes on.
"""

from __future__ import annotations

import calendar
import re
import zoneinfo
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from headrace.model.errors import HeadraceError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY_US = 86_400_000_000
US = {"s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
DAYS, MONTHS = {"d": 1, "w": 7}, {"mo": 1, "y": 12}
MONDAY = 4  # days from the epoch to the first bucket of weeks
_LENGTH = re.compile(r"([1-9]\d{0,5})(s|m|h|d|w|mo|y)")


@dataclass(frozen=True, slots=True)
class Length:
    """One of microseconds, days or months; buckets of ``days`` are counted from ``from_epoch`` days after the epoch."""

    us: int = 0
    days: int = 0
    months: int = 0
    from_epoch: int = 0

    @property
    def least_us(self) -> int:
        """About what it takes at least."""
        return self.us + self.days * DAY_US + self.months * 28 * DAY_US


def length(text: str, *, where: str) -> Length:
    """Of ``15m``, ``1h``, ``1d``, ``1w``, ``1mo``. Raises ``HeadraceError``: api.request."""
    found = _LENGTH.fullmatch(text)
    if found is None:
        raise HeadraceError(
            "api.request", f"'{text}' is no length", where=where, why="it is a number and s, m, h, d, w, mo or y",
            next=f"{where}=1h",
        )  # fmt: skip
    number, unit = int(found[1]), found[2]
    if unit in US:
        return Length(us=number * US[unit])
    if unit in DAYS:
        return Length(days=number * DAYS[unit], from_epoch=MONDAY if unit == "w" else 0)
    return Length(months=number * MONTHS[unit])


def bucket(text: str) -> Length:
    """A length that days can be cut into, or whole days, weeks, months. Raises ``HeadraceError``: api.request."""
    found = length(text, where="every")
    if found.us and DAY_US % found.us:
        raise HeadraceError(
            "api.request", f"a day cannot be cut into buckets of {text}", where="every", next="every=1h, 6h or 1d"
        )
    return found


def zone(text: str) -> ZoneInfo:
    """A time zone by its name. Raises ``HeadraceError``: api.request."""
    if text not in _zones():
        raise HeadraceError("api.request", f"there is no time zone '{text}'", where="zone", next="zone=Europe/Berlin")
    return ZoneInfo(text)


@cache
def _zones() -> set[str]:
    """Their names; found out once, since every file of a zone is opened for it."""
    return zoneinfo.available_timezones()


@dataclass(frozen=True, slots=True)
class Buckets:
    """All of one length in one time zone."""

    every: Length
    zone: ZoneInfo

    def starts(self, first: int, last: int) -> list[int]:
        """The start of each bucket from the one that holds ``first`` to the first one beyond ``last``.

        Work: a microsecond or two for each.
        """
        found = list[int]()
        for at in self._from(self._local(first).date()):
            found.append(at)
            if at > last:
                break
        return found[max(0, bisect_right(found, first) - 1) :]

    def earlier(self, us: int, by: Length) -> int:
        """The moment so much before: by the clock for days and months, else in elapsed time."""
        wall = self._local(us).replace(tzinfo=None)
        if by.months:
            year, month = divmod(wall.year * 12 + wall.month - 1 - by.months, 12)
            last = calendar.monthrange(year, month + 1)[1]
            return self._moment(wall.replace(year=year, month=month + 1, day=min(wall.day, last)))
        return self._moment(wall - timedelta(days=by.days)) if by.days else us - by.us

    def _from(self, day: date) -> Iterator[int]:
        """The starts from those of the bucket of days, or of the day, on."""
        every = self.every
        if every.months:
            month = (day.year * 12 + day.month - 1) // every.months * every.months
            while True:
                yield self._midnight(date(month // 12, month % 12 + 1, 1))
                month += every.months
        step = timedelta(days=every.days or 1)
        day -= (day - EPOCH.date() - timedelta(days=every.from_epoch)) % step
        while True:
            begin, day = self._midnight(day), day + step
            yield from range(begin, self._midnight(day), every.us) if every.us else (begin,)

    def _local(self, us: int) -> datetime:
        return (EPOCH + timedelta(microseconds=us)).astimezone(self.zone)

    def _midnight(self, day: date) -> int:
        return self._moment(datetime(day.year, day.month, day.day))

    def _moment(self, wall: datetime) -> int:
        return (wall.replace(tzinfo=self.zone, fold=0) - EPOCH) // timedelta(microseconds=1)
