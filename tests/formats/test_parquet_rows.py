"""Parquet files as DuckDB and Arrow write them; only casts that keep every value are made."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.formats.parquet_rows import columns_of, read
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column


def test_a_file_of_duckdb(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    duckdb.sql(
        "COPY (SELECT 1::BIGINT id, 'a' AS name, 1.25::DECIMAL(9,2) price, DATE '2024-02-29' AS day,"
        " TIMESTAMPTZ '2024-02-29 10:00:00+02' AS at, [1, NULL] AS list, {'a': 1} AS object"
        f" UNION ALL SELECT 2, NULL, NULL, NULL, NULL, NULL, NULL ORDER BY id) TO '{path}' (FORMAT parquet)"
    )
    columns = columns_of(path, "a.parquet")
    assert [(column.name, column.type) for column in columns] == [
        ("id", "bigint"),
        ("name", "string"),
        ("price", "decimal(9,2)"),
        ("day", "date"),
        ("at", "timestamp"),
        ("list", "array<int>"),
        ("object", "struct<a:int>"),
    ]
    first, second = read(path, columns, "a.parquet").to_pylist()
    assert first == {
        "id": 1,
        "name": "a",
        "price": Decimal("1.25"),
        "day": dt.date(2024, 2, 29),
        "at": dt.datetime(2024, 2, 29, 8, tzinfo=dt.UTC),
        "list": [1, None],
        "object": {"a": 1},
    }
    assert second == dict.fromkeys(first) | {"id": 2}


def write(tmp_path: Path, array: pa.Array) -> Path:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"v": array}), path)
    return path


@pytest.mark.parametrize(
    ("array", "type_text", "values"),
    [
        (pa.array([1, None], pa.int32()), "bigint", [1, None]),
        (pa.array([1, 2], pa.int64()), "tinyint", [1, 2]),
        (pa.array([1], pa.int64()), "decimal(12,2)", [Decimal("1.00")]),
        (pa.array([1], pa.int64()), "double", [1.0]),
        (pa.array([1.5], pa.float32()), "double", [1.5]),
        (pa.array([Decimal("1.50")]), "decimal(12,1)", [Decimal("1.5")]),
        (pa.array(["a", "b"]).dictionary_encode(), "string", ["a", "b"]),
        (pa.array([1_500], pa.timestamp("ns")), "timestamp", [dt.datetime(1970, 1, 1, 0, 0, 0, 1, dt.UTC)]),
        (pa.array([None], pa.null()), "date", [None]),
        (pa.array([[1]], pa.large_list(pa.int32())), "array<bigint>", [[1]]),
    ],
)
def test_casts_that_keep_the_values(tmp_path: Path, array: pa.Array, type_text: str, values: list[Any]) -> None:
    table = read(write(tmp_path, array), (Column("v", type_text),), "a")
    assert table.column("v").to_pylist() == values


@pytest.mark.parametrize(
    ("array", "type_text", "code", "where"),
    [
        (pa.array([1] * 700 + [300, 400]), "tinyint", "source.row", "in/a: row 701"),
        (pa.array([Decimal("1.50"), Decimal("1.25")]), "decimal(12,1)", "source.row", "in/a: row 2"),
        (pa.array([2**53, 2**53 + 1]), "double", "source.row", "in/a: row 2"),
        (pa.array([1, None]), "bigint not null", "source.row", "in/a: row 2"),
        (pa.array(["1"]), "bigint", "source.file", "in/a"),
        (pa.array([1]), "string", "source.file", "in/a"),
        (pa.array([1]), "timestamp", "source.file", "in/a"),
        (pa.array([1.5]), "float", "source.file", "in/a"),
    ],
)
def test_casts_that_do_not(tmp_path: Path, array: pa.Array, type_text: str, code: str, where: str) -> None:
    column = Column("v", type_text.removesuffix(" not null"), not type_text.endswith("not null"))
    with pytest.raises(HeadraceError) as caught:
        read(write(tmp_path, array), (column,), "in/a")
    assert (caught.value.code, caught.value.where) == (code, where)


def test_other_columns(tmp_path: Path) -> None:
    path = write(tmp_path, pa.array([1]))
    assert read(path, (Column("v", "bigint"), Column("w", "date")), "a").to_pylist() == [{"v": 1, "w": None}]
    with pytest.raises(HeadraceError, match="there is no column 'v'") as caught:
        read(path, (Column("w", "bigint"),), "a")
    assert caught.value.code == "source.file"


def test_a_file_whose_pages_are_damaged(tmp_path: Path) -> None:
    path = write(tmp_path, pa.array(range(1000)))
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + b"\xff" * 64 + whole[68:])
    with pytest.raises(HeadraceError) as caught:
        read(path, (Column("v", "bigint"),), "in/a.parquet")
    assert (caught.value.code, caught.value.where) == ("source.file", "in/a.parquet")


def test_a_file_that_is_not_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1 but not really")
    with pytest.raises(HeadraceError) as caught:
        read(path, (Column("v", "bigint"),), "in/a.parquet")
    assert (caught.value.code, caught.value.where) == ("source.file", "in/a.parquet")
