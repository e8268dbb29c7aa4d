"""Goal: killed at any instant of a first copy, under a thousand transactions a second, nothing is lost or doubled.

Method: pgbench moves amounts between tables at the server; a process follows them into a log and is killed, and killed
again, until the copy is in the log: the first one, that of a table that is added, that of tables whose slot was lost,
that of a table that was not published for a while. Then all that the log holds is added up, each commit on its way held
against a sum that every transaction keeps, and compared row by row with what a client reads at the source.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from follower import SOURCE, Followed, source_rows
from proof_report import SEED, SIZE, Proof
from writers import TABLES, Bank

from headrace.sources.connectors.postgres.connector import PostgresSource
from headrace.testing.postgres import PostgresServer
from postgres_server import freed

KILLS = (2, 6, 100)
ROWS = (2_000, 20_000, 100_000)
KILLS_A_COPY = 3
ALL = tuple(TABLES)


def lost(bank: Bank) -> None:
    freed(bank.run, f"headrace_{SOURCE}")
    bank.run(f"SELECT pg_drop_replication_slot('headrace_{SOURCE}')")


def unpublished(bank: Bank) -> None:
    bank.run(f"ALTER PUBLICATION headrace_{SOURCE} DROP TABLE b")


# What is done to a copy that is there while nobody follows it, so that some of its tables are copied again.
AGAIN = {"after the slot was lost": lost, "of an added table": None, "after a table was not published": unpublished}


@pytest.mark.postgres
@pytest.mark.timeout(0 if SIZE == 2 else 900)
def test_killed_during_the_copy(server: PostgresServer, folder: Path, proof: Proof) -> None:
    rng = random.Random(f"{SEED} snapshot kills")
    bank = Bank(server, "snapshot_kills", ROWS[SIZE], folder)
    written = commits = rounds = 0
    seconds = 0.0
    copy_s = 1.0
    try:
        while proof.tried < KILLS[SIZE]:
            place = folder / str(rounds)
            place.mkdir()
            followed = Followed(place, bank.dsn)
            before, began = bank.transactions(), time.monotonic()
            bank.begin()
            said = [f"round {rounds}"]
            why = list(AGAIN)[rounds % len(AGAIN)]
            first = ("a", "c") if why == "of an added table" else ALL
            copy_s = killed(followed, first, rng, proof, copy_s, said)
            if (happens := AGAIN[why]) is not None:
                happens(bank)
            time.sleep(rng.uniform(0, 0.3))
            said.append(why)
            copy_s = killed(followed, ALL, rng, proof, copy_s, said)
            followed.start(ALL)
            time.sleep(rng.uniform(0, 0.5))
            seconds += time.monotonic() - began
            bank.end()
            written += bank.transactions() - before
            last = bank.mark()
            followed.wait_for(lambda: followed.reaches(last, ALL))  # noqa: B023 - called at once
            followed.kill()
            contents, wrong = followed.contents(TABLES, bank.total)
            wrong += differs(contents, bank)
            proof.wrong += [f"{', '.join(said)}: {what}" for what in wrong[:3]]
            commits += followed.end
            rounds += 1
            PostgresSource(SOURCE, {"dsn": bank.dsn}).drop()
    finally:
        bank.end()
    proof.what = "kills during a copy"
    proof.detail = f"{rounds} rounds, {written / seconds:,.0f} transactions a second, {commits:,} in the logs"
    proof.holds()


def killed(
    followed: Followed, tables: tuple[str, ...], rng: random.Random, proof: Proof, copy_s: float, said: list[str]
) -> float:
    """Follow until the log has the tables' copy, killed some times before that; how long a copy takes about, in s."""
    begun = followed.end
    kills = rng.randrange(1, KILLS_A_COPY + 1)
    while kills:
        followed.start(tables)
        after = rng.uniform(0, copy_s * 1.1)
        time.sleep(after)
        followed.kill()
        if followed.end > begun and followed.holds(tables):
            break  # it was too late
        said.append(f"killed after {after:.2f} s")
        proof.tried += 1
        kills -= 1
    followed.start(tables)
    took = followed.wait_for(lambda: followed.end > begun and followed.holds(tables))
    followed.kill()
    return took if took > 0.05 else copy_s


def differs(contents: dict[str, object], bank: Bank) -> list[str]:
    there = source_rows(bank.dsn, ALL)
    found = []
    for name, rows in there.items():
        held = contents[name]
        if held != rows:
            missing, surplus = rows - held, held - rows  # type: ignore[operator]
            found.append(
                f"table {name} lacks {missing.total()} rows, {list(missing)[:2]}; "
                f"{surplus.total()} are too many, {list(surplus)[:2]}"
            )
    return found
