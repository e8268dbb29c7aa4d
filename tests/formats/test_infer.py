"""Columns from samples: what was seen decides, what contradicts itself is refused, and what was kept stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.formats.infer import KeptSchemas, declared, inferred, inferred_from_text
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column, Relation


def types(*rows: dict[str, Any]) -> dict[str, str]:
    return {column.name: column.type for column in inferred("t", rows, ()).columns}


def test_json_values_show_their_types() -> None:
    row = {
        "n": 1,
        "big": 2**63,
        "x": 1.5,
        "yes": True,
        "text": "a",
        "day": "2024-02-29",
        "at": "2024-02-29T10:00:00Z",
        "local": "2024-02-29 10:00:00",
        "no_day": "2024-02-30",
        "nothing": None,
        "list": [1, 2.5],
        "empty": [],
        "object": {"a": 1, "b c": None},
        "bare": {},
    }
    assert types(row) == {
        "n": "bigint",
        "big": "decimal(38,0)",
        "x": "double",
        "yes": "boolean",
        "text": "string",
        "day": "date",
        "at": "timestamp",
        "local": "timestamp",
        "no_day": "string",
        "nothing": "string",
        "list": "array<double>",
        "empty": "array<string>",
        "object": "struct<a:bigint,`b c`:string>",
        "bare": "map<string,string>",
    }


def test_rows_are_taken_together() -> None:
    assert types({"a": None}, {"a": 1, "b": "2024-01-01"}, {"a": 2.5, "b": "2024-01-01T00:00Z", "c": [{"x": 1}]}) == {
        "a": "double",
        "b": "timestamp",
        "c": "array<struct<x:bigint>>",
    }
    assert types({"o": {"x": 1}}, {"o": {"y": "a"}}) == {"o": "struct<x:bigint,y:string>"}


def test_mixed_types_are_refused_with_the_way_out() -> None:
    with pytest.raises(HeadraceError) as caught:
        inferred("t", [{"a": 1}, {"a": "x"}], (), "here")
    assert caught.value.code == "source.row"
    assert caught.value.what == "the type of column 'a' of 't' cannot be inferred: it has bigint and string"
    assert caught.value.next == "declare it: columns: {a: TYPE}"


def test_what_is_nested_too_deeply_is_refused() -> None:
    deep: object = 1
    for _ in range(64):
        deep = {"a": deep}
    assert types({"v": deep})["v"].endswith("<a:bigint" + ">" * 64)
    with pytest.raises(HeadraceError) as caught:
        types({"v": [deep]})
    assert caught.value.code == "source.row"
    assert (
        caught.value.what == "the type of column 'v' of 't' cannot be inferred: it has values nested more than 64 deep"
    )


def test_csv_text_shows_its_types() -> None:
    relation = inferred_from_text(
        "t",
        {
            "n": ["1", "", "-20"],
            "zip": ["00123", "45678"],
            "x": ["1", "1.5", "1e3"],
            "flag": ["true", "FALSE"],
            "day": ["2024-01-01"],
            "at": ["2024-01-01", "2024-01-01T10:00:00+02:00"],
            "odd": ["1", "a"],
            "blank": ["", ""],
            "long": ["9" * 5000],
        },
        ("n",),
    )
    assert relation.key == ("n",)
    assert relation.columns[0] == Column("n", "bigint", nullable=False)
    assert [column.type for column in relation.columns] == [
        *("bigint", "string", "double", "boolean", "date", "timestamp", "string", "string", "string")
    ]


def test_declared_columns_keep_order_key_and_nullability() -> None:
    relation = declared("t", {"id": "LONG", "name": "varchar(5) NOT NULL", "x": "Decimal(9, 2)"}, ("id",))
    assert relation == Relation(
        "t", (Column("id", "bigint", False), Column("name", "string", False), Column("x", "decimal(9,2)")), ("id",)
    )


@pytest.mark.parametrize(
    ("columns", "key", "what"),
    [
        ({"id": "bigintt"}, (), "column 'id' of 't': 'bigintt' is not a column type"),
        ({"id": "int", "ID": "int"}, (), "'t' cannot have a column 'ID'"),
        ({"_t": "int"}, (), "'t' cannot have a column '_t'"),
        ({"id": "int"}, ("idd",), "the key column 'idd' is not a column of 't'"),
        ({}, (), "'t' has no columns"),
    ],
)
def test_declarations_that_cannot_be_used(columns: dict[str, str], key: tuple[str, ...], what: str) -> None:
    with pytest.raises(HeadraceError) as caught:
        declared("t", columns, key, "sources/x.yaml")
    assert (caught.value.code, caught.value.what, caught.value.where) == ("config.invalid", what, caught.value.where)


def test_kept_columns_stand(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "shop.json"
    kept = KeptSchemas(path)
    assert kept.get("t", ()) is None
    relation = inferred("t", [{"id": 1, "x": {"a": [1.5]}}], ("id",))
    kept.keep([relation])
    again = KeptSchemas(path)
    assert again.get("t", ("id",)) == relation
    assert [file.name for file in path.parent.iterdir()] == ["shop.json"]
    again.drop()
    assert KeptSchemas(path).get("t", ()) is None
