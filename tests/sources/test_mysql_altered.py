"""Goal: statements that change tables otherwise than by rows are followed, or told in the log where they happen.

Method: real servers whose tables are altered while they are followed, and while nobody follows them; the judge is
pymysql reading them. With ``less`` the server writes no names of columns.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from binlog_server import Followed, binlog_server, followed, server_kind
from headrace.model.altered import ALTERED, WHOLE
from headrace.sources.connectors.mysql.statements import Does, parse
from postgres_server import changes

__all__ = ["binlog_server", "followed", "server_kind"]  # fixtures

pytestmark = pytest.mark.binlog


@pytest.fixture(params=["FULL", "less"])
def shop(followed: Followed, request: pytest.FixtureRequest) -> Iterator[Followed]:
    followed.names_written(request.param == "FULL")
    followed.run("CREATE TABLE t (id int PRIMARY KEY, a int, b varchar(9), c decimal(8,2))")
    followed.run(f"INSERT INTO t SELECT seq, seq, concat('b', seq), seq / 4 FROM {followed.numbers(20)}")
    followed.run("CREATE TABLE other (id int PRIMARY KEY)")
    followed.begin("t", "other")
    yield followed
    followed.names_written(True)


def lost(followed: Followed) -> list[tuple[str, str]]:
    """What the log was told, in order: (table, column)."""
    return [(row["relation"], row["column"]) for row in changes(followed.batches, ALTERED.name)]


def test_a_new_column_is_left_out_until_the_source_is_made_anew(shop: Followed) -> None:
    shop.run("ALTER TABLE t ADD COLUMN n int DEFAULT 7 FIRST", "INSERT INTO t (id, a, n) VALUES (100, 1, 2)")
    shop.catches_up()
    shop.is_same()  # the columns that were announced
    assert shop.replica.relations["t"].names == ("id", "a", "b", "c")
    assert shop.source.altered() and {column for _, column in lost(shop)} <= {""}
    shop.restarts()
    shop.catches_up()
    assert shop.replica.relations["t"].names == ("n", "id", "a", "b", "c")
    shop.is_same()
    assert "t" in shop.copied_anew()
    assert lost(shop)[-1:] == [("t", "")]


REWRITES = [
    "ALTER TABLE t MODIFY c decimal(8,2) NOT NULL DEFAULT 1",
    "ALTER TABLE t DROP COLUMN a, ADD COLUMN a int DEFAULT 5 AFTER id",
    "ALTER TABLE t PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)",
    "ALTER TABLE t MODIFY a int NULL DEFAULT 3, COMMENT 'x'",
    "ALTER TABLE t MODIFY b varchar(9) CHARACTER SET latin1",
]


@pytest.mark.parametrize("statement", REWRITES)
def test_what_may_change_values_has_the_table_copied_anew(shop: Followed, statement: str) -> None:
    shop.run(statement, "INSERT INTO t (id, b) VALUES (100, 'é')", "UPDATE t SET a = a + 1 WHERE id > 15")
    shop.run("INSERT INTO other VALUES (1)")
    shop.catches_up()
    shop.is_same()
    assert set(shop.copied_anew()) == {"t"}
    assert {table for table, column in lost(shop) if column} == set()
    before = shop.transactions
    shop.restarts()
    shop.does("INSERT INTO t (id) VALUES (101)")
    assert shop.transactions == before + 1 and shop.copied_anew() == []


def test_a_table_that_is_replaced_by_another_is_copied_anew(shop: Followed) -> None:
    made = "TABLE t (id int PRIMARY KEY, a int, b varchar(9), c decimal(8,2))"
    shop.run(*([f"CREATE OR REPLACE {made}"] if shop.is_mariadb else ["DROP TABLE t", f"CREATE {made}"]))
    shop.run("INSERT INTO t VALUES (100, 1, 'n', 2)")
    shop.catches_up()
    shop.is_same()
    assert "t" in shop.copied_anew()


def test_partitions_that_are_emptied_or_dropped_take_their_rows_along(shop: Followed) -> None:
    shop.run(REWRITES[2])
    for statement in ("TRUNCATE PARTITION p0", "DROP PARTITION p1"):
        shop.run(f"ALTER TABLE t {statement}")
        shop.catches_up()
        shop.is_same()
    assert shop.replica.contents("t") == []


def test_a_copy_that_was_not_finished_is_made_at_the_next_start(shop: Followed) -> None:
    """The log ends between the statement and the copy, with a transaction of another table."""
    shop.run(REWRITES[2])
    shop.catches_up()
    shop.run("ALTER TABLE t TRUNCATE PARTITION p0", "INSERT INTO other VALUES (1)")
    source, shop.batches = shop.source, []
    while not any("other" in batch.changes for batch in shop.batches):
        batch = source.poll(1)
        assert batch is not None
        if "t" in batch.changes:
            break
        shop.take(batch)
    shop.restarts()
    shop.catches_up()
    shop.is_same()
    assert len(shop.replica.contents("t")) == 11


@pytest.mark.parametrize(
    ("statement", "columns"),
    [
        ("ALTER TABLE t DROP COLUMN b", {"b"}),
        ("ALTER TABLE t CHANGE a renamed int", {"a"}),
        ("ALTER TABLE t MODIFY a bigint unsigned, RENAME COLUMN b TO d", {"a", "b"}),
        ("ALTER TABLE t MODIFY id bigint", {WHOLE}),
        ("ALTER TABLE t DROP PRIMARY KEY", {WHOLE}),
        ("DROP TABLE t", {WHOLE}),
        ("RENAME TABLE t TO u", {WHOLE}),
        ("ALTER TABLE t RENAME u", {WHOLE}),
    ],
)
def test_what_is_lost_is_told_in_its_transaction_and_all_else_goes_on(
    shop: Followed, statement: str, columns: set[str]
) -> None:
    shop.run("INSERT INTO other VALUES (1)", statement, "INSERT INTO other VALUES (2)")
    place = shop.end()
    if WHOLE in columns:
        shop.tables = ("other",)
    shop.catches_up()
    rows = changes(shop.batches, ALTERED.name)
    assert {row["column"] for row in rows if row["column"]} == columns
    assert all(row["relation"] == "t" for row in rows)
    assert statement in rows[0]["statement"].replace("`", "").partition(" /*")[0]
    told = next(batch for batch in shop.batches if ALTERED.name in batch.changes)
    assert shop.source.holding(place, frozenset({"other"}))(shop.position)
    assert not shop.source.holding(place, frozenset({"other"}))(told.origins[-1].position)
    assert shop.replica.contents("other") == [(1,), (2,)]
    if WHOLE not in columns:
        shop.run("INSERT INTO t (id, c) VALUES (200, 1.5)")
        shop.catches_up()
        left = [name for name in ("id", "a", "b", "c") if name not in columns]
        held = shop.run(f"SELECT {', '.join(left)} FROM t")
        found = [
            tuple(row[name] for name in left)
            for row in (dict(zip(["id", "a", "b", "c"], r, strict=True)) for r in shop.replica.contents("t"))
        ]
        assert sorted(found) == sorted(held)
    assert {event["event"] for event in shop.told} >= {"source.altered"}


def test_a_table_swapped_for_another_is_copied_anew(shop: Followed) -> None:
    """As tools do that change a table's schema on line."""
    shop.run(
        "CREATE TABLE t_new LIKE t", "INSERT INTO t_new SELECT * FROM t WHERE id < 5",
        "RENAME TABLE t TO t_old, t_new TO t", "INSERT INTO t (id) VALUES (77)", "DROP TABLE t_old",
    )  # fmt: skip
    shop.catches_up()
    shop.is_same()
    assert "t" in shop.copied_anew() and len(shop.replica.contents("t")) == 5


def test_tables_altered_while_nobody_follows_are_copied_anew(shop: Followed) -> None:
    shop.run(
        "UPDATE t SET a = 0", "ALTER TABLE t MODIFY b varchar(30)", "INSERT INTO t (id, b) VALUES (90, repeat('x', 30))"
    )
    shop.restarts()
    shop.catches_up()
    shop.is_same()
    assert shop.copied_anew() == ["t"]


def test_a_statement_that_is_logged_as_such_stops_the_source(shop: Followed) -> None:
    shop.run("SET SESSION binlog_format = 'STATEMENT'", "INSERT INTO other VALUES (5)")
    error = shop.stops("source.setup")
    assert "table other" in error.what and "INSERT INTO other" in error.why and "binlog_format = ROW" in error.next


def test_rows_of_a_distributed_transaction_stop_the_source(shop: Followed) -> None:
    shop.run("XA START 'x'", "INSERT INTO t (id) VALUES (500)", "XA END 'x'", "XA COMMIT 'x' ONE PHASE")
    shop.catches_up()
    shop.is_same()
    shop.run("XA START 'y'", "INSERT INTO t (id) VALUES (501)", "XA END 'y'", "XA PREPARE 'y'", "XA COMMIT 'y'")
    assert "XA PREPARE" in shop.stops("source.setup").what


@pytest.mark.parametrize(
    ("text", "does", "tables"),
    [
        ("BEGIN", Does.BEGINS, ()),
        ("/* ApplicationName=x */ truncate `d 1`.`a``b`", Does.EMPTIES, (("d 1", "a`b"),)),
        ("DROP TABLE IF EXISTS `a`, e.`b` /* generated by server */", Does.ALTERS, (("d", "a"), ("e", "b"))),
        ("DROP TEMPORARY TABLE IF EXISTS a", Does.NOTHING, ()),
        ("CREATE TEMPORARY TABLE a (i int)", Does.NOTHING, ()),
        ("DROP DATABASE x", Does.ALTERS, (("x", ""),)),
        ("RENAME TABLE a TO e.b, c TO a", Does.ALTERS, (("d", "a"), ("e", "b"), ("d", "c"), ("d", "a"))),
        ("ALTER TABLE a ADD COLUMN x enum('drop, modify', 'b') DEFAULT 'b', ADD INDEX (x)", Does.NOTHING, (("d", "a"),)),
        ("ALTER TABLE a ADD x int, MODIFY y int", Does.ALTERS, (("d", "a"),)),
        ("ALTER IGNORE TABLE a ADD UNIQUE (x)", Does.ALTERS, (("d", "a"),)),
        ("ALTER TABLE a ADD PRIMARY KEY (x)", Does.ALTERS, (("d", "a"),)),
        ("ALTER TABLE a\n/*M!100100 DROP COLUMN b */", Does.ALTERS, (("d", "a"),)),
        ("ALTER TABLE a RENAME TO b", Does.ALTERS, (("d", "a"), ("d", "b"))),
        ("ALTER TABLE a COMMENT 'x, y'", Does.NOTHING, (("d", "a"),)),
        ("CREATE INDEX i ON a (x)", Does.NOTHING, ()),
        ("GRANT SELECT ON a TO b", Does.NOTHING, ()),
        ("insert into a values (1)", Does.WRITES, ()),
    ],
)  # fmt: skip
def test_statements_are_told_apart(text: str, does: Does, tables: tuple[tuple[str, str], ...]) -> None:
    found = parse(text, "d")
    assert (found.does, found.tables) == (does, tables)
