"""Lowering of ASOF JOIN: by the order of both sides' rows where its types have one, else as a running window."""

from __future__ import annotations

from typing import Any

from headrace.circuit.node import AsOf
from headrace.sql.as_of import AsOf as Plan
from headrace.sql.java_names import type_text
from headrace.sql.lowering.aggregate_functions import ordered
from headrace.sql.lowering.base import Lowered, Lowering, id_of, names_of, refuse, refuse_keys
from headrace.sql.lowering.limit import sort_keys


def as_of(lowering: Lowering, plan: Any, needed: set[int]) -> Lowered:
    made = Plan(lowering.catalyst, plan)
    union = made.both()
    both = made.make.output(union)
    order = [made.make.ascending(both[0]), *made.order(both)]
    if not all(ordered(type_text(entry.child())) for entry in order):
        if not made.keys:
            raise refuse(
                "an ASOF JOIN without ON or USING over such types",
                f"rows of type {', '.join(sorted({type_text(o.child()) for o in order}))} are not kept in order",
                "add an equality of both sides to ON, or leave out the columns that are not needed",
            )
        return lowering.node(made.windowed(), needed)
    count = 1 + len(made.keys)
    lefts = [(id_of(a), b) for a, b in zip(made.lefts, both[count + 1 :], strict=False) if id_of(a) in needed]
    rights = [(id_of(a), b) for a, b in zip(made.rights, both[-len(made.rights) :], strict=True) if id_of(a) in needed]
    wanted = [*both[1:count], *(b for _, b in lefts), *(b for _, b in rights)]
    child, ids = lowering.node(union, {id_of(b) for b in wanted} | lowering.references(order))
    names = names_of(ids)
    keys = tuple(lowering.catalyst.expression(k, names) for k in both[1:count])
    refuse_keys(keys)
    at_left, at_right = (tuple(ids.index(id_of(b)) for _, b in side) for side in (lefts, rights))
    outputs = {id_of(a): a for a in lowering.catalyst.items(plan.output())}
    made_ids = [i for i, _ in (*lefts, *rights)]
    types = tuple(child.types[i] for i in (*at_left, *at_right))
    nullables = tuple(bool(outputs[i].nullable()) for i in made_ids)
    sorts = sort_keys(lowering, order, names)
    return AsOf(types, nullables, child, keys, sorts, at_left, at_right, made.inner, made.inclusive), made_ids
