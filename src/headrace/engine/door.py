"""A source's way into the log and the quarantine: what cannot be read is kept, beside the rest or whole."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from headrace.catalog.quarantine import refused_id
from headrace.catalog.store import Catalog
from headrace.log.append import LogWriter
from headrace.log.read import LogReader
from headrace.model.errors import HeadraceError
from headrace.model.transaction import RefusedRow, TransactionBatch


class Door:
    """Of one source; from any thread. ``doors`` is held while something enters both."""

    def __init__(
        self, source: str, catalog: Catalog, log: LogWriter, doors: threading.Lock,
        tell: Callable[[dict[str, Any]], None],
    ) -> None:  # fmt: skip
        self.source, self.catalog, self.log, self.doors, self.tell = source, catalog, log, doors, tell

    def append(self, batch: TransactionBatch) -> int:
        """As ``LogWriter.append``; the batch's refused rows are in the quarantine once the log has the rest.

        They are kept before, as the source goes on behind them once the log has its position; a crash in between is
        settled at the next start.
        """
        if not batch.refused:
            return self.log.append(batch)
        with self.doors:
            first = self._both(batch)
        self.told(batch.refused[0], len(batch.refused))
        return first

    def _both(self, batch: TransactionBatch) -> int:
        positions = [origin.position for origin in batch.origins]
        numbers = self.catalog.keep_refused(self.source, batch.refused, _now_us(), self.log.end, positions)
        try:
            first = self.log.append(batch)
        except HeadraceError as error:
            if error.code != "log.failed":  # then it shows at the next start whether the log has it
                self.catalog.forget_refused(numbers)
            raise
        self.catalog.took_refused(
            (number, first + row.ordinal) for number, row in zip(numbers, batch.refused, strict=True)
        )
        return first

    def keep(self, refused: RefusedRow) -> str:
        """Keep what is refused whole; its id."""
        (number,) = self.catalog.keep_refused(self.source, [refused], _now_us())
        self.told(refused, 1)
        return refused_id(self.source, number)

    def told(self, first: RefusedRow, rows: int) -> None:
        self.tell({
            "event": "source.quarantined", "source": self.source, "table": first.relation, "rows": rows,
            "place": first.place, "reason": first.reason,
        })  # fmt: skip


def settle(catalog: Catalog, reader: LogReader, end: int) -> None:
    """At a start, before any source: rows kept for transactions of which it is not known whether the log has them.

    Of those that it has not the source brings the rows again. ``end``: of the log.
    """
    found: dict[tuple[str, str], int] = {}
    untaken = catalog.untaken_refused()
    after = min((after for _, _, after, _ in untaken), default=end)
    for commit, origin in reader.origins(after, end):
        found.setdefault((origin.source, origin.position), commit)
    with catalog.transaction():
        catalog.took_refused((n, found[s, p]) for n, s, _, p in untaken if (s, p) in found)
        catalog.forget_refused(n for n, s, _, p in untaken if (s, p) not in found)


def _now_us() -> int:
    return time.time_ns() // 1000
