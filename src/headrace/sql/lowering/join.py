"""Lowering of joins: by the keys of their equalities, or over every pair where there is none."""

from __future__ import annotations

from typing import Any

from headrace.circuit.node import Expression, Join, Node, Union
from headrace.circuit.operators.free_join import unhashable
from headrace.sql.catalyst import Catalyst
from headrace.sql.java_names import class_name
from headrace.sql.lowering.base import Lowered, Lowering, id_of, names_of, projected, refuse
from headrace.sql.lowering.columns import columns, null, true
from headrace.sql.lowering.not_in import not_in
from headrace.sql.lowering.own_extreme import of_own_extreme
from headrace.sql.lowering.rewrite import Rewrite
from headrace.sql.lowering.threshold import threshold

JOIN_KINDS = {
    "Inner": "inner", "Cross": "inner", "LeftOuter": "left", "LeftSingle": "single", "FullOuter": "full",
    "LeftSemi": "semi", "LeftAnti": "anti",
}  # fmt: skip


def join(lowering: Lowering, plan: Any, needed: set[int]) -> Lowered:
    found = threshold(lowering, plan, needed)
    if found is not None:
        return found
    other = not_in(lowering, plan) or of_any_row(lowering, plan)
    if other is not None:
        return lowering.node(other, needed)
    kind, existence = join_kind(plan)
    condition = condition_of(lowering.catalyst, plan)
    used = needed | lowering.references([condition])
    left, left_ids = lowering.node(plan.left(), used)
    right, right_ids = lowering.node(plan.right(), used)
    first = of_own_extreme(lowering, kind, condition, (left, left_ids), (right, right_ids))
    if first is not None:
        return first
    left_keys, right_keys, residual = equalities(lowering.catalyst, plan, left_ids, right_ids)
    names = names_of(left_ids, "l") | names_of(right_ids, "r")
    if kind == "right":
        kind, names = "left", names_of(left_ids, "r") | names_of(right_ids, "l")
        left, right, left_ids, right_ids = right, left, right_ids, left_ids
        left_keys, right_keys = right_keys, left_keys
    types, nullables, ids = output(kind, left, right, left_ids, right_ids, existence)
    if kind == "semi" and not left_keys and class_name(plan.right()) == "Subquery":
        kind = "filter"
    if kind == "full" and not left_keys:
        return full(lowering, condition, (left, left_ids), (right, right_ids)), ids
    bound = lowering.catalyst.expression(condition, names)
    return Join(types, nullables, kind, left, right, left_keys, right_keys, bound, residual), ids


def of_any_row(lowering: Lowering, plan: Any) -> Any | None:
    """A semi, anti or existence join that asks the right side only whether it has rows: over one row if it has some."""
    kind, make = class_name(plan.joinType()), Rewrite(lowering.catalyst)
    if kind not in ("LeftSemi", "LeftAnti", "ExistenceJoin") or has_few_rows(plan.right()):
        return None
    condition = condition_of(lowering.catalyst, plan)
    if lowering.references([condition]) & {id_of(a) for a in make.output(plan.right())}:
        return None
    rows = make.count(make.literal(1))
    some = make.alias(make.expressions.GreaterThan(rows, make.cast(make.literal(0), rows.dataType())), "some")
    found = make.filter(some.toAttribute(), make.aggregate([], [some], plan.right()))
    return make.join(plan.joinType(), plan.left(), found, condition)


def has_few_rows(plan: Any) -> bool:
    """Whether a plan has one row at most, as far as its first nodes show."""
    if class_name(plan) == "Filter":
        return has_few_rows(plan.child())
    return class_name(plan) == "Subquery" or (
        class_name(plan) == "Aggregate" and bool(plan.groupingExpressions().isEmpty())
    )


def join_kind(plan: Any) -> tuple[str, int | None]:
    kind = class_name(plan.joinType())
    if kind == "RightOuter":
        return "right", None
    if kind == "ExistenceJoin":
        return "existence", plan.joinType().exists().exprId().id()
    if kind not in JOIN_KINDS:
        raise refuse(f"a {kind} join", "no operator covers it", "")
    return JOIN_KINDS[kind], None


def condition_of(catalyst: Catalyst, plan: Any) -> Any:
    condition = plan.condition()
    return condition.get() if condition.isDefined() else true(catalyst)


def equalities(
    catalyst: Catalyst, plan: Any, left_ids: list[int], right_ids: list[int]
) -> tuple[tuple[Expression, ...], tuple[Expression, ...], bool]:
    """(left keys, right keys) of the equalities whose values have a hash; none of a condition without. Whether the
    condition asks for more."""
    if plan.condition().isEmpty():
        return (), (), False
    keys = catalyst.jvm.org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys.unapply(plan)
    if keys.isEmpty():
        return (), (), True
    lefts, rights = catalyst.items(keys.get()._2()), catalyst.items(keys.get()._3())
    pairs = [
        (catalyst.expression(a, names_of(left_ids)), catalyst.expression(b, names_of(right_ids)))
        for a, b in zip(lefts, rights, strict=True)
    ]
    hashed = [(a, b) for a, b in pairs if not unhashable(a.type) and not unhashable(b.type)]
    residual = bool(keys.get()._4().isDefined()) or len(hashed) < len(pairs)
    return tuple(a for a, _ in hashed), tuple(b for _, b in hashed), residual


def full(lowering: Lowering, condition: Any, left: Lowered, right: Lowered) -> Node:
    """Every pair and every row of the left, then the rows of the right that meet nothing."""
    catalyst = lowering.catalyst
    (lefts, left_ids), (rights, right_ids) = left, right
    types, nullables = lefts.types + rights.types, (True,) * (len(left_ids) + len(right_ids))
    bound = catalyst.expression(condition, names_of(left_ids, "l") | names_of(right_ids, "r"))
    outer = Join(types, nullables, "left", lefts, rights, (), (), bound)
    turned = catalyst.expression(condition, names_of(left_ids, "r") | names_of(right_ids, "l"))
    missing = Join(rights.types, rights.nullables, "anti", rights, lefts, (), (), turned)
    padding = [null(catalyst, type_text) for type_text in lefts.types]
    padded = projected(missing, padding + columns(catalyst, missing, len(missing.types)))
    return Union(types, nullables, (outer, padded))


def output(
    kind: str, left: Node, right: Node, left_ids: list[int], right_ids: list[int], existence: int | None
) -> tuple[tuple[str, ...], tuple[bool, ...], list[int]]:
    if kind in ("semi", "anti"):
        return left.types, left.nullables, left_ids
    if kind == "existence":
        assert existence is not None
        return (*left.types, "boolean"), (*left.nullables, False), [*left_ids, existence]
    left_nullables = left.nullables if kind != "full" else (True,) * len(left.types)
    right_nullables = right.nullables if kind == "inner" else (True,) * len(right.types)
    return left.types + right.types, left_nullables + right_nullables, left_ids + right_ids
