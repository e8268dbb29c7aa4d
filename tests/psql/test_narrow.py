"""Goal: a SELECT that names a key reads the rows under it alone, and answers as if it had read all.

Method: each statement over the narrowed and over the whole contents by DuckDB; how many rows were handed to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from headrace.api.postgres.narrow import narrowed
from headrace.model.schema import Column
from headrace.serve.contents import Contents
from headrace.serve.database import define, parsed
from headrace.serve.relation import Described

COLUMNS = (Column("Id", "int"), Column("area", "string"), Column("n", "bigint"))
RELATION = Described("sums", "view", COLUMNS, ("Id", "area"))
ROWS = pa.table(
    {
        "Id": pa.array([i // 2 for i in range(40)], pa.int32()),
        "area": ["north" if i % 2 else "south" for i in range(40)],
        "n": pa.array(range(40)),
        "_w": pa.array([1] * 40),
    }
)
ASKED: list[tuple[str, Sequence[Any], int]] = [
    ("SELECT * FROM sums WHERE id = 3 AND area = 'north'", (), 1),
    ("SELECT n FROM sums s WHERE s.Id = CAST($1 AS INTEGER) AND $2 = s.area AND n > 0", (3, "south"), 1),
    ("SELECT count(*) FROM sums WHERE sums.id = $1 AND area = $2::VARCHAR ORDER BY 1", (99, "north"), 0),
    ("SELECT * FROM sums WHERE id = 3", (), 40),
    ("SELECT * FROM sums WHERE id = 3 OR area = 'north'", (), 40),
    ("SELECT * FROM sums WHERE NOT (id = 3 AND area = 'north')", (), 40),
    ("SELECT * FROM sums WHERE id = 3 AND area = 'north' AND n < (SELECT max(n) FROM sums)", (), 40),
    ("SELECT * FROM sums a, sums b WHERE a.id = 3 AND a.area = 'north'", (), 40),
    ("SELECT * FROM sums WHERE id = 3.0 AND area = 'north'", (), 40),
    ("SELECT * FROM sums WHERE id = CAST('3' AS INTEGER) AND area = 'north'", (), 40),
    ("SELECT * FROM sums WHERE id = $1 AND area = 'north'", ("3",), 1),
    ("SELECT * FROM sums WHERE id = $1 AND area = 'north'", ("03",), 40),
    ("SELECT * FROM sums WHERE id = CAST($1 AS BOOLEAN)::INTEGER AND area = 'north'", (7,), 40),
    ("SELECT * FROM sums WHERE id = 99999999999 AND area = 'north'", (), 40),
    ("SELECT * FROM sums WHERE id = $1 AND area = 'north'", (None,), 40),
    ("SELECT * FROM sums t(area, id, n) WHERE id = 'north' AND area = 3", (), 40),
    ("SELECT * FROM sums WHERE id = 3 AND area = 'north' UNION ALL SELECT * FROM sums", (), 40),
]


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


@pytest.mark.parametrize(("sql", "parameters", "handed"), ASKED)
def test_a_statement_answers_the_same_over_the_rows_under_its_key(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[Any], handed: int
) -> None:
    whole = Contents.of(ROWS, RELATION.key)
    part = narrowed(parsed(connection, sql), RELATION, whole, parameters)
    answers = []
    for number, contents in enumerate((whole, part)):
        define(connection, "sums", contents, f"rows_{number}")
        answers.append(sorted(connection.sql(sql, params=list(parameters) or None).fetchall()))
    assert answers[0] == answers[1]
    assert part.table().num_rows == handed
