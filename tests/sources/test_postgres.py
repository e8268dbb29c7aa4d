"""Goal: what the PostgreSQL source hands on is what the database holds, transaction by transaction, whatever happens.

Method: a real server. Batches are replayed into plain Python dictionaries (``Replica``) by rules written from the
model's description; the judge is psycopg reading the same tables.
"""

from __future__ import annotations

import json
import threading
import time

import psycopg
import pyarrow.compute as pc
import pytest

from headrace.formats.types import postgres as types
from headrace.model import transaction as model
from headrace.model.altered import ALTERED
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column
from headrace.model.transaction import TransactionBatch
from headrace.sources.connectors.postgres.connector import PostgresSource
from postgres_server import Replica, Shop, changes, database, drain, fails, postgres_server, shop

__all__ = ["database", "postgres_server", "shop"]  # fixtures

pytestmark = pytest.mark.postgres


# --- types ----------------------------------------------------------------------------------------------------------

# column type -> (Spark type, values, whether psycopg's own reading is the judge; else PostgreSQL's cast to text is)
TYPES: dict[str, tuple[str, list[str], bool]] = {
    "smallint": ("smallint", ["-32768", "0", "32767"], True),
    "integer": ("int", ["-2147483648", "2147483647"], True),
    "bigint": ("bigint", ["-9223372036854775808", "9223372036854775807"], True),
    "oid": ("bigint", ["4294967295"], True),
    "real": ("float", ["'0.1'", "'-3.4028235e+38'", "'Infinity'", "'1e-45'"], True),
    "double precision": ("double", ["'0.1'", "'-0'", "'1.7976931348623157e+308'", "'-Infinity'"], True),
    "numeric(12,2)": ("decimal(12,2)", ["1.5", "-9999999999.99", "0"], True),
    "numeric": ("decimal(38,18)", ["12345678901234567890.123456789012345678", "-0.000000000000000001", "7"], True),
    "numeric(5,-2)": ("decimal(7,0)", ["1234567"], True),
    "boolean": ("boolean", ["true", "false"], True),
    "text": ("string", ["''", "'NULL'", "E'a\\tb\\n\"c\\\\,'", "'Zürich 😀'", "repeat('x', 3000)"], True),
    "varchar(10)": ("string", ["'abc  '"], True),
    "char(5)": ("string", ["'ab'"], True),
    "bytea": ("binary", ["'\\x'", "'\\x00ff0a5c'"], True),
    "date": ("date", ["'0001-01-01'", "'2026-02-28'", "'9999-12-31'"], True),
    "timestamp": ("timestamp_ntz", ["'2026-11-21 09:46:07.123456'", "'0001-01-01'", "'9999-12-31 23:59:59'"], True),
    "timestamptz": ("timestamp", ["'2026-11-21 09:46:07.1+05:30'", "'1890-01-01 00:00+00'"], True),
    "uuid": ("string", ["'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"], False),
    "json": ("string", ['\'{"a":  [1, "x"]}\''], False),
    "jsonb": ("string", ['\'{"b": 1, "a": null}\''], False),
    "inet": ("string", ["'192.168.0.1/24'"], False),
    "mood": ("string", ["'happy'"], False),
    "money_eur": ("decimal(10,2)", ["12.30"], True),
    "time": ("string", ["'23:59:59.5'"], False),
    "interval": ("string", ["'1 year 2 days 03:04:05.6'"], False),
    "int4range": ("string", ["'[1,5)'"], False),
    "bit(3)": ("string", ["B'101'"], False),
    "integer[]": ("array<int>", ["'{}'", "'{1,NULL,3}'", "'[2:3]={4,5}'"], True),
    "text[]": ("array<string>", ["ARRAY['a,b', NULL, 'NULL', '', E'q\"\\\\', '{x}']", "'{}'"], True),
    "numeric(8,3)[]": ("array<decimal(8,3)>", ["'{1.5,-2}'"], True),
    "boolean[]": ("array<boolean>", ["'{t,f,NULL}'"], True),
    "timestamptz[]": ("array<timestamp>", ["'{2026-01-01 00:00+00}'"], True),
    "bytea[]": ("array<binary>", ["ARRAY['\\x01ff'::bytea, '\\x']"], True),
    "uuid[]": ("array<string>", ["'{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}'"], False),
}


def test_every_type_arrives_as_psycopg_reads_it(shop: Shop) -> None:
    """Both ways in: rows that the first copy brings, and the same rows from the stream."""
    shop.run("CREATE TYPE mood AS ENUM ('sad', 'happy'); CREATE DOMAIN money_eur AS numeric(10,2)")
    columns = ", ".join(f"c{place} {name}" for place, name in enumerate(TYPES))
    shop.run(f"CREATE TABLE t (id serial PRIMARY KEY, {columns})")
    depth = max(len(literals) for _, literals, _ in TYPES.values()) + 1  # one more: a row of nulls
    for row in range(depth):
        values = ", ".join(literals[row] if row < len(literals) else "NULL" for _, literals, _ in TYPES.values())
        shop.run(f"INSERT INTO t ({', '.join(f'c{place}' for place in range(len(TYPES)))}) VALUES ({values})")
    copied = shop.begin("t")
    assert shop.source.relations()[0].columns == (
        Column("id", "int", nullable=False),
        *(Column(f"c{place}", spark) for place, (spark, _, _) in enumerate(TYPES.values())),
    )
    shop.run("CREATE TEMP TABLE x AS TABLE t; DELETE FROM t; INSERT INTO t TABLE x")
    streamed = [row for row in changes(drain(shop.source), "t") if row["_op"] == model.INSERT]
    plain = ", ".join(
        f"c{place}" + ("::float8" if name == "real" else "" if typed else "::text[]" if "[]" in name else "::text")
        for place, (name, (_, _, typed)) in enumerate(TYPES.items())
    )
    expected = [tuple(row) for row in shop.run(f"SET timezone = 'UTC'; SELECT {plain} FROM t ORDER BY id")]
    for rows in (changes(copied, "t"), streamed):
        found = [tuple(row[f"c{place}"] for place in range(len(TYPES))) for row in sorted(rows, key=lambda r: r["id"])]
        assert found == expected
    assert repr(streamed[1]["c5"]) == "-0.0"


def test_a_column_made_for_a_spark_type_is_read_as_that_type(shop: Shop) -> None:
    spark = ["boolean", "smallint", "int", "bigint", "float", "double", "string", "binary", "date", "timestamp"]
    spark += ["timestamp_ntz", "decimal(12,2)", "decimal(38,18)", "decimal(9,0)", "array<int>", "array<decimal(5,1)>"]
    shop.run(f"CREATE TABLE t ({', '.join(f'c{n} {types.from_spark(name)}' for n, name in enumerate(spark))})")
    assert [column.type for column in shop.source.relations()[0].columns] == spark


def test_types_without_an_equal_on_the_other_side() -> None:
    away = {"tinyint": "smallint", "map<string,int>": "jsonb", "array<array<int>>": "jsonb", "struct<a:int>": "jsonb"}
    assert {spark: types.from_spark(spark) for spark in away} == away
    back = {
        "int4": "int",
        "numeric(60,2)": "string",
        "numeric(2,5)": "decimal(5,5)",
        "timestamptz(3)[]": "array<timestamp>",
    }
    assert {spelled: types.to_spark(spelled) for spelled in back} == back


def test_values_that_no_type_holds_are_named_and_stop_the_source_after_what_came_before(shop: Shop) -> None:
    shop.run("CREATE TABLE t (id int PRIMARY KEY, at timestamptz, n numeric, a int[])")
    shop.begin("t")
    shop.run("INSERT INTO t VALUES (1, now(), 1, NULL)")
    shop.run("INSERT INTO t VALUES (2, 'infinity', 2, NULL)")
    assert [row["id"] for row in changes([shop.source.poll(3)], "t")] == [1]
    error = fails("source.row", shop.source.poll, 1)
    assert "table t: column at: the value 'infinity'" in error.what and error.where.startswith("LSN ")
    for literal, name in (("'NaN'", "n"), ("1e-19", "n"), ("'{{1},{2}}'", "a")):
        shop.source.drop()
        shop.run(f"TRUNCATE t; INSERT INTO t (id, {name}) VALUES (1, {literal})")
        shop.source.start(frozenset({"t"}), None)
        error = fails("source.row", shop.source.poll, 5)
        assert f"column {name}" in error.what and "first copy" in error.where


# --- consistency ----------------------------------------------------------------------------------------------------

ACCOUNTS = 40


def make_bank(shop: Shop) -> None:
    for name in ("a", "b"):
        shop.run(f"CREATE TABLE {name} (id int PRIMARY KEY, balance bigint NOT NULL)")
        shop.run(f"INSERT INTO {name} SELECT g, 100 FROM generate_series(1, {ACCOUNTS}) g")


class Transfers(threading.Thread):
    """Moves money between the tables a and b in transactions of 2 to 40 statements, some of them rolled back."""

    def __init__(self, dsn: str, also: str = "") -> None:
        super().__init__()
        self.dsn, self.also = dsn, also
        self.stopped = threading.Event()
        self.done = 0

    def run(self) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            while not self.stopped.is_set():
                self.done += 1
                with connection.transaction(force_rollback=self.done % 7 == 0):
                    for step in range(1 + self.done % 20):
                        key = (self.done * 13 + step) % ACCOUNTS + 1
                        connection.execute("UPDATE a SET balance = balance - 1 WHERE id = %s", (key,))
                        connection.execute("UPDATE b SET balance = balance + 1 WHERE id = %s", (key,))
                    if self.also:
                        connection.execute(self.also)

    def __enter__(self) -> Transfers:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self.join()


def total(replica: Replica) -> int:
    return sum(row["balance"] for name in ("a", "b") for row in replica.rows[name].values())


def test_copy_and_stream_join_without_gap_while_others_write(shop: Shop) -> None:
    """After every single transaction the two tables' sum is what it always was."""
    make_bank(shop)
    replica = Replica(shop.source)
    transactions = 0
    with Transfers(shop.dsn) as writer:
        shop.source.start(frozenset({"a", "b"}), None)
        while transactions < 50:
            batch = shop.source.poll(0.1)
            if batch is None:
                continue
            shop.source.confirm(batch, transactions)
            for _ in replica.apply(batch):
                transactions += 1
                assert total(replica) == 2 * ACCOUNTS * 100
    replica.apply_all(drain(shop.source, at_least=0, quiet_s=1))
    assert writer.done >= 50
    assert [replica.contents("a"), replica.contents("b")] == [shop.held("a"), shop.held("b")]


def test_a_restart_at_any_logged_position_loses_and_repeats_nothing(shop: Shop) -> None:
    """Only every second batch is confirmed before the connection goes; each start resumes after the last one taken."""
    make_bank(shop)
    replica = Replica(shop.source)
    ends: list[int] = []
    position: str | None = None
    with Transfers(shop.dsn):
        for round_number in range(6):
            shop.source.start(frozenset({"a", "b"}), position)
            taken = 0
            while taken < 2:
                batch = shop.source.poll(5)
                assert batch is not None
                taken += 1
                for ordinal in replica.apply(batch):
                    assert total(replica) == 2 * ACCOUNTS * 100
                    lsn = json.loads(batch.origins[ordinal].position)["lsn"].split("/")
                    ends.append(int(lsn[0], 16) << 32 | int(lsn[1], 16))
                position = batch.origins[-1].position
                if round_number % 2 == taken % 2:
                    shop.source.confirm(batch, 0)
            shop.source.close()
    shop.source.start(frozenset({"a", "b"}), position)
    shop.run("UPDATE a SET balance = balance WHERE id = 1")
    replica.apply_all(drain(shop.source))
    assert [replica.contents("a"), replica.contents("b")] == [shop.held("a"), shop.held("b")]
    assert ends == sorted(set(ends))


def test_a_table_added_while_others_write_arrives_whole(shop: Shop) -> None:
    make_bank(shop)
    shop.run("CREATE TABLE late (id serial PRIMARY KEY, note text); INSERT INTO late (note) VALUES ('before')")
    replica = Replica(shop.source)
    replica.apply_all(shop.begin("a", "b"))
    also = "INSERT INTO late (note) VALUES ('while')"
    added_at: list[int] = []
    with Transfers(shop.dsn, also) as writer:
        while writer.done < 10:
            time.sleep(0.01)
        shop.source.add(frozenset({"late"}))
        while len(added_at) < 30:
            batch = shop.source.poll(0.1)
            if batch is None:
                continue
            shop.source.confirm(batch, 0)
            for ordinal in replica.apply(batch):
                followed = json.loads(batch.origins[ordinal].position)["tables"]
                assert ("late" in followed) == ("late" in replica.rows)
                if "late" in followed:
                    added_at.append(ordinal)
                assert total(replica) == 2 * ACCOUNTS * 100
    replica.apply_all(drain(shop.source, at_least=0, quiet_s=1))
    for name in ("a", "b", "late"):
        assert replica.contents(name) == shop.held(name)
    assert shop.run("SELECT count(*) FROM pg_replication_slots WHERE temporary")[0][0] == 0


def test_a_slow_first_copy_holds_up_no_other_table_and_misses_no_open_transaction(shop: Shop) -> None:
    """A transaction that wrote into the new table before it was published commits after; the copy waits for it."""
    make_bank(shop)
    shop.run("CREATE TABLE late (id int PRIMARY KEY); INSERT INTO late VALUES (1)")
    replica = Replica(shop.source)
    replica.apply_all(shop.begin("a", "b"))
    with psycopg.connect(shop.dsn) as open_one:
        open_one.execute("INSERT INTO late VALUES (2)")
        shop.source.add(frozenset({"late"}))
        for round_number in range(3):
            shop.run(f"UPDATE a SET balance = {round_number}; INSERT INTO late VALUES ({10 + round_number})")
            batch = shop.source.poll(3)
            assert batch is not None and set(batch.changes) == {"a"}
            replica.apply_all([batch])
        open_one.execute("INSERT INTO late VALUES (3)")
    replica.apply_all(drain(shop.source))
    shop.run("DELETE FROM late WHERE id < 3; INSERT INTO late VALUES (20)")
    replica.apply_all(drain(shop.source))
    assert replica.contents("late") == shop.held("late") == [(10,), (11,), (12,), (20,), (3,)]
    assert replica.contents("a") == shop.held("a")


def test_a_transaction_is_never_cut_however_large(shop: Shop) -> None:
    """It is larger than a batch may be, and polls are shorter than its arrival."""
    shop.run("CREATE TABLE t (id int PRIMARY KEY, x text)")
    shop.begin("t")
    shop.run("INSERT INTO t SELECT g, 'row ' || g FROM generate_series(1, 210000) g; INSERT INTO t VALUES (0, '')")
    batches: list[TransactionBatch] = []
    polls = 0
    while not batches:
        polls += 1
        batches += [batch for batch in [shop.source.poll(0.02)] if batch]
    assert polls > 1 and len(batches[0].origins) == 1
    table = batches[0].changes["t"]
    assert table.num_rows == 210_001 and pc.sum(table["id"]).as_py() == 210_000 * 210_001 // 2


def test_a_table_that_cannot_be_copied_holds_up_no_other(shop: Shop) -> None:
    shop.run("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE bad (id numeric); INSERT INTO bad VALUES ('NaN')")
    shop.begin("t")
    shop.source.add(frozenset({"bad"}))
    error = None
    while error is None:
        try:
            assert shop.source.poll(0.1) is None
        except HeadraceError as raised:
            error = raised
    assert error.code == "source.row" and "table bad" in error.what
    shop.run("INSERT INTO t VALUES (1); UPDATE bad SET id = 5 WHERE false; INSERT INTO bad VALUES (2)")
    (batch,) = drain(shop.source)
    assert set(batch.changes) == {"t"}
    shop.run("TRUNCATE bad")
    shop.source.add(frozenset({"bad"}))
    assert drain(shop.source)[0].changes["bad"].num_rows == 0


# --- operations -----------------------------------------------------------------------------------------------------


def test_operations_of_a_keyed_table(shop: Shop) -> None:
    shop.run("CREATE TABLE t (x text, id int, PRIMARY KEY (id)); INSERT INTO t VALUES ('one', 1), ('two', 2)")
    copied = shop.begin("t")
    assert changes(copied, "t") == [
        {"_t": 0, "_op": 0, "x": "one", "id": 1},
        {"_t": 0, "_op": 0, "x": "two", "id": 2},
    ]
    with psycopg.connect(shop.dsn) as connection:
        connection.execute("UPDATE t SET x = 'uno' WHERE id = 1")
        connection.execute("UPDATE t SET id = 9 WHERE id = 2")
        connection.execute("SAVEPOINT s")
        connection.execute("INSERT INTO t VALUES ('never', 3)")
        connection.execute("ROLLBACK TO s")
        connection.execute("INSERT INTO t VALUES (NULL, 4)")
    before = time.time()
    with psycopg.connect(shop.dsn) as connection:
        connection.execute("DELETE FROM t WHERE id = 1")
        connection.execute("TRUNCATE t")
        connection.execute("INSERT INTO t VALUES ('new', 1)")
    batches = drain(shop.source)
    rows = [{key: value for key, value in row.items() if key != "_t"} for row in changes(batches, "t")]
    assert rows == [
        {"_op": model.UPDATE, "x": "uno", "id": 1},
        {"_op": model.DELETE, "x": None, "id": 2},
        {"_op": model.INSERT, "x": "two", "id": 9},
        {"_op": model.INSERT, "x": None, "id": 4},
        {"_op": model.DELETE, "x": None, "id": 1},
        {"_op": model.TRUNCATE, "x": None, "id": None},
        {"_op": model.INSERT, "x": "new", "id": 1},
    ]
    assert abs(batches[-1].origins[-1].committed_us / 1e6 - before) < 5


def test_an_unchanged_large_value_is_marked_and_kept(shop: Shop) -> None:
    large = "(SELECT string_agg(md5(g::text), '') FROM generate_series(1, 500) g)"
    for name in ("t", "whole"):
        shop.run(
            f"CREATE TABLE {name} (id int PRIMARY KEY, big text, n int); INSERT INTO {name} VALUES (1, {large}, 1)"
        )
    shop.run("ALTER TABLE whole REPLICA IDENTITY FULL")
    replica = Replica(shop.source)
    replica.apply_all(shop.begin("t", "whole"))
    shop.run("UPDATE t SET n = 2; UPDATE whole SET n = 2; UPDATE whole SET id = 5")
    batches = drain(shop.source)
    (row,) = changes(batches, "t")
    assert (row["_op"], row["_unchanged"], row["big"], row["n"]) == (model.UPDATE, b"\x02", None, 2)
    assert "_unchanged" not in batches[0].changes["whole"].column_names
    replica.apply_all(batches)
    assert [replica.contents("t"), replica.contents("whole")] == [shop.held("t"), shop.held("whole")]
    shop.run("UPDATE t SET id = 7")
    assert "column 'big'" in fails("source.row", shop.source.poll, 3).what.replace("its large ", "")


def test_a_table_with_full_identity_and_no_key_is_a_multiset(shop: Shop) -> None:
    shop.run("CREATE TABLE t (x int, y text); ALTER TABLE t REPLICA IDENTITY FULL; INSERT INTO t VALUES (1, 'a')")
    relation = shop.source.relations()[0]
    assert (relation.key, relation.updates) == ((), True)
    assert "followed as a multiset" in shop.source.warnings(frozenset({"t"}))[0]
    replica = Replica(shop.source)
    replica.apply_all(shop.begin("t"))
    shop.run("INSERT INTO t VALUES (1, 'a'), (1, 'a'), (2, NULL)")
    shop.run("UPDATE t SET y = 'b' WHERE ctid IN (SELECT ctid FROM t WHERE x = 1 LIMIT 2); DELETE FROM t WHERE x = 2")
    replica.apply_all(drain(shop.source))
    assert replica.contents("t") == shop.held("t") == [(1, "a"), (1, "b"), (1, "b")]


def test_a_table_without_key_is_insert_only_and_the_plan_says_what_follows(shop: Shop) -> None:
    shop.run("CREATE TABLE t (x int)")
    relation = shop.source.relations()[0]
    assert (relation.key, relation.updates) == ((), False)
    (warning,) = shop.source.warnings(frozenset({"t"}))
    assert "PostgreSQL itself refuses every UPDATE and DELETE" in warning
    shop.begin("t")
    shop.run("INSERT INTO t VALUES (1), (1)")
    assert [row["x"] for row in changes(drain(shop.source), "t")] == [1, 1]
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
        shop.run("UPDATE t SET x = 2")
    shop.run("ALTER TABLE t REPLICA IDENTITY FULL; INSERT INTO t VALUES (3)")
    shop.run("DELETE FROM t WHERE x = 3")
    assert [row["x"] for row in changes([shop.source.poll(3)], "t")] == [3]
    assert "insert-only" in fails("source.no_identity", shop.source.poll, 3).what


def test_a_partitioned_table_is_followed_by_its_root(shop: Shop) -> None:
    shop.run(
        "CREATE TABLE p (id int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);"
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);"
        "CREATE TABLE p2 (v text, id int NOT NULL);"
        "ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (10) TO (20);"
        "INSERT INTO p VALUES (1, 'one'), (11, 'eleven')"
    )
    assert [relation.name for relation in shop.source.relations()] == ["p"]
    replica = Replica(shop.source)
    replica.apply_all(shop.begin("p"))
    shop.run("UPDATE p SET id = 12 WHERE id = 1; UPDATE p SET v = 'x' WHERE id = 11; INSERT INTO p2 VALUES ('y', 15)")
    shop.run("CREATE TABLE p3 PARTITION OF p FOR VALUES FROM (20) TO (30); INSERT INTO p VALUES (25, 'new')")
    shop.run("DELETE FROM p WHERE id = 15")
    replica.apply_all(drain(shop.source))
    assert replica.contents("p") == shop.held("p") == [(11, "x"), (12, "one"), (25, "new")]


def test_keys_generated_columns_and_names(shop: Shop) -> None:
    shop.run(
        "CREATE SCHEMA s; CREATE TABLE s.k (a int, b int NOT NULL, c int GENERATED ALWAYS AS (b * 2) STORED);"
        "CREATE UNIQUE INDEX kb ON s.k (b); ALTER TABLE s.k REPLICA IDENTITY USING INDEX kb;"
        "CREATE TABLE k (id int PRIMARY KEY, gone int, n int); ALTER TABLE k DROP COLUMN gone;"
        "CREATE UNLOGGED TABLE u (id int PRIMARY KEY); CREATE VIEW v AS TABLE k;"
        'CREATE TABLE "Odd Name""s" ("sel ect" int PRIMARY KEY)'
    )
    source = PostgresSource("x", {"dsn": shop.dsn, "schemas": ["public", "s"]})
    found = {relation.name: (relation.names, relation.key) for relation in source.relations()}
    assert found == {
        "k": (("id", "n"), ("id",)),
        "s_k": (("a", "b"), ("b",)),
        'Odd Name"s': (("sel ect",), ("sel ect",)),
    }
    shop.source = PostgresSource(
        shop.database, {"dsn": shop.dsn, "tables": {"mine": "s.k", "odd": 'public.Odd Name"s'}}
    )
    replica = Replica(shop.source)
    shop.run('INSERT INTO s.k VALUES (1, 1), (2, 2); INSERT INTO "Odd Name""s" VALUES (5)')
    replica.apply_all(shop.begin("mine", "odd"))
    shop.run('UPDATE s.k SET a = 9 WHERE b = 1; DELETE FROM s.k WHERE b = 2; TRUNCATE "Odd Name""s"')
    replica.apply_all(drain(shop.source))
    assert replica.contents("mine") == [(9, 1)] and replica.contents("odd") == []
    error = fails("source.no_table", shop.source.start, frozenset({"min"}), None)
    assert error.next == "did you mean 'mine'?"


def test_only_the_wanted_tables_are_published(shop: Shop) -> None:
    shop.run("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY); CREATE TABLE c (id int)")
    position = shop.begin("a", "b")[-1].origins[-1].position
    members = "SELECT array_agg(tablename::text ORDER BY 1) FROM pg_publication_tables WHERE pubname ~ 'headrace'"
    assert shop.run(members) == [(["a", "b"],)]
    shop.source.start(frozenset({"a"}), position)
    assert shop.run(members) == [(["a"],)]
    shop.run("INSERT INTO b VALUES (1); INSERT INTO c VALUES (1); INSERT INTO a VALUES (1)")
    (batch,) = drain(shop.source)
    assert set(batch.changes) == {"a"} and json.loads(batch.origins[-1].position)["tables"] == ["a"]
    shop.source.start(frozenset({"a", "b"}), batch.origins[-1].position)  # b again: copied anew
    (batch,) = drain(shop.source)
    assert changes([batch], "b") == [{"_t": 0, "_op": 0, "id": 1}]


def test_an_altered_table_goes_on_without_the_columns_named(shop: Shop) -> None:
    shop.run("CREATE TABLE t (id int PRIMARY KEY, x int)")
    shop.begin("t")
    shop.run("INSERT INTO t VALUES (1, 1)")
    shop.run("ALTER TABLE t ADD COLUMN y int, ALTER COLUMN x TYPE bigint; INSERT INTO t VALUES (2, 2, 2)")
    batches: list[TransactionBatch | None] = []
    while len(changes(batches, "t")) < 2:
        batches.append(shop.source.poll(3))
    assert [(row["id"], row["x"]) for row in changes(batches, "t")] == [(1, 1), (2, None)]
    (said,) = [row["statement"] for row in changes(batches, ALTERED.name)]
    assert "column y is new" in said and "column x has another type" in said
