"""Goal: what the MySQL source hands on is what the database holds, transaction by transaction, whatever happens.

Method: a real MariaDB, and a real MySQL. Batches are replayed into plain Python dictionaries by rules written from the model's
description (``Replica``); the judge is pymysql reading the same tables.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from contextlib import suppress

import pymysql
import pytest

from binlog_server import Followed, binlog_server, counted, followed, server_kind
from headrace.model import transaction as model
from headrace.model.errors import HeadraceError
from headrace.testing.mysqld import Mysqld
from postgres_server import changes, fails

__all__ = ["binlog_server", "followed", "server_kind"]  # fixtures

pytestmark = pytest.mark.binlog

ACCOUNTS = 40


# --- consistency ----------------------------------------------------------------------------------------------------


def make_bank(followed: Followed) -> None:
    """``done`` has a row for each transfer: a later change does not hide one that is missing."""
    followed.run("CREATE TABLE done (id int AUTO_INCREMENT PRIMARY KEY)")
    for name in ("a", "b"):
        followed.run(f"CREATE TABLE {name} (id int PRIMARY KEY, balance bigint NOT NULL)")
        followed.run(f"INSERT INTO {name} SELECT seq, 100 FROM {followed.numbers(ACCOUNTS)}")


class Transfers(threading.Thread):
    """Moves money between the tables a and b in transactions of 2 to 40 statements, some of them rolled back."""

    def __init__(self, followed: Followed) -> None:
        super().__init__()
        self.client = followed.server.connect(followed.database)
        self.stopped = threading.Event()
        self.done = 0

    def run(self) -> None:
        with self.client as connection, connection.cursor() as cursor:
            while not self.stopped.is_set():
                self.done += 1
                connection.begin()
                for step in range(1 + self.done % 20):
                    key = (self.done * 13 + step) % ACCOUNTS + 1
                    cursor.execute("UPDATE a SET balance = balance - 1 WHERE id = %s", (key,))
                    cursor.execute("UPDATE b SET balance = balance + 1 WHERE id = %s", (key,))
                cursor.execute("INSERT INTO done () VALUES ()")
                if self.done % 7 == 0:
                    connection.rollback()
                else:
                    connection.commit()

    def __enter__(self) -> Transfers:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self.join()


def total(followed: Followed) -> int:
    return sum(row["balance"] for name in ("a", "b") for row in followed.replica.rows[name].values())


def taken_whole(followed: Followed, until: int) -> None:
    """Takes transactions until there were so many; after every single one the sum is what it always was."""
    give_up = time.monotonic() + 60
    while followed.transactions < until:
        assert time.monotonic() < give_up
        batch = followed.source.poll(0.1)
        if batch is not None:
            for _ in followed.replica.apply(batch):
                assert total(followed) == 2 * ACCOUNTS * 100
            followed.transactions += len(batch.origins)
            followed.position = batch.origins[-1].position


def test_copy_and_stream_join_without_gap_while_others_write(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy takes so long that many transfers are done meanwhile."""
    from headrace.sources.connectors.mysql.snapshot import Snapshot  # after the module has found its library

    copy = Snapshot._copy
    monkeypatch.setattr(Snapshot, "_copy", lambda *arguments: (time.sleep(0.5), copy(*arguments))[1])
    make_bank(followed)
    with Transfers(followed) as writer:
        followed.starts("a", "b", "done")
        assert total(followed) == 2 * ACCOUNTS * 100
        taken_whole(followed, followed.transactions + 200)
    assert writer.done >= 100
    followed.catches_up()
    followed.is_same()


def test_a_lost_connection_and_a_restart_lose_and_repeat_nothing(followed: Followed) -> None:
    """The server ends the connection again and again; each start resumes after the last transaction taken."""
    make_bank(followed)
    followed.begin("a", "b", "done")
    lost = 0
    with Transfers(followed):
        for _ in range(8):
            taken_whole(followed, followed.transactions + 20)
            killed = followed.server.sql("SELECT id FROM information_schema.processlist WHERE command = 'Binlog Dump'")
            for (number,) in killed:
                with suppress(pymysql.err.OperationalError):  # of a test before, and just ended
                    followed.server.sql(f"KILL {number}")
            with pytest.raises(HeadraceError) as caught:
                taken_whole(followed, followed.transactions + 100_000)
            assert caught.value.code == "source.connect", caught.value
            lost += 1
            followed.restarts()
    followed.catches_up()
    followed.is_same()
    assert lost == 8 and followed.copied_anew() == []


def test_every_position_resumes_exactly_there(followed: Followed) -> None:
    """Each transaction's position, also across a new file of the log and a restart of the server's log."""
    followed.run("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (0, 0)")
    followed.begin("t")
    start, positions = followed.position, []
    for number in range(1, 13):
        followed.run("BEGIN", f"INSERT INTO t VALUES ({number}, 0)", f"UPDATE t SET v = v + {number}", "COMMIT")
        if number % 4 == 0:
            followed.server.sql("FLUSH BINARY LOGS")
        if number % 3 == 0:
            followed.run("CREATE TABLE IF NOT EXISTS other (i int PRIMARY KEY)", f"INSERT INTO other VALUES ({number})")
        followed.catches_up()
    positions = [(start, 1), *((origin.position, 0) for batch in followed.batches[1:] for origin in batch.origins)]
    assert len(positions) == 13
    for number, (position, _) in enumerate(positions):
        before = len(followed.batches)
        followed.restarts(position)
        followed.batches, left = followed.batches[:before], 12 - number
        found = []
        give_up = time.monotonic() + 10
        while len(found) < left or not followed.source.caught_up():
            batch = followed.source.poll(0.05)
            assert time.monotonic() < give_up, (number, found)
            if batch is not None:
                found += [origin.position for origin in batch.origins]
        assert [json.loads(p)["at"] for p in found] == [json.loads(p)["at"] for p, _ in positions[number + 1 :]]
        assert [json.loads(p)["gtid"] for p in found] == [json.loads(p)["gtid"] for p, _ in positions[number + 1 :]]
    assert followed.copied_anew() == []


def test_random_transactions_during_copies_and_restarts(followed: Followed) -> None:
    """Tables with and without a key, one added while the others are followed, under a writer drawn from a seed."""
    seed = int(os.environ.get("HEADRACE_SEED", "1"))
    print(f"seed {seed}")
    draw = random.Random(seed)
    for name, key in (("k", "PRIMARY KEY"), ("m", ""), ("late", "PRIMARY KEY")):
        followed.run(f"CREATE TABLE {name} (id int {key}, v varchar(40), d decimal(12,3))")
        followed.run(f"INSERT INTO {name} SELECT seq, repeat('x', seq % 30), seq / 7 FROM {followed.numbers(3000)}")
    stopped = threading.Event()

    def write() -> None:
        with followed.server.connect(followed.database) as connection, connection.cursor() as cursor:
            while not stopped.is_set():
                connection.begin()
                for _ in range(draw.randrange(1, 6)):
                    table, low = draw.choice(("k", "m", "late")), draw.randrange(4000)
                    between = f"WHERE id BETWEEN {low} AND {low + draw.randrange(40)}"
                    cursor.execute(
                        draw.choice(
                            (
                                f"REPLACE INTO {table} VALUES ({low}, 'r', {draw.random()}), ({low + 1}, NULL, NULL)",
                                f"UPDATE {table} SET v = concat('{draw.random()}', id), d = d + 1 {between}",
                                f"UPDATE {table} SET id = id + 10000 {between} AND id < 10000"
                                if table == "m"
                                else f"UPDATE IGNORE {table} SET id = id + 10000 {between}",
                                f"DELETE FROM {table} {between}",
                                f"DELETE FROM {table} WHERE id = {low}",
                                f"INSERT IGNORE INTO {table} SELECT id + 1, v, d FROM {table} {between}",
                            )
                        )
                    )
                    if draw.random() < 0.1:
                        cursor.execute("SAVEPOINT s")
                        cursor.execute(f"DELETE FROM {table} {between}")
                        cursor.execute("ROLLBACK TO s")
                connection.rollback() if draw.random() < 0.1 else connection.commit()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        followed.starts("k", "m")
        for turn in range(6):
            until = time.monotonic() + 0.7
            while time.monotonic() < until:
                batch = followed.source.poll(0.05)
                if batch is not None:
                    followed.take(batch)
            if turn == 1:
                followed.tables = ("k", "m", "late")
                followed.source.add(frozenset({"late"}))
            elif turn > 2:
                followed.restarts()
    finally:
        stopped.set()
        writer.join()
    followed.catches_up()
    followed.is_same()
    assert followed.transactions > 30, seed


def test_a_transaction_larger_than_one_event_stays_whole(followed: Followed) -> None:
    followed.run("CREATE TABLE t (id int PRIMARY KEY, v varchar(200))")
    followed.begin("t")
    followed.run(f"INSERT INTO t SELECT seq, repeat('y', 200) FROM {followed.numbers(50000)}")
    followed.catches_up()
    assert [len(batch.origins) for batch in followed.batches[1:]] == [1]
    followed.is_same()


def test_keys_that_change_multisets_and_emptied_tables(followed: Followed) -> None:
    followed.run("CREATE TABLE k (a int, b varchar(9), v int, PRIMARY KEY (a, b))", "CREATE TABLE m (a int, b float)")
    followed.begin("k", "m")
    followed.does(
        "INSERT INTO k VALUES (1, 'x', 1), (2, 'y', 2), (3, 'z', 3)",
        "INSERT INTO m VALUES (1, 0.1), (1, 0.1), (NULL, NULL)",
        "UPDATE k SET v = 9 WHERE a = 1",
        "UPDATE k SET a = a + 10 WHERE a > 1 ORDER BY a DESC",
        "UPDATE m SET a = 2 LIMIT 1",
    )
    kinds = [row[model.OPERATION] for row in changes(followed.batches, "k")]
    assert kinds == [model.INSERT] * 3 + [model.UPDATE] + [model.DELETE, model.INSERT] * 2
    followed.does("DELETE FROM m WHERE a = 1 LIMIT 1", "DELETE FROM k WHERE a = 12")
    followed.run("TRUNCATE TABLE k", f"TRUNCATE `{followed.database}`.`m`", "INSERT INTO k VALUES (7, 'n', 7)")
    followed.catches_up()
    followed.is_same()
    assert followed.copied_anew() == []


def test_commit_times_and_gtids_are_the_servers(followed: Followed) -> None:
    followed.run("CREATE TABLE t (id int PRIMARY KEY)")
    followed.begin("t")
    followed.run("SET timestamp = 1700000000", "INSERT INTO t VALUES (1)")
    gtid = followed.last_gtid()
    followed.run("SET timestamp = DEFAULT")
    followed.catches_up()
    (origin,) = followed.batches[-1].origins
    assert origin.committed_us == 1_700_000_000_000_000
    assert json.loads(origin.position)["gtid"] == gtid


def test_a_commit_can_be_waited_for_by_gtid_and_by_place(followed: Followed) -> None:
    followed.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE other (id int PRIMARY KEY)")
    followed.begin("t")
    before = followed.position
    followed.run("INSERT INTO t VALUES (1)")
    gtid, place = followed.last_gtid(), followed.end()
    for point in (gtid, place, f" {gtid} "):
        holds = followed.source.holding(point, frozenset({"t"}))
        assert not holds(before)
        followed.catches_up()
        assert holds(followed.position) and holds(followed.source.seen() or "")
        assert not followed.source.holding(point, frozenset({"t", "other"}))(followed.position)
    followed.run("INSERT INTO other VALUES (1)")  # nobody follows it, yet it can be waited for
    holds = followed.source.holding(followed.last_gtid(), frozenset({"t"}))
    assert not holds(followed.position)
    followed.catches_up()
    assert holds(followed.source.seen() or "")
    for wrong in ("16/B374D848", "x", "", "0-1"):
        assert "@@last_gtid" in fails("wait.token", followed.source.holding, wrong, frozenset()).next


def test_an_idle_server_is_heard_and_a_dead_one_is_told(server_kind: type[Mysqld]) -> None:
    with server_kind() as server:
        server.sql("CREATE DATABASE d")
        one = Followed(server, "d")
        try:
            one.run("CREATE TABLE t (id int PRIMARY KEY)")
            one.begin("t")
            stream = one.source._running()
            heard = stream.last_heard
            time.sleep(3 * 0.5)
            assert one.source.poll(0) is None and stream.last_heard > heard
            server.stop(immediate=True)
            error = fails("source.connect", one.source.poll, 10)
            assert "goes on from its position" in error.next
            server.start()
            one.client = server.connect("d")
            one.run("INSERT INTO t VALUES (1)")
            one.restarts()
            one.catches_up()
            one.is_same()
            assert one.copied_anew() == []
        finally:
            one.close()


def test_a_number_that_another_table_has_after_a_restart_is_read_as_that_table(server_kind: type[Mysqld]) -> None:
    """The server numbers its tables anew when it starts; the file of its log that it left says nothing of it."""
    with server_kind() as server:
        server.sql("CREATE DATABASE d")
        one = Followed(server, "d")
        try:
            one.run("CREATE TABLE a (id int PRIMARY KEY, v varchar(9))")
            one.run("CREATE TABLE b (x bigint PRIMARY KEY, y date, z text)")
            one.begin("a", "b")
            one.source.close()
            for number in range(30):  # a flush gives it another number each time
                one.run(f"INSERT INTO a VALUES ({number}, 'a')", "FLUSH LOCAL TABLES")
            before = table_numbers(one, "a")
            assert len(before) > 20
            one.client.close()
            server.stop()
            server.start()
            one.client = server.connect("d")
            number = 0
            while not before & table_numbers(one, "b"):
                assert number < 200
                number += 1
                other = ["SELECT id FROM a"] if number % 3 == 0 else []  # takes a number, too: now even, now odd ones
                one.run(f"INSERT INTO b VALUES ({number}, '2025-01-31', 'b')", *other, "FLUSH LOCAL TABLES")
            one.restarts()
            one.catches_up()
            one.is_same()
            assert one.copied_anew() == []
        finally:
            one.close()


def table_numbers(followed: Followed, table: str) -> set[str]:
    """By which the last file of the server's log calls a table."""
    found = followed.run(f"SHOW BINLOG EVENTS IN '{followed.end().partition(':')[0]}'")
    return {row[5].split()[1] for row in found if row[5].endswith(f"({followed.database}.{table})")}


def test_rows_are_counted_as_a_client_counts_them(followed: Followed) -> None:
    """The judge itself: a difference in one float's sign or one copy of a row is seen."""
    assert counted([(0.0,)]) != counted([(-0.0,)])
    assert counted([(1,), (1,)]) != counted([(1,)])


def test_while_a_table_is_copied_it_is_told_how_far_it_is(followed: Followed) -> None:
    rows = 150_000
    followed.run("CREATE TABLE t (id int PRIMARY KEY)", f"INSERT INTO t SELECT seq FROM {followed.numbers(rows)}")
    followed.run("ANALYZE TABLE t")  # what a server takes of a table that has just been filled is anything
    followed.source.start(frozenset({"t"}), None)
    told, batch = [], None
    while batch is None:
        batch = followed.source.poll(0.001)
        told += [one.shown() for one in followed.source.copying()]
    assert batch.changes["t"].num_rows == rows and followed.source.copying() == []
    assert {one["table"] for one in told} == {"t"} and [one["done"] for one in told] == sorted(o["done"] for o in told)
    assert 0 < max(one["done"] for one in told) <= rows
    assert all(one["total"] is None or rows / 2 < one["total"] < rows * 2 for one in told), "the server's estimate"
    assert any(one["total"] for one in told)
