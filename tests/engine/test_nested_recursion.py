"""Goal: recursive queries inside others become the circuits that they need, and no more; what ends otherwise is refused.

Method: texts compiled, and the circuits of their nodes looked at; nothing is run.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from headrace.engine.compile import Compilation, Compiler
from headrace.engine.program import Program, assemble
from headrace.engine.unroll import FIRST_DEPTH, OF, deeper, loop_of, waits
from headrace.model.definition import ViewDefinition
from headrace.model.schema import Column, Relation

pytestmark = pytest.mark.spark

TABLES = {"t": Relation("t", (Column("id", "int"),), ())}
COUNT = "WITH RECURSIVE c AS (SELECT {first} k {of} UNION ALL SELECT k + 1 FROM c{more} WHERE k < 2) SELECT k FROM c"


def outer(part: str, first: str = "SELECT id n FROM t") -> str:
    return f"WITH RECURSIVE a AS ({first} UNION ALL {part}) SELECT n FROM a"


def counted(first: str, of: str, more: str = "") -> str:
    return f"({COUNT.format(first=first, of=of, more=more)})"


NEXT = "SELECT n + 1 FROM a WHERE n < 5"
ALONE = outer(NEXT)
FIRST = outer(NEXT, counted("id", "FROM t").replace("SELECT k FROM", "SELECT k n FROM"))
BESIDE = outer(f"SELECT n + k FROM a, {counted('id', 'FROM t')} WHERE n < 5")
INSIDE = outer(counted("n + 1", "FROM a"))
BOTH = outer(
    counted("n + 1", "FROM a").replace("FROM c WHERE", f"FROM c JOIN {counted('id', 'FROM t')} USING (k) WHERE")
)
REFUSED = {
    outer("SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM a WHERE n = id)"): "further rows where the level before",
    outer("(SELECT 7 UNION ALL SELECT n + 1 FROM a)"): "further rows where the level before has none",
    outer(counted("id", "FROM t", ", a")): "whose recursive part alone reads the other one",
    outer(
        "(WITH RECURSIVE c AS (SELECT n k FROM a UNION ALL (WITH RECURSIVE d AS (SELECT k FROM c UNION ALL ("
        "WITH RECURSIVE e AS (SELECT k FROM d UNION ALL SELECT k + 1 FROM e WHERE k < 2) SELECT k FROM e))"
        " SELECT k FROM d)) SELECT k FROM c)"
    ): "a recursive query this deep inside others",
}


def compiled(spark: Any, *texts: str) -> Compilation:
    return Compiler(spark).compile(TABLES, [ViewDefinition(f"v{i}", sql) for i, sql in enumerate(texts)], {})


def program(spark: Any, *texts: str) -> Program:
    found = compiled(spark, *texts)
    assert not found.refused, {name: str(error) for name, error in found.refused.items()}
    return assemble(TABLES, {c.feed: c.root for c in found.views.values()})


def loops(of: Program) -> list[str]:
    return list(dict.fromkeys(found[0] for found in map(loop_of, (c.name for c in of.circuits)) if found))


def test_a_query_planned_again_is_the_same(spark: Any) -> None:
    texts = (ALONE, FIRST, BESIDE, INSIDE, BOTH)
    first, second = ({n: c.fingerprint for n, c in compiled(spark, *texts).views.items()} for _ in range(2))
    assert first == second
    assert len(set(first.values())) == len(texts)


def test_what_does_not_read_the_outer_query_is_there_once_for_all(spark: Any) -> None:
    views = {sql: program(spark, sql) for sql in (ALONE, FIRST, BESIDE)}
    assert [len(loops(p)) for p in views.values()] == [1, 2, 2]
    together = program(spark, FIRST, BESIDE)
    assert len(loops(together)) == 3  # the inner ones are equal
    assert not any(OF in loop for loop in loops(together))
    assert (
        len(loops(program(spark, FIRST.replace("SELECT n FROM a", "SELECT x.n FROM a x JOIN a y ON x.n = y.n")))) == 2
    )


def test_what_reads_the_outer_query_is_there_for_each_of_its_levels(spark: Any) -> None:
    inside = program(spark, INSIDE)
    (whole,) = [loop for loop in loops(inside) if OF not in loop]
    inner = [loop for loop in loops(inside) if OF in loop]
    assert sorted(loop.rpartition(":")[2] for loop in inner) == [f"{n:03}" for n in range(FIRST_DEPTH)]
    for circuit in inside.circuits:
        found = re.fullmatch(rf"loop:\w+{OF}\w+:(\d+):(\d+)", circuit.name)
        if found:
            assert waits(circuit.name) == (int(found[1]) > 0 or int(found[2]) > 1)
    last = next(loop for loop in inner if loop.endswith(f":{FIRST_DEPTH - 1:03}"))
    names = [c.name for c in inside.circuits]
    assert deeper([f"{whole}:{FIRST_DEPTH - 1:03}", f"{inner[0]}:001"], names) == {}
    assert deeper([f"{last}:001"], names) == {whole: 2 * FIRST_DEPTH}
    assert deeper([f"{last}:{FIRST_DEPTH:03}"], names) == {last: 2 * FIRST_DEPTH, whole: 2 * FIRST_DEPTH}


def test_queries_that_end_otherwise_are_refused(spark: Any) -> None:
    found = compiled(spark, *REFUSED)
    assert {name: str(error) for name, error in found.refused.items()}.keys() == {f"v{i}" for i in range(len(REFUSED))}
    for (name, error), clause in zip(sorted(found.refused.items()), REFUSED.values(), strict=True):
        assert clause in str(error), name
        assert error.next, name
