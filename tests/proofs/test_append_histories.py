"""Goal: whoever reads a sink sees whole prefixes of the source's transactions, in order, whatever is killed meanwhile.

Method: values are appended to lists, through log, coordinator and delivery into a real PostgreSQL, by a process that is
killed and started again; readers look at several lists of both views at once, all the while. ``append_checker`` judges
what they saw as Elle does, and is itself tried on histories that are wrong.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import append_plane
import psycopg
import pytest
from append_checker import Appends, Read, anomalies
from append_plane import LENGTH, NAMES, OPEN_LISTS, history
from proof_report import SEED, SIZE, Proof

from headrace.testing.postgres import PostgresServer

TRANSACTIONS = (1_500, 15_000, 90_000)
KILLS = (1, 4, 12)
READERS, LISTS = 3, 8  # readers at once, and the lists that each looks at in one transaction
WRITTEN: list[Appends] = [[(1, 10), (2, 20)], [(1, 11)], [(2, 21), (1, 12)]]


def read(at: int, **lists: list[int]) -> Read:
    return Read(at, at + 0.5, {int(name[1:]): seen for name, seen in lists.items()})


@pytest.mark.parametrize(
    ("word", "reads"),
    [
        ("", [read(1, l1=[], l2=[]), read(2, l1=[10, 11], l2=[20]), read(3, l1=[10, 11, 12], l2=[20, 21])]),
        ("lost", [read(1, l1=[11], l2=[20])]),
        ("lost", [read(1, l1=[10, 11], l2=[20])]),
        ("doubled", [read(1, l1=[10, 11, 11])]),
        ("reordered", [read(1, l1=[11, 10])]),
        ("nobody", [read(1, l1=[10, 99])]),
        ("cycle", [read(1, l1=[10, 11], l2=[]), read(2, l1=[10, 11, 12], l2=[20, 21])]),  # part of the first
        ("cycle", [read(1, l1=[10], l2=[20, 21]), read(2, l1=[10, 11, 12], l2=[20, 21])]),  # the third, not the second
        ("cycle", [read(1, l1=[10, 11]), read(2, l1=[10]), read(3, l1=[10, 11, 12])]),  # back in time
    ],
)
def test_the_checker_finds_what_is_wrong(word: str, reads: list[Read]) -> None:
    found = anomalies(WRITTEN, reads, complete=True)
    assert bool(found) == bool(word), found
    assert word in "".join(found[:1])


@pytest.mark.postgres
@pytest.mark.parametrize("each", [False, True], ids=["grouped", "each"])
def test_readers_see_whole_prefixes_in_order(each: bool, server: PostgresServer, folder: Path, proof: Proof) -> None:
    transactions, seed = TRANSACTIONS[SIZE], SEED * 10 + each
    made, schema, rng = history(seed, transactions), f"lists_{each}".lower(), random.Random(seed)
    reads: list[list[Read]] = [[] for _ in range(READERS)]
    newest = [0]  # of the lists that readers have seen
    done = threading.Event()
    threads = [
        threading.Thread(target=_look, args=(server.dsn, schema, seed + n, reads[n], newest, done))
        for n in range(READERS)
    ]
    for thread in threads:
        thread.start()
    command = [sys.executable, append_plane.__file__, str(folder), str(seed), str(transactions)]
    command += ["each" if each else "grouped", server.dsn, schema]
    try:
        for number in range(KILLS[SIZE]):
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=os.environ)
            upto = len(made) * (number + 1) // (KILLS[SIZE] + 1) + rng.randrange(50)
            while process.poll() is None and _reached(server.dsn, schema) < upto:
                time.sleep(0.02)
            process.kill()
            process.wait()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True, timeout=3600)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    with psycopg.connect(server.dsn, options=f"-c search_path={schema}") as connection:
        last = _read(connection, sorted({key for appends in made for key, _ in appends}))
    seen = sorted((r for of in reads for r in of), key=lambda r: r.began)
    proof.wrong += anomalies(made, [*seen, last], complete=True)
    proof.tried = sum(map(len, made)) + sum(len(r.lists) for r in (*seen, last))
    behind = sum(1 for r in seen if any(r.lists.values()))
    proof.what = f"appends and reads of lists in PostgreSQL, {'each' if each else 'grouped'}"
    proof.detail = f"{transactions:,} transactions, {len(seen):,} reads of {LISTS} lists at once, {KILLS[SIZE]} kills"
    proof.holds()
    assert behind > transactions / 100


def _reached(dsn: str, schema: str) -> int:
    with psycopg.connect(dsn, options=f"-c search_path={schema}") as connection:
        if connection.execute("SELECT to_regclass('headrace_progress')").fetchone() == (None,):
            return 0
        row = connection.execute("SELECT commit FROM headrace_progress").fetchone()
        return int(row[0] or 0) if row else 0


def _look(dsn: str, schema: str, seed: int, reads: list[Read], newest: list[int], done: threading.Event) -> None:
    rng = random.Random(seed)
    with psycopg.connect(dsn, options=f"-c search_path={schema}") as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        while not done.is_set():
            with connection.transaction():
                there = connection.execute("SELECT to_regclass('even'), to_regclass('odd')").fetchone()
            if there is None or None in there:
                time.sleep(0.01)
                continue
            begin = max(0, newest[0] - OPEN_LISTS)
            keys = rng.sample(range(begin, begin + 2 * OPEN_LISTS), LISTS)
            reads.append(_read(connection, keys))
            newest[0] = max([newest[0], *(key for key, seen in reads[-1].lists.items() if seen)])
            time.sleep(0.002)


def _read(connection: psycopg.Connection, keys: list[int]) -> Read:
    """Lists of both views in one snapshot, each in the order of its places."""
    began, lists = time.monotonic(), {key: [] for key in keys}
    with connection.transaction():
        for name in NAMES:
            rows = connection.execute(
                f'SELECT key, place, value FROM "{name}" WHERE key = ANY(%s) ORDER BY key, place'.encode(), (keys,)
            )
            for key, place, value in rows:
                lists[key].append(value)
                assert 1 <= place <= LENGTH
    return Read(began, time.monotonic(), lists)
