"""JSON rows become Arrow exactly: judged by the values that were written, and the fast rules by the exact ones."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.formats.json_rows import (
    RowsRefused,
    complete_lines,
    exact_numbers,
    parse,
    read_lines,
    to_columns,
)
from headrace.formats.types import spelled
from headrace.formats.types.arrow import to_arrow
from headrace.formats.types.json import ColumnRefused, column, exact_rule
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column

UTC = dt.UTC
ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: dt.timezone(dt.timedelta(minutes=minutes)))
TIMES = st.datetimes(dt.datetime(1, 1, 3), dt.datetime(9999, 12, 29), timezones=ZONES)
TEXTS = st.text(st.characters(exclude_categories=("Cs",)))


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    limit = 10**precision - 1
    return st.integers(-limit, limit).map(lambda unscaled: Decimal((unscaled < 0, digits(unscaled), -scale)))


def digits(number: int) -> tuple[int, ...]:
    return tuple(int(digit) for digit in str(abs(number)))


def number_text(value: Decimal) -> str:
    return format(value, "f")


# type text -> (values, how a client spells one in JSON)
SPELLINGS: dict[str, tuple[st.SearchStrategy[Any], Callable[[Any], str]]] = {
    "boolean": (st.booleans(), json.dumps),
    "tinyint": (st.integers(-(2**7), 2**7 - 1), json.dumps),
    "int": (st.integers(-(2**31), 2**31 - 1), json.dumps),
    "bigint": (st.integers(-(2**63), 2**63 - 1), json.dumps),
    "double": (st.floats(allow_nan=False, allow_infinity=False), json.dumps),
    "string": (TEXTS, json.dumps),
    "binary": (st.binary(), lambda v: json.dumps(base64.b64encode(v).decode())),
    "date": (st.dates(), lambda v: json.dumps(v.isoformat())),
    "timestamp": (TIMES, lambda v: json.dumps(v.isoformat())),
    "timestamp_ntz": (st.datetimes(), lambda v: json.dumps(v.isoformat())),
    "decimal(12,2)": (decimals(12, 2), number_text),
    "decimal(15,0)": (decimals(15, 0), number_text),
    "decimal(38,18)": (decimals(38, 18), number_text),
    "decimal(20,4)": (decimals(20, 4), lambda v: json.dumps(number_text(v))),
    "array<bigint>": (st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)), json.dumps),
    "struct<a:int,b:string>": (
        st.fixed_dictionaries({"a": st.none() | st.integers(0, 99), "b": st.none() | TEXTS}),
        json.dumps,
    ),
    "map<string,int>": (st.dictionaries(TEXTS, st.none() | st.integers(0, 99)), json.dumps),
}


@pytest.mark.parametrize("type_text", SPELLINGS)
@given(data=st.data())
def test_what_a_client_writes_is_what_arrow_holds(type_text: str, data: st.DataObject) -> None:
    values, spell = SPELLINGS[type_text]
    drawn = data.draw(st.lists(st.none() | values, max_size=8))
    columns = (Column("v", type_text), Column("n", "bigint"))
    text = "[" + ",".join(f'{{"v":{"null" if v is None else spell(v)},"n":{n}}}' for n, v in enumerate(drawn)) + "]"
    arrays = to_columns(parse(text.encode(), exact_numbers(columns)), columns)
    assert arrays[0].type == to_arrow(type_text)
    held = [dict(v) if type_text.startswith("map") and v is not None else v for v in arrays[0].to_pylist()]
    assert held == drawn
    assert arrays[1].to_pylist() == list(range(len(drawn)))


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**66), 2**66),
    st.floats(),
    st.floats(-1000, 1000).map(lambda v: round(v, 3)),
    st.decimals(allow_nan=True, allow_infinity=True),
    st.sampled_from(["", "1", "1.5", "-0", "0x10", "1e3", "1e99999999999", "007", " 1", "NaN", "Infinity", "true"]),
    st.sampled_from(["2024-02-29", "2023-02-29", "0000-01-01", "2024-1-1", "20240229", "2024-02-29T24:00:00Z"]),
    st.sampled_from(["2024-02-29T10", "2024-02-29 10:11", "2024-02-29T10:11:12.123456789Z", "2024-02-29Z"]),
    st.sampled_from(["0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "2024-02-29t10:11:12z"]),
    TIMES.map(dt.datetime.isoformat),
    st.datetimes().map(dt.datetime.isoformat),
    st.dates().map(dt.date.isoformat),
    TEXTS,
)


@pytest.mark.parametrize(
    "type_text",
    [
        *("boolean", "smallint", "bigint", "float", "double", "string", "date", "timestamp", "timestamp_ntz"),
        *("decimal(5,2)", "decimal(12,0)", "decimal(38,20)", "decimal(38,30)", "binary"),
    ],
)
@given(values=st.lists(ANYTHING, max_size=4))
def test_fast_rules_agree_with_the_exact_ones(type_text: str, values: list[Any]) -> None:
    arrow = to_arrow(type_text)
    rule = exact_rule(arrow)
    taken, refused = [], []
    for index, value in enumerate(values):
        try:
            taken.append(None if value is None else rule(value))
        except ValueError as error:
            refused.append((index, str(error)))
    if refused:
        with pytest.raises(ColumnRefused) as caught:
            column(values, arrow)
        assert caught.value.bad == refused
    else:
        assert_same(column(values, arrow), pa.array(taken, arrow))


def assert_same(a: pa.Array, b: pa.Array) -> None:
    assert a.type == b.type
    a.validate(full=True)
    if pa.types.is_floating(a.type):
        assert [repr(v) for v in a.to_pylist()] == [repr(v) for v in b.to_pylist()]
    else:
        assert a.equals(b)


@pytest.mark.parametrize(
    ("type_text", "value", "why"),
    [
        ("bigint", "12", "must be a whole number, not text '12'"),
        ("bigint", 1.5, "must be a whole number, not number 1.5"),
        ("bigint", True, "must be a whole number, not boolean true"),
        ("bigint", 2**63, "9223372036854775808 is outside the range of bigint"),
        ("smallint", 40000, "40000 is outside the range of smallint"),
        ("double", "1.5", "must be a number, not text '1.5'"),
        ("float", 1e39, "1e+39 is outside the range of float"),
        ("decimal(5,2)", 1.005, "1.005 has more than 2 digits after the point"),
        ("decimal(5,2)", "1000", "'1000' has more than 3 digits before the point"),
        ("decimal(5,2)", Decimal("1E+1000000"), "1E+1000000 has more than 3 digits before the point"),
        ("string", 5, "must be text, not number 5"),
        ("string", "\ud800", "must be valid Unicode; a surrogate stands alone"),
        ("date", "2023-02-29", "must be a date such as '2025-01-31', not text '2023-02-29'"),
        ("timestamp", 1700000000, "must be a timestamp such as '2025-01-31T12:00:00Z', not number 1700000000"),
        ("timestamp_ntz", "2024-01-01T00:00:00Z", "must be a timestamp without a zone, not '2024-01-01T00:00:00Z'"),
        ("binary", "not base64!", "must be bytes in base64, not text 'not base64!'"),
        ("array<int>", [1, "x"], "element 2: must be a whole number, not text 'x'"),
        ("struct<a:int>", {"b": 1}, "has no field 'b'; there are: a"),
        ("struct<a:struct<b:int>>", {"a": {"b": "x"}}, "field 'a': field 'b': must be a whole number, not text 'x'"),
        ("map<int,string>", {"x": "a"}, "key 'x': must be a whole number, not text 'x'"),
        ("map<int,string>", [[1, "a"], [1, "b"]], "a key of a map occurs twice"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(type_text: str, value: Any, why: str) -> None:
    with pytest.raises(ColumnRefused) as caught:
        column([None, value], to_arrow(type_text))
    assert caught.value.bad == [(1, why)]


def test_spellings_beyond_the_plain_ones() -> None:
    def one(type_text: str, value: Any) -> Any:
        return column([value], to_arrow(type_text))[0].as_py()

    assert one("bigint", 3.0) == 3
    assert one("timestamp", "2024-02-29T12:00:00") == dt.datetime(2024, 2, 29, 12, tzinfo=UTC)
    assert one("timestamp", "2024-02-29") == dt.datetime(2024, 2, 29, tzinfo=UTC)
    assert one("timestamp", "2024-02-29T12:00:00.123456999+02:00") == dt.datetime(2024, 2, 29, 10, 0, 0, 123456, UTC)
    assert math.isnan(one("double", "NaN"))
    assert one("double", "-Infinity") == -math.inf
    assert one("map<int,boolean>", {"1": True}) == [(1, True)]
    assert one("map<boolean,int>", {"true": 1}) == [(True, 1)]


def test_a_type_without_spelling_is_refused() -> None:
    with pytest.raises(HeadraceError, match="has no spelling in JSON") as caught:
        exact_rule(pa.duration("ns"))
    assert caught.value.code == "config.invalid"


@pytest.mark.parametrize(
    ("type_text", "text", "value", "shown_as"),
    [
        (
            "interval day to second",
            "P3DT4H5M6.7S",
            dt.timedelta(days=3, hours=4, minutes=5, seconds=6.7),
            "P3DT14706.7S",
        ),
        ("interval day to second", "-P1DT1S", dt.timedelta(days=-1, seconds=-1), "-P1DT1S"),
        ("interval day to second", "PT0S", dt.timedelta(0), "PT0S"),
        ("interval day to second", "P1W", dt.timedelta(days=7), "P7D"),
        ("interval year to month", "P1Y2M", {"_months": 14}, "P1Y2M"),
        ("interval year to month", "P-1M", {"_months": -1}, "P-1M"),
        ("interval year to month", "P0M", {"_months": 0}, "P0M"),
        ("interval", "P1M-30DT-0.5S", {"_months": 1, "_days": -30, "_microseconds": -500_000}, "P1M-30DT-0.5S"),
        ("interval", "-P2Y1D", {"_months": -24, "_days": -1, "_microseconds": 0}, "P-2Y-1D"),
    ],
)
def test_intervals_are_iso_8601(type_text: str, text: str, value: Any, shown_as: str) -> None:
    assert column([text, value, None], to_arrow(type_text)).to_pylist() == [value, value, None]
    assert spelled.value(value) == shown_as


@pytest.mark.parametrize(
    ("type_text", "given", "why"),
    [
        ("interval day to second", "P1M", "without months"),
        ("interval year to month", "P1Y2D", "years and months"),
        ("interval year to month", "P178956971Y", "too long"),
        ("interval day to second", "P999999999999D", "too long"),
        ("interval", "1 month", "P1Y2M"),
        ("interval", "P", "P1Y2M"),
        ("interval", "P1DT", "P1Y2M"),
        ("interval", 5, "P1Y2M"),
        ("interval day to second", "P200000000D", "too long"),
        ("interval day to second", "P106751991DT14454.775808S", "too long"),
        ("interval day to second", "-P106751991DT14454.000001S", "too long"),
        ("interval year to month", {"_months": 3_000_000_000}, "too long"),
        ("interval", {"_months": 0, "_days": -(2**31) - 1, "_microseconds": 0}, "too long"),
        pytest.param("interval day to second", f"PT{'9' * 1_000_001}S", "digits", id="a million digits"),
    ],
)
def test_what_is_no_interval_is_refused(type_text: str, given: Any, why: str) -> None:
    with pytest.raises(ColumnRefused) as caught:
        column([given], to_arrow(type_text))
    assert why in caught.value.bad[0][1]


def test_the_longest_intervals_are_taken() -> None:
    times = column(["P106751991DT14454.775807S", "-P106751991DT14454S"], to_arrow("interval day to second"))
    assert times.cast(pa.int64()).to_pylist() == [2**63 - 1, -9_223_372_036_854_000_000]
    months = column(["P178956970Y7M", "-P178956970Y8M"], to_arrow("interval year to month"))
    assert months.to_pylist() == [{"_months": 2**31 - 1}, {"_months": -(2**31)}]


def test_every_bad_row_is_named_once() -> None:
    rows = [{"id": 1, "n": 2}, {"id": "x", "n": "y"}, {"id": 3, "m": 4}, {"id": None}]
    with pytest.raises(RowsRefused) as caught:
        to_columns(rows, (Column("id", "bigint"), Column("n", "int")))
    assert [(bad.row, bad.column) for bad in caught.value.bad] == [(1, "id"), (2, "m")]
    assert caught.value.bad[0].why == "column 'id' (bigint) must be a whole number, not text 'x'"
    assert caught.value.bad[1].why == "there is no column 'm'; there are: id, n"


def test_numbers_wider_than_a_double_survive() -> None:
    columns = (Column("v", "decimal(38,10)"),)
    rows = parse(b'[{"v":1234567890123456789012345678.0123456789},{"v":0.1000000000000000055}]', exact_numbers(columns))
    assert to_columns(rows[:1], columns)[0].to_pylist() == [Decimal("1234567890123456789012345678.0123456789")]
    with pytest.raises(RowsRefused, match="more than 10 digits after the point"):
        to_columns(rows, columns)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("text", [b"{", b"NaN", b'"\xff"', b"[" * 100_000, b'{"a":1}{"a":2}', b""])
def test_what_is_not_json_is_a_value_error(text: bytes, exact: bool) -> None:
    with pytest.raises(ValueError):
        parse(text, exact)


def test_an_exponent_beyond_all_limits_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="the exponent of a number is beyond all limits"):
        parse(b'{"v": 1e1000000000000000000}', exact=True)


LINES = (Column("id", "bigint", nullable=False), Column("note", "string"))


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ('{"id":1}\n\n{"id":"x"}\n', 3, "column 'id' (bigint) must be a whole number, not text 'x'"),
        ('{"id":1}\r\n{"id":1\r\n', 2, "the line is not JSON"),
        ('{"id":1},{"id":2}\n', 1, "the line is not JSON"),
        ('\n[1]\n{"id":"x"}\n', 2, "the line must hold an object, not [1]"),
        ('{"id":"x"}\nnonsense\n', 1, "column 'id'"),
        ('{"id":1}\n{"note":"a"}\n', 2, "column 'id' is missing or null, which it must not be"),
        ('{"id":1,"nota":"a"}\n', 1, "there is no column 'nota'; did you mean 'note'?"),
    ],
)
def test_bad_line_is_named(tmp_path: Path, text: str, line: int, why: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"id":0}\n' + text.encode())
    with pytest.raises(HeadraceError) as caught:
        read_lines(path, LINES, "in/a.jsonl", 9, path.stat().st_size)
    assert caught.value.code == "source.row"
    assert caught.value.where == f"in/a.jsonl:{line + 1}"
    assert caught.value.what.startswith(why)


@given(rows=st.lists(st.tuples(st.integers(0, 99), TEXTS), max_size=20), chunk=st.integers(1, 60))
def test_lines_are_read_in_any_chunks(rows: list[tuple[int, str]], chunk: int) -> None:
    import tempfile

    import headrace.formats.json_rows as module

    text = "".join(json.dumps({"id": id_, "note": note}, ensure_ascii=False) + "\n" for id_, note in rows).encode()
    before, module.CHUNK_BYTES = module.CHUNK_BYTES, chunk
    try:
        with tempfile.NamedTemporaryFile() as file:
            file.write(text + b'{"id":')
            file.flush()
            end = complete_lines(Path(file.name), 0, len(text) + 6, final=True)
            assert end == len(text)
            table = read_lines(Path(file.name), LINES, "x", 0, end)
    finally:
        module.CHUNK_BYTES = before
    assert table.to_pylist() == [{"id": id_, "note": note} for id_, note in rows]


def test_last_line_without_a_line_feed_counts_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"id":1}\n{"id":2}')
    assert complete_lines(path, 0, 17, final=True) == 17
    assert complete_lines(path, 0, 17, final=False) == 9
    assert complete_lines(path, 9, 16, final=True) == 9
    assert complete_lines(path, 0, 4, final=False) == 0
