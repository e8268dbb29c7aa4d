"""Goal: whatever a PostgreSQL database does in the field either arrives exactly or stops with table and column named.

Method: a real server, one test a case. A client's own reading of the tables after each transaction is the judge: as
multisets of whole rows it must equal the tables rebuilt from what the source delivered up to that transaction.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.compute as pc
import pytest
from following import LOOK_SECONDS, Followed

from postgres_server import Shop, database, drain, postgres_server, shop

__all__ = ["database", "postgres_server", "shop"]  # fixtures

pytestmark = pytest.mark.postgres


@contextmanager
def rolled_back(connection: psycopg.Connection[Any], name: str) -> Iterator[None]:
    connection.execute(f"SAVEPOINT {name}".encode())
    yield
    connection.execute(f"ROLLBACK TO {name}".encode())


LARGE = "(SELECT string_agg(md5(g::text || {0}), '') FROM generate_series(1, 500) g)"  # out of line: TOAST

# --- replica identity -----------------------------------------------------------------------------------------------


def test_identity_default_by_the_primary_key(shop: Shop) -> None:
    shop.run("CREATE TABLE t (a int, x text, b text, n int, PRIMARY KEY (b, a)); INSERT INTO t VALUES (1, 'x', 'k', 1)")
    one = Followed(shop, "t")
    one.does(f"INSERT INTO t VALUES (2, {LARGE.format(1)}, 'k', 1), (3, NULL, 'k', NULL)")
    one.does("UPDATE t SET n = n + 1", "UPDATE t SET x = NULL WHERE a = 1")
    one.does("DELETE FROM t WHERE a = 2", "INSERT INTO t VALUES (2, 'again', 'k', 1)", "UPDATE t SET n = 9 WHERE a = 2")


def test_identity_full_with_and_without_a_key(shop: Shop) -> None:
    for name, key in (("t", ""), ("k", " PRIMARY KEY")):
        shop.run(f"CREATE TABLE {name} (a int{key}, x text, f float8); ALTER TABLE {name} REPLICA IDENTITY FULL")
    shop.run("INSERT INTO t VALUES (1, 'x', 0), (1, 'x', 0), (NULL, NULL, NULL)")
    one = Followed(shop, "t", "k")
    one.does(
        f"INSERT INTO t VALUES (1, 'x', 0), (7, {LARGE.format(1)}, 1)", f"INSERT INTO k VALUES (1, {LARGE.format(2)})"
    )
    one.does("UPDATE t SET f = -1 WHERE a = 7", "UPDATE k SET a = 5", "DELETE FROM t WHERE a IS NULL")
    one.does("DELETE FROM t WHERE ctid = (SELECT min(ctid) FROM t WHERE a = 1)", "UPDATE t SET x = 'y' WHERE a = 1")


def test_identity_nothing_is_insert_only_and_an_update_stops_with_the_table_named(shop: Shop) -> None:
    shop.run("CREATE TABLE t (a int PRIMARY KEY); ALTER TABLE t REPLICA IDENTITY NOTHING; INSERT INTO t VALUES (1)")
    one = Followed(shop, "t")
    assert "only inserts" in shop.source.warnings(frozenset({"t"}))[0]
    one.does("INSERT INTO t VALUES (2)")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
        shop.run("DELETE FROM t WHERE a = 1")  # PostgreSQL refuses it itself, for everyone
    shop.run("ALTER TABLE t REPLICA IDENTITY DEFAULT")
    one.runs("DELETE FROM t WHERE a = 1")
    assert "table t: an update or a delete" in one.stops("source.no_identity").what


def test_identity_using_an_index(shop: Shop) -> None:
    shop.run(
        "CREATE TABLE t (id int PRIMARY KEY, code text NOT NULL, n int); CREATE UNIQUE INDEX u ON t (code);"
        "ALTER TABLE t REPLICA IDENTITY USING INDEX u; INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)"
    )
    one = Followed(shop, "t")
    assert one.replica.relations["t"].key == ("code",)
    one.does("UPDATE t SET id = id + 10", "UPDATE t SET code = 'c' WHERE code = 'a'", "DELETE FROM t WHERE code = 'b'")


def test_an_identity_that_changes_is_seen(shop: Shop) -> None:
    """From the primary key to an index: old rows come without the key that was announced."""
    shop.run("CREATE TABLE t (id int PRIMARY KEY, code text NOT NULL); CREATE UNIQUE INDEX u ON t (code)")
    one = Followed(shop, "t")
    one.does("INSERT INTO t VALUES (1, 'a')")
    one.runs("ALTER TABLE t REPLICA IDENTITY USING INDEX u", "DELETE FROM t")
    assert "table t" in (error := one.stops("source.schema")).what and "key" in error.what


# --- keys, large values, truncation ---------------------------------------------------------------------------------


def test_key_updates(shop: Shop) -> None:
    shop.run("CREATE TABLE t (id int PRIMARY KEY DEFERRABLE, x int); ALTER TABLE t REPLICA IDENTITY FULL")
    shop.run("CREATE TABLE k (id int PRIMARY KEY, x int)")
    for name in ("t", "k"):
        shop.run(f"INSERT INTO {name} SELECT g, g FROM generate_series(1, 5) g")
    one = Followed(shop, "t", "k")
    one.does("UPDATE k SET id = id + 100", "UPDATE k SET id = id - 100, x = 0 WHERE id > 103")
    one.does("UPDATE k SET id = 50 WHERE id = 101", "UPDATE k SET id = 51 WHERE id = 50", "DELETE FROM k WHERE id = 51")
    one.does("SET CONSTRAINTS ALL DEFERRED", "UPDATE t SET id = 6 - id")  # keys meet on the way


def test_truncate_of_one_of_several_and_cascading(shop: Shop) -> None:
    shop.run(
        "CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY, a int REFERENCES a); "
        "CREATE TABLE c (x serial); INSERT INTO a VALUES (1), (2); INSERT INTO b VALUES (1, 1); INSERT INTO c VALUES (1)"
    )
    one = Followed(shop, "a", "b", "c")
    one.does("TRUNCATE b", "INSERT INTO b VALUES (2, 2)")
    one.does("TRUNCATE a CASCADE")
    one.does("INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (1, 1)", "TRUNCATE a, b, c RESTART IDENTITY")
    one.does("INSERT INTO a VALUES (7)", "TRUNCATE c", "INSERT INTO c VALUES (5), (5)")


# --- partitions and inheritance -------------------------------------------------------------------------------------

PARTITIONED = (
    "CREATE TABLE p (id int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);"
    "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);"
    "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20) PARTITION BY LIST (id);"
    "CREATE TABLE p2a PARTITION OF p2 FOR VALUES IN (11, 12); CREATE TABLE p2b PARTITION OF p2 DEFAULT;"
    "INSERT INTO p VALUES (1, 'one'), (11, 'eleven'), (15, 'fifteen')"
)


def test_partitions_and_subpartitions_and_rows_that_move_between_them(shop: Shop) -> None:
    shop.run(PARTITIONED)
    one = Followed(shop, "p")
    one.does("INSERT INTO p VALUES (2, 'two'), (12, 'twelve')", "INSERT INTO p1 VALUES (3, 'three')")
    one.does(
        "UPDATE p SET id = 16 WHERE id = 1", "UPDATE p SET id = 11 + id WHERE id = 2", "DELETE FROM p2 WHERE id = 12"
    )
    one.does("TRUNCATE p", "INSERT INTO p VALUES (5, 'five')")


def test_a_partition_created_meanwhile_brings_its_rows_by_the_stream(shop: Shop) -> None:
    """It is not copied anew: it never had rows that were not sent."""
    shop.run(PARTITIONED)
    one = Followed(shop, "p")
    one.does("CREATE TABLE p3 PARTITION OF p FOR VALUES FROM (20) TO (30)", "INSERT INTO p VALUES (25, 'new')")
    one.does("CREATE TABLE p4 PARTITION OF p FOR VALUES FROM (30) TO (40) PARTITION BY RANGE (id)")
    one.does("CREATE TABLE p4a PARTITION OF p4 DEFAULT", "INSERT INTO p4a VALUES (31, 'deep')", "SAVEPOINT s")
    time.sleep(2 * LOOK_SECONDS)
    one.does("UPDATE p SET v = upper(v)")
    one.restarts()
    one.does("CREATE TABLE p5 PARTITION OF p FOR VALUES FROM (40) TO (50)", "INSERT INTO p VALUES (45, 'last')")
    one.shop.source.close()
    shop.run("CREATE TABLE p6 PARTITION OF p FOR VALUES FROM (50) TO (60); INSERT INTO p VALUES (55, 'while down')")
    one.restarts()
    one.catches_up()
    one.is_same()
    assert one.told == []


@pytest.mark.parametrize("how", ["attach", "attach at once", "attach a tree", "detach", "drop", "truncate"])
def test_rows_of_a_partition_that_come_or_go_with_it_are_not_missed(shop: Shop, how: str) -> None:
    """No row event tells of them. They come by a copy, together, and others go on; also when nobody looked meanwhile."""
    statements = {
        "attach": [
            "CREATE TABLE x (v text, id int NOT NULL)",
            "INSERT INTO x VALUES ('a', 70), ('b', 71)",
            "ALTER TABLE p ATTACH PARTITION x FOR VALUES FROM (70) TO (80)",
        ],
        "attach at once": [
            "CREATE TABLE x (LIKE p INCLUDING ALL); INSERT INTO x VALUES (70, 'a');"
            "ALTER TABLE p ATTACH PARTITION x FOR VALUES FROM (70) TO (80)",
        ],
        "attach a tree": [
            "CREATE TABLE x (id int NOT NULL, v text) PARTITION BY LIST (id)",
            "CREATE TABLE xx PARTITION OF x DEFAULT",
            "INSERT INTO x VALUES (70, 'a')",
            "ALTER TABLE p ATTACH PARTITION x FOR VALUES FROM (70) TO (80)",
        ],
        "detach": ["ALTER TABLE p DETACH PARTITION p1"],
        "drop": ["DROP TABLE p2"],
        "truncate": ["TRUNCATE p1"],
    }[how]
    shop.run(PARTITIONED + "; CREATE TABLE other (id int PRIMARY KEY)")
    one = Followed(shop, "p", "other")
    one.does("INSERT INTO p VALUES (2, 'two')", "INSERT INTO other VALUES (1)")
    before = one.held("p")
    for statement in statements:
        shop.run(statement)
    assert one.held("p") != before
    one.copies_anew("p")
    one.is_same()
    one.does("INSERT INTO other VALUES (2)", "UPDATE p SET v = v || '!'")
    assert one.told == []


def test_a_partition_detached_while_nobody_looked(shop: Shop) -> None:
    shop.run(PARTITIONED)
    one = Followed(shop, "p")
    one.does("INSERT INTO p VALUES (2, 'two')")
    shop.source.close()
    shop.run("ALTER TABLE p DETACH PARTITION p1; INSERT INTO p VALUES (19, 'still')")
    one.restarts()
    one.copies_anew("p")
    one.is_same()


def test_tables_that_inherit_are_tables_of_their_own(shop: Shop) -> None:
    shop.run(
        "CREATE TABLE base (id int PRIMARY KEY, x text); CREATE TABLE child (y int, PRIMARY KEY (id)) INHERITS (base);"
        "INSERT INTO base VALUES (1, 'base'); INSERT INTO child VALUES (2, 'child', 5)"
    )
    one = Followed(shop, "base", "child")
    assert "UNION ALL" in shop.source.warnings(frozenset({"base"}))[0]
    one.does("UPDATE base SET x = upper(x)", "INSERT INTO child VALUES (3, 'c', NULL)")
    one.does("DELETE FROM base WHERE id < 3", "TRUNCATE ONLY base")
    one.does("TRUNCATE base")


# --- values ---------------------------------------------------------------------------------------------------------


def test_generated_columns_are_left_out_and_the_rest_is_exact(shop: Shop) -> None:
    shop.run(
        "CREATE TABLE t (a int, twice int GENERATED ALWAYS AS (a * 2) STORED,"
        "id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, b text); INSERT INTO t (a, b) VALUES (1, 'x')"
    )
    one = Followed(shop, "t")
    assert one.replica.relations["t"].names == ("a", "id", "b")
    one.does("INSERT INTO t (a, b) VALUES (2, 'y')", "UPDATE t SET a = a + 1", "DELETE FROM t WHERE id = 1")


def test_arrays_with_nulls_and_of_several_dimensions(shop: Shop) -> None:
    """Of one dimension as arrays; of more they stop the source by name, or come as text."""
    shop.run("CREATE TABLE t (id int PRIMARY KEY, a int[], s text[], d date[]); INSERT INTO t VALUES (1, '{1,NULL}')")
    one = Followed(shop, "t")
    one.does("INSERT INTO t VALUES (2, '{}', ARRAY[NULL, '', 'NULL', 'a\"b,{}\\'], '{2020-02-29,NULL}')")
    one.does("INSERT INTO t VALUES (3)", "UPDATE t SET a = '{NULL,NULL}' WHERE id = 2")
    one.runs("INSERT INTO t VALUES (4, '{{1,2},{3,NULL}}')")
    error = one.stops("source.row")
    assert "table t: column a: the value '{{1,2},{3,NULL}}'" in error.what and "as_text: [t.a]" in error.next
    one.restarts(as_text=["t.a"])
    one.copies_anew("t")
    one.is_same()
    assert ("{{1,2},{3,NULL}}") in [row[1] for row in one.held("t")]
    one.does("UPDATE t SET a = a || a WHERE id < 4")


def test_ranges_enums_domains_json_and_hstore_come_as_text(shop: Shop) -> None:
    shop.run(
        "CREATE EXTENSION hstore; CREATE TYPE mood AS ENUM ('sad', 'o''k'); CREATE DOMAIN pos AS int CHECK (VALUE > 0);"
        "CREATE DOMAIN pos2 AS pos; CREATE DOMAIN tags AS text[]; CREATE TYPE pair AS (a int, b text);"
        "CREATE TABLE t (id pos2 PRIMARY KEY, r int4range, tr tstzrange, mr int4multirange, m mood, ms mood[], "
        "j json, jb jsonb, h hstore, g tags, p pair, ds pos[])"
    )
    one = Followed(shop, "t")
    row = (
        "'[1,5)', '[2020-01-01 00:00+02,)', '{[1,2),[5,9]}', 'o''k', '{sad,NULL}', '{\"b\":  1, \"a\":[null]}', "
        "'{\"b\":  1, \"a\":[null]}', 'a=>1, \"b c\"=>NULL', '{x,NULL}', ROW(1, 'q\"'), '{1,2}'"
    )
    one.does(f"INSERT INTO t VALUES (1, {row})", "INSERT INTO t VALUES (2)")
    one.does("UPDATE t SET r = 'empty', m = 'sad', jb = jb || '{\"z\": 1e400}'", "UPDATE t SET id = 3 WHERE id = 2")
    one.does("ALTER TYPE mood ADD VALUE 'new' BEFORE 'sad'")
    one.does("INSERT INTO t (id, m) VALUES (9, 'new')")
    restored = shop.run(
        "SELECT r::text, tr::text FROM t WHERE id = 1"
    )  # a client in another zone reads the same instant
    assert restored[0][0] == "empty"


def test_arrays_that_are_printed_without_commas_come_as_text(shop: Shop) -> None:
    """A type says what stands between its values in an array; of boxes it is a semicolon."""
    shop.run("CREATE DOMAIN crate AS box; CREATE TABLE t (id int PRIMARY KEY, bs box[], cs crate[], ps point[])")
    shop.run("INSERT INTO t VALUES (1, '{(1,1),(0,0);(3,3),(2,2)}', '{(1,1),(0,0)}', '{\"(1,2)\",\"(3,4)\"}')")
    one = Followed(shop, "t")
    types = [column.type for column in one.replica.relations["t"].columns]
    assert types == ["int", "string", "string", "array<string>"]
    one.does("INSERT INTO t VALUES (2, '{}', NULL, '{}')", "UPDATE t SET bs = bs || '(5,5),(4,4)'::box WHERE id = 1")
    assert "{(1,1),(0,0);(3,3),(2,2);(5,5),(4,4)}" in [row[1] for row in one.replica.contents("t")]


def test_a_renamed_label_of_an_enum_reaches_the_rows_that_have_it(shop: Shop) -> None:
    shop.run("CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TABLE t (id int PRIMARY KEY, m mood, ms mood[])")
    shop.run("INSERT INTO t VALUES (1, 'sad', '{sad,ok}'), (2, 'ok', NULL)")
    one = Followed(shop, "t")
    shop.run("ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'")
    one.copies_anew("t")
    one.is_same()


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e30", "1e-19"])
def test_a_numeric_that_no_decimal_holds_stops_by_name_or_comes_as_text(shop: Shop, value: str) -> None:
    shop.run("CREATE TABLE t (id int PRIMARY KEY, n numeric, x float8); INSERT INTO t VALUES (1, 1.50, 'NaN')")
    one = Followed(shop, "t")
    one.does("INSERT INTO t VALUES (2, -0.000000000000000001, '-Infinity')", "UPDATE t SET x = 1 WHERE id = 1")
    one.runs(f"INSERT INTO t VALUES (3, '{value}', NULL)")
    error = one.stops("source.row")
    assert "table t: column n: the value '" in error.what and "as_text: [t.n]" in error.next
    one.restarts(as_text=["t.n"])
    one.copies_anew("t")
    one.is_same()
    one.does(f"UPDATE t SET n = '{value}'")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("d", "0044-03-15 BC"),
        ("d", "-infinity"),
        ("ts", "0044-03-15 12:00:00 BC"),
        ("ts", "infinity"),
        ("tz", "0044-03-15 12:00:00+00 BC"),
        ("tz", "-infinity"),
        ("d", "10000-01-01"),
    ],
)
def test_times_before_christ_and_infinite_stop_by_name_or_come_as_text(shop: Shop, column: str, value: str) -> None:
    shop.run("CREATE TABLE t (id int PRIMARY KEY, d date, ts timestamp, tz timestamptz)")
    one = Followed(shop, "t")
    one.does("INSERT INTO t VALUES (1, '0001-01-01', '0001-01-01', '0001-01-02 00:00+00')")
    one.runs(f"INSERT INTO t (id, {column}) VALUES (2, '{value}')")
    error = one.stops("source.row")
    assert f"table t: column {column}: the value '{value}'" in error.what and f"as_text: [t.{column}]" in error.next
    one.restarts(as_text=[f"t.{column}"])
    one.copies_anew("t")
    one.is_same()
    assert value in {row[("id", "d", "ts", "tz").index(column)] for row in one.replica.contents("t")}


# --- transactions ---------------------------------------------------------------------------------------------------


def test_aborted_subtransactions_leave_nothing(shop: Shop) -> None:
    shop.run("CREATE TABLE t (id int PRIMARY KEY, x text)")
    one = Followed(shop, "t")
    with psycopg.connect(shop.dsn) as connection:
        connection.execute("INSERT INTO t VALUES (1, 'kept')")
        with rolled_back(connection, "a"):
            connection.execute("INSERT INTO t VALUES (2, 'never')")
            connection.execute("SAVEPOINT b")
            connection.execute("UPDATE t SET x = 'never' WHERE id = 1")
            connection.execute("RELEASE b")
        with rolled_back(connection, "c"):
            connection.execute("TRUNCATE t")
        connection.execute("INSERT INTO t VALUES (2, 'second')")
        connection.execute("DO $$ BEGIN INSERT INTO t VALUES (1); EXCEPTION WHEN unique_violation THEN NULL; END $$")
    one.catches_up()
    one.is_same()
    assert one.transactions == 1


def test_a_large_open_transaction_is_seen_at_its_commit_and_never_when_aborted(shop: Shop) -> None:
    """More than the server decodes in memory; another transaction passes it meanwhile."""
    shop.run("CREATE TABLE t (id int PRIMARY KEY, x text)")
    one = Followed(shop, "t", dsn=shop.dsn + "?options=-c%20logical_decoding_work_mem%3D64kB")
    fill = "INSERT INTO t SELECT g, repeat('x', 200) FROM generate_series(%s::int, %s) g"
    for number, end in enumerate(("ROLLBACK", "COMMIT")):
        with psycopg.connect(shop.dsn) as connection:
            connection.execute(fill, (1, 20_000))
            connection.execute("SAVEPOINT s")
            connection.execute(fill, (20_001, 30_000))
            connection.execute("ROLLBACK TO s")
            one.does(f"INSERT INTO t VALUES ({-1 - number}, 'beside')")
            before = one.transactions
            connection.execute(end.encode())
        one.catches_up()
        one.is_same()
        assert one.transactions - before == number
    assert len(one.replica.contents("t")) == 20_002


def test_prepared_transactions_are_seen_when_they_commit(shop: Shop) -> None:
    shop.run("CREATE TABLE t (id int PRIMARY KEY, x text)")
    one = Followed(shop, "t")
    with psycopg.connect(shop.dsn, autocommit=True) as connection:
        for number, end in enumerate(("COMMIT", "ROLLBACK")):
            connection.execute("BEGIN")
            connection.execute(f"INSERT INTO t VALUES ({number}, 'prepared')".encode())
            connection.execute(f"PREPARE TRANSACTION '{shop.database}'".encode())
            one.does(f"INSERT INTO t VALUES ({10 + number}, 'beside')")
            assert len(one.replica.contents("t")) == 1 + 2 * number
            connection.execute(f"{end} PREPARED '{shop.database}'".encode())
            one.catches_up()
            one.is_same()
    assert [row[0] for row in sorted(one.replica.contents("t"))] == [0, 10, 11]


def memory(name: str) -> int:
    """Bytes; VmRSS now, VmHWM at its most since ``/proc/self/clear_refs`` was written to."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise KeyError(name)


def test_a_transaction_of_200000_rows_is_whole_and_needs_a_bounded_multiple_of_its_bytes(shop: Shop) -> None:
    rows, width = 200_000, 200
    shop.run("CREATE TABLE t (id int PRIMARY KEY, x text)")
    one = Followed(shop, "t")
    one.runs(f"INSERT INTO t SELECT g, repeat('x', {width}) FROM generate_series(1, {rows}) g")
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    (batch,) = drain(shop.source)
    grown = memory("VmHWM") - before
    assert len(batch.origins) == 1 and batch.changes["t"].num_rows == rows
    assert pc.sum(batch.changes["t"]["id"]).as_py() == rows * (rows + 1) // 2
    assert grown < 8 * rows * width, f"{grown:,} bytes"
