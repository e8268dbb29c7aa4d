"""A client that commits transactions to a PostgreSQL whatever happens to it, and what the views must show after each.

Accounts in the table ``left``, what was moved out of them in ``right``: a model in plain Python, moved with each
transaction. When the server dies under a commit, the rows found afterwards tell whether it was one.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable

import psycopg

ACCOUNTS, EACH = 10, 1000
SHOWN = """SELECT (SELECT string_agg(id || ':' || amount, ' ' ORDER BY id, amount) FROM {0}"left") || '|' ||
(SELECT count(*) || '/' || coalesce(sum(amount), 0) || '/' || coalesce(sum(id * amount), 0) FROM {0}"right")"""
RETRY_S = 0.05
BACKLOG = 50  # so far it may be ahead, on a machine that is slow


class LiveBank(threading.Thread):
    """``states[n]``: what is shown after n transactions; ``at[n]``: when that was committed, seconds of the epoch."""

    def __init__(self, dsn: str, seed: str, pause_s: float) -> None:
        super().__init__(daemon=True)
        # How many transactions a sink has; it waits for that.
        self.reached: Callable[[], int] = lambda: len(self.states)
        self.dsn, self.rng, self.pause_s = dsn, random.Random(seed), pause_s
        self.left = dict.fromkeys(range(ACCOUNTS), EACH)
        self.right: Counter[tuple[int, int]] = Counter()
        self.lost: list[str] = []
        self.done = threading.Event()
        self.connection = psycopg.connect(dsn)
        with self.connection.transaction():
            for name in ("left", "right"):
                self.connection.execute(f'CREATE TABLE "{name}" (id bigint, amount bigint)'.encode())
                self.connection.execute(f'ALTER TABLE "{name}" REPLICA IDENTITY FULL'.encode())
            for identity, amount in self.left.items():
                self.connection.execute('INSERT INTO "left" VALUES (%s, %s)', (identity, amount))
        self.states, self.at = [shown(self.left, self.right)], [time.time()]

    def run(self) -> None:
        while not self.done.wait(self.pause_s):
            if len(self.states) < self.reached() + BACKLOG:
                self.transact()

    def end(self) -> None:
        self.done.set()
        if self.is_alive():
            self.join()
        self.connection.close()

    def transact(self) -> None:
        left, right = dict(self.left), self.right.copy()
        account, mark, amount = self.rng.randrange(ACCOUNTS), self.rng.randrange(7), self.rng.randrange(1, 5)
        back = self.rng.choice(sorted(right)) if right.total() > 20 and self.rng.random() < 0.5 else None
        if back is None:
            right[mark, amount] += 1
            left[account] -= amount
        else:
            right[back] -= 1
            left[account] += back[1]
        right = +right
        try:
            with self.connection.transaction():
                if back is None:
                    self.connection.execute('INSERT INTO "right" VALUES (%s, %s)', (mark, amount))
                else:
                    self.connection.execute(
                        'DELETE FROM "right" WHERE ctid = '
                        '(SELECT ctid FROM "right" WHERE id = %s AND amount = %s LIMIT 1)',
                        back,
                    )
                self.connection.execute('UPDATE "left" SET amount = %s WHERE id = %s', (left[account], account))
        except psycopg.OperationalError:
            there = self.after_it_died()
            if there != shown(left, right):
                if there != self.states[-1]:
                    self.lost.append(f"the source itself holds {there}")
                return
        self.left, self.right = left, right
        self.states.append(shown(left, right))
        self.at.append(time.time())

    def after_it_died(self) -> str:
        while True:
            try:
                self.connection.close()
                self.connection = psycopg.connect(self.dsn)
                (row,) = self.connection.execute(SHOWN.format("").encode()).fetchall()
                self.connection.commit()
                return str(row[0])
            except psycopg.OperationalError:
                time.sleep(RETRY_S)


def shown(left: dict[int, int], right: Counter[tuple[int, int]]) -> str:
    """As ``SHOWN`` tells it."""
    accounts = " ".join(f"{identity}:{amount}" for identity, amount in sorted(left.items()))
    amount = sum(amount * copies for (_, amount), copies in right.items())
    marked = sum(mark * amount * copies for (mark, amount), copies in right.items())
    return f"{accounts}|{right.total()}/{amount}/{marked}"
