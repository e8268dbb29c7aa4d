"""Which rows make a circuit throw: its own job again over parts of its input, halved until few rows are left.

What is looked for is a set that throws, and does not without its last row: one row for `1/x`, two for a sum that
overflows. About log2(n) jobs a row. A job that leaves rows out sees contents that could have been (deletions are
always left in), so what throws over them is no artefact of the search.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.model.delivery import WEIGHT
from headrace.model.errors import HeadraceError
from headrace.state.run import column

ROWS_MAX = 20  # rows that are named; beyond them "and more": they come to light when these are put right
SECONDS_MIN = 15.0  # the search holds up other views: after the first row it ends after this time, or ...
SHARE = 5  # ... after this many times what the job over everything takes, where that is more
HALVED = 20_000  # up to here the cost of a job is its start, and the search with the fewest jobs is best

Places = npt.NDArray[np.int64]
Attempt = Callable[[Mapping[str, list[pa.Table]]], Exception | None]


@dataclass(frozen=True, slots=True)
class Culprit:
    """A row that makes a circuit throw. ``row``: one row with the feed's ``c0 ..`` and its weight ``_w``.

    Those with the same ``together`` throw only together.
    """

    feed: str
    together: int
    row: pa.Table
    cause: Exception


@dataclass
class Found:
    """``cause``: what is thrown beyond the culprits (``complete`` is False), and by them (None: nothing throws).

    ``alone``: it throws even over none of the rows that were looked at.
    """

    culprits: list[Culprit] = field(default_factory=list)
    cause: Exception | None = None
    complete: bool = True
    alone: bool = False


class Search:
    """``rows``: for each feed, the rows of a delta or all of its contents (``c0 ..``, ``_w``).

    ``attempt`` runs the circuit over such rows and returns what it throws.
    """

    def __init__(self, attempt: Attempt, rows: Mapping[str, pa.Table]) -> None:
        self.attempt, self.rows = attempt, rows
        weights = {feed: column(table, WEIGHT) for feed, table in rows.items()}
        self.deleted = {feed: table.take(pa.array(np.flatnonzero(weights[feed] < 0))) for feed, table in rows.items()}
        self.added: dict[str, Places] = {feed: np.flatnonzero(w > 0) for feed, w in weights.items()}
        self.cause: Exception | None = None
        self.end = 0.0
        self.limit = ROWS_MAX

    def run(self) -> Found:
        began = time.monotonic()
        left = dict(self.added)
        if not self.throws(left):
            return Found()
        self.end = time.monotonic() + max(SECONDS_MIN, SHARE * (time.monotonic() - began))
        if isinstance(self.cause, HeadraceError) and self.cause.code == "spark.lost":
            return self.unsearched(left, self.cause)
        if not any(len(places) for places in left.values()) or self.throws({}):
            return Found(cause=self.cause, complete=False, alone=True)
        culprits: list[Culprit] = []
        group = 0
        while self.limit > 0 and (not culprits or time.monotonic() < self.end):
            chosen, whole = self.least(left)
            assert self.cause is not None
            culprits += [
                Culprit(feed, group, self.rows[feed].slice(int(place), 1), self.cause)
                for feed, places in chosen.items()
                for place in places
            ]
            if not whole:
                return Found(culprits, self.cause, complete=False)
            group, self.limit = group + 1, self.limit - sum(map(len, chosen.values()))
            # What throws with one row of the largest feed is put right with that row: the others may meet more.
            first = next(feed for feed, places in chosen.items() if len(places))
            left[first] = np.setdiff1d(left[first], chosen[first], assume_unique=True)
            if not self.throws(left):
                return Found(culprits, self.cause)
        return Found(culprits, self.cause, complete=False)

    def unsearched(self, left: Mapping[str, Places], cause: Exception) -> Found:
        """What ended Spark is not run again: it was one of the rows, where they are few."""
        rows = [(feed, int(place)) for feed, places in left.items() for place in places]
        if not 0 < len(rows) <= ROWS_MAX:
            return Found(cause=cause, complete=False, alone=True)
        return Found([Culprit(feed, 0, self.rows[feed].slice(place, 1), cause) for feed, place in rows], cause)

    def least(self, left: Mapping[str, Places]) -> tuple[dict[str, Places], bool]:
        """A least set of ``left`` that throws, largest feed first; False with it when it is only a part of one."""
        chosen = dict(left)
        order = sorted(chosen, key=lambda feed: -len(chosen[feed]))
        for feed in order:
            chosen[feed], whole = self.narrowed(feed, chosen)
            if not whole:
                return {feed: chosen[feed]}, False
        return {feed: chosen[feed] for feed in order}, True

    def narrowed(self, feed: str, chosen: Mapping[str, Places]) -> tuple[Places, bool]:
        """The fewest rows of ``feed`` with which ``chosen`` still throws."""

        def throws(places: Places) -> bool:
            return self.throws({**chosen, feed: places})

        rows, needed = chosen[feed], np.empty(0, np.int64)
        if len(rows) == 0 or (len(chosen) > 1 and throws(needed)):
            return needed, True
        while len(rows) > HALVED:
            first, second = np.array_split(rows, 2)
            if throws(first):
                rows = first
            elif throws(second):
                rows = second
            else:
                break
        while True:
            # The shortest beginning of ``rows`` that throws, with what is needed: its last row is needed too.
            low, high = 0, len(rows)
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if throws(np.r_[needed, rows[:middle]]) else (middle, high)
            needed, rows = np.r_[needed, rows[high - 1 : high]], rows[: high - 1]
            if len(rows) == 0 or throws(needed):
                return needed, True
            if len(needed) >= self.limit or time.monotonic() > self.end:
                return needed, False

    def throws(self, places: Mapping[str, Places]) -> bool:
        """Whether the circuit throws over these of the added rows, and all that were deleted."""
        chosen = {
            feed: [self.deleted[feed], table.take(pa.array(places[feed]))] if feed in places else [self.deleted[feed]]
            for feed, table in self.rows.items()
        }
        cause = self.attempt(chosen)
        if cause is not None:
            self.cause = cause
        return cause is not None
