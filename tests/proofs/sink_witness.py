"""What a PostgreSQL sink goes through: written down by itself at each of its transactions, and read all the while."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence

import psycopg
from live_bank import SHOWN

WITNESS = """
CREATE TABLE IF NOT EXISTS {0}.witness (nr bigserial, commit bigint, shown text);
CREATE OR REPLACE FUNCTION {0}.witness() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO {0}.witness (commit, shown) SELECT new.commit, ({1}); RETURN NULL; END $$;
DROP TRIGGER IF EXISTS witness ON {0}.headrace_progress;
CREATE CONSTRAINT TRIGGER witness AFTER UPDATE ON {0}.headrace_progress DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (old.commit IS DISTINCT FROM new.commit) EXECUTE FUNCTION {0}.witness()
"""


class Witness(threading.Thread):
    """A client that reads the views of a sink all the while, whenever its server is there."""

    def __init__(self, dsn: str, schema: str) -> None:
        super().__init__(daemon=True)
        self.dsn, self.schema = dsn, schema
        self.query = SHOWN.format(f"{schema}.") + f", (SELECT commit FROM {schema}.headrace_progress)"
        self.reads = 0
        self.seen: list[tuple[str, int, float]] = []  # what was shown newly, at which commit, when
        self.connected: list[int] = []  # how much had been seen whenever it connected anew
        self.done = threading.Event()
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(WITNESS.format(schema, SHOWN.format(f"{schema}.")).encode())

    def run(self) -> None:
        while not self.done.is_set():
            try:
                with psycopg.connect(self.dsn, autocommit=True) as connection:
                    self.connected.append(len(self.seen))
                    while not self.done.wait(0.005):
                        ((what, commit),) = connection.execute(self.query.encode()).fetchall()
                        self.reads += 1
                        if not self.seen or self.seen[-1][:2] != (what, commit):
                            self.seen.append((what, commit, time.time()))
            except psycopg.OperationalError:
                time.sleep(0.02)

    def end(self) -> None:
        self.done.set()
        self.join()

    def wrong(self, states: Sequence[str], *, each: bool) -> list[str]:
        """What is wrong, in words, with what the sink went through, the source having gone through ``states``.

        With ``each`` a server that dies may take back the last transactions of several, which a reader has seen.
        """
        with psycopg.connect(self.dsn) as connection:
            rows = connection.execute(
                f"SELECT commit, shown FROM {self.schema}.witness ORDER BY nr".encode()
            ).fetchall()
        found = [f"commit {b} came after {a}" for (a, _), (b, _) in itertools.pairwise(rows) if b <= a]
        bounds = [*self.connected, len(self.seen)] if each else [0, len(self.seen)]
        reads = [self.seen[begin:end] for begin, end in itertools.pairwise(bounds)]
        found += [
            f"a reader saw commit {b} after {a}"
            for read in reads
            for (_, a, _), (_, b, _) in itertools.pairwise(read)
            if b < a
        ]
        whose = [("the sink", [s for _, s in rows]), *(("a reader", [s for s, _, _ in read]) for read in reads)]
        for who, what in whose:
            if (strange := out_of_order(what, states)) is not None:
                found.append(f"{who} went through {strange}: no state of the source, or not in its order")
        if each and rows:
            gone = [state for _, state in rows]
            first = states.index(gone[0]) if gone[0] in states else 0
            if [s for s, _ in itertools.groupby(gone)] != list(states[first:]):
                found.append(f"of {len(states) - first} states the sink went through {len(gone)}")
        if not rows or rows[-1][1] != states[-1]:
            found.append(f"at the end the sink shows {rows[-1][1] if rows else None}, the source {states[-1]}")
        return found


def out_of_order(seen: Sequence[str], states: Sequence[str]) -> str | None:
    """The first of ``seen`` that breaks the order of ``states``, of which it may leave out some and tell one twice."""
    source = iter(states)
    return next((state for state, _ in itertools.groupby(seen) if state not in source), None)
