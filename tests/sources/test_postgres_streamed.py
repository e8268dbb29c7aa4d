"""Large transactions that the server sends before they commit enter the log whole, in commit order, or not at all.

Method: a real server that decodes next to nothing in memory, so that it sends parts of many transactions in turns. Each
transaction is of its own client, has savepoints that are undone, and raises a counter as its last statement, which
makes it wait for those that do so before: the counter tells the order. The judge is what PostgreSQL itself shows of the
tables to the client that has just committed, before the next one does.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from following import WAIT_SECONDS, Followed

from headrace.model.errors import HeadraceError
from headrace.sources.connectors.postgres import streamed
from headrace.testing.postgres import PostgresServer
from postgres_server import Shop, database, drain, postgres_server, shop

__all__ = ["database", "postgres_server", "shop"]  # fixtures

pytestmark = pytest.mark.postgres

SMALL = "?options=-c%20logical_decoding_work_mem%3D64kB"
TABLES = (
    "CREATE TABLE c (one int PRIMARY KEY, n int); INSERT INTO c VALUES (1, 0);"
    "CREATE TABLE t (id int PRIMARY KEY, x text, n int); CREATE TABLE u (x text, n int);"
    "ALTER TABLE u REPLICA IDENTITY FULL; CREATE TABLE s (id int PRIMARY KEY)"
)
Contents = dict[int, dict[str, Counter[tuple[Any, ...]]]]  # by transaction and table


class Judged(Followed):
    """Each transaction is compared with what a client has read at that commit."""

    def __init__(self, shop: Shop, log: Path, read: Contents) -> None:
        self.read = read
        self.compared = 0
        super().__init__(shop, "c", "t", "u", "s", log=log, dsn=shop.dsn + SMALL, streaming=True)

    def applied(self) -> None:
        ((_, number),) = self.replica.contents("c")
        if number in self.read:
            for name, rows in self.read[number].items():
                assert Counter(self.replica.contents(name)) == rows, (number, name)
            self.compared += 1

    def restarts(self, **options: Any) -> None:
        super().restarts(dsn=self.shop.dsn + SMALL, streaming=True, **options)

    def dies(self) -> None:
        """As a process that is killed: its connection ends without a word, and another takes its place."""
        stream = self.shop.source._stream
        assert stream is not None
        self.partly = len(stream._open)
        self.shop.run(
            "SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots "
            f"WHERE database = '{self.shop.database}'"
        )
        with pytest.raises(HeadraceError, match="connection"):
            while True:
                self.shop.source.poll(0.1)
        self.restarts()


class Client:
    """One transaction at a time of its own keys, made of many small steps; ``step`` makes one."""

    def __init__(self, shop: Shop, place: int, seed: int, counter: Iterator[int], read: Contents) -> None:
        self.random, self.place, self.counter, self.read = random.Random(seed * 100 + place), place, counter, read
        self.connection = psycopg.connect(shop.dsn, autocommit=True)
        self.left = 0

    def step(self) -> None:
        run = self.connection.execute
        if not self.left:
            run("BEGIN")
            self.left = self.random.randint(2, 9)
        elif self.left > 1:
            self.left -= 1
            self.change(0)
        else:
            self.left = 0
            self.ends()

    def change(self, depth: int) -> None:
        """Some rows, perhaps within a savepoint that is kept or undone."""
        run, draw = self.connection.execute, self.random
        first = self.place * 100_000 + draw.randrange(40) * 100
        what = draw.choice(["insert", "insert", "update", "delete", "bag", "less", "savepoint", "savepoint"])
        if what == "savepoint" and depth < 3:
            run(f"SAVEPOINT s{depth}".encode())
            for _ in range(draw.randint(1, 3)):
                self.change(depth + 1)
            run(f"{draw.choice(['ROLLBACK TO', 'RELEASE'])} s{depth}".encode())
            return
        statement = {
            "insert": f"INSERT INTO t SELECT g, repeat('{draw.randrange(10)}', 50), 0 FROM generate_series({first}, "
            f"{first + 400}) g ON CONFLICT (id) DO UPDATE SET n = t.n + 1",
            "update": f"UPDATE t SET n = n + 1 WHERE id BETWEEN {first} AND {first + 900}",
            "delete": f"DELETE FROM t WHERE id BETWEEN {first} AND {first + 200}",
            "bag": f"INSERT INTO u SELECT repeat('y', 90), {self.place} FROM generate_series(1, 300)",
            "less": f"DELETE FROM u WHERE n = {self.place} AND random() < 0.4",
            "savepoint": f"INSERT INTO s VALUES ({first + draw.randrange(100)}) ON CONFLICT DO NOTHING",
        }[what]
        run(statement.encode())

    def ends(self) -> None:
        if self.random.random() < 0.25:
            self.connection.execute("ROLLBACK")
            return
        number = next(self.counter)
        self.connection.execute(f"UPDATE c SET n = {number}".encode())
        self.connection.execute("COMMIT")
        self.read[number] = {
            name: Counter(self.connection.execute(f"SELECT * FROM {name}".encode()).fetchall())
            for name in ("t", "u", "s")
        }


def clients(shop: Shop, seed: int, count: int, read: Contents) -> list[Client]:
    counter = iter(range(1, 1_000_000))
    return [Client(shop, place, seed, counter, read) for place in range(count)]


def came_in_parts(shop: Shop) -> bool:
    """Whether the server has sent transactions before they committed."""
    shop.source.close()  # then it says so, by and by
    give_up = time.monotonic() + WAIT_SECONDS
    query = f"SELECT sum(stream_txns) FROM pg_stat_replication_slots WHERE slot_name ~ '{shop.database}'"
    while time.monotonic() < give_up:
        if shop.run(query)[0][0]:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize("seed", range(3))
def test_transactions_that_are_sent_in_turns_enter_one_by_one(shop: Shop, tmp_path: Path, seed: int) -> None:
    """The follower reads on, starts again, and is killed in the middle of them."""
    shop.run(TABLES)
    read: Contents = {}
    one, draw = Judged(shop, tmp_path, read), random.Random(seed)
    writers = clients(shop, seed, 5, read)
    partly = []
    for _ in range(150):
        draw.choice(writers).step()
        chance = draw.random()
        if chance < 0.2:
            batch = shop.source.poll(0.05)
            if batch is not None:
                one.takes_in(batch)
                shop.source.confirm(batch, 0)
        elif chance < 0.23:
            one.restarts()
        elif chance < 0.26:
            shop.source.poll(0.3)  # what it gives is lost with it
            one.dies()
            partly.append(one.partly)
    for writer in writers:
        while writer.left:
            writer.step()
        writer.connection.close()
    one.catches_up()
    one.is_same()
    assert one.compared >= len(read) > 10
    assert max(partly) > 1


def test_what_a_savepoint_that_is_undone_has_altered_is_undone(shop: Shop, tmp_path: Path) -> None:
    """The table is described anew within it, and by it alone; what comes behind is read as before."""
    shop.run(TABLES)
    one = Judged(shop, tmp_path, {})
    fill = "INSERT INTO t SELECT g, 'x', 0 FROM generate_series({0}, {0} + 3000) g"
    with psycopg.connect(shop.dsn) as connection:
        connection.execute("SAVEPOINT a")
        connection.execute(fill.format(0).encode())  # the first that is told of the table
        connection.execute("ROLLBACK TO a")
        connection.execute(fill.format(10_000).encode())
        connection.execute("SAVEPOINT b")
        connection.execute("ALTER TABLE t ADD COLUMN y int DEFAULT 5, ALTER n TYPE bigint")
        connection.execute(fill.format(20_000).encode())
        connection.execute("TRUNCATE t")
        connection.execute(fill.format(30_000).encode())
        connection.execute("ROLLBACK TO b")
        connection.execute(fill.format(40_000).encode())
        connection.execute("SAVEPOINT c")
        connection.execute("TRUNCATE u, s")
        connection.execute("INSERT INTO s VALUES (7)")
        connection.execute("RELEASE c")
    one.catches_up()
    one.is_same()
    assert len(one.replica.contents("t")) == 6002 and one.transactions == 1
    assert came_in_parts(shop)


def test_what_the_server_does_not_say_was_undone(shop: Shop, tmp_path: Path) -> None:
    """After a lost connection it writes what it may not send yet to files, sends it later, and says nothing of its end.

    The rows are more than it reads back at once; what it sends next is of another savepoint.
    """
    shop.run(TABLES)
    one = Judged(shop, tmp_path, {})
    fill = "INSERT INTO t SELECT g, 'x', 0 FROM generate_series({0}, {0} + 9000) g"
    with psycopg.connect(shop.dsn) as connection:
        connection.execute("SAVEPOINT kept")
        connection.execute(fill.format(200_000).encode())
        connection.execute("SAVEPOINT undone")
        connection.execute(fill.format(0).encode())
        for number in (1, 2):  # what is confirmed lies behind them then
            shop.run(f"INSERT INTO s VALUES ({number})")
            one.catches_up()
        one.restarts()
        connection.execute("SAVEPOINT within")
        connection.execute(fill.format(100_000).encode())
        shop.run("INSERT INTO s VALUES (3)")
        one.catches_up()
        connection.execute("ROLLBACK TO undone")
        connection.execute("INSERT INTO s VALUES (7)")
    one.catches_up()
    one.is_same()
    assert len(one.replica.contents("t")) == 9001
    assert came_in_parts(shop)


def test_a_server_that_has_forgotten_what_was_undone_sends_it_whole(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.run(TABLES)
    one = Judged(shop, tmp_path, {})
    monkeypatch.setattr(streamed, "_FATES", "SELECT x, NULL FROM unnest(%s::bigint[]) AS x")
    with psycopg.connect(shop.dsn) as connection:
        connection.execute("SAVEPOINT a")
        connection.execute("INSERT INTO t SELECT g, 'x', 0 FROM generate_series(1, 9000) g")
    with pytest.raises(HeadraceError, match="does not know any more"):
        one.catches_up()
    shop.source.start(frozenset(one.tables), one.position)  # as the engine does by itself
    one.catches_up()
    one.is_same()
    assert len(one.replica.contents("t")) == 9000 and one.transactions == 1


def test_what_the_server_cannot_send_in_parts_it_sends_whole(shop: Shop, tmp_path: Path) -> None:
    """PostgreSQL 15 fails where a table was emptied under a savepoint that is undone, and is altered behind it."""
    shop.run(TABLES)
    one = Judged(shop, tmp_path, {})
    fill = "INSERT INTO t SELECT g, 'x', 0 FROM generate_series({0}, {0} + 3000) g"
    with psycopg.connect(shop.dsn) as connection:
        connection.execute(fill.format(10_000).encode())
        connection.execute("SAVEPOINT b")
        connection.execute("ALTER TABLE t ADD COLUMN y int DEFAULT 5")
        connection.execute("TRUNCATE t")
        connection.execute(fill.format(30_000).encode())
        connection.execute("ROLLBACK TO b")
        connection.execute(fill.format(40_000).encode())
        connection.execute("ALTER TABLE t ADD COLUMN z int DEFAULT 5")
        connection.execute(fill.format(50_000).encode())
    with pytest.raises(HeadraceError, match="the server ended the stream: could not map"):
        one.catches_up()
    shop.source.start(frozenset(one.tables), one.position)  # as the engine does by itself
    one.catches_up()
    one.is_same()
    assert len(one.replica.contents("t")) == 9003 and one.transactions == 1


def test_a_server_that_starts_again_sends_all_of_it_once_more(tmp_path: Path) -> None:
    """Once it is shut down, once it crashes; the transactions that were open are gone, a prepared one is not."""
    with PostgresServer() as server:
        server.create_database("shop")
        shop = Shop(server, "shop")
        shop.run(TABLES)
        one = Judged(shop, tmp_path, {})
        for number, immediate in enumerate((False, True)):
            lost = psycopg.connect(shop.dsn)
            with psycopg.connect(shop.dsn, autocommit=True) as connection:
                for place, each in enumerate((lost, connection)):
                    first = (2 * number + place) * 10_000
                    each.execute("BEGIN" if place else "SELECT 1")
                    each.execute(
                        f"INSERT INTO t SELECT g, 'x', 0 FROM generate_series({first}, {first} + 3000) g".encode()
                    )
                connection.execute(f"PREPARE TRANSACTION 'kept{number}'".encode())
            assert shop.source.poll(0.5) is None
            with ThreadPoolExecutor(1) as stopping:  # who is shut down waits for those that have not read all
                stopped = stopping.submit(server.stop, immediate=immediate)
                with pytest.raises(HeadraceError, match=r"source\.connect"):
                    while True:
                        shop.source.poll(0.1)
                stopped.result()
            lost.close()
            server.start()
            one.restarts()
            one.does("INSERT INTO s SELECT count(*) FROM s")
            shop.run(f"COMMIT PREPARED 'kept{number}'")
            one.catches_up()
            one.is_same()
            assert len(one.replica.contents("t")) == 3001 * (number + 1)
        shop.source.close()


def test_tables_are_copied_while_transactions_are_sent_in_parts(shop: Shop, tmp_path: Path) -> None:
    """What the copy does not hold comes beside it, in parts, also of transactions that are undone."""
    shop.run(TABLES)
    one = Judged(shop, tmp_path, {})
    shop.run("CREATE TABLE v (id int PRIMARY KEY, x text); INSERT INTO v SELECT g, 'x' FROM generate_series(1, 99) g")
    one.replica.relations |= {relation.name: relation for relation in shop.source.relations()}
    one.tables = ("c", "t", "u", "s", "v")
    shop.source.add(frozenset({"v"}))
    assert shop.source._loading[0].snapshot.wait(30)
    for first, end in ((1000, "ROLLBACK"), (2000, "COMMIT")):
        with psycopg.connect(shop.dsn) as connection:
            connection.execute(f"INSERT INTO v SELECT g, 'y' FROM generate_series({first}, {first} + 3000) g".encode())
            connection.execute(
                f"INSERT INTO t SELECT g, 'y', 0 FROM generate_series({first}, {first} + 3000) g".encode()
            )
            connection.execute("DELETE FROM v WHERE id < 50")
            connection.execute(end.encode())
    one.catches_up()
    one.is_same()
    assert len(one.replica.contents("v")) == 3051


def test_rows_take_large_values_to_new_keys_in_parts(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamed, "PIECE_BYTES", 50_000)
    shop.run(TABLES + "; ALTER TABLE t ALTER x SET STORAGE EXTERNAL")
    shop.run("INSERT INTO t SELECT g, repeat(md5(g::text), 100), 0 FROM generate_series(1, 2000) g")
    one = Judged(shop, tmp_path, {})
    one.does(
        "INSERT INTO t SELECT g, 'y', 1 FROM generate_series(8000, 9000) g", "UPDATE t SET n = 5 WHERE id < 1000",
        "UPDATE t SET id = id + 10000", "UPDATE t SET n = 6 WHERE id < 10500", "UPDATE t SET id = id - 7000 WHERE n = 6",
    )  # fmt: skip
    assert came_in_parts(shop)


def test_a_transaction_of_50000_rows_is_not_kept_in_memory(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its values lie in files, of which none is kept open, from where they go into the log."""
    monkeypatch.setattr(streamed, "PIECE_BYTES", 100_000)
    rows, width = 50_000, 500
    shop.run(TABLES)
    one = Judged(shop, tmp_path, {})
    one.runs(f"INSERT INTO t SELECT g, repeat('x', {width}), g FROM generate_series(1, {rows}) g")
    before, files = pa.total_allocated_bytes(), open_files()
    (batch,) = drain(shop.source, limit_s=200)
    held = pa.total_allocated_bytes() - before
    assert len(batch.origins) == 1 and batch.changes["t"].num_rows == rows
    assert pc.sum(batch.changes["t"]["id"]).as_py() == rows * (rows + 1) // 2
    assert one.log is not None and one.log.append(batch) == one.log.end
    assert held < 16 * rows < batch.changes["t"].nbytes // 10, f"{held:,} bytes"
    assert batch.changes["t"]["x"].num_chunks > 200 and open_files() < files + 20


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_a_full_disk_is_told_and_the_transaction_comes_again(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.run(TABLES)
    one = Judged(shop, tmp_path, {})
    fill = "INSERT INTO t SELECT g, repeat('x', 400), 0 FROM generate_series(1, 5000) g"

    def full(fd: int, content: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("headrace.sources.connectors.postgres.streamed.os.write", full)
        one.runs(fill)
        one.stops("log.full")
    one.restarts()
    one.catches_up()
    one.is_same()


def test_an_older_server_sends_transactions_whole(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.sources.connectors.postgres.streamed.VERSION_MIN", 999_999)
    monkeypatch.delattr("headrace.sources.connectors.postgres.stream.Streamed")
    shop.run(TABLES)
    one = Judged(shop, tmp_path, {})
    one.does("INSERT INTO t SELECT g, 'x', 0 FROM generate_series(1, 5000) g")
