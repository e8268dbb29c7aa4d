"""Goal: an LSN read after a commit stands for a commit of the log that holds the row, early, late, idle or restarted.

Method: a real server, a real log and the engine's own thread for the source; views are always where the log is. The
judge reads the log's rows up to the commit that a wait has answered.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from headrace.engine.frontier import Waits, WaitTimeout
from headrace.engine.ingest import Ingest
from headrace.log.append import LogWriter
from headrace.log.read import LogReader
from headrace.model.errors import HeadraceError
from headrace.sources.connectors.postgres.connector import PostgresSource
from headrace.sources.connectors.postgres.stream import ReplicationStream
from postgres_server import Shop, database, postgres_server, shop

__all__ = ["database", "postgres_server", "shop"]  # fixtures

pytestmark = pytest.mark.postgres

WAIT_S = 30.0
SOON_S = 5.0  # far less than the heartbeat, or the server's own keepalives, would take


def until(there: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not there():
        assert time.monotonic() < end
        time.sleep(0.02)


class Following:
    """A log that follows tables of the shop, and waits on it."""

    def __init__(self, shop: Shop, folder: Path) -> None:
        self.shop, self.folder = shop, folder
        self.log = LogWriter(folder / "log")
        log = self.log

        class Views:
            """They have always reached all there is."""

            views: dict[str, Any] = {}

            @property
            def frontier(self) -> int:
                return log.end

        self.ingests: dict[str, Ingest] = {}
        known: Any = SimpleNamespace(
            folder=folder, log=self.log, ingests=self.ingests, delivers={}, maintainer=Views(), refused={}, error=None,
            stopping=False, catalog=SimpleNamespace(views=dict),
        )  # fmt: skip
        self.waits = Waits(known)

    def start(self, *tables: str) -> None:
        source = PostgresSource("shop", {"dsn": self.shop.dsn})
        self.ingests["shop"] = Ingest(source, self.log, frozenset(tables), lambda event: None)
        self.ingests["shop"].start()

    def stop(self) -> None:
        for ingest in self.ingests.values():
            ingest.close()

    def wait(self, lsn: str, timeout_s: float = WAIT_S) -> int:
        commit = self.waits.wait_for(f"shop:{lsn}", timeout_s, None, None, None)["commit"]
        assert isinstance(commit, int)
        return commit

    def ids(self, table: str, upto: int) -> set[int]:
        """Of the rows that the log holds of a table up to a commit."""
        reader = LogReader(self.folder / "log")
        batches = reader.read(reader.refs(0, upto), table, 0, upto)
        return {number for batch in batches for number in batch.column("id").to_pylist()}

    def commit_of(self, table: str, number: int) -> int:
        return next(c for c in range(self.log.end + 1) if number in self.ids(table, c))


@pytest.fixture
def following(shop: Shop, tmp_path: Path) -> Iterator[Following]:
    shop.run("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY); CREATE TABLE idle (id int)")
    made = Following(shop, tmp_path)
    yield made
    made.stop()
    made.log.close()


def committed(connection: psycopg.Connection[Any], *statements: str) -> str:
    """Runs them, ends the transaction that is open by then; the LSN after its commit."""
    for statement in statements:
        connection.execute(statement.encode())
    connection.commit()
    (lsn,) = connection.execute("SELECT pg_current_wal_lsn()").fetchone() or ("",)
    connection.commit()
    return str(lsn)


def test_each_of_many_commits_is_there_and_the_mapping_is_tight(following: Following) -> None:
    """Two writers whose transactions overlap; asked at once, later, and in random order."""
    following.start("a", "b")
    draw = random.Random(7)
    tokens: list[tuple[str, int, str]] = []
    with psycopg.connect(following.shop.dsn) as one, psycopg.connect(following.shop.dsn) as other:
        for number in range(40):
            table = draw.choice("ab")
            other.execute(f"INSERT INTO {table} VALUES ({1000 + number})".encode())  # begun before, committed after
            lsn = committed(one, f"INSERT INTO {table} VALUES ({number})", "INSERT INTO idle VALUES (1)")
            tokens.append((table, number, lsn))
            if draw.random() < 0.5:
                assert number in following.ids(table, following.wait(lsn))
            if draw.random() < 0.5:
                committed(one, "INSERT INTO idle VALUES (2)")
            tokens.append((table, 1000 + number, committed(other)))
            if draw.random() < 0.3:
                some, earlier, lsn = draw.choice(tokens)
                assert earlier in following.ids(some, following.wait(lsn))
    following.wait(tokens[-1][2])
    commits = [following.commit_of(table, number) for table, number, _ in tokens]
    assert commits == sorted(commits)
    for place in draw.sample(range(len(tokens)), len(tokens)):
        commit = following.wait(tokens[place][2])
        later = commits[place + 1] if place + 1 < len(commits) else commits[place]
        assert commits[place] <= commit <= later  # the next one where the server wrote something between the two


def test_what_was_written_before_the_first_copy_is_in_it(following: Following) -> None:
    with psycopg.connect(following.shop.dsn) as connection:
        lsn = committed(connection, "INSERT INTO a SELECT n FROM generate_series(1, 1000) AS n")
    following.start("a")
    assert following.ids("a", following.wait(lsn)) == set(range(1, 1001))


def test_a_source_without_news_holds_up_nobody(following: Following) -> None:
    following.start("a")
    with psycopg.connect(following.shop.dsn, autocommit=True) as connection:
        first = following.wait(committed(connection, "INSERT INTO a VALUES (1)"))
        for _ in range(5):
            began = time.monotonic()
            lsn = committed(connection, "INSERT INTO idle VALUES (1)")
            assert following.wait(lsn, SOON_S) == first
            assert time.monotonic() - began < SOON_S
    assert following.log.end == first


def test_a_server_that_is_busy_with_others_is_asked_how_far_it_is(
    following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By itself it may be silent for half a minute then; only while somebody waits is it asked."""
    asked, ask = [], ReplicationStream.ask
    monkeypatch.setattr(ReplicationStream, "ask", lambda stream: (asked.append(1), ask(stream)))
    following.start("a")
    over = threading.Event()

    def busy() -> None:
        with psycopg.connect(following.shop.dsn, autocommit=True) as other:
            while not over.is_set():
                other.execute("INSERT INTO idle SELECT generate_series(1, 200)")

    with psycopg.connect(following.shop.dsn) as connection, ThreadPoolExecutor(2) as pool:
        first = following.wait(committed(connection, "INSERT INTO a VALUES (1)"))
        time.sleep(0.3)
        asked.clear()
        time.sleep(0.3)
        assert not asked
        writers = [pool.submit(busy) for _ in range(2)]
        try:
            time.sleep(0.5)
            for _ in range(3):
                assert following.wait(committed(connection, "INSERT INTO idle VALUES (1)")) == first
        finally:
            over.set()
        assert all(writer.result() is None for writer in writers)
    assert asked


def test_a_table_that_is_added_is_waited_for_though_others_go_on(following: Following) -> None:
    """An open transaction holds back the copy of b, while later positions of a are logged."""
    following.start("a")
    dsn = following.shop.dsn
    with psycopg.connect(dsn) as writer, psycopg.connect(dsn) as open_one, ThreadPoolExecutor() as pool:
        following.wait(committed(writer, "INSERT INTO a VALUES (1)"))
        open_one.execute("INSERT INTO idle VALUES (1)")
        following.ingests["shop"].follow(frozenset({"b"}))
        lsn = committed(writer, "INSERT INTO b VALUES (7)")
        waiting = pool.submit(following.wait, lsn)
        for number in range(2, 12):
            committed(writer, f"INSERT INTO a VALUES ({number})")
            time.sleep(0.05)
        assert 11 in following.ids("a", following.log.wait(10, WAIT_S))
        assert not waiting.done()
        open_one.rollback()
        commit = waiting.result(WAIT_S)
    assert following.ids("b", commit) == {7}


def test_after_a_restart_the_log_is_asked_first(following: Following) -> None:
    following.start("a")
    with psycopg.connect(following.shop.dsn) as connection:
        before = committed(connection, "INSERT INTO a VALUES (1)")
        commit = following.wait(before)
        following.stop()
        between = committed(connection, "INSERT INTO a VALUES (2)")
        with pytest.raises(WaitTimeout):
            following.wait(between, 0.2)
        following.start("a")
        assert following.wait(before) == commit
        assert following.ids("a", following.wait(between)) == {1, 2}
        idle = committed(connection, "INSERT INTO idle VALUES (1)")
        assert following.wait(idle, SOON_S) == following.log.end


def test_a_transaction_that_is_refused_is_never_reached(following: Following) -> None:
    following.shop.run("ALTER TABLE a ADD n numeric")
    following.start("a")
    with psycopg.connect(following.shop.dsn) as connection:
        good = committed(connection, "INSERT INTO a VALUES (1, 1)")
        assert following.ids("a", following.wait(good)) == {1}
        bad = committed(connection, "INSERT INTO a VALUES (2, 'NaN')", "INSERT INTO a VALUES (3, 3)")
        until(lambda: following.ingests["shop"].error is not None)
        with pytest.raises(WaitTimeout) as caught:
            following.wait(bad, 1.0)
        assert "failed: table a: column n" in caught.value.why
    assert following.ids("a", following.log.end) == {1}


def test_what_follows_a_refused_transaction_in_one_read_is_not_reached_either(following: Following) -> None:
    following.shop.run("ALTER TABLE a ADD n numeric")
    following.start("a")
    with psycopg.connect(following.shop.dsn) as connection:
        following.wait(committed(connection, "INSERT INTO a VALUES (1, 1)"))
        following.stop()
        committed(connection, "INSERT INTO a VALUES (2, 2)")
        bad = committed(connection, "INSERT INTO a VALUES (3, 'NaN')")
        following.start("a")
        until(lambda: following.ids("a", following.log.end) == {1, 2})
        with pytest.raises(WaitTimeout):
            following.wait(bad, 1.0)
    assert following.ids("a", following.log.end) == {1, 2}


@pytest.mark.parametrize("point", ["", "16B3748", "0/", "0/G", "0/123456789", "-1/2", "0/1 or so"])
def test_what_is_no_lsn_is_refused(point: str) -> None:
    with pytest.raises(HeadraceError) as caught:
        PostgresSource("shop", {"dsn": "postgresql://x@localhost/y"}).holding(point, frozenset())
    assert caught.value.code == "wait.token"


def test_lsns_are_compared_as_numbers() -> None:
    source = PostgresSource("shop", {"dsn": "postgresql://x@localhost/y"})
    holds = source.holding("A/0", frozenset({"a"}))
    known = {"9/FFFFFFFF": False, "A/0": True, "A/1": True, "10/0": True}
    assert {lsn: holds(f'{{"lsn": "{lsn}", "tables": ["a", "b"]}}') for lsn in known} == known
    assert not holds('{"lsn": "10/0", "tables": ["b"]}')
