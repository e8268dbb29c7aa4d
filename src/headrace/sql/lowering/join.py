"""Lowering of joins."""

from __future__ import annotations

from typing import Any

from headrace.circuit.node import Join, Node
from headrace.sql.catalyst import class_name
from headrace.sql.lowering.base import Lowered, Lowering, names_of, refuse, refuse_keys

JOIN_KINDS = {"Inner": "inner", "LeftOuter": "left", "FullOuter": "full", "LeftSemi": "semi", "LeftAnti": "anti"}


def join(lowering: Lowering, plan: Any, needed: set[int]) -> Lowered:
    kind, existence = join_kind(plan)
    condition = plan.condition()
    keys = lowering.catalyst.jvm.org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys.unapply(plan)
    if condition.isEmpty() or keys.isEmpty():
        if kind == "anti" and condition.isDefined() and "isnull" in condition.get().toString().lower():
            raise refuse(
                "NOT IN (SELECT ...)", "it has no key when either side may be NULL", "use NOT EXISTS (SELECT ...)"
            )
        raise refuse("a join without an equality", "there is no key to find partners by", "add an equality to ON")
    left_keys, right_keys = lowering.catalyst.items(keys.get()._2()), lowering.catalyst.items(keys.get()._3())
    used = needed | lowering.references([condition.get()])
    left, left_ids = lowering.node(plan.left(), used)
    right, right_ids = lowering.node(plan.right(), used)
    names = names_of(left_ids, "l") | names_of(right_ids, "r")
    bound_left = tuple(lowering.catalyst.expression(k, names_of(left_ids)) for k in left_keys)
    bound_right = tuple(lowering.catalyst.expression(k, names_of(right_ids)) for k in right_keys)
    if kind == "right":
        kind, names = "left", names_of(left_ids, "r") | names_of(right_ids, "l")
        left, right, left_ids, right_ids = right, left, right_ids, left_ids
        bound_left, bound_right = bound_right, bound_left
    refuse_keys(bound_left + bound_right)
    types, nullables, ids = output(kind, left, right, left_ids, right_ids, existence)
    bound = lowering.catalyst.expression(condition.get(), names)
    return Join(types, nullables, kind, left, right, bound_left, bound_right, bound), ids


def join_kind(plan: Any) -> tuple[str, int | None]:
    kind = class_name(plan.joinType())
    if kind == "RightOuter":
        return "right", None
    if kind == "ExistenceJoin":
        return "existence", plan.joinType().exists().exprId().id()
    if kind not in JOIN_KINDS:
        raise refuse(f"a {kind} join", "it has no key to find partners by", "join with an equality in ON")
    return JOIN_KINDS[kind], None


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
