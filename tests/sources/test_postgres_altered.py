"""Goal: tables that are altered while they are followed, and slots that are lost, never make a view silently wrong.

Method: as in test_postgres_corpus.py.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import psycopg
import pytest
from following import WAIT_SECONDS, Followed

from headrace.model.altered import ALTERED
from headrace.testing.postgres import PostgresServer
from postgres_server import Shop, database, postgres_server, shop

__all__ = ["database", "postgres_server", "shop"]  # fixtures

pytestmark = pytest.mark.postgres

# --- altered tables -------------------------------------------------------------------------------------------------


def test_an_added_column_is_left_out_and_the_others_go_on(shop: Shop) -> None:
    """In the middle of a transaction, with a default, and again; a restart then offers it with all its values."""
    shop.run("CREATE TABLE t (id int PRIMARY KEY, x text); INSERT INTO t VALUES (1, 'a')")
    one = Followed(shop, "t")
    one.does(
        "INSERT INTO t VALUES (2, 'b')",
        "ALTER TABLE t ADD COLUMN y int DEFAULT 7",
        "INSERT INTO t VALUES (3, 'c', 9)",
        "UPDATE t SET x = 'z', y = 1 WHERE id = 1",
        "ALTER TABLE t ADD COLUMN z timestamptz DEFAULT clock_timestamp()",
        "DELETE FROM t WHERE id = 2",
    )
    one.does("INSERT INTO t (id, y) VALUES (4, 4)")
    assert shop.source.relations()[0].names == ("id", "x")
    one.restarts()
    one.copies_anew("t")
    assert one.replica.relations["t"].names == ("id", "x", "y", "z")
    one.is_same()
    one.does("UPDATE t SET y = y + 1")


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("DROP COLUMN x", "ALTER TABLE public.t DROP COLUMN x"),
        ("RENAME COLUMN x TO w", "ALTER TABLE public.t RENAME COLUMN x TO w"),
        ("ALTER COLUMN x TYPE bigint", "ALTER TABLE public.t ALTER COLUMN x TYPE"),
    ],
)
def test_a_column_that_is_dropped_renamed_or_of_another_type(shop: Shop, statement: str, said: str) -> None:
    """In the middle of a transaction: the others go on, and the log is told, in the transaction where it shows."""
    shop.run("CREATE TABLE t (id int PRIMARY KEY, x int, y text); INSERT INTO t VALUES (1, 1, 'a')")
    one = Followed(shop, "t")
    one.runs("INSERT INTO t VALUES (2, 2, 'b')")
    one.runs(f"INSERT INTO t VALUES (3, 3, 'c'); ALTER TABLE t {statement}; UPDATE t SET y = y || '!'")
    one.catches_up()
    found = [(row[0], row[2]) for row in one.replica.contents("t")]
    assert Counter(found) == Counter(shop.run("SELECT id, y FROM t"))
    told = one.replica.altered[0]
    assert (told["relation"], told["column"], told["_op"]) == ("t", "x", 0)
    assert told["statement"].startswith("table t changed: column ") and said in told["statement"]
    assert shop.source.altered()
    assert shop.source.relations()[0].names == ("id", "y")
    assert [said in e["text"] for e in one.told if e["event"] == "source.altered"] == [True]
    one.copies_anew("t")  # x is still not there, as it was announced
    assert {(told["column"], told["_t"]) for told in one.replica.altered[1:]} == {("", 0), ("x", 0)}
    assert Counter((row[0], row[2]) for row in one.replica.contents("t")) == Counter(shop.run("SELECT id, y FROM t"))
    one.restarts()
    one.copies_anew("t")
    one.is_same()


def test_what_is_lost_is_told_in_its_transaction(shop: Shop) -> None:
    shop.run("CREATE TABLE t (id int PRIMARY KEY, x int)")
    one = Followed(shop, "t")
    one.runs("INSERT INTO t VALUES (1, 1)")
    one.runs("ALTER TABLE t DROP COLUMN x", "INSERT INTO t VALUES (2)")
    batch = None
    while batch is None or ALTERED.name not in batch.changes:
        batch = shop.source.poll(WAIT_SECONDS)
    (second,) = (row["_t"] for row in batch.changes["t"].to_pylist() if row["id"] == 2)
    assert batch.changes[ALTERED.name]["_t"].to_pylist() == [second]


def test_a_column_that_is_back_is_whole_again(shop: Shop) -> None:
    shop.run("CREATE TABLE t (id int PRIMARY KEY, x int); INSERT INTO t VALUES (1, 1)")
    one = Followed(shop, "t")
    one.runs("ALTER TABLE t RENAME x TO w", "INSERT INTO t VALUES (2, 2)")
    assert list(one.loses("t")) == ["x"]
    shop.run("ALTER TABLE t RENAME w TO x")
    one.copies_anew("t")
    one.does("INSERT INTO t VALUES (3, 3)")
    assert [told["column"] for told in one.replica.altered[1:]][-1] == ""
    assert not shop.source.altered()


def test_a_table_without_a_key_is_lost_whole_and_another_goes_on(shop: Shop) -> None:
    """Its rows are told apart by all columns; also where no row tells what has become of it."""
    shop.run("CREATE TABLE u (id int PRIMARY KEY); CREATE TABLE t (x int, y int); INSERT INTO t VALUES (1, 1)")
    shop.run("ALTER TABLE t REPLICA IDENTITY FULL")
    one = Followed(shop, "t", "u")
    one.runs("ALTER TABLE t DROP COLUMN y", "INSERT INTO u VALUES (1)")
    assert "DROP COLUMN y" in one.loses("t")["*"]
    one.runs("DELETE FROM t", "INSERT INTO u VALUES (2)")
    one.catches_up()
    assert one.replica.contents("t") == [(1, 1)]
    assert one.replica.contents("u") == [(1,), (2,)]


@pytest.mark.parametrize(
    "statements",
    [
        ["ALTER TABLE t ALTER COLUMN x TYPE int USING x * 10"],
        ["ALTER TABLE t DROP COLUMN x", "ALTER TABLE t ADD COLUMN x int DEFAULT 5"],
    ],
)
def test_values_that_change_without_a_row_event_are_not_missed(shop: Shop, statements: list[str]) -> None:
    """The description of the table is as before to the letter; only the catalogue shows it."""
    shop.run("CREATE TABLE t (id int PRIMARY KEY, x int); INSERT INTO t VALUES (1, 1), (2, 2)")
    one = Followed(shop, "t")
    one.runs(*statements)
    one.copies_anew("t")
    one.is_same()


def test_columns_renamed_in_a_circle_lose_the_table_until_it_is_copied(shop: Shop) -> None:
    shop.run("CREATE TABLE t (id int PRIMARY KEY, x int, y int); INSERT INTO t VALUES (1, 1, 2)")
    one = Followed(shop, "t")
    one.runs(
        "ALTER TABLE t RENAME x TO z",
        "ALTER TABLE t RENAME y TO x",
        "ALTER TABLE t RENAME z TO y",
        "INSERT INTO t VALUES (2)",
    )
    assert one.loses("t") == {"*": "table t changed: its columns have another order"}
    one.copies_anew("t")
    one.is_same()


def test_a_longer_text_and_what_does_not_concern_rows_go_on(shop: Shop) -> None:
    shop.run("CREATE TABLE t (id int PRIMARY KEY, x varchar(5), y numeric(5,1)); INSERT INTO t VALUES (1, 'a', 1)")
    one = Followed(shop, "t")
    one.does("ALTER TABLE t ALTER COLUMN x TYPE text", "INSERT INTO t VALUES (2, 'longer than five', 2)")
    one.does("CREATE INDEX ON t (x)", "ALTER TABLE t ADD CHECK (id > 0)", "INSERT INTO t VALUES (3, 'c', 3)")
    shop.run("VACUUM FULL t")
    one.does("UPDATE t SET x = x || '!'")


@pytest.mark.parametrize("statement", ["ALTER TABLE t RENAME TO v; INSERT INTO v VALUES (1)", "DROP TABLE t"])
def test_a_table_renamed_or_dropped_is_lost_and_another_goes_on(shop: Shop, statement: str) -> None:
    shop.run("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY)")
    one = Followed(shop, "t", "u")
    shop.run(statement)
    (said,) = one.loses("t").values()
    assert ("it is called public.v now" if "RENAME" in statement else "it is not there any more") in said
    shop.run("INSERT INTO u VALUES (1)")
    one.catches_up()
    assert (one.replica.contents("t"), one.replica.contents("u")) == ([], [(1,)])
    shop.source.start(frozenset({"t", "u"}), one.position)  # as after a lost connection
    shop.run("INSERT INTO u VALUES (2)")
    one.catches_up()
    assert one.replica.contents("u") == [(1,), (2,)]


def test_a_table_taken_out_of_the_publication_is_noticed_and_copied_anew(shop: Shop) -> None:
    shop.run("CREATE TABLE t (id int PRIMARY KEY)")
    one = Followed(shop, "t")
    one.does("INSERT INTO t VALUES (1)")
    shop.run(f"ALTER PUBLICATION headrace_{shop.database} DROP TABLE t; INSERT INTO t VALUES (2)")
    assert "table t is not published any more" in one.stops("source.setup").what
    shop.source.start(frozenset({"t"}), one.position)
    one.catches_up()
    one.is_same()


# --- slots ----------------------------------------------------------------------------------------------------------


def test_log_held_back_is_told_before_it_is_too_much(shop: Shop) -> None:
    shop.run("CREATE TABLE t (id int PRIMARY KEY, x text)")
    one = Followed(shop, "t", max_wal_held="200kB")
    assert shop.source.notices == ()
    with psycopg.connect(shop.dsn) as open_one:
        open_one.execute("INSERT INTO t VALUES (0)")  # the slot must keep all from here on
        shop.run("CREATE TABLE noise AS SELECT g, md5(g::text) FROM generate_series(1, 20000) g; CHECKPOINT")
        give_up = time.monotonic() + WAIT_SECONDS
        while not shop.source.notices and time.monotonic() < give_up:
            one.catches_up()
    (notice,) = shop.source.notices
    assert "more than max_wal_held, 200.0 kB" in notice and f"the slot headrace_{shop.database}" in notice
    assert [e["event"] for e in one.told] == ["source.wal_held"]
    while shop.source.notices and time.monotonic() < give_up:
        shop.run("CHECKPOINT")
        one.catches_up()
    assert shop.source.notices == ()


def test_a_slot_invalidated_by_the_size_of_its_log_is_told_and_the_difference_flows(tmp_path: Path) -> None:
    settings = {"max_slot_wal_keep_size": "1MB", "max_wal_size": "32MB", "min_wal_size": "32MB"}
    with PostgresServer(tmp_path, settings=settings) as server:
        server.create_database("d")
        shop = Shop(server, "d")
        shop.run("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1), (2)")
        one = Followed(shop, "t")
        one.does("INSERT INTO t VALUES (3)")
        shop.source.close()
        shop.run("DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (4)")
        for _ in range(4):
            shop.run(
                "SELECT pg_switch_wal(); CREATE TABLE IF NOT EXISTS n (x int); INSERT INTO n VALUES (1); CHECKPOINT"
            )
        assert shop.slot("wal_status") == "lost"
        shop.source.start(frozenset({"t"}), one.position)
        assert "max_slot_wal_keep_size" in one.told[0]["why"]
        one.copies_anew("t")
        one.is_same()
        one.does("INSERT INTO t VALUES (5)")
        shop.source.close()


def test_another_server_is_noticed_and_its_difference_flows(shop: Shop, tmp_path: Path) -> None:
    """It has a slot and a publication of the same names, but never had what was read here."""
    shop.run("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1), (2)")
    one = Followed(shop, "t")
    one.does("INSERT INTO t VALUES (3)")
    shop.source.close()
    with PostgresServer(tmp_path) as server:
        server.create_database(shop.database)
        there = Shop(server, shop.database)
        there.run("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (2), (9)")
        there.begin("t")
        there.source.close()
        there.source.tell = one.told.append
        one.shop = there
        there.source.start(frozenset({"t"}), one.position)
        assert "this is another server" in one.told[0]["why"]
        one.copies_anew("t")
        one.is_same()
        there.source.close()
