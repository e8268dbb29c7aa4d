"""Goal: what the sink goes through is what the source went through, whole and in order, whenever `up` is killed.

Method: random transactions over two tables of a real PostgreSQL, into a view with a join and an aggregate in another
database; a trigger there writes down what each transaction of the sink leaves behind, and who it is, while a client
reads view and progress row together all the while. With `transactions: each` that must be every state of the source,
else a part of them in their order. The model is plain Python, moved with the source's transactions.

One SIGKILL in the usual run; HEADRACE_KILLS=200 for as many in both modes. The seed is printed.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from headrace.testing.postgres import PostgresServer

COMMAND = str(Path(sys.executable).with_name("headrace"))
VIEW = """SELECT r.name, count(*) AS n, sum(a.balance) AS total
FROM accounts a JOIN regions r ON a.region = r.id GROUP BY r.name"""
WITNESS = """
CREATE TABLE witness (nr bigserial, xid xid8, position pg_lsn, rows text);
CREATE FUNCTION witness() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO public.witness (xid, position, rows)
    SELECT pg_current_xact_id(), (p.position::json->>'lsn')::pg_lsn,
        (SELECT string_agg(name || ' ' || n || ' ' || total, ', ' ORDER BY name) FROM public.regional)
    FROM public.headrace_progress p;
    RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER witness AFTER UPDATE ON headrace_progress DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (old.commit IS DISTINCT FROM new.commit) EXECUTE FUNCTION witness();
"""
SEED = int(os.environ.get("HEADRACE_SEED", "11"))
KILLS = int(os.environ.get("HEADRACE_KILLS", "1"))
MODES = ["each"] if "HEADRACE_KILLS" not in os.environ else ["each", "grouped"]
START_S = 300.0  # until the sink moves again after a kill, on a machine that is shared
SHOWN = "SELECT string_agg(name || ' ' || n || ' ' || total, ', ' ORDER BY name) FROM public.regional"


class Bank:
    """The source's two tables under random transactions, and what the view must show after each."""

    def __init__(self, dsn: str, rng: random.Random) -> None:
        self.connection, self.rng = psycopg.connect(dsn), rng
        self.names = {n: f"r{n}" for n in range(4)}
        self.accounts: dict[int, tuple[int, int]] = {}
        self.next = itertools.count(1)
        self.transactions = 0
        self.shown: list[str] = []
        with self.connection.transaction():
            self.connection.execute("CREATE TABLE regions (id int PRIMARY KEY, name text)")
            self.connection.execute("CREATE TABLE accounts (id int PRIMARY KEY, region int, balance int)")
            for number, name in self.names.items():
                self.connection.execute("INSERT INTO regions VALUES (%s, %s)", (number, name))
            for _ in range(40):
                self.open()
        self.write_down()

    def open(self) -> None:
        account, region, balance = next(self.next), self.rng.randrange(4), self.rng.randrange(100)
        self.accounts[account] = region, balance
        self.connection.execute("INSERT INTO accounts VALUES (%s, %s, %s)", (account, region, balance))

    def transact(self) -> None:
        self.transactions += 1
        with self.connection.transaction():
            for _ in range(self.rng.randrange(1, 6)):
                choice, account = self.rng.random(), self.rng.choice(list(self.accounts))
                if choice < 0.2:
                    self.open()
                elif choice < 0.35 and len(self.accounts) > 5:
                    del self.accounts[account]
                    self.connection.execute("DELETE FROM accounts WHERE id = %s", (account,))
                elif choice < 0.45:
                    region = self.rng.randrange(4)
                    self.names[region] = f"r{region}{self.rng.randrange(3)}"
                    self.connection.execute("UPDATE regions SET name = %s WHERE id = %s", (self.names[region], region))
                else:
                    region, balance = self.accounts[account][0], self.rng.randrange(100)
                    self.accounts[account] = region, balance
                    self.connection.execute("UPDATE accounts SET balance = %s WHERE id = %s", (balance, account))
        self.write_down()

    def write_down(self) -> None:
        groups: dict[str, list[int]] = {}
        for region, balance in self.accounts.values():
            groups.setdefault(self.names[region], []).append(balance)
        shown = ", ".join(f"{name} {len(found)} {sum(found)}" for name, found in sorted(groups.items()))
        if not self.shown or shown != self.shown[-1]:
            self.shown.append(shown)


def once(folder: Path) -> dict[str, Any]:
    done = subprocess.run(
        [COMMAND, "up", "--once", "--json"], cwd=folder, check=False, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(done.stdout.splitlines()[-2]))


def distinct(values: list[str]) -> Iterator[str]:
    """What follows itself is there once."""
    return (value for value, _ in itertools.groupby(values))


class Reader(threading.Thread):
    """An ordinary client that looks at the view all the while: every state must be one of the source's, in its order."""

    def __init__(self, dsn: str, bank: Bank) -> None:
        super().__init__(daemon=True)
        self.dsn, self.bank = dsn, bank
        self.reads, self.wrong = 0, list[str]()
        self.done = threading.Event()

    def run(self) -> None:
        at = 0
        with psycopg.connect(self.dsn, autocommit=True) as reader:
            while not self.done.is_set():
                ((shown,),) = reader.execute(SHOWN).fetchall()
                self.reads += 1
                time.sleep(0.002)
                at = self.place(shown, at)

    def place(self, shown: str, at: int) -> int:
        """Where it is among the source's states, from that one on. What was committed just now is written down soon."""
        end = time.monotonic() + 5
        while shown not in self.bank.shown[at:]:
            if time.monotonic() > end:
                self.wrong.append(shown)
                return at
            time.sleep(0.01)
        return self.bank.shown.index(shown, at)


@pytest.mark.spark
@pytest.mark.usefixtures("own_jvm")
@pytest.mark.postgres
@pytest.mark.timeout(600 + 60 * KILLS)
@pytest.mark.parametrize("mode", MODES)
def test_the_sink_goes_through_what_the_source_went_through(tmp_path: Path, mode: str) -> None:
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    folder = tmp_path / "bank"
    with PostgresServer(tmp_path / "server") as server:
        for part in ("sources", "views", "sinks"):
            (folder / part).mkdir(parents=True)
        store = server.create_database("store")
        (folder / "headrace.yaml").write_text(f"name: bank\ntransactions: {mode}\n")
        (folder / "sources/bank.yaml").write_text(yaml.safe_dump({"type": "postgres", "dsn": server.dsn}))
        (folder / "views/regional.sql").write_text(VIEW)
        (folder / "sinks/store.yaml").write_text(yaml.safe_dump({"type": "postgres", "dsn": store}))
        bank = Bank(server.dsn, rng)
        once(folder)
        reader = Reader(store, bank)
        with psycopg.connect(store, autocommit=True) as witness:
            witness.execute(WITNESS)
            before = len(bank.shown)
            reader.start()
            for _ in range(400):  # a backlog
                bank.transact()
            for number in range(KILLS):
                killed(folder, bank, witness, rng)
                print(f"{mode}: {number + 1} kills, {bank.transactions} transactions, {reader.reads} reads", flush=True)
            for _ in range(50):
                bank.transact()
            status = once(folder)
            reader.done.set()
            reader.join()
            rows = witness.execute("SELECT xid::text, position, rows FROM witness ORDER BY nr").fetchall()
        seen = list(distinct([row[2] for row in rows]))
        if mode == "each":
            assert seen == bank.shown[before:]
        else:
            source = iter(bank.shown[before:])
            assert all(state in source for state in seen) and seen[-1] == bank.shown[-1]
        assert len({row[0] for row in rows}) == len(rows)
        places = [int(high, 16) << 32 | int(low, 16) for high, low in (row[1].split("/") for row in rows if row[1])]
        assert places == sorted(places) and len(places) >= len(seen)
        assert status["sinks"][0]["frontier"] == status["commit"]
        assert not reader.wrong and reader.reads
        bank.connection.close()
        print(
            f"{mode}: {bank.transactions} transactions, {len(bank.shown)} states, {len(rows)} transactions in the sink, {KILLS} kills, {reader.reads} reads"
        )


def killed(folder: Path, bank: Bank, witness: psycopg.Connection[Any], rng: random.Random) -> None:
    """`up`, more transactions while it is at work, and SIGKILL at some instant, most often after the sink has moved."""
    ((moved,),) = witness.execute("SELECT coalesce(max(nr), 0) FROM witness").fetchall()
    bank.transact()
    with subprocess.Popen([COMMAND, "up"], cwd=folder, stdout=subprocess.DEVNULL) as process:
        try:
            if KILLS > 1 and rng.random() < 0.3:
                time.sleep(rng.uniform(0, 10))
                return
            end = time.monotonic() + START_S
            while not witness.execute("SELECT 1 FROM witness WHERE nr > %s LIMIT 1", (moved,)).fetchone():
                assert time.monotonic() < end and process.poll() is None
            for _ in range(rng.randrange(300)):
                bank.transact()
            time.sleep(rng.uniform(0, 0.5))
        finally:
            process.send_signal(signal.SIGKILL)
