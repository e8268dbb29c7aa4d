"""Goal: `explain` tells what each operator does in the query's own names, and what it keeps. Method: real queries."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.circuit.explain import explain
from headrace.engine.compile import Compiler, columns
from headrace.model.clock import CLOCK
from headrace.model.definition import ViewDefinition
from headrace.model.schema import Column, Relation

pytestmark = pytest.mark.spark

TABLES = {
    "orders": Relation(
        "orders",
        (Column("id", "bigint", False), Column("customer", "bigint"), Column("amount", "decimal(12,2)"),
         Column("at", "timestamp"), Column("tags", "array<string>")),
        ("id",),
    ),
    "customers": Relation("customers", (Column("id", "bigint", False), Column("region", "string")), ("id",)),
}  # fmt: skip
# A view -> what stands before the lines of rule, state and cost, from the last operator to the first.
TREES = {
    "SELECT region, count(*) AS n, avg(twice) AS mean FROM (SELECT *, amount * 2 AS twice FROM orders) o"
    " JOIN customers c ON o.customer = c.id GROUP BY region HAVING count(*) > 1": """
filter  count(*) > 1
  aggregate  by customers.region: count(*), avg(orders.amount * 2)
    project  orders.amount * 2, customers.region
      inner join  orders.customer = customers.id
        project  orders.customer, orders.amount * 2
          filter  isnotnull(orders.customer)
            read  orders: customer, amount
        read  customers: id, region""",
    "SELECT id, customer FROM orders WHERE at > now() - INTERVAL 1 HOUR": """
project  orders.id, orders.customer
  filter by a value  orders.at > clock.now + INTERVAL '-01' HOUR
    filter  isnotnull(orders.at)
      read  orders: id, customer, at
    single
      project  clock.now + INTERVAL '-01' HOUR
        read  clock: now""",
    "SELECT * FROM (SELECT id, amount, row_number() OVER (PARTITION BY customer ORDER BY amount DESC, id) r FROM orders)"
    " WHERE r <= 3": """
project  orders.id, orders.amount, row_number()
  filter  row_number() <= 3
    top-k  by orders.customer: row_number() <= 3 in order of orders.amount desc, orders.id
      project  orders.id, orders.amount, orders.customer
        read  orders: id, customer, amount""",
    "SELECT id, lag(amount) OVER (PARTITION BY customer ORDER BY id) AS before FROM orders": """
project  orders.id, lag(orders.amount, -1, null)
  running window  by orders.customer: lag(orders.amount, -1, null) in order of orders.id, orders.amount
    project  orders.id, orders.amount, orders.customer
      read  orders: id, customer, amount""",
    "SELECT customer, tag, count(*) AS n FROM orders LATERAL VIEW explode(tags) t AS tag GROUP BY CUBE(customer, tag)": """
aggregate  by orders.customer, element, grouping: count(*)
  expand  each row 4 times, once for each grouping
    generate  explode(orders.tags)
      filter  (size(orders.tags, false) > 0) AND isnotnull(orders.tags)
        read  orders: customer, tags""",
    "WITH RECURSIVE r(n, m) AS (SELECT id, customer FROM orders UNION ALL"
    " SELECT r.n, o.customer FROM r JOIN orders o ON o.id = r.m) SELECT * FROM r": """
project  orders.id, orders.customer
  recursion
    read  orders: id, customer
    project  level before.id, orders.customer
      inner join  orders.id = level before.customer
        project  level before.id, level before.customer
          filter  isnotnull(level before.customer)
            read  level before: id, customer
        read  orders: id, customer""",
    "SELECT id FROM orders ORDER BY amount DESC, id LIMIT 5": """
project  orders.id
  limit  rows 1 to 5 in order of orders.amount desc, orders.id
    read  orders: id, amount""",
}  # fmt: skip


@pytest.fixture(scope="module")
def explained(spark: Any) -> dict[str, dict[str, Any]]:
    definitions = [ViewDefinition(f"v{i}", sql) for i, sql in enumerate(TREES)]
    compilation = Compiler(spark).compile(TABLES, definitions, {})
    assert not compilation.refused
    named = columns({**TABLES, CLOCK.name: CLOCK}, compilation.views.values())
    return {
        v.definition.sql: explain(v.schema.name, v.definition.sql, v.root, {"a": (1, 1200, 34000)}, named)
        for v in compilation.views.values()
    }


@pytest.mark.parametrize("sql", TREES)
def test_operators_speak_of_the_columns_of_the_query(explained: dict[str, Any], sql: str) -> None:
    lines = explained[sql]["text"].splitlines()
    assert "\n".join(line for line in lines[:-2] if " | " not in line) == TREES[sql].strip()
    assert lines[-1].endswith("All views together keep 1,200 rows, 34,000 bytes.")


def test_what_is_kept_is_told_with_its_rule_its_bound_and_its_cost(explained: dict[str, Any]) -> None:
    for found in explained.values():
        for operator in found["operators"]:
            assert operator["rule"] and operator["cost"]
            assert (operator["state"] == "none") == (operator["bound"] == "none")
        told = [line.strip()[2:7].strip() for line in found["text"].splitlines() if " | " in line]
        assert told == ["rule", "keeps", "costs"] * sum(o["state"] != "none" for o in found["operators"])
    first = explained[next(iter(TREES))]["text"]
    assert "| keeps  one row of accumulators a group; bounded by the number of groups.\n" in first
    assert "| costs  the change x its partners\n" in first


def test_whether_what_lies_between_joins_is_kept_is_told(spark: Any) -> None:
    pairs = "orders o JOIN orders p ON p.customer = o.customer"
    definitions = [
        ViewDefinition(
            "one_key", f"SELECT o.id, p.id AS other, region FROM {pairs} JOIN customers c ON c.id = o.customer"
        ),
        ViewDefinition("two_keys", f"SELECT o.id, p.at, region FROM {pairs} JOIN customers c ON c.id = p.id"),
    ]
    views = Compiler(spark).compile(TABLES, definitions, {}).views
    named = columns(TABLES, views.values())
    one, two = (explain(name, "", view.root, {}, named)["text"] for name, view in views.items())
    assert one.count("| keeps  both inputs, ") == one.count("| keeps  the right input, arranged by join key, ") == 1
    assert "The left one is joined anew from what the join below it keeps by the same key" in one
    assert two.count("| keeps  both inputs, ") == 2 and "The left one is kept though it is a result of joins" in two
    assert "is joined anew" not in two and "a result of joins" not in one
