"""Goal: what can make much of little is told from what cannot before anything of it is bound, and what tools of
PostgreSQL ask at their start is never taken for it.

Method: statements of each kind as DuckDB parses them; the corpora of this folder.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from headrace.api.postgres.plain import plain
from headrace.api.postgres.rewrite import Rewritten, rewritten
from headrace.api.postgres.settings import Settings
from headrace.serve.database import parsed
from headrace.sql import lexer

PLAIN: list[tuple[str, Sequence[Any]]] = [
    ("SELECT * FROM sums WHERE id = $1 AND label IN ('a', 'b') ORDER BY n DESC NULLS LAST LIMIT $2", (7, 10)),
    ("SELECT area, count(*), sum(n) FILTER (WHERE n > 0), avg(n)::numeric(10,2) FROM sums GROUP BY ALL HAVING max(n) > 3", ()),
    ("SELECT DISTINCT ON (area) date_trunc('day', t) AS d, extract(hour FROM t) FROM sums WHERE t > now() - INTERVAL 1 DAY", ()),
    ("SELECT row_number() OVER (PARTITION BY a ORDER BY b), lag(n, 1, 0) OVER w, sum(n) OVER w FROM sums WINDOW w AS (ORDER BY b)", ()),
    ("WITH a AS (SELECT id, n * 2 AS m FROM sums), b AS (SELECT * FROM a) SELECT b.*, m + 1 AS k, k * 2 FROM b JOIN a USING (id)", ()),
    ("SELECT first || ' ' || coalesce(middle, '') || last AS name, upper(trim(label)), substring(label, 1, 3) FROM sums", ()),
    ("SELECT id FROM sums s WHERE EXISTS (SELECT 1 FROM sums i WHERE i.id = s.id) AND label LIKE '%b%' OR label NOT ILIKE $1", ("x%y%",)),
    ("SELECT id FROM sums WHERE id = ANY($1) UNION ALL SELECT x FROM (VALUES (1), (2)) v(x) EXCEPT SELECT 3 ORDER BY 1", ([1, 2],)),
    ("SELECT to_char(t, 'YYYY-MM') AS month, CASE WHEN n > 1 THEN 'many' ELSE 'few' END, CAST(n AS VARCHAR) FROM sums", ()),
    ("SELECT ARRAY[1, 2], numbers[1], unnest(numbers), replace(label, '-', ''), label->>'$.a' FROM sums", ()),
    ("SELECT generate_series(1, 100), d, x FROM generate_series('2024-01-01'::date, now(), '1 day') g(d), range(n) r(x)", ()),
    ("SELECT " + ", ".join(f"c{n}" for n in range(200)) + " FROM sums", ()),
]  # fmt: skip


def doubled(steps: int, what: str = "{0} || {0}") -> str:
    """A chain of names, each made of the one before."""
    chain = "".join(f", a{n} AS (SELECT {what.format('s')} AS s FROM a{n - 1})" for n in range(1, steps))
    return f"WITH a0 AS (SELECT 'x' AS s){chain} SELECT s FROM a{steps - 1}"


APART: list[tuple[str, Sequence[Any]]] = [
    (f"SELECT {call} FROM sums", ())
    for call in (
        "repeat('x', 1500000000)", "lpad('x', 1500000000)", "rpad(label, n)", "printf('%1500000000d', 1)", "bar(1, 0, 1, 1e9)",
        "string_agg(label, ',')", "list(n)", "array_agg(n ORDER BY n)", "ARRAY(SELECT n FROM sums)", "median(n)", "max(n, 9)",
        "first(n ORDER BY n)", "regexp_replace(label, 'a', 'b')", "list_transform(numbers, lambda x: x)", "range(n)",
        "generate_series(1, 1000000000)", "generate_series(1, n)", "system.main.generate_series(1, 5)", "main.format('{}', 1)",
        "json_object('a', n)", "CAST(label AS JSON)", "CAST(label AS STRUCT(a INT))",
        "label COLLATE nocase", "COLUMNS('.*')", "label LIKE '%a%a%a%'", "label LIKE other", "label GLOB '*a*a*a*b'", "label->'$..*'", "no_such(1)",
        "count(DISTINCT n) OVER ()", "to_json(label)",
    )
] + [
    ("SELECT * FROM repeat_row(1)", ()), ("SELECT * FROM duckdb_functions()", ()), ("SELECT * FROM sums TABLESAMPLE 5", ()),
    ("SELECT * FROM sums POSITIONAL JOIN sums b", ()), ("DESCRIBE sums", ()),
    ("SELECT count(*) FROM sums GROUP BY CUBE (a, b, c, d, e)", ()),
    ("WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT n FROM r", ()),
    (doubled(32), ()), (doubled(32, "concat({0}, {0})"), ()), (doubled(32, "[{0}, {0}]"), ()), (doubled(20, "{0} + {0}"), ()),
    (doubled(24).replace("'x'", "$1"), ("x",)), (doubled(8, "replace({0}, 'x', 'xxxxxxxxxxxx')"), ()),
    ("SELECT 1 AS a0" + "".join(f", a{n - 1} + a{n - 1} AS a{n}" for n in range(1, 32)), ()),
    ("SELECT " + "quote_ident(" * 12 + "label" + ")" * 12 + " FROM sums", ()),
    ("WITH a0 AS (SELECT * FROM sums)" + "".join(f", a{n} AS (SELECT * FROM a{n - 1} x, a{n - 1} y)" for n in range(1, 24))
     + " SELECT * FROM a23", ()),
    ("SELECT (SELECT s || s FROM (SELECT t.s || t.s AS s)) FROM (" + doubled(11) + ") t(s)", ()),
    ("SELECT t.z || t.z FROM (" + doubled(13) + ") t(z)", ()),
    ("(" + doubled(7) + ") UNION ALL (" + doubled(13) + ")", ()),
    ("SELECT upper(s), lower(s), trim(s), s, s FROM (SELECT $1 AS s FROM sums)", ("x" * 5_000,)),
    ("SELECT '" + "x" * 9_000 + "' AS s, s, s FROM sums", ()),
    ("SELECT " + " || ".join(["label"] * 60) + " FROM sums", ()),
    ("SELECT 'aaaa' LIKE $1", ("%a%a%a%a%a%b",)),
]  # fmt: skip


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


def asked(sql: str) -> Rewritten:
    return rewritten(lexer.tokens(sql), Settings("ada", 60.0, {}).constants("shop", 1), (), "shop")


@pytest.mark.parametrize(("sql", "parameters"), PLAIN, ids=range(len(PLAIN)))
def test_what_everyone_asks_is_plain(connection: Any, sql: str, parameters: Sequence[Any]) -> None:
    assert plain(parsed(connection, asked(sql).sql), parameters)


@pytest.mark.parametrize(("sql", "parameters"), APART, ids=range(len(APART)))
def test_what_makes_much_of_little_is_not(connection: Any, sql: str, parameters: Sequence[Any]) -> None:
    """Nor does it take long to see that."""
    statement = parsed(connection, asked(sql).sql)
    began = time.thread_time()
    assert not plain(statement, parameters)
    assert time.thread_time() - began < 0.5


def test_what_clients_ask_of_the_catalogue_is_plain(connection: Any) -> None:
    """But not what asks for more of it than they do."""
    rows = {"pg_class": 20, "pg_attribute": 200, "pg_constraint": 10, "pg_index": 10, "pg_roles": 1, "pg_settings": 30}
    texts = Path(__file__).with_name("clients.sql").read_text().split("\n\n")[1:]
    for client, _, sql in (text.partition("\n") for text in texts):
        if not sql.startswith("SHOW") and "array_agg" not in sql:  # of joined relations
            assert plain(parsed(connection, asked(sql).sql), (), rows), client
    for sql in (
        "SELECT repeat(relname, 1000000) FROM pg_class", doubled(32).replace("'x'", "(SELECT max(relname) FROM pg_class)"),
        "SELECT replace(relname, 'a', '" + "x" * 2_000 + "') FROM pg_class", "SELECT generate_series(1, oid) FROM pg_class",
        "SELECT array_agg(relname) OVER () FROM pg_class", "SELECT string_agg(a.attname, '') FROM pg_attribute a, pg_attribute b",
        "SELECT oid FROM pg_class ORDER BY (WITH a AS (SELECT " + " || ".join(["relname"] * 40) + " AS s FROM pg_type) SELECT "
        + " || ".join(["s"] * 40) + " FROM a)",
        "SELECT array(SELECT s FROM (SELECT unnest(array(SELECT relname FROM pg_class)) AS s FROM pg_class))",
    ):  # fmt: skip
        assert not plain(parsed(connection, asked(sql).sql), (), rows), sql
