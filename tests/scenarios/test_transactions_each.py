"""Goal: with `transactions: each` every transaction of the source is one of its own in the sink, also over a SIGKILL.

Method: random transactions over two tables of a real PostgreSQL, into a view with a join and an aggregate in another
database; a trigger there writes down what each transaction of the sink leaves behind, and who it is. The model is plain
Python, moved with the source's transactions. The seed is printed.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
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


class Bank:
    """The source's two tables under random transactions, and what the view must show after each."""

    def __init__(self, dsn: str, rng: random.Random) -> None:
        self.connection, self.rng = psycopg.connect(dsn), rng
        self.names = {n: f"r{n}" for n in range(4)}
        self.accounts: dict[int, tuple[int, int]] = {}
        self.next = itertools.count(1)
        self.shown: list[str] = []
        self.positions: list[int] = []
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


@pytest.mark.spark
@pytest.mark.postgres
@pytest.mark.timeout(600)
def test_the_sink_goes_through_every_transaction_of_the_source(tmp_path: Path) -> None:
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    folder = tmp_path / "bank"
    with PostgresServer(tmp_path / "server") as server:
        for part in ("sources", "views", "sinks"):
            (folder / part).mkdir(parents=True)
        store = server.create_database("store")
        (folder / "headrace.yaml").write_text("name: bank\ntransactions: each\n")
        (folder / "sources/bank.yaml").write_text(yaml.safe_dump({"type": "postgres", "dsn": server.dsn}))
        (folder / "views/regional.sql").write_text(VIEW)
        (folder / "sinks/store.yaml").write_text(yaml.safe_dump({"type": "postgres", "dsn": store}))
        bank = Bank(server.dsn, rng)
        once(folder)
        with psycopg.connect(store, autocommit=True) as reader:
            reader.execute(WITNESS)
            before = len(bank.shown)
            for _ in range(400):  # a backlog
                bank.transact()
            with subprocess.Popen([COMMAND, "up"], cwd=folder, stdout=subprocess.DEVNULL) as process:
                try:
                    end = time.monotonic() + 60
                    while not reader.execute("SELECT 1 FROM witness LIMIT 1").fetchone():
                        assert time.monotonic() < end and process.poll() is None
                    for _ in range(300):  # and what comes while it is at work
                        bank.transact()
                    time.sleep(rng.uniform(0, 0.5))
                finally:
                    process.send_signal(signal.SIGKILL)
            for _ in range(50):
                bank.transact()
            status = once(folder)
            rows = reader.execute("SELECT xid::text, position, rows FROM witness ORDER BY nr").fetchall()
            assert list(distinct([row[2] for row in rows])) == bank.shown[before:]
            assert len({row[0] for row in rows}) == len(rows)
            places = [int(high, 16) << 32 | int(low, 16) for high, low in (row[1].split("/") for row in rows if row[1])]
            assert places == sorted(places) and len(places) >= len(bank.shown) - before
            assert status["sinks"][0]["frontier"] == status["commit"]
        bank.connection.close()
