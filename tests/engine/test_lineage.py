"""Goal: lineage names every column that can change a column of a view, or its rows, and where it can, no other.

Method: for each query the values of all columns that lineage does not name for a column are drawn anew; judge: Spark
batch, whose answer in that column must stay as it was. What lineage names is held to lists made by hand.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest

from headrace.circuit.lineage import Lineage, Origin
from headrace.engine.compile import Compilation, Compiler
from headrace.formats.types.arrow import to_arrow
from headrace.model.definition import ViewDefinition
from headrace.model.schema import Column, Relation

pytestmark = pytest.mark.spark

TABLES = {
    "orders": Relation(
        "orders",
        (Column("id", "int", False), Column("customer", "int"), Column("amount", "int"), Column("state", "string"),
         Column("at", "timestamp"), Column("tags", "array<string>")),
        ("id",),
    ),
    "customers": Relation(
        "customers", (Column("id", "int", False), Column("region", "string"), Column("since", "int")), ("id",)
    ),
    "edges": Relation("edges", (Column("a", "int"), Column("b", "int"), Column("cost", "int")), ()),
}  # fmt: skip
# A query -> its columns with what each is computed from; what only decides which rows; what decides the view's rows.
NAMED: dict[str, tuple[dict[str, tuple[str, str]], str]] = {
    "SELECT id, amount * 2 AS twice, upper(state) AS s FROM orders WHERE customer > 1": (
        {"id": ("o.id", "o.customer"), "twice": ("o.amount", "o.customer"), "s": ("o.state", "o.customer")}, "o.customer",
    ),
    "SELECT state, sum(amount) AS total, count(*) AS n, count(DISTINCT customer) AS c FROM orders GROUP BY state": (
        {"state": ("o.state", ""), "total": ("o.amount", "o.state"), "n": ("", "o.state"), "c": ("o.customer", "o.state")},
        "o.state",
    ),
    "SELECT o.id, c.region FROM orders o LEFT JOIN customers c ON c.id = o.customer": (
        {"id": ("o.id", "o.customer c.id"), "region": ("c.region", "o.customer c.id")}, "o.customer c.id",
    ),
    "SELECT id, (SELECT max(since) FROM customers WHERE region = 'north') AS newest FROM orders": (
        {"id": ("o.id", ""), "newest": ("c.since", "c.region")}, "",
    ),
    "SELECT id, EXISTS (SELECT 1 FROM customers c WHERE c.id = customer) OR amount > 3 AS known FROM orders": (
        {"id": ("o.id", ""), "known": ("o.amount", "o.customer c.id")}, "",
    ),
    "SELECT id FROM orders WHERE customer IN (SELECT id FROM customers WHERE since > 2)": (
        {"id": ("o.id", "o.customer c.id c.since")}, "o.customer c.id c.since",
    ),
    "SELECT id, sum(amount) OVER (PARTITION BY state) AS of_state, state AS s FROM orders": (
        {"id": ("o.id", "o.state"), "of_state": ("o.amount", "o.state"), "s": ("o.state", "")}, "o.state",  # by a join
    ),
    "SELECT id, lag(amount) OVER (PARTITION BY state ORDER BY id) AS before FROM orders": (
        {"id": ("o.id", ""), "before": ("o.amount", "o.id o.state")}, "",
    ),
    "SELECT id AS k, amount AS v FROM orders UNION ALL SELECT a, 0 FROM edges WHERE cost > 2": (
        {"k": ("o.id e.a", "e.cost"), "v": ("o.amount", "e.cost")}, "e.cost",
    ),
    "SELECT tag, count(*) AS n FROM orders LATERAL VIEW explode(tags) t AS tag GROUP BY tag": (
        {"tag": ("o.tags", ""), "n": ("", "o.tags")}, "o.tags",
    ),
    "SELECT id, tag FROM orders LATERAL VIEW OUTER explode(tags) t AS tag": (
        {"id": ("o.id", "o.tags"), "tag": ("o.tags", "")}, "o.tags",
    ),
    "WITH RECURSIVE r(n, total) AS (SELECT a, cost FROM edges WHERE b = 1 UNION ALL"
    " SELECT e.a, r.total + o.amount FROM r JOIN edges e ON e.b = r.n JOIN orders o ON o.id = e.a WHERE e.a > e.b)"
    " SELECT n, total FROM r": (
        {"n": ("e.a", "e.b o.id"), "total": ("e.cost o.amount", "e.a e.b o.id")}, "e.a e.b o.id",
    ),
    "SELECT shout(state) AS loud FROM orders WHERE at < now()": (
        {"loud": ("o.state", "o.at")}, "o.at",
    ),
}  # fmt: skip
OTHERS = [
    "SELECT DISTINCT state, amount % 2 AS odd FROM orders WHERE at > TIMESTAMP '2026-01-02 00:00:00'",
    "SELECT state, customer, sum(amount) AS s, grouping(state) AS g FROM orders GROUP BY CUBE (state, customer)",
    "SELECT o.id, c.region, c.since FROM orders o FULL JOIN customers c ON c.id = o.customer AND c.since > o.amount",
    "SELECT id FROM orders EXCEPT ALL SELECT id FROM customers WHERE since < 3",
    "SELECT state AS s, amount AS a FROM orders INTERSECT SELECT region, since FROM customers",
    "SELECT id, amount FROM (SELECT *, row_number() OVER (PARTITION BY state ORDER BY amount DESC, id) AS r FROM orders)"
    " WHERE r <= 2",
    "SELECT id, rank() OVER (PARTITION BY state ORDER BY amount) AS place, customer FROM orders",
    "SELECT id, customer FROM orders ORDER BY amount, id LIMIT 3",
    "SELECT state, percentile(amount, 0.5) AS middle, max_by(customer, amount) AS best FROM orders GROUP BY state",
    "SELECT state, sum(amount) FILTER (WHERE customer > 1) AS s, collect_list(customer) AS l FROM orders GROUP BY state",
    "SELECT sum(amount) AS s, count(*) AS n FROM orders WHERE state = 'b' HAVING count(*) > 1",
    "SELECT id FROM orders o WHERE amount > (SELECT avg(since) FROM customers c WHERE c.region = o.state)",
    "SELECT id, amount FROM orders WHERE customer NOT IN (SELECT since FROM customers WHERE since > 2)",
    "SELECT id FROM orders WHERE amount >= (SELECT max(cost) - 2 FROM edges WHERE a > 1)",
    "SELECT window.start AS t, count(*) AS n, sum(amount) AS s FROM orders GROUP BY window(at, '1 day')",
    "SELECT customer, session_window.start AS t, sum(amount) AS s FROM orders GROUP BY customer, session_window(at, '1 day')",
    "SELECT id, sum(amount) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS near FROM orders",
    "SELECT id, sum(amount) OVER (PARTITION BY customer ORDER BY at, id) AS so_far, at FROM orders",
    "SELECT o.id, e.cost FROM orders o ASOF JOIN edges e MATCH_CONDITION (o.amount >= e.b) ON o.customer = e.a",
    "SELECT id, transform(tags, t -> concat(t, state)) AS marked, size(tags) AS n FROM orders",
    "SELECT c.region, o.state, count(*) AS n FROM customers c, orders o WHERE c.since < o.amount GROUP BY ALL",
    "WITH RECURSIVE r(a, b, n) AS (SELECT a, b, 1 FROM edges UNION ALL SELECT r.a, e.b, n + 1 FROM r JOIN edges e"
    " ON e.a = r.b WHERE n < 3) SELECT a, b, n FROM r",
    "SELECT id, CASE WHEN amount > 3 THEN state END AS s, coalesce(customer, amount) AS c FROM orders",
    "SELECT id, (SELECT region FROM customers c WHERE c.id = o.customer) AS region, amount FROM orders o",
]


def shout(text: str | None) -> str | None:
    return text and text.upper() + "!"


@pytest.fixture(scope="module")
def compiled(spark: Any) -> tuple[Any, Compilation]:
    from headrace.testing.pipeline import user_functions

    sqls = {f"v{i}": sql for i, sql in enumerate([*NAMED, *OTHERS])}
    definitions = [
        ViewDefinition(n, f"-- on_change: recompute\n{sql}" if "ORDER BY id ROWS" in sql else sql)
        for n, sql in sqls.items()
    ]
    compiler = Compiler(spark, user_functions({"shout": shout}))
    return spark, compiler.compile(TABLES, definitions, {})


def spelled(origins: Iterable[Origin]) -> set[str]:
    return {f"{relation[0]}.{column}" for relation, column in origins}


def test_every_query_has_a_lineage(compiled: tuple[Any, Compilation]) -> None:
    assert {n: str(e) for n, e in compiled[1].refused.items()} == {}
    assert all(len(v.lineage.columns) == len(v.schema.columns) for v in compiled[1].views.values())


@pytest.mark.parametrize("number", range(len(NAMED)))
def test_what_is_named_is_what_can_be_read_in_the_query(compiled: tuple[Any, Compilation], number: int) -> None:
    view = compiled[1].views[f"v{number}"]
    columns, rows = list(NAMED.values())[number]
    found = {name: view.lineage.told(i) for i, name in enumerate(view.schema.names)}
    told = {name: (spelled(of.value), spelled(of.rows)) for name, of in found.items()}
    assert told == {name: (set(value.split()), set(decides.split())) for name, (value, decides) in columns.items()}
    assert spelled(view.lineage.rows) == set(rows.split())


DRAWN: dict[str, Callable[[random.Random], Any]] = {
    "int": lambda rng: rng.randrange(5),
    "string": lambda rng: rng.choice("abc"),
    "timestamp": lambda rng: 1_767_225_600_000_000 + rng.randrange(5) * 40_000_000_000,
    "array<string>": lambda rng: [rng.choice("xyz") for _ in range(rng.randrange(3))],
}


def drawn(rng: random.Random, column: Column, count: int, *, unique: bool) -> pa.Array:
    """Values of a column; NULL now and then, but in a key."""
    if unique:
        return pa.array(rng.sample(range(2 * count), count), pa.int32())
    values = [None if column.nullable and rng.random() < 0.1 else DRAWN[column.type](rng) for _ in range(count)]
    return pa.array(values, to_arrow(column.type))


class Rows:
    """The tables' rows, as Spark sees them: ``draw`` makes some columns anew, or none."""

    def __init__(self, spark: Any) -> None:
        self.spark, self.rng = spark, random.Random(5)
        self.cells = {(t.name, c.name): self.cell(t, c) for t in TABLES.values() for c in t.columns}
        self.anew: set[Origin] = {(name, "") for name in TABLES}

    def cell(self, table: Relation, column: Column) -> pa.Array:
        return drawn(self.rng, column, 8, unique=(column.name,) == table.key)

    def draw(self, anew: set[Origin]) -> None:
        for name in {relation for relation, _ in self.anew | anew}:
            table = TABLES[name]
            cells = [self.cell(table, c) if (name, c.name) in anew else self.cells[name, c.name] for c in table.columns]
            rows = pa.table(cells, names=list(table.names))
            self.spark.createDataFrame(rows).createOrReplaceTempView(name)
        self.anew = anew

    def answer(self, sql: str, anew: set[Origin]) -> list[Any]:
        self.draw(anew)
        return list(self.spark.sql(sql).collect())


def unnamed(lineage: Lineage, columns: Iterable[int]) -> set[Origin]:
    """The columns of tables that none of these columns of a view, nor its rows, depend on."""
    named = lineage.rows.union(*(lineage.columns[i].all for i in columns))
    return {(t.name, c.name) for t in TABLES.values() for c in t.columns} - named


def parts(rows: Iterable[Any], columns: Iterable[int]) -> Counter[str]:
    return Counter(repr([row[i] for i in columns]) for row in rows)


@pytest.fixture(scope="module")
def rows(compiled: tuple[Any, Compilation]) -> Rows:
    return Rows(compiled[0])


@pytest.mark.parametrize("number", range(len(NAMED) + len(OTHERS)))
def test_what_is_not_named_changes_nothing(compiled: tuple[Any, Compilation], rows: Rows, number: int) -> None:
    view = compiled[1].views[f"v{number}"]
    sql = view.definition.sql.replace("now()", "TIMESTAMP '2026-01-02 00:00:00'")
    names, lineage = view.schema.names, view.lineage
    before = rows.answer(sql, set())
    assert before or "HAVING" in sql
    # Columns that come from the same are looked at together; those of the view's rows are so without any column.
    alike: dict[frozenset[Origin], list[int]] = {frozenset(unnamed(lineage, [])): []}
    for i in range(len(names)):
        alike.setdefault(frozenset(unnamed(lineage, [i])), []).append(i)
    for anew, columns in alike.items():
        if anew:
            after = rows.answer(sql, set(anew))
            assert parts(after, columns) == parts(before, columns), ([names[i] for i in columns], sorted(anew))
