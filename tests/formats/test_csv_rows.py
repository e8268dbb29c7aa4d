"""CSV becomes Arrow exactly; the files are written by Python's own csv module, the errors name file and line."""

from __future__ import annotations

import csv
import datetime as dt
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.formats.csv_rows import head, read
from headrace.formats.json_rows import BadRow
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column

COLUMNS = (
    Column("id", "bigint", nullable=False),
    Column("note", "string"),
    Column("price", "decimal(20,3)"),
    Column("x", "double"),
    Column("flag", "boolean"),
    Column("day", "date"),
    Column("at", "timestamp"),
    Column("tags", "array<string>"),
)
# Python's csv module does not read a lone carriage return or NUL back as it was written.
CELL_TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\r\0"), max_size=10)
ROWS = st.lists(
    st.tuples(
        st.integers(-(2**63), 2**63 - 1),
        CELL_TEXT,
        st.none() | st.decimals(-(10**16), 10**16, places=3),
        st.none() | st.floats(allow_nan=False, allow_infinity=False),
        st.none() | st.booleans(),
        st.none() | st.dates(),
        st.none() | st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30), timezones=st.just(dt.UTC)),
    ),
    max_size=10,
)


@given(rows=ROWS, bom=st.booleans())
def test_what_is_written_is_what_is_read(rows: list[tuple[Any, ...]], bom: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        with path.open("w", newline="", encoding="utf-8-sig" if bom else "utf-8") as file:
            writer = csv.writer(file)
            writer.writerow([column.name for column in COLUMNS[:7]])
            for row in rows:
                writer.writerow(["" if v is None else v.isoformat() if hasattr(v, "isoformat") else v for v in row])
        table = read(path, COLUMNS, "a.csv")
    assert [tuple(row.values())[:7] for row in table.to_pylist()] == rows
    assert table.column("tags").null_count == len(rows)


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode("latin-1"))
    return path


def test_columns_in_another_order_and_quotes(tmp_path: Path) -> None:
    path = write(tmp_path, 'note;tags;id\n"a;""b""\nc";"[""x"",null]";7\n;;8\n')
    table = read(path, (COLUMNS[0], COLUMNS[1], COLUMNS[7]), "a.csv", ";")
    assert table.to_pylist() == [
        {"id": 7, "note": 'a;"b"\nc', "tags": ["x", None]},
        {"id": 8, "note": "", "tags": None},
    ]


@pytest.mark.parametrize(
    ("text", "code", "where", "what"),
    [
        ("id,x\n1,2\n1,two\n", "source.row", "in/a.csv:3", "column 'x' (double) must be a number, not text 'two'"),
        ("id,x\n1,1e400\n", "source.row", "in/a.csv:2", "column 'x' (double) must be a number, not text '1e400'"),
        ('id,note\n1,"a\nb"\n0x10,c\n', "source.row", "in/a.csv:4", "column 'id' (bigint) must be a whole number, not"),
        ("id,price\n1,1.2345\n", "source.row", "in/a.csv:2", "column 'price' (decimal(20,3)) '1.2345' has more than 3"),
        ("id,flag\n\n1,yes\n", "source.row", "in/a.csv:3", "column 'flag' (boolean) must be true or false"),
        ("id,x\n1,2\n,2\n", "source.row", "in/a.csv:3", "column 'id' is missing or null, which it must not be"),
        ("id,x\n1,2\n1,2,3\n", "source.row", "in/a.csv:3", "the row has 3 cells, the header 2"),
        ("id,note\n1,a\n2,\xff\n", "source.row", "in/a.csv:3", "the text '?' is not UTF-8"),
        ("id,nota\n1,a\n", "source.file", "in/a.csv:1", "there is no column 'nota'"),
        ("id,id\n1,2\n", "source.file", "in/a.csv:1", "the header names 'id' twice"),
        ("x\n1\n", "source.file", "in/a.csv:1", "the column 'id' is missing, which must not be null"),
        ("", "source.file", "in/a.csv:1", "the file has no header"),
    ],
)
def test_bad_files_are_named_by_line(tmp_path: Path, text: str, code: str, where: str, what: str) -> None:
    with pytest.raises(HeadraceError) as caught:
        read(write(tmp_path, text), COLUMNS, "in/a.csv")
    assert (caught.value.code, caught.value.where) == (code, where)
    assert caught.value.what.startswith(what)


def test_lines_are_right_in_later_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.formats.csv_rows.BLOCK_BYTES", 100)
    rows = "".join(f'{n},"line\nbreak"\n' for n in range(50))
    assert read(write(tmp_path, "id,note\n" + rows), COLUMNS, "a").column("id").to_pylist() == list(range(50))
    with pytest.raises(HeadraceError) as caught:
        read(write(tmp_path, "id,note\n" + rows + "x,y\n"), COLUMNS, "a")
    assert caught.value.where == "a:102"


def test_no_digit_is_lost(tmp_path: Path) -> None:
    path = write(tmp_path, "id,price\n9223372036854775807,12345678901234567.001\n")
    assert read(path, COLUMNS[:3], "a").to_pylist() == [
        {"id": 2**63 - 1, "note": None, "price": Decimal("12345678901234567.001")}
    ]


def test_a_cell_may_be_long(tmp_path: Path) -> None:
    long, refused = "x" * 200_000, list[BadRow]()
    path = write(tmp_path, f"id,note\n1,{long}\nx,b\n")
    assert head(path, "a", 9) == {"id": ["1", "x"], "note": [long, "b"]}
    assert read(path, COLUMNS[:2], "a", refused=refused).to_pylist() == [{"id": 1, "note": long}]
    assert [row.number for row in refused] == [3]


def test_head_gives_columns_of_text(tmp_path: Path) -> None:
    assert head(write(tmp_path, "a,b\n1,x\n2,y\n3,z\n"), "a.csv", 2) == {"a": ["1", "2"], "b": ["x", "y"]}
