"""How far the first contents of tables and of views are, told where it takes long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.engine.told_jobs import telling
from headrace.model.pace import TOLD_S, Pace

if TYPE_CHECKING:
    from headrace.engine.maintain import Maintainer

T = TypeVar("T")


class Building:
    """Of some tables, or views, in the rows that they read. ``text``: what is said of one, as ``building view {0}``;
    ``rows``: by its name, in the order of their turns; None: that is found later."""

    def __init__(self, maintainer: Maintainer, text: str, rows: Mapping[str, int | None], wide_rows: int) -> None:
        self.maintainer, self.text, self.names, self.wide_rows = maintainer, text, list(rows), wide_rows
        self.rows = {name: count for name, count in rows.items() if count is not None}
        self.shares: dict[str, float] = {}  # of each: of the tasks of Spark's that are known, those that have ended
        self.guard = threading.Lock()  # one word after the other
        self.pace = Pace(sum(self.rows.values()))
        self.name, self.at, self.known = "", self.pace.began, self.pace.shown()  # as of when ``done`` was another

    def found(self, name: str, rows: int) -> None:
        """One is to be built, which reads so many rows."""
        if name not in self.rows:
            self.rows[name] = rows
            self.pace.total = (self.pace.total or 0) + rows

    def turn(self, name: str) -> None:
        """Those before it are built, or failed; this one is waited for now."""
        self.shares[self.name] = 1.0
        self.name = name
        if (self.pace.total or 0) >= self.wide_rows or time.monotonic() - self.pace.began > TOLD_S:
            self.tell()

    def followed(self, name: str, work: Callable[[], T], *, jobs_known: bool = True) -> T:
        """What the work gives that builds one; while it is waited for, it is told how far it is.

        ``jobs_known``: that of its jobs of Spark's at most the last is still to come.
        """

        def heard(share: float) -> None:
            self.shares[name] = max(self.shares.get(name, 0.0), share if jobs_known else 0.0)
            if name == self.name:
                self.tell()

        with telling(self.maintainer.spark.sparkContext, heard):
            made = work()
        self.shares[name] = 1.0
        return made

    def tell(self) -> None:
        """The estimate is as of the last tasks that ended, less the time since. ``for_s``: since the building began."""
        with self.guard:
            now, done = time.monotonic(), sum(int(r * self.shares.get(n, 0)) for n, r in list(self.rows.items()))
            if (done, self.pace.total) != (self.known["done"], self.known["total"]):
                self.pace.done = done
                self.at, self.known = now, self.pace.shown()
            text = f"{self.text.format(self.name)}, {self.names.index(self.name) + 1} of {len(self.names)}, over rows"
            left_s: Any = self.known["left_s"] and round(self.known["left_s"] + self.at - now, 1)
            self.maintainer.tell({
                "event": "progress",
                "text": text,
                **self.known,
                "left_s": left_s if left_s and left_s > 0 else None,
                "for_s": round(now - self.pace.began, 1),
            })  # fmt: skip
