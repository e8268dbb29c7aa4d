"""Rows whose key is updated while a large value of theirs stays: PostgreSQL sends the value neither then nor again.

Method: a real log takes what is delivered and gives the source the rows that it asks for. The judge is PostgreSQL: one
client writes, and reads the tables after each of its commits; a counter in each transaction tells which one is seen.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
import pytest
from following import Followed

from headrace.model import transaction as model
from headrace.sources.connectors.postgres import carried
from postgres_server import Shop, changes, database, postgres_server, shop

__all__ = ["database", "postgres_server", "shop"]  # fixtures

pytestmark = pytest.mark.postgres

PAUSE_SECONDS = 0.3
Contents = dict[int, dict[str, Counter[tuple[Any, ...]]]]  # by transaction and table
LARGE = "(SELECT string_agg(md5(g::text || '{0}'), '') FROM generate_series(1, 120) g)"  # 3,840 bytes: out of line
TABLES = (
    "CREATE TABLE c (one int PRIMARY KEY, n int); INSERT INTO c VALUES (1, 0);"
    "CREATE TABLE t (id int PRIMARY KEY, big text, n int, raw bytea);"
    "CREATE TABLE k (a int, b text, big text, tags text[], n int, PRIMARY KEY (b, a));"
    "ALTER TABLE t ALTER big SET STORAGE EXTERNAL; ALTER TABLE k ALTER tags SET STORAGE EXTERNAL"
)


def large(seed: object) -> str:
    return LARGE.format(seed)


def made(shop: Shop, rows: int = 3) -> None:
    shop.run(TABLES)
    for number in range(rows):
        shop.run(f"INSERT INTO t VALUES ({number}, {large(number)}, 0, {large(-number)}::bytea)")
        shop.run(f"INSERT INTO k VALUES ({number}, 'x', {large(number)}, ARRAY[{large(number + 50)}, NULL], 0)")


class Judged(Followed):
    """Each transaction is compared with what a client has read at that commit."""

    def __init__(self, shop: Shop, log: Path, *tables: str, read: Contents | None = None) -> None:
        self.read = {} if read is None else read
        self.busy = read is not None  # a client is writing: only what it has read can be compared
        self.compared = 0
        super().__init__(shop, *(tables or ("c", "t", "k")), log=log)

    def is_same(self) -> None:
        if not self.busy:
            super().is_same()

    def applied(self) -> None:
        ((_, number),) = self.replica.contents("c")
        for name, rows in self.read.get(number, {}).items():
            if name in self.replica.rows:  # else it is not copied yet
                assert frozen(self.replica.contents(name)) == rows, (number, name)
                self.compared += 1


def frozen(rows: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(tuple(v) if isinstance(v, list) else v for v in row) for row in rows)


class Writer:
    """Transactions of random changes, each read back when it is committed."""

    def __init__(self, shop: Shop, seed: int, read: Contents) -> None:
        self.random, self.read = random.Random(seed), read
        self.connection = psycopg.connect(shop.dsn, autocommit=True)
        self.number = 0

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def run(self, transactions: int) -> None:
        for _ in range(transactions):
            self.transaction()

    def run_until(self, enough: threading.Event, burst: int = 60) -> None:
        """A burst, then so slowly that whoever follows finds nothing new now and then, on any machine."""
        self.run(burst)
        while not enough.wait(PAUSE_SECONDS):
            self.transaction()

    def transaction(self) -> None:
        self.number += 1
        with self.connection.transaction():
            for _ in range(self.random.randint(1, 6)):
                if self.random.random() < 0.15:
                    with self.connection.transaction(force_rollback=True):
                        self.change()
                self.change()
            self.connection.execute("UPDATE c SET n = %s", (self.number,))
        rows = {
            name: frozen(self.connection.execute(f"SELECT * FROM {name}".encode()).fetchall()) for name in ("t", "k")
        }
        self.read[self.number] = rows

    def change(self) -> None:
        chance, key, other = self.random, self.random.randrange(8), self.random.randrange(8)
        what = chance.choice(["move"] * 6 + ["all", "n", "big", "both", "delete", "insert", "swap"])
        table, name = chance.choice([("t", "id"), ("k", "a")])
        seed = chance.randrange(1000)
        columns = {"t": ("big", "raw"), "k": ("big", "tags")}[table]
        value = {"big": large(seed), "raw": large(seed) + "::bytea", "tags": f"ARRAY[{large(seed)}]"}
        column = chance.choice(columns)
        row = f"{key}, {value['big']}, {seed}, {value['raw']}" if table == "t" else (
            f"{key}, 'x', {value['big']}, {value['tags']}, {seed}"
        )  # fmt: skip
        free = f"NOT EXISTS (SELECT FROM {table} o WHERE o.{name} = {other})"
        statements = {
            "move": [f"UPDATE {table} SET {name} = {other} WHERE {name} = {key} AND {free}"],
            "all": [
                f"UPDATE {table} SET {name} = {name} + 100",
                f"UPDATE {table} SET {name} = {name} - 100, n = n + 1",
            ],
            "n": [f"UPDATE {table} SET n = n + 1 WHERE {name} = {key}"],
            "big": [f"UPDATE {table} SET {column} = {value[column]} WHERE {name} = {key}"],
            "both": [f"UPDATE {table} SET {name} = {other}, {column} = NULL WHERE {name} = {key} AND {free}"],
            "delete": [f"DELETE FROM {table} WHERE {name} = {key}"],
            "insert": [f"DELETE FROM {table} WHERE {name} = {key}", f"INSERT INTO {table} VALUES ({row})"],
            "swap": [
                f"UPDATE {table} SET {name} = 300 WHERE {name} = {key}",
                f"UPDATE {table} SET {name} = {key} WHERE {name} = {other}",
                f"UPDATE {table} SET {name} = {other} WHERE {name} = 300",
            ],
        }[what]
        if chance.random() < 0.01:
            statements = [f"TRUNCATE {table}", f"INSERT INTO {table} VALUES ({row})"]
        for statement in statements:
            self.connection.execute(statement.encode())


def test_a_row_takes_its_large_values_to_its_new_key(shop: Shop, tmp_path: Path) -> None:
    made(shop)
    one = Judged(shop, tmp_path)
    one.does("UPDATE t SET id = 7 WHERE id = 1", "UPDATE k SET a = 7 WHERE a = 1")
    one.does("UPDATE t SET id = 8 WHERE id = 7", "UPDATE t SET id = 9, n = 5 WHERE id = 8")  # twice
    one.does("UPDATE t SET id = 10 WHERE id = 9", "UPDATE t SET n = 6 WHERE id = 10")  # then another column
    one.does("UPDATE t SET n = 7 WHERE id = 10", "UPDATE t SET id = 11 WHERE id = 10")  # and before
    one.does(f"UPDATE t SET big = {large('new')} WHERE id = 11", "UPDATE t SET id = 12 WHERE id = 11")
    one.does("UPDATE t SET id = 13, raw = NULL WHERE id = 12")
    one.does(
        "UPDATE t SET id = 99 WHERE id = 0", "UPDATE t SET id = 0 WHERE id = 2", "UPDATE t SET id = 2 WHERE id = 99"
    )
    one.does(
        "DELETE FROM t WHERE id = 2", f"INSERT INTO t VALUES (2, {large(5)}, 1)", "UPDATE t SET id = 3 WHERE id = 2"
    )
    one.does("TRUNCATE k", f"INSERT INTO k VALUES (1, 'y', {large(6)})", "UPDATE k SET a = 2, b = 'z'")
    assert not one.told


def test_keys_are_swapped_when_another_key_is_deferrable(shop: Shop, tmp_path: Path) -> None:
    shop.run(
        TABLES + "; CREATE TABLE d (id int PRIMARY KEY DEFERRABLE, code int NOT NULL, big text); "
        "CREATE UNIQUE INDEX u ON d (code); ALTER TABLE d REPLICA IDENTITY USING INDEX u;"
        f"INSERT INTO d VALUES (1, 10, {large(1)}), (2, 20, {large(2)})"
    )
    one = Followed(shop, "d", log=tmp_path)
    assert one.replica.relations["d"].key == ("code",)
    one.does("SET CONSTRAINTS ALL DEFERRED", "UPDATE d SET id = 3 - id", "UPDATE d SET code = code + 1")
    one.does(
        "UPDATE d SET code = 99 WHERE id = 1",
        "UPDATE d SET code = 11 WHERE id = 2",
        "UPDATE d SET code = 21 WHERE id = 1",
    )


@pytest.mark.parametrize("seed", range(4))
def test_every_commit_of_a_random_history_is_what_postgresql_held(shop: Shop, tmp_path: Path, seed: int) -> None:
    made(shop, 6)
    one = Judged(shop, tmp_path)
    with Writer(shop, seed, one.read) as writer:
        for _ in range(6):
            writer.run(20)
            one.catches_up()
            one.is_same()
            if writer.random.random() < 0.5:
                one.restarts()
        assert one.compared == 2 * writer.number


@pytest.mark.parametrize("seed", range(3))
def test_rows_move_during_the_first_copy_and_a_later_one(shop: Shop, tmp_path: Path, seed: int) -> None:
    """While they are copied a client goes on; what the copy does not hold takes its values from the copy."""
    made(shop, 6)
    with Writer(shop, seed, {}) as writer:
        enough = threading.Event()
        thread = threading.Thread(target=writer.run_until, args=(enough,))
        thread.start()
        try:
            while not writer.read:
                thread.join(0.01)
            one = Judged(shop, tmp_path, "c", "t", read=writer.read)
            one.tables = ("c", "t", "k")
            shop.source.add(frozenset({"k"}))
            while one.compared <= 20:  # of the two copies, and of what was written beside them
                one.catches_up()
        finally:
            enough.set()
            thread.join()
        one.busy = False
        one.catches_up()
        one.is_same()


def test_many_rows_move_at_once(shop: Shop, tmp_path: Path) -> None:
    made(shop, 0)
    shop.run(f"INSERT INTO t SELECT g, {large(1)} || g, g, NULL FROM generate_series(1, 3000) g")
    one = Judged(shop, tmp_path)
    one.does("UPDATE t SET id = id + 10000", "UPDATE t SET id = id - 5000, n = 0")


def test_the_values_come_in_parts_that_arrow_can_hold(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carried, "TAKEN_BYTES", 20_000)
    made(shop, 20)
    one = Judged(shop, tmp_path)
    one.does("UPDATE t SET id = id + 100", "UPDATE k SET a = a + 100")


def test_a_log_that_does_not_hold_the_row_is_not_believed(shop: Shop, tmp_path: Path) -> None:
    """Rows of a partition that was attached came without changes: the source stops, and copies the table anew."""
    shop.run(
        "CREATE TABLE p (id int PRIMARY KEY, big text) PARTITION BY RANGE (id);"
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100);"
        f"CREATE TABLE p2 (LIKE p INCLUDING ALL); INSERT INTO p2 VALUES (150, {large(1)})"
    )
    one = Followed(shop, "p", log=tmp_path, heartbeat_seconds=60)
    shop.source._look_at = float("inf")  # it does not look at the catalogue for now
    one.runs("INSERT INTO p VALUES (1, 'x')", "ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (100) TO (200)")
    one.runs("UPDATE p SET id = 160 WHERE id = 150")
    error = one.stops("source.row")
    assert "table p" in error.what and "'big'" in error.what
    assert one.replica.contents("p") == [(1, "x")]  # what was before is there
    one.restarts()
    one.copies_anew("p")
    one.is_same()


def test_what_is_delivered_is_whole(shop: Shop, tmp_path: Path) -> None:
    """A delete and an insert that leaves nothing out; an update that does is as ever."""
    made(shop, 2)
    one = Followed(shop, "t", log=tmp_path)
    one.runs("UPDATE t SET id = 5 WHERE id = 1", "UPDATE t SET n = 9 WHERE id = 0")
    batch = shop.source.poll(5)
    gone, there, updated = changes([batch], "t")
    ((value,),) = shop.run("SELECT big FROM t WHERE id = 5")
    assert (gone["_op"], gone["id"]) == (model.DELETE, 1)
    assert (there["_op"], there["id"], there["big"], there["_unchanged"]) == (model.INSERT, 5, value, None)
    assert (updated["_op"], updated["big"], updated["_unchanged"]) == (model.UPDATE, None, b"\x0a")
