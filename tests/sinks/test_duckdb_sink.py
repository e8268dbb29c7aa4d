"""Goal: what is particular to DuckDB. Method: a real file, opened by other processes as users do."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sink_histories import View, delivery, view, weighted
from sink_stores import DuckdbStore

from headrace.formats.types import duckdb as duckdb_types
from headrace.model.errors import HeadraceError
from headrace.sinks.connectors.duckdb.connector import DuckdbSink

LOOKS = 500
READ = (
    "import duckdb, sys; print(duckdb.connect(sys.argv[1], read_only=True).execute('SELECT * FROM sales').fetchall())"
)
HOLD = (
    "import duckdb, sys; c = duckdb.connect(sys.argv[1], read_only=True); print('open', flush=True); sys.stdin.read()"
)


def sales(*rows: tuple) -> View:
    made = view("sales", [("id", "bigint", lambda rng: 0), ("note", "string", lambda rng: "")], ("id",))
    made.rows = list(rows)
    return made


def test_another_process_reads_the_file_between_two_writes(duckdb_store: DuckdbStore) -> None:
    sink = duckdb_store.sink()
    sink.open()
    some = sales((1, "a"))
    sink.write(delivery(1, [some], replacements={"sales": some.whole()}))
    for commit, expected in ((2, "[(1, 'a'), (2, 'b')]"), (3, "[(1, 'a'), (2, 'b'), (3, 'b')]")):
        sink.write(delivery(commit, [some], deltas={"sales": weighted(some.schema, [((commit, "b"), 1)])}))
        command = [sys.executable, "-c", READ, str(duckdb_store.path)]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == expected


def test_a_file_that_another_process_holds_is_told_and_written_later(duckdb_store: DuckdbStore) -> None:
    sink = duckdb_store.sink()
    sink.open()
    some = sales((1, "a"))
    sink.write(delivery(1, [some], replacements={"sales": some.whole()}))
    change = delivery(2, [some], deltas={"sales": weighted(some.schema, [((2, "b"), 1)])})
    command = [sys.executable, "-c", HOLD, str(duckdb_store.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(HeadraceError) as caught:
            sink.write(change)
        holder.stdin.close()
    assert caught.value.code == "sink.connect"
    assert str(duckdb_store.path) in caught.value.what
    assert f"PID {holder.pid}" in caught.value.why
    assert caught.value.next == "close the other program; the same changes are sent again, none is lost"
    sink.write(change)
    assert duckdb_store.contents("sales") == Counter({(1, "a"): 1, (2, "b"): 1})


def test_a_look_at_the_sink_opens_the_file_while_a_write_closes_it(duckdb_store: DuckdbStore) -> None:
    """DuckDB itself refuses one of some hundreds: two sinks of one process look as often as they can."""
    looking = [duckdb_store.sink(), duckdb_store.sink()]
    looking[0].open()

    def look(sink: DuckdbSink) -> int:
        return sum(sink.held() == {} for _ in range(LOOKS))

    with ThreadPoolExecutor(len(looking)) as threads:
        assert list(threads.map(look, looking)) == [LOOKS, LOOKS]


def test_a_relative_path_starts_at_the_project(tmp_path: Path) -> None:
    sink = DuckdbSink("w", {"path": "out/shop.duckdb"}, {}, base=tmp_path)
    assert sink.held() == {}
    assert sink.open() is None
    assert (tmp_path / "out" / "shop.duckdb").exists()


def test_a_file_of_another_kind_is_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("not a database " * 500)
    with pytest.raises(HeadraceError) as caught:
        DuckdbSink("w", {"path": str(other)}, {}, "sinks/w.yaml").open()
    assert (caught.value.code, caught.value.where) == ("sink.connect", "sinks/w.yaml")
    assert "not a valid DuckDB database" in caught.value.why
    assert other.read_text() == "not a database " * 500


def test_a_path_is_needed() -> None:
    with pytest.raises(HeadraceError) as caught:
        DuckdbSink("w", {}, {})
    assert (caught.value.code, caught.value.what) == ("config.invalid", "'path' is missing")


def test_two_columns_that_duckdb_takes_for_one_are_refused(duckdb_store: DuckdbStore) -> None:
    some = view("sales", [("id", "bigint", lambda rng: 0), ("ID", "bigint", lambda rng: 0)])
    sink = duckdb_store.sink()
    sink.open()
    with pytest.raises(HeadraceError) as caught:
        sink.write(delivery(1, [some], replacements={"sales": some.whole()}))
    assert caught.value.code == "sink.value"
    assert "two columns named 'id'" in caught.value.why


@pytest.mark.parametrize(
    ("spark", "duckdb"),
    [
        ("tinyint", "TINYINT"),
        ("decimal(38,18)", "DECIMAL(38,18)"),
        ("timestamp", "TIMESTAMP WITH TIME ZONE"),
        ("timestamp_ntz", "TIMESTAMP"),
        ("binary", "BLOB"),
        ("void", "VARCHAR"),
        ("array<array<float>>", "FLOAT[][]"),
        ("map<string,decimal(5,2)>", "MAP(VARCHAR, DECIMAL(5,2))"),
        ('struct<a:int,`b "c`:array<date>>', 'STRUCT("a" INTEGER, "b ""c" DATE[])'),
    ],
)
def test_types_are_translated(spark: str, duckdb: str) -> None:
    assert duckdb_types.from_spark(spark) == duckdb
    assert duckdb_types.has_floats(spark) == ("float" in spark)
