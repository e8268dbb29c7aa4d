"""Lowering of aggregates: those that are maintained by themselves, and all others, recomputed for touched keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.circuit.node import Aggregate, Expression, OrderedAggregate, Regroup
from headrace.sql.catalyst import Catalyst, singleton
from headrace.sql.java_names import class_name, type_text
from headrace.sql.lowering.aggregate_functions import IN_ORDER, accumulation, maintained
from headrace.sql.lowering.base import Lowered, Lowering, id_of, names_of, refuse_keys


def aggregate(lowering: Lowering, plan: Any, needed: set[int]) -> Lowered:
    keys = lowering.catalyst.items(plan.groupingExpressions())
    entries = [e for e in lowering.catalyst.items(plan.aggregateExpressions()) if id_of(e) in needed]
    functions: list[Any] = []
    for entry in entries:
        collect_functions(lowering.catalyst, entry, functions)
    distinct = [
        a for f in functions if f.isDistinct() for a in lowering.catalyst.items(f.aggregateFunction().children())
    ]
    # Before the input is looked at: Spark prepares it for grouping by a map.
    refuse_keys(tuple(Expression(None, "", type_text(k)) for k in (*keys, *distinct)))
    child, ids = lowering.node(plan.child(), lowering.references(keys + entries))
    names = names_of(ids)
    bound_keys = tuple(lowering.catalyst.expression(k, names) for k in keys)
    types, out_ids = tuple(type_text(e) for e in entries), [id_of(e) for e in entries]
    nullables = tuple(bool(e.nullable()) for e in entries)
    if all(maintained(lowering.catalyst, f) for f in functions):
        replace = over_groups(lowering.catalyst, keys, functions)
        results = tuple(lowering.catalyst.expression(e, {}, replace) for e in entries)
        accumulations = tuple(accumulation(lowering.catalyst, f, names) for f in functions)
        normal_keys = tuple(group_key(lowering, k, names) for k in keys)
        in_order = any(a.distinct or a.function in IN_ORDER for a in accumulations)
        made = OrderedAggregate if in_order else Aggregate
        return made(types, nullables, child, normal_keys, accumulations, results), out_ids
    counted = None if keys else of_counted_rows(lowering.catalyst, names)
    results = tuple(lowering.catalyst.expression(e, names, counted) for e in entries)
    return Regroup(types, nullables, child, bound_keys, results), out_ids


def of_counted_rows(catalyst: Catalyst, names: dict[int, str]) -> Callable[[Any], Any | None]:
    """Aggregates without a key see, beside the input, a row that they must not count (see ``Regroup``)."""

    def replace(expression: Any) -> Any | None:
        if class_name(expression) != "AggregateExpression":
            return None
        chosen: Any = catalyst.attribute(Regroup.COUNTED)
        if expression.filter().isDefined():
            with catalyst.deciding():
                chosen = catalyst.expressions.And(chosen, catalyst.rebind(expression.filter().get(), names))
        function = catalyst.rebind(expression.aggregateFunction(), names)
        return function.toAggregateExpression(expression.isDistinct(), catalyst.jvm.scala.Option.apply(chosen))

    return replace


def group_key(lowering: Lowering, expression: Any, names: dict[int, str]) -> Expression:
    """A key to group by: -0.0 is 0.0 and every NaN is one, as Spark's own planner sees to."""
    bound = lowering.catalyst.expression(expression, names)
    if "float" not in bound.type and "double" not in bound.type:
        return bound
    optimizer = lowering.catalyst.jvm.org.apache.spark.sql.catalyst.optimizer
    normalized = singleton(optimizer, "NormalizeFloatingNumbers").normalize(expression)
    return lowering.catalyst.expression(normalized, names)


def collect_functions(catalyst: Catalyst, expression: Any, found: list[Any]) -> None:
    if class_name(expression) == "AggregateExpression":
        if not any(known.semanticEquals(expression) for known in found):
            found.append(expression)
        return
    for child in catalyst.items(expression.children()):
        collect_functions(catalyst, child, found)


def over_groups(catalyst: Catalyst, keys: list[Any], functions: list[Any]) -> Callable[[Any], Any | None]:
    def replace(expression: Any) -> Any | None:
        if class_name(expression) == "AggregateExpression":
            index = next(i for i, f in enumerate(functions) if f.semanticEquals(expression))
            return catalyst.attribute(f"v{index}")
        for i, key in enumerate(keys):
            if key.semanticEquals(expression):
                return catalyst.attribute(f"g{i}")
        return None

    return replace
