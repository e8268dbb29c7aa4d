"""Lowering of aggregates: those that add and subtract, and all others with a key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.circuit.node import Accumulation, Aggregate, Expression, Regroup
from headrace.sql.catalyst import Catalyst, class_name, singleton, type_text
from headrace.sql.lowering.base import Lowered, Lowering, id_of, names_of, refuse, refuse_keys

ACCUMULATING = {"Count": "count", "Sum": "sum", "Average": "avg"}
EXACT_INPUTS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


def aggregate(lowering: Lowering, plan: Any, needed: set[int]) -> Lowered:
    keys = lowering.catalyst.items(plan.groupingExpressions())
    entries = [e for e in lowering.catalyst.items(plan.aggregateExpressions()) if id_of(e) in needed]
    child, ids = lowering.node(plan.child(), lowering.references(keys + entries))
    names = names_of(ids)
    bound_keys = tuple(lowering.catalyst.expression(k, names) for k in keys)
    refuse_keys(bound_keys)
    functions: list[Any] = []
    for entry in entries:
        collect_functions(lowering.catalyst, entry, functions)
    types, out_ids = tuple(type_text(e) for e in entries), [id_of(e) for e in entries]
    nullables = tuple(bool(e.nullable()) for e in entries)
    if all(accumulates(lowering.catalyst, f) for f in functions):
        replace = over_groups(lowering.catalyst, keys, functions)
        results = tuple(lowering.catalyst.expression(e, {}, replace) for e in entries)
        accumulations = tuple(accumulation(lowering.catalyst, f, names) for f in functions)
        normal_keys = tuple(group_key(lowering, k, names) for k in keys)
        return Aggregate(types, nullables, child, normal_keys, accumulations, results), out_ids
    if not keys:
        others = sorted(
            {f.aggregateFunction().prettyName() for f in functions if not accumulates(lowering.catalyst, f)}
        )
        why, rewrite = "there is no key to recompute by", "add a GROUP BY"
        raise refuse(f"{', '.join(others)} without GROUP BY", why, rewrite)
    results = tuple(lowering.catalyst.expression(e, names) for e in entries)
    return Regroup(types, nullables, child, bound_keys, results), out_ids


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


def accumulates(catalyst: Catalyst, aggregate: Any) -> bool:
    function = aggregate.aggregateFunction()
    kind = class_name(function)
    if aggregate.isDistinct() or kind not in ACCUMULATING:
        return False
    if kind == "Count":
        return True
    return type_text(catalyst.items(function.children())[0]).startswith(EXACT_INPUTS)


def accumulation(catalyst: Catalyst, aggregate: Any, names: dict[int, str]) -> Accumulation:
    function = aggregate.aggregateFunction()
    kind = ACCUMULATING[class_name(function)]
    arguments = catalyst.items(function.children())
    filtered = aggregate.filter()
    given = argument(catalyst, kind, arguments, filtered.get() if filtered.isDefined() else None)
    bound = None if given is None else catalyst.expression(given, names)
    return Accumulation(kind, bound, type_text(function))


def argument(catalyst: Catalyst, kind: str, arguments: list[Any], condition: Any | None) -> Any | None:
    """What is accumulated: null where the row does not count."""
    expressions = catalyst.expressions
    counts_rows = kind == "count" and all(not a.nullable() for a in arguments)
    if condition is None and counts_rows:
        return None
    if kind == "count":
        test = condition
        for a in arguments:
            if a.nullable():
                present = expressions.IsNotNull(a)
                test = present if test is None else expressions.And(test, present)
        one = singleton(expressions, "Literal").apply(1)
        return expressions.If(test, one, null(catalyst, one))
    if condition is None:
        return arguments[0]
    return expressions.If(condition, arguments[0], null(catalyst, arguments[0]))


def null(catalyst: Catalyst, like: Any) -> Any:
    return singleton(catalyst.expressions, "Literal").create(None, like.dataType())


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
