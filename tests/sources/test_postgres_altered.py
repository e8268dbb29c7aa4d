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

from headrace.testing.postgres import PostgresServer
from postgres_server import Shop, database, fails, postgres_server, shop

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
    """In the middle of a transaction. Where no view uses it all goes on; where one does, it stops with the statement."""
    shop.run("CREATE TABLE t (id int PRIMARY KEY, x int, y text); INSERT INTO t VALUES (1, 1, 'a')")
    altering = ["INSERT INTO t VALUES (2, 2, 'b')", f"ALTER TABLE t {statement}", "UPDATE t SET y = y || '!'"]
    one = Followed(shop, "t", used={"t": {"id", "y"}})
    one.runs(*altering)
    one.catches_up()
    found = [(row[0], row[2]) for row in one.replica.contents("t")]
    assert Counter(found) == Counter(shop.run("SELECT id, y FROM t"))
    assert shop.source.relations()[0].names == ("id", "y")
    assert [e["event"] for e in one.told if "which no view uses" in e["text"]] == ["source.altered"]
    one.restarts()
    one.copies_anew("t")
    one.is_same()
    shop.source.drop()
    shop.run("DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, x int, y text)")
    one = Followed(shop, "t", used={"t": {"id", "x"}})
    one.does("INSERT INTO t VALUES (1, 1, 'a')")
    one.runs(*altering)
    error = one.stops("source.schema")
    assert "table t changed: column" in error.what and said in error.what and "LSN " in error.where
    assert len(one.replica.contents("t")) == 1  # the transaction is not taken in part


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


def test_columns_renamed_in_a_circle_stop(shop: Shop) -> None:
    shop.run("CREATE TABLE t (id int PRIMARY KEY, x int, y int); INSERT INTO t VALUES (1, 1, 2)")
    one = Followed(shop, "t", used={"t": {"x"}})
    one.runs(
        "ALTER TABLE t RENAME x TO z",
        "ALTER TABLE t RENAME y TO x",
        "ALTER TABLE t RENAME z TO y",
        "INSERT INTO t VALUES (2)",
    )
    assert "table t changed: its columns have another order" in one.stops("source.schema").what


def test_a_longer_text_and_what_does_not_concern_rows_go_on(shop: Shop) -> None:
    shop.run("CREATE TABLE t (id int PRIMARY KEY, x varchar(5), y numeric(5,1)); INSERT INTO t VALUES (1, 'a', 1)")
    one = Followed(shop, "t")
    one.does("ALTER TABLE t ALTER COLUMN x TYPE text", "INSERT INTO t VALUES (2, 'longer than five', 2)")
    one.does("CREATE INDEX ON t (x)", "ALTER TABLE t ADD CHECK (id > 0)", "INSERT INTO t VALUES (3, 'c', 3)")
    shop.run("VACUUM FULL t")
    one.does("UPDATE t SET x = x || '!'")


def test_a_table_renamed_or_dropped_stops_by_name(shop: Shop) -> None:
    shop.run("CREATE TABLE t (id int PRIMARY KEY)")
    one = Followed(shop, "t")
    one.runs("ALTER TABLE t RENAME TO u", "INSERT INTO u VALUES (1)")
    assert "table t changed: it is called public.u now" in one.stops("source.schema").what
    shop.source.drop()
    shop.run("ALTER TABLE u RENAME TO t")
    one = Followed(shop, "t")
    shop.run("DROP TABLE t")
    assert "table t is not published any more" in one.stops("source.setup").what
    assert fails("source.no_table", shop.source.start, frozenset({"t"}), one.position or None).what


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
