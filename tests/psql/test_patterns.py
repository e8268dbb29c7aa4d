"""Goal: ``to_char`` shows, and ``to_timestamp`` and ``to_date`` read, by PostgreSQL's patterns as PostgreSQL does; what
is not known is refused.

Method: many patterns times many values, each in one statement that a real PostgreSQL answers too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from headrace.testing.postgres import PostgresServer
from psql_project import Views, connect, serving

MOMENTS = [
    "2024-02-29 23:59:59.123456",
    "2023-01-01 00:00:00",
    "1999-12-31 12:05:09.5",
    "2021-08-09 01:02:03",
    "0099-03-04 11:11:11",
]
OF_MOMENTS = [
    "YYYY-MM-DD", "YYYY-MM-DD HH24:MI:SS.MS", "yyyy-mm-dd hh24:mi:ss", "HH12:MI AM", "hh:mi pm", "HH:MI:SS a.m.", "FMHH12:FMMI",
    "Day, DD Month YYYY", "FMDay, FMDDth FMMonth YYYY", "DY dy Dy MON mon Mon", "DAY day MONTH month", "DDD D ID IDDD",
    "WW IW W IYYY IYY IY I", "Q CC J", "YY YYY Y Y,YYY", "RM rm FMRM", "US FF1 FF2 FF3 FF4 FF5 FF6", "SSSS SSSSS",
    "TZ tz TZH:TZM OF", "\"at\" HH24 \"o''clock\"", "YYYY\"Q\"Q", "DDth DDTH MMth", "BC AD B.C. ad", "YYYYMMDD", "IYYY-\"W\"IW-ID",
    "TMMonth TMDay", "FXYYYY", "x y z", "HH24hMI", "\\\"YYYY\\\"",
]  # fmt: skip
NUMBERS = ["0", "1", "-1", "5", "12", "-12", "123", "485", "1234", "-1234.567", "0.1", "-0.1", "0.5", "-0.004", "0.005", "12.5",
           "12.345", "99.999", "1234567.891", "-0.99", "1000000", "3", "22", "111", "113"]  # fmt: skip
OF_NUMBERS = [
    "9", "999", "999999", "0", "0000", "9.9", "99.99", "990.00", "FM999", "FM999.99", "FM990.00", "FM0000", "9,999", "9,999.99",
    "FM9,999,999.00", "999,999,999", "S999", "S9999.9", "999S", "999MI", "MI999", "PL999", "SG999", "999SG", "999PR", "FM999PR",
    "FM999MI", "FMS999", "999th", "999TH", "FM999th", "9D9", "FM9G999D99", "0999", "90.9", "0.99", ".99", "FM.99", "099.90",
    "\"x\"999", "$999", "FM999%", "FM00,000.0", "999 999", "FM9 9", "999,", "FM0.00", "99999999999999999999",
    "9.9999999999999999999999999999999999",
]  # fmt: skip
TEXTS = [
    ("2024-02-29", "YYYY-MM-DD"), ("2024-02-29 10:11:12", "YYYY-MM-DD HH24:MI:SS"), ("20240229", "YYYYMMDD"), ("2024", "YYYY"),
    ("29 Feb 2024", "DD Mon YYYY"), ("29 february 2024", "DD Month YYYY"), ("2024/2/3", "YYYY-MM-DD"), ("24", "YY"), ("75", "YY"),
    ("2024-02-29 10:11 PM", "YYYY-MM-DD HH12:MI AM"), ("2024-02-29 10:11:12.5", "YYYY-MM-DD HH24:MI:SS.MS"), ("2024 060", "YYYY DDD"),
    ("2024-02-29T10:11", "YYYY-MM-DD\"T\"HH24:MI"), ("2024-02-29 10+02", "YYYY-MM-DD HH24TZH"), ("  2024-02-29", "YYYY-MM-DD"),
    ("2024-02-29 10:00 -02", "YYYY-MM-DD HH24:MI TZH"),
    ("3rd Mar 2024", "DDth Mon YYYY"), ("Mon 04 03 2024", "Dy DD MM YYYY"), ("20240229101112", "YYYYMMDDHH24MISS"),
]  # fmt: skip
REFUSED = {
    "to_char(1, 'RN')": "0A000", "to_char(1, '9.99EEEE')": "0A000", "to_char(true, '9')": "0A000",
    "to_timestamp('2024-05', 'IYYY-IW')": "0A000", "to_timestamp('nothing', 'YYYY')": "22007",
    "to_timestamp('2024-13-01', 'YYYY-MM-DD')": "22007", "to_date('2024-02-30', 'YYYY-MM-DD')": "22007",
}  # fmt: skip


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[psycopg.Connection[Any]]]:
    views = Views(tmp_path_factory.mktemp("patterns") / "p")
    with (
        PostgresServer() as server,
        serving(views) as served,
        connect(served, autocommit=True) as here,
        psycopg.connect(server.dsn, autocommit=True, options="-c TimeZone=UTC") as there,
    ):
        yield [here, there]


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("kind", "values", "patterns"),
    [("timestamp", MOMENTS, OF_MOMENTS), ("timestamptz", MOMENTS, OF_MOMENTS), ("date", MOMENTS, OF_MOMENTS), ("numeric(18,3)", NUMBERS, OF_NUMBERS)],
    ids=["timestamp", "timestamptz", "date", "numeric"],
)  # fmt: skip
def test_values_are_shown_as_postgresql_shows_them(
    both: Any, kind: str, values: list[str], patterns: list[str]
) -> None:
    shown = ", ".join(f"to_char(v::{kind}, {quoted(pattern)})" for pattern in patterns)
    listed = ", ".join(f"({number}, {quoted(value)})" for number, value in enumerate(values))
    statement = f"SELECT v, {shown} FROM (VALUES {listed}) AS t (n, v) ORDER BY n"
    here, there = (connection.execute(statement.encode()).fetchall() for connection in both)
    wrong = {
        (row[0], pattern): (mine, theirs)
        for row, other in zip(here, there, strict=True)
        for pattern, mine, theirs in zip(patterns, row[1:], other[1:], strict=True)
        if mine != theirs
    }
    assert not wrong and len(here) == len(values)


@pytest.mark.postgres
def test_texts_are_read_as_postgresql_reads_them(both: Any) -> None:
    read = ", ".join(
        f"to_timestamp({quoted(text)}, {quoted(pattern)}), to_date({quoted(text)}, {quoted(pattern)})"
        for text, pattern in TEXTS
    )
    here, there = (connection.execute(f"SELECT {read}".encode()).fetchone() for connection in both)
    assert here == there
    nulls = "SELECT to_char(NULL::timestamp, 'YYYY'), to_date(NULL, 'YYYY'), to_timestamp(0), to_char(NULL::int, '9')"
    here, there = (connection.execute(nulls.encode()).fetchone() for connection in both)
    assert here == there


@pytest.mark.postgres
@pytest.mark.parametrize(("call", "state"), list(REFUSED.items()))
def test_what_is_not_known_or_does_not_fit_is_refused_clearly(both: Any, call: str, state: str) -> None:
    with pytest.raises(psycopg.Error) as caught:
        both[0].execute(f"SELECT {call}".encode())
    assert caught.value.sqlstate == state
    assert "Python" not in str(caught.value) and "UDF" not in str(caught.value)


BUCKETS = [
    *(f"width_bucket({value}, {bounds})" for value in ("-1", "0", "2.5", "9.99", "10", "11") for bounds in ("0, 10, 4", "10, 0, 4")),
    "width_bucket(5, ARRAY[1, 4, 7])", "width_bucket(0, ARRAY[1, 4, 7])", "width_bucket(7, ARRAY[1, 4, 7])",
    "lpad('7', 3, '0')", "lpad('7', 3)", "rpad('7', 3)", "btrim('  x ')", "btrim('xyx', 'x')", "quote_nullable(NULL)",
    "format('%I.%L-%s', 'Ab', 'x''y', 1)", "format('%%')", "to_hex(255) = 'FF' OR true", "pg_size_pretty(123456::bigint)",
    "date_bin('15 minutes', timestamp '2024-01-01 00:20', timestamp '2001-01-01')", "(parse_ident('a.\"B c\"'))[2]",
]  # fmt: skip


@pytest.mark.postgres
def test_functions_that_duckdb_lacks_give_what_postgresql_gives(both: Any) -> None:
    statement = f"SELECT {', '.join(BUCKETS)}"
    here, there = (connection.execute(statement.encode()).fetchone() for connection in both)
    assert dict(zip(BUCKETS, here, strict=True)) == dict(zip(BUCKETS, there, strict=True))
