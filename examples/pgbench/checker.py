"""A reader of the sink as any other: it looks all the time, and counts the reads in which a transaction is torn."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

import psycopg

# One statement is one snapshot. The five sums are equal after every transaction of pgbench, and the disagreements that
# the transfers make cancel each other out; `tellers` and `accounts` do not change at all.
READ = """
SELECT p.commit, p.committed_at,
       (SELECT sum(balance) FROM branch_balance),
       (SELECT sum(teller_balance) FROM branch_balance),
       (SELECT sum(balance) FROM account_balance),
       (SELECT sum(booked) FROM history_per_hour),
       (SELECT coalesce(sum(balance - booked), 0) FROM accounts_in_disagreement),
       (SELECT sum(tellers) FROM branch_balance),
       (SELECT sum(accounts) FROM account_balance)
FROM headrace_progress p
"""
NAMES = ("branches", "tellers", "accounts", "history", "disagreement", "teller count", "account count")
PAUSE_S = 0.008  # between two reads; also how late, at most, a change is noticed
TORN_SHOWN = 5
BRANCH_TELLERS, BRANCH_ACCOUNTS = 10, 100_000


@dataclass(frozen=True, slots=True)
class Sight:
    """The first read that showed a commit: when it was over, and the newest source commit inside. Seconds, epoch."""

    commit: int
    seen: float
    committed: float


class Checker:
    """Reads the sink from a thread until it is stopped."""

    def __init__(self, dsn: str, scale: int) -> None:
        self.reads = self.torn = 0  # counted from the first read in which there is anything
        self.examples: list[str] = []
        self.sights: list[Sight] = []
        self.backwards = 0  # reads that showed an earlier commit than the read before
        self.error: Exception | None = None
        self._dsn = dsn
        self._counts = (Decimal(BRANCH_TELLERS * scale), Decimal(BRANCH_ACCOUNTS * scale))
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="checker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Stop after the read under way."""
        self._stopping.set()
        self._thread.join()

    def stop(self) -> None:
        """``end``; raises what made it stop before."""
        self.end()
        if self.error is not None:
            raise self.error

    @property
    def last(self) -> Sight | None:
        return self.sights[-1] if self.sights else None

    def wait_for(self, committed: float, timeout_s: float) -> bool:
        """Wait until a read has shown the source's commit of that time; false when it takes longer."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end and self.error is None:
            if self.last is not None and self.last.committed >= committed:
                return True
            time.sleep(PAUSE_S)
        return False

    def _run(self) -> None:
        try:
            with psycopg.connect(self._dsn, autocommit=True) as connection:
                while not self._stopping.wait(PAUSE_S):
                    self._read(connection)
        except Exception as error:
            self.error = error

    def _read(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        try:
            row = connection.execute(READ.encode(), prepare=True).fetchone()
        except psycopg.errors.UndefinedTable:
            if self.reads:
                raise  # once there, the tables stay
            return
        if row is None or row[0] is None:
            return
        commit, committed_at, *sums = row
        assert isinstance(commit, int)
        if not self.reads and not any(sums):
            return  # the views of a log that holds nothing yet
        self.reads += 1
        if not self._whole(sums):
            self.torn += 1
            if len(self.examples) < TORN_SHOWN:
                values = ", ".join(f"{name} {value}" for name, value in zip(NAMES, sums, strict=True))
                self.examples.append(f"commit {commit}: {values}")
        last = self.last
        if last is None or commit > last.commit:
            at = committed_at.timestamp() if isinstance(committed_at, datetime) else 0.0
            self.sights.append(Sight(commit, time.time(), at))
        elif commit < last.commit:
            self.backwards += 1

    def _whole(self, sums: list[object]) -> bool:
        branches, tellers, accounts, history, disagreement, *counts = sums
        booked = history or Decimal(0)  # no history, no row: pgbench has not begun
        return branches == tellers == accounts == booked and disagreement == 0 and tuple(counts) == self._counts
