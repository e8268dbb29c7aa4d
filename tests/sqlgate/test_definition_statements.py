"""Goal: a statement about a definition says exactly what its file would, and a file is shown as the statement for it.

Method: statements and the texts of their files, side by side; random options through the file and back; statements that
are refused, each with what it lacks.
"""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.catalog.document import parse
from headrace.catalog.project import with_definition
from headrace.catalog.written import connector_text
from headrace.model.definition import Project, ViewDefinition
from headrace.model.errors import HeadraceError
from headrace.sql import lexer
from headrace.sql.definitions import Create, Drop, Explain, List, ShowColumns, ShowCreate, begins, read
from headrace.sql.spelled import Defined, statement

FILES = {
    "CREATE VIEW v AS SELECT 1 AS a": "SELECT 1 AS a\n",
    "create view v as\n  select 1 as a, -- one\n  2 as b  ": "select 1 as a, -- one\n  2 as b\n",
    "CREATE MATERIALIZED VIEW public.v AS WITH a AS (SELECT 1 AS b) SELECT * FROM a": (
        "WITH a AS (SELECT 1 AS b) SELECT * FROM a\n"
    ),
    "CREATE VIEW v WITH (on_error = 'set_aside', on_change = recompute) AS -- why\nSELECT ';' AS a": (
        "-- on_error: set_aside\n-- on_change: recompute\n-- why\nSELECT ';' AS a\n"
    ),
    "CREATE VIEW v AS $spark$\nSELECT 'it\\'s' AS a$spark$": "SELECT 'it\\'s' AS a\n",
    "CREATE SOURCE s FROM http": "type: http\n",
    """CREATE SOURCE s FROM postgres WITH (
         dsn = 'env:SHOP_DSN', -- a reference
         tables = (orders = 'public.orders', "Lines" = 'public."Lines"'), max_backlog = 1000, streaming = TRUE,
       )""": (
        "type: postgres\ndsn: env:SHOP_DSN\ntables: {orders: public.orders, Lines: public.\"Lines\"}\n"
        "max_backlog: 1000\nstreaming: true\n"
    ),
    """CREATE SOURCE s FROM http (auth = none, tables = (
         orders = (columns = (id = 'int not null', amount = 'decimal(12,2)'), key = [id, 'line']), clicks = ()))""": (
        "type: http\nauth: none\ntables:\n  orders:\n    columns: {id: int not null, amount: 'decimal(12,2)'}\n"
        "    key: [id, line]\n  clicks: {}\n"
    ),
    "CREATE SINK s FROM a, \"B\" INTO duckdb (path = 'out.db', keys = (a = []), x = -1, y = 0.5, z = null)": (
        "type: duckdb\nviews: [a, B]\npath: out.db\nkeys:\n  a: []\nx: -1\ny: 0.5\nz: null\n"
    ),
    "CREATE SINK s INTO webhook (url = 'env:HOOK', secret = ['env:A', 'env:B'], headers = ('X-To' = 'it''s', \"on\" = 'no'))": (
        "type: webhook\nurl: env:HOOK\nsecret: ['env:A', 'env:B']\nheaders: {X-To: it's, 'on': 'no'}\n"
    ),
}  # fmt: skip
OTHERS = {
    "CREATE OR REPLACE VIEW v AS SELECT 1": Create("view", "v", "SELECT 1\n", replace=True),
    'CREATE SINK IF NOT EXISTS "V" INTO duckdb': Create("sink", "V", "type: duckdb\n", missing_only=True),
    "DROP VIEW V": Drop("view", "v"),
    "drop materialized view if exists public.v restrict": Drop("view", "v", existing_only=True),
    'DROP SOURCE "Shop"': Drop("source", "Shop"),
    "SHOW SOURCES": List("sources"), "SHOW VIEWS": List("views"), "SHOW SINKS": List("sinks"),
    "show tables": List("tables"), "SHOW CREATE SINK s": ShowCreate("sink", "s"),
    "SHOW CREATE MATERIALIZED VIEW v": ShowCreate("view", "v"), "SHOW COLUMNS IN v": ShowColumns("v"),
    "EXPLAIN v": Explain("v"), "EXPLAIN VIEW v": Explain("v"),
    "EXPLAIN SELECT 1 AS a": Explain(sql=" SELECT 1 AS a"),
    "EXPLAIN CREATE VIEW v AS SELECT 1 AS a": Explain(sql="SELECT 1 AS a\n"),
    "SHOW server_version": None, "EXPLAIN ANALYZE SELECT 1": None, "EXPLAIN (FORMAT text) SELECT 1": None,
    "SELECT 1": None, "SET a = 1": None,
}  # fmt: skip
REFUSED = {
    "CREATE VIEW v": "AS is missing", "CREATE VIEW v AS": "without its SELECT", "CREATE VIEW v (a) AS SELECT 1": "list of columns",
    "CREATE OR VIEW v AS SELECT 1": "REPLACE is missing", "CREATE VIEW IF EXISTS v AS SELECT 1": "NOT is missing",
    "CREATE OR REPLACE VIEW IF NOT EXISTS v AS SELECT 1": "contradict", "CREATE VIEW v AS SELECT $1": "no parameters",
    "CREATE VIEW v WITH (x = y) AS SELECT 1": "no setting x", "CREATE VIEW v WITH (on_error = 1) AS SELECT 1": "no setting",
    "CREATE TABLE t (a int)": "CREATE TABLE is not taken", "CREATE INDEX i ON v (a)": "CREATE INDEX is not taken",
    "CREATE SOURCE s http": "FROM is missing", "CREATE SOURCE s FROM http (a = 1": ", is missing", "CREATE SOURCE s FROM http (a =": "too early",
    "CREATE SOURCE s FROM http (a 1)": "= is missing", "CREATE SOURCE s FROM http (a = 1 b = 2)": ", is missing",
    "CREATE SOURCE s FROM http (a = 1, a = 2)": "written twice", "CREATE SOURCE s FROM http (type = http)": "before the parenthesis",
    'CREATE SOURCE s FROM http (a = "b")': "value of 'a'", "CREATE SOURCE s FROM http (1 = 2)": "no name of an option",
    "CREATE SOURCE s FROM http (a = 1) b": "one word too many", "CREATE SINK s FROM v duckdb": "INTO is missing",
    "CREATE SINK s FROM v INTO duckdb (views = [v])": "before the parenthesis", "DROP s": "DROP S is not taken",
    "DROP VIEW": "too early", "DROP VIEW v CASCADE": "CASCADE", "DROP VIEW a, b": "one word too many",
    f"CREATE SOURCE s FROM http (a = {'1' * 5000})": "value of 'a'", "CREATE SOURCE s FROM http (a = -1e999)": "value of 'a'",
    f"CREATE SOURCE s FROM http (a = {'0' * 5000})": "value of 'a'",
    "CREATE VIEW v WITH (on_error = 'x\rDROP') AS SELECT 1": "no setting",
    "ALTER VIEW v RENAME TO w": "ALTER", "SHOW CREATE TABLE t": "SHOW CREATE TABLE", "SHOW VIEWS LIKE 'a'": "one word too many",
    "EXPLAIN CREATE SINK s INTO duckdb": "no plan", "EXPLAIN v w": "one word too many",
}  # fmt: skip


def parsed(text: str) -> Any:
    (tokens,) = lexer.split(text)
    return read(tokens)


@pytest.mark.parametrize("text", FILES)
def test_a_statement_makes_the_text_of_its_file_and_the_file_is_shown_as_a_statement_that_makes_the_same(
    text: str,
) -> None:
    made = parsed(text)
    assert made.text == FILES[text]
    project = with_definition(
        Project(Path(), views=(ViewDefinition("a", ""), ViewDefinition("B", ""))), made.kind, made.name, made.text
    )
    if made.kind == "view":
        again = parsed(statement(Defined("view", made.name, sql=made.text)))
        assert project.views[-1].sql == again.text == made.text
        return
    values = dict(parse(made.text, made.name).values)
    kind, views = values.pop("type"), values.pop("views", ())
    assert parsed(statement(Defined(made.kind, made.name, type=kind, views=views, options=values))) == made


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'it\\'s' AS a, 'b; DROP VIEW other; --' AS b", "SELECT 'it\\'s' AS a", "SELECT \"it's\" AS a", "SELECT `a'b` FROM t",
        "SELECT 'it\\'s $$ $sql$' AS a", "SELECT r'\\' AS a; DROP VIEW v", "SELECT a['x\\'$sql2$$sql$$$'] FROM t", "SELECT $1", "",
    ],
)  # fmt: skip
def test_what_is_shown_of_a_view_is_one_statement_whatever_sparks_strings_hold(sql: str) -> None:
    assert parsed(statement(Defined("view", "v", sql=sql))) == Create("view", "v", sql + "\n")


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=6)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=12)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**6), 10**6)
    | st.floats(allow_nan=False, allow_infinity=False, width=32)
    | TEXTS
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)


@given(st.dictionaries(st.text(string.ascii_letters, min_size=1, max_size=8), VALUES, max_size=4))
@example({"a": {")": None, "(": [{"]": 1}], ",": {"=": "x"}}})
def test_any_options_come_back_from_the_statement_and_from_the_file(options: dict[str, Any]) -> None:
    options = {name: value for name, value in options.items() if name not in ("type", "views")}
    made = parsed(statement(Defined("source", "s", type="http", options=options)))
    assert made.text == connector_text("http", options)
    assert parse(made.text, "s").values == {"type": "http", **options}


@pytest.mark.parametrize("text", OTHERS)
def test_other_statements_are_told_apart(text: str) -> None:
    assert parsed(text) == OTHERS[text]


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused_says_what_to_write(text: str) -> None:
    with pytest.raises(HeadraceError) as refused:
        parsed(text)
    assert refused.value.code in ("sql.syntax", "sql.refused")
    assert REFUSED[text] in refused.value.what and refused.value.next


def test_a_secret_that_is_quoted_wrongly_is_not_repeated() -> None:
    with pytest.raises(HeadraceError) as refused:
        parsed('CREATE SOURCE s FROM postgres (password = "hunter2")')
    assert "hunter2" not in str(refused.value)


def test_a_select_in_any_dialect_is_not_read_as_a_definition() -> None:
    assert begins("  -- a\n/* b */ Create VIEW v") and begins("show views")
    for text in ("SELECT 'it\\'s'", "FROM t", "", "-- create", "created", "SELECT 1; DROP VIEW v"):
        assert not begins(text)
