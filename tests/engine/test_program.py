"""Goal: circuits are ordered by what they read, and a sub-query that occurs twice is a circuit of its own.

Method: node trees made by hand; no Spark.
"""

from __future__ import annotations

import pytest

from headrace.circuit.node import (
    Accumulation,
    Aggregate,
    Expression,
    Feed,
    Filter,
    Join,
    Node,
    Project,
    Shared,
    Union,
    with_children,
)
from headrace.engine.program import SHARED, Program, assemble, extract
from headrace.engine.unroll import feeds_of
from headrace.model.schema import Column, Relation

BIGINT = "bigint"


def expression(text: str) -> Expression:
    return Expression(None, text, BIGINT)


def feed(relation: str, *ordinals: int) -> Feed:
    count = len(ordinals) or 2
    return Feed((BIGINT,) * count, (True,) * count, relation, ordinals or (0, 1))


def counted(child: Node, key: str = "c0") -> Aggregate:
    count = Accumulation("count", (), BIGINT)
    return Aggregate(
        (BIGINT,) * 2, (True,) * 2, child, (expression(key),), (count,), (expression("g0"), expression("v0"))
    )


def kept(child: Node, condition: str) -> Filter:
    return Filter(child.types, child.nullables, child, expression(condition))


def joined(left: Node, right: Node, key: str = "c0") -> Join:
    types = left.types + right.types
    return Join(
        types,
        (True,) * len(types),
        "inner",
        left,
        right,
        (expression(key),),
        (expression("c0"),),
        expression("l0 = r0"),
    )


def table(name: str) -> Relation:
    return Relation(name, (Column("a", BIGINT, False), Column("b", BIGINT)), ("a",))


TABLES = {name: table(name) for name in ("t", "u", "unused")}


def names(program: Program) -> list[list[str]]:
    return [sorted(c.name for c in level) for level in program.levels]


def test_a_view_comes_after_what_it_reads() -> None:
    views = {
        "last@1": joined(feed("middle@1"), feed("u")),
        "first@1": counted(feed("t")),
        "middle@1": kept(feed("first@1"), "c1 > 1"),
    }
    program = assemble(TABLES, views)
    assert names(program) == [["t", "u"], ["first@1"], ["middle@1"], ["last@1"]]
    assert program.circuit("last@1").inputs == {"middle@1", "u"}
    assert [c.name for c in program.circuits if c.is_view] == ["first@1", "middle@1", "last@1"]


def test_tables_that_nobody_reads_have_no_circuit() -> None:
    assert names(assemble(TABLES, {"v@1": counted(feed("t"))})) == [["t"], ["v@1"]]


def test_no_view_is_no_circuit() -> None:
    assert assemble(TABLES, {}).levels == []


def test_readers_of_readers_are_downstream() -> None:
    views = {"a@1": feed("t"), "b@1": kept(feed("a@1"), "c0"), "c@1": kept(feed("b@1"), "c0"), "d@1": feed("u")}
    program = assemble(TABLES, views)
    assert program.downstream(["a@1"]) == {"a@1", "b@1", "c@1"}
    assert program.downstream(["t"]) == {"t", "a@1", "b@1", "c@1"}
    assert program.downstream(["d@1"]) == {"d@1"}


def test_a_stateful_sub_query_of_two_views_becomes_a_circuit() -> None:
    views = {"a@1": kept(counted(feed("t")), "c1 > 1"), "b@1": joined(counted(feed("t")), feed("u"))}
    program = assemble(TABLES, views)
    shared = SHARED + counted(feed("t")).fingerprint
    assert names(program) == [["t", "u"], [shared], ["a@1", "b@1"]]
    assert program.circuit("a@1").inputs == {shared}
    assert program.circuit("b@1").inputs == {shared, "u"}
    assert not program.circuit(shared).is_view


def test_a_sub_query_used_twice_in_one_view_is_shared() -> None:
    views = {"a@1": joined(counted(feed("t")), kept(counted(feed("t")), "c1 > 1"))}
    program = assemble(TABLES, views)
    assert len([c for c in program.circuits if c.name.startswith(SHARED)]) == 1


def test_two_equal_views_are_computed_once() -> None:
    program = assemble(TABLES, {"a@1": counted(feed("t")), "b@1": counted(feed("t"))})
    shared = SHARED + counted(feed("t")).fingerprint
    assert names(program) == [["t"], [shared], ["a@1", "b@1"]]
    assert program.circuit(shared).root == counted(feed("t"))


def test_linear_sub_queries_are_not_shared() -> None:
    views = {"a@1": counted(kept(feed("t"), "c0 > 1")), "b@1": counted(kept(feed("t"), "c0 > 1"), "c1")}
    _, shared = extract(views)
    assert shared == {}


def test_sharing_within_what_is_shared() -> None:
    inner = counted(feed("t"))
    outer = counted(kept(inner, "c1 > 1"))
    views = {"a@1": kept(outer, "x"), "b@1": kept(outer, "y"), "c@1": joined(inner, feed("u"))}
    roots, shared = extract(views)
    assert shared.keys() == {inner.fingerprint, outer.fingerprint}
    assert feeds_of(shared[outer.fingerprint]) == {SHARED + inner.fingerprint}
    assert feeds_of(shared[inner.fingerprint]) == {"t"}
    assert feeds_of(roots["a@1"]) == {SHARED + outer.fingerprint}
    assert len(assemble(TABLES, views).levels) == 4


def test_sharing_changes_no_fingerprint() -> None:
    """State is named by fingerprints, so what stands above a shared sub-query keeps its own."""
    inner = counted(feed("t"))
    views = {"a@1": joined(inner, feed("u")), "b@1": kept(inner, "c1 > 1")}
    roots, _ = extract(views)
    assert {n: r.fingerprint for n, r in roots.items()} == {n: r.fingerprint for n, r in views.items()}
    leaf = next(n for n in roots["a@1"].walk() if isinstance(n, Shared))
    assert leaf.fingerprint == inner.fingerprint
    assert leaf.types == inner.types


def test_equal_sub_queries_are_told_apart_by_what_they_compute() -> None:
    same = [counted(feed("t")), counted(Feed((BIGINT,) * 2, (True,) * 2, "t", (0, 1)))]
    others = [counted(feed("u")), counted(feed("t"), "c1"), counted(feed("t", 1, 0)), counted(kept(feed("t"), "c0"))]
    assert same[0].fingerprint == same[1].fingerprint
    assert len({n.fingerprint for n in [same[0], *others]}) == 5


def test_children_are_replaced_where_they_stand() -> None:
    a, b, c = feed("t"), feed("u"), feed("v@1")
    union = Union((BIGINT,) * 2, (True,) * 2, (a, b, a))
    assert with_children(union, [c, b, a]).children == (c, b, a)
    assert with_children(union, [a, b, a]) is union
    join = joined(a, b)
    assert with_children(join, [b, c]).children == (b, c)
    project = Project((BIGINT,), (True,), a, (expression("c0"),))
    assert with_children(project, [b]) == Project((BIGINT,), (True,), b, (expression("c0"),))


def test_views_that_wait_for_each_other_are_a_fault() -> None:
    with pytest.raises(AssertionError, match="wait for each other"):
        assemble(TABLES, {"a@1": feed("b@1"), "b@1": feed("a@1")})
