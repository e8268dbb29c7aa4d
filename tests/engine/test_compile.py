"""Goal: a view is compiled again only when its text or what it reads has changed, and fails alone.

Method: which texts are lowered, and a compiler with a fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from headrace.catalog.store import ViewRecord
from headrace.engine.compile import Compilation, Compiler
from headrace.model.definition import ViewDefinition
from headrace.model.schema import Column, Relation

pytestmark = pytest.mark.spark

ORDERS = Relation("orders", (Column("id", "bigint", False), Column("amount", "int")), ("id",))
WIDER = Relation("orders", (*ORDERS.columns, Column("note", "string")), ("id",))
KEYLESS = Relation("orders", ORDERS.columns, ())
CLICKS = Relation("clicks", (Column("page", "string"),), ())
VIEWS = {
    "totals": "SELECT sum(amount) AS total FROM orders",
    "twice": "SELECT total * 2 AS twice FROM totals",
    "pages": "SELECT DISTINCT page FROM clicks",
    "broken": "SELECT nothing FROM clicks",
}


class Counting(Compiler):
    """Keeps the names of the views that were not taken from the compilation before."""

    def __init__(self, spark: Any) -> None:
        super().__init__(spark)
        self.fresh: list[str] = []

    def lowered(self, definition: ViewDefinition, *rest: Any) -> Any:
        self.fresh.append(definition.name)
        return super().lowered(definition, *rest)

    def again(
        self, tables: tuple[Relation, ...], views: Mapping[str, str], known: Mapping[str, ViewRecord] | None = None
    ) -> tuple[list[str], Compilation]:
        self.fresh.clear()
        definitions = [ViewDefinition(n, sql) for n, sql in views.items()]
        compilation = self.compile({t.name: t for t in tables}, definitions, known or {})
        return sorted(self.fresh), compilation


def test_only_what_has_changed_is_compiled(spark: Any) -> None:
    compiler = Counting(spark)
    fresh, first = compiler.again((ORDERS, CLICKS), VIEWS)
    assert (fresh, list(first.refused)) == (sorted(VIEWS), ["broken"])
    fresh, second = compiler.again((ORDERS, CLICKS), VIEWS)
    assert (fresh, second.views) == (["broken"], first.views)  # an error is told anew
    records = {n: ViewRecord(c.schema, c.definition.sql, c.fingerprint, "live", "", 1) for n, c in first.views.items()}
    edited = {**VIEWS, "totals": "SELECT sum(amount) + 1 AS total FROM orders"}
    fresh, third = compiler.again((ORDERS, CLICKS), edited, records)
    assert fresh == ["broken", "totals", "twice"]  # what reads another version is another view
    assert {n: c.schema.version for n, c in third.views.items()} == {"totals": 2, "twice": 2, "pages": 1}


def test_another_form_of_a_table_is_another_table(spark: Any) -> None:
    compiler = Counting(spark)
    views = {"all": "SELECT * FROM orders", "pages": VIEWS["pages"]}
    _, narrow = compiler.again((ORDERS, CLICKS), views)
    fresh, wide = compiler.again((WIDER, CLICKS), views)
    assert (fresh, wide.views["all"].schema.names) == (["all"], ("id", "amount", "note"))
    fresh, keyless = compiler.again((KEYLESS, CLICKS), views)
    assert (fresh, narrow.views["all"].schema.key, keyless.views["all"].schema.key) == (["all"], ("id",), ())


def test_a_name_that_is_taken_by_a_table_is_looked_at_again(spark: Any) -> None:
    compiler = Counting(spark)
    views = {"pages": VIEWS["pages"], "clicks": "SELECT 'a' AS page"}
    fresh, _ = compiler.again((ORDERS,), views)
    assert fresh == ["clicks", "pages"]
    _, second = compiler.again((ORDERS, CLICKS), views)
    assert list(second.refused) == ["clicks", "pages"]


class Faulty(Compiler):
    """Meets what it does not expect in one view."""

    def lowered(self, definition: ViewDefinition, *rest: Any) -> Any:
        if definition.name == "totals":
            raise KeyError(99)
        return super().lowered(definition, *rest)


def test_a_fault_of_the_compiler_refuses_the_view_that_meets_it(spark: Any) -> None:
    definitions = [ViewDefinition(n, sql) for n, sql in VIEWS.items()]
    compilation = Faulty(spark).compile({t.name: t for t in (ORDERS, CLICKS)}, definitions, {})
    assert [*compilation.views] == ["pages"]
    refused = {name: error.code for name, error in compilation.refused.items()}
    assert refused == {"totals": "internal", "twice": "sql.analysis", "broken": "sql.unknown_column"}
    told = compilation.refused["totals"]
    assert (told.what, told.where) == ("view totals could not be compiled: KeyError: 99", "view totals")
    assert "in another way" in told.next
