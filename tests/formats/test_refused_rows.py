"""Goal: of a file with bad rows the good ones are read as if the bad were not there, and each bad one is kept as it came.

Method: random files of good and bad lines; the good ones alone make the file that the strict reader judges by.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.formats import csv_rows, json_rows, parquet_rows
from headrace.formats.json_rows import BadRow
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column

COLUMNS = (
    Column("id", "bigint", nullable=False), Column("note", "string"), Column("amount", "decimal(6,2)"),
    Column("n", "int"),
)  # fmt: skip
BAD_JSON = [
    b"{", b"[1]", b'{"id": 1, "amount": "a lot"}', b'{"note": "no id"}', b'{"id": null}', b'{"id": 1, "x": 2}',
    b'{"id": 1.5}', b'{"id": 7, "note": "\xff"}', b'{"id": 3000000000, "n": 3000000000}', b"not json",
]  # fmt: skip
BAD_CSV = [
    b"1,a", b"1,a,2.00,1,1", b"x,a,2.00,1", b",a,2.00,1", b"1,a,much,1", b"1,\xff,2.00,1", b"1,a,2.001,1",
    b"1,a,2.00,3000000000",
]  # fmt: skip


def good_json(chance: random.Random) -> bytes:
    row = {"id": chance.randint(0, 99), "note": chance.choice([None, "x", "é\n"])}
    if chance.random() < 0.5:
        row |= {"amount": f"{chance.randint(0, 999) / 100:.2f}", "n": chance.choice([None, -5])}
    return json.dumps(row).encode()


def good_csv(chance: random.Random) -> bytes:
    note = chance.choice(["", "x", '"a, ""b"""', '"two\nlines"', "é"])
    return f"{chance.randint(0, 99)},{note},{chance.choice(['', '1.50'])},{chance.choice(['', '-7'])}".encode()


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("kind", "good", "bad"), [("jsonl", good_json, BAD_JSON), ("csv", good_csv, BAD_CSV)])
def test_text_files(
    tmp_path: Path, kind: str, good: Callable[[random.Random], bytes], bad: list[bytes], seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(csv_rows, "SIFTED_ROWS", 7)
    monkeypatch.setattr(json_rows, "CHUNK_BYTES", 200)
    chance = random.Random(seed)
    header = b"id,note,amount,n\n" if kind == "csv" else b""
    made, expected, only = header, [], header
    for _ in range(40):
        line = header.count(b"\n") + made[len(header) :].count(b"\n") + 1
        if chance.random() < 0.3:
            text = chance.choice(bad)
            expected.append((line, header + text))
            made += text + b"\n"
        else:
            text = good(chance) + b"\n"
            made, only = made + text, only + text
        if chance.random() < 0.1:
            made += b"\n"
    (tmp_path / f"all.{kind}").write_bytes(made)
    (tmp_path / f"good.{kind}").write_bytes(only)

    def read(name: str, refused: list[BadRow] | None) -> pa.Table:
        path = tmp_path / f"{name}.{kind}"
        if kind == "csv":
            return csv_rows.read(path, COLUMNS, "f", refused=refused)
        return json_rows.read_lines(path, COLUMNS, "f", 0, path.stat().st_size, refused)

    refused: list[BadRow] = []
    assert read("all", refused).to_pylist() == read("good", None).to_pylist()
    assert [(row.number, row.text) for row in refused] == expected
    with pytest.raises(HeadraceError) as raised:
        read("all", None)
    reasons = {f"f:{row.number}": row.why for row in refused}
    assert raised.value.code == "source.row"
    assert reasons[raised.value.where] == raised.value.what


def test_parquet_files(tmp_path: Path) -> None:
    amounts = [Decimal("1.00"), Decimal("12345.00"), None, Decimal("2.50"), Decimal("99999.99")]
    table = pa.table({"id": pa.array([1, 2, None, 4, 5]), "amount": pa.array(amounts, pa.decimal128(10, 2))})
    pq.write_table(table, tmp_path / "a.parquet")
    refused: list[BadRow] = []
    found = parquet_rows.read(tmp_path / "a.parquet", COLUMNS, "a", refused)
    assert [(row["id"], row["amount"]) for row in found.to_pylist()] == [(1, Decimal("1.00")), (4, Decimal("2.50"))]
    assert [(row.number, json.loads(row.text)) for row in refused] == [
        (2, {"id": 2, "amount": "12345.00"}), (3, {"id": None, "amount": None}), (5, {"id": 5, "amount": "99999.99"}),
    ]  # fmt: skip
    with pytest.raises(HeadraceError) as raised:
        parquet_rows.read(tmp_path / "a.parquet", COLUMNS, "a")
    assert raised.value.where == "a: row 2"


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_a_file_of_nothing_but_bad_rows_is_a_wrong_file(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"a.{kind}"
    for module in (json_rows, parquet_rows):
        monkeypatch.setattr(module, "REFUSED_MAX", 3)
    if kind == "parquet":
        pq.write_table(pa.table({"id": pa.nulls(4, pa.int64())}), path)
    else:
        path.write_text("id,note\n,a\n,b\n,c\n,d\n" if kind == "csv" else "{}\n" * 4)
    refused: list[BadRow] = []
    with pytest.raises(HeadraceError) as raised:
        if kind == "csv":
            csv_rows.read(path, COLUMNS, "f", refused=refused)
        elif kind == "jsonl":
            json_rows.read_lines(path, COLUMNS, "f", 0, path.stat().st_size, refused)
        else:
            parquet_rows.read(path, COLUMNS, "f", refused)
    assert raised.value.code == "source.row" and "more than 3 rows of the file do not fit" in raised.value.why
    assert refused == []


def test_a_kept_row_of_csv_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'note;id;amount\n"x;\ny";1;12345.00\n')
    refused: list[BadRow] = []
    csv_rows.read(tmp_path / "a.csv", COLUMNS, "f", ";", refused)
    wider = (*COLUMNS[:2], Column("amount", "decimal(8,2)"))
    assert csv_rows.read_row(refused[0].text, wider, ";") == {"note": "x;\ny", "id": 1, "amount": "12345.00"}
