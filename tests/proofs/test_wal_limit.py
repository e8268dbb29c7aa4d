"""Goal: a server that keeps its log no longer for us is told of before, noticed, and costs the difference alone.

Method: a real server with max_slot_wal_keep_size drops the log of our slot: while another's transaction stays open, while
we are down, while we are stopped with the connection open. Before, the alarm must have been given, by the process or by
what `headrace doctor` finds. Afterwards all that the log holds is added up and compared with a client's reading. As the
counter-check an idle database, beside others that write as much: its slot must move on.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from follower import SOURCE, Followed
from proof_report import SEED, SIZE, Proof
from test_snapshot_kills import ALL, differs
from writers import TABLES, Bank

from headrace.model.finding import WARNING
from headrace.sources.connectors.postgres.connector import PostgresSource
from headrace.testing.postgres import PostgresServer

ROUNDS = (1, 4, 40)
ROWS = 5_000
KEPT, TOLD = "64MB", "16MB"  # what the server keeps; from where on we warn
NOISE = "SELECT pg_logical_emit_message(false, 'noise', repeat('x', 4 << 20))"
TOLD_BY = 8  # times, which are half of what is kept and twice what we warn at
NOISE_MAX = 60  # times, which are more than three times what is kept
SETTINGS = {"max_slot_wal_keep_size": KEPT, "max_wal_size": "64MB", "min_wal_size": "32MB"}
Warned = Callable[[], bool]


@contextmanager
def open_transaction(followed: Followed, bank: Bank) -> Iterator[Warned]:
    """Somebody's transaction stays open; the process goes on."""
    with psycopg.connect(bank.dsn) as somebody:
        somebody.execute("UPDATE b SET x = 'open' WHERE id = 1")
        time.sleep(0.5)
        told = len(followed.told())
        yield lambda: any(event["event"] == "source.wal_held" for event in followed.told()[told:])


@contextmanager
def down(followed: Followed, bank: Bank) -> Iterator[Warned]:
    """No process: somebody asks `headrace doctor`."""
    followed.kill()
    doctor = PostgresSource(SOURCE, {"dsn": bank.dsn, **followed.options})
    yield lambda: any("keeps" in f.what for f in doctor.examine(lambda name: True) if f.state == WARNING)
    followed.start(ALL)


@contextmanager
def stopped(followed: Followed, bank: Bank) -> Iterator[Warned]:
    """The process is held with its connection; it can warn of nothing."""
    assert followed.process is not None and followed.process.pid is not None
    os.kill(followed.process.pid, signal.SIGSTOP)
    yield lambda: True
    os.kill(followed.process.pid, signal.SIGCONT)


@pytest.mark.postgres
@pytest.mark.timeout(0 if SIZE == 2 else 600)
def test_the_server_drops_the_log_of_the_slot(folder: Path, proof: Proof) -> None:
    rng = random.Random(f"{SEED} log limit")
    ways = [open_transaction, down, stopped]
    idle = 0
    with PostgresServer(settings=SETTINGS) as server:
        bank = Bank(server, "bank", ROWS, folder)
        followed = Followed(folder, bank.dsn, max_wal_held=TOLD)
        followed.start(ALL)
        followed.wait_for(lambda: followed.holds(ALL))
        try:
            for number in range(ROUNDS[SIZE]):
                said = f"round {number}"
                if number % (len(ways) + 1) == len(ways):
                    idle += 1
                    proof.wrong += [f"{said}: {what}" for what in stays_idle(followed, bank)]
                    proof.tried += 1
                    continue
                way = ways[number % (len(ways) + 1)]
                before, warned_at = len(copied_anew(followed)), 0
                bank.begin()
                time.sleep(rng.uniform(0, 0.5))
                with way(followed, bank) as warned:
                    for step in range(1, NOISE_MAX):
                        bank.run(NOISE)
                        time.sleep(0.15)
                        if step == TOLD_BY:
                            with suppress(AssertionError):  # it is judged below
                                followed.wait_for(warned)
                        warned_at = warned_at or (step if warned() else 0)
                        if step % 4 == 0:
                            bank.run("CHECKPOINT")
                        if state(bank) == "lost":
                            break
                    else:
                        proof.wrong.append(f"{said}: {way.__name__}: the slot is {state(bank)} after {NOISE_MAX} times")
                    if not warned_at or warned_at == step:
                        proof.wrong.append(f"{said}: {way.__name__}: nobody was warned before the slot was lost")
                followed.wait_for(lambda: len(copied_anew(followed)) > before)  # noqa: B023 - called at once
                bank.end()
                last = bank.mark()
                followed.wait_for(lambda: followed.reaches(last, ALL))  # noqa: B023
                proof.tried += 1
            followed.kill()
            contents, wrong = followed.contents(TABLES, bank.total)
            proof.wrong += wrong[:3] + differs(contents, bank)
        finally:
            bank.end()
            followed.kill()
        for event in copied_anew(followed):
            if "max_slot_wal_keep_size" not in event["why"] and "wal_removed" not in event["why"]:
                proof.wrong.append(f"as the reason was told: {event['why']}")
    proof.what = f"times that a slot had more log than {KEPT} to keep"
    proof.detail = f"{idle} of them idle beside others; {followed.end:,} commits"
    proof.holds()


def stays_idle(followed: Followed, bank: Bank) -> list[str]:
    """Others write three times what is kept; nobody writes to the database that is followed."""
    before = len(copied_anew(followed))
    for step in range(NOISE_MAX):
        bank.server.psql(NOISE)
        if step % 4 == 0:
            bank.server.psql("CHECKPOINT")
        time.sleep(0.1)
        if state(bank) in ("unreserved", "lost"):
            return [f"the slot is {state(bank)} after {4 * step} MB of others' log"]
    bank.run("INSERT INTO c VALUES (1, 1)")
    last = bank.mark()
    followed.wait_for(lambda: followed.reaches(last, ALL))
    return ["the tables were copied anew"] if len(copied_anew(followed)) > before else []


def state(bank: Bank) -> str:
    return str(bank.run(f"SELECT wal_status FROM pg_replication_slots WHERE slot_name = 'headrace_{SOURCE}'")[0][0])


def copied_anew(followed: Followed) -> list[dict[str, str]]:
    return [event for event in followed.told() if event["event"] == "source.copied_anew"]
