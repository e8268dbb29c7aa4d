"""Which aggregate functions a circuit maintains by itself, and how each is lowered; all others are recomputed."""

from __future__ import annotations

import re
from typing import Any

from headrace.circuit.node import Accumulation
from headrace.circuit.slots import WRAPPED_SUM
from headrace.sql.catalyst import Catalyst, singleton
from headrace.sql.java_names import class_name, type_text

_WHOLE = ("tinyint", "smallint", "int", "bigint")
_NUMBERS = (*_WHOLE, "float", "double")
_INTERVAL = "interval day to second"
# Types whose order is that of their encoding (headrace.state.order); a type that holds another one is not among them.
_ORDERED = re.compile(
    r"\b(boolean|tinyint|smallint|int|bigint|float|double|decimal|string|binary|date|timestamp|timestamp_ntz)\b"
)
_UNORDERED = re.compile(r"\b(map|variant|collate|interval|void|time|geometry|geography|udt)\b")

ADDED = {"Count": "count", "Sum": "sum", "Average": "avg"}
BITWISE = {"BitAndAgg": "bit_and", "BitOrAgg": "bit_or", "BitXorAgg": "bit_xor"}
STATISTICS = {
    "VariancePop": "var_pop", "VarianceSamp": "var_samp", "StddevPop": "stddev_pop", "StddevSamp": "stddev_samp",
    "Skewness": "skewness", "Kurtosis": "kurtosis", "RegrReplacement": "sum_of_squares",
    "CovPopulation": "covar_pop", "CovSample": "covar_samp", "Corr": "corr", "RegrSXY": "sum_of_products",
    "RegrR2": "regr_r2", "RegrSlope": "regr_slope", "RegrIntercept": "regr_intercept",
}  # fmt: skip
EXTREMES = {"Min": "min", "Max": "max"}
PERCENTILES = {"Percentile": "percentile", "PercentileDisc": "percentile_disc"}
# What the canonical form makes extremes of.
BECOME_EXTREMES = ("First", "Last", "MaxBy", "MinBy")
IN_ORDER = (*EXTREMES.values(), *PERCENTILES.values(), "mode")


def maintained(catalyst: Catalyst, aggregate: Any) -> bool:
    """Whether the circuit adds, subtracts and orders by itself what this aggregate needs, before or after it has its
    canonical form."""
    function = aggregate.aggregateFunction()
    kind = class_name(function)
    arguments = catalyst.items(function.children())
    types = [type_text(a) for a in arguments]
    if aggregate.isDistinct() and not all(map(ordered, types)):
        return False
    if kind == "Count" or kind in BITWISE or kind in STATISTICS:
        return True
    if kind in EXTREMES:
        return ordered(types[0])
    if kind in BECOME_EXTREMES:
        return not aggregate.isDistinct() and all(map(ordered, types))
    if kind in PERCENTILES:
        return not aggregate.isDistinct() and _fractions(catalyst, function) is not None
    if kind == "Mode":
        return not aggregate.isDistinct() and ordered(types[0])
    if kind not in ADDED:
        return False
    number = types[0] in _NUMBERS or types[0].startswith("decimal(")
    return number or (kind == "Sum" and types[0] == _INTERVAL)


def adds_up(catalyst: Catalyst, aggregate: Any) -> bool:
    """Whether a maintained aggregate is made of counts and sums alone."""
    function = aggregate.aggregateFunction()
    kind = class_name(function)
    if aggregate.isDistinct() or not maintained(catalyst, aggregate):
        return False
    boolean = kind in EXTREMES and type_text(function) == "boolean"
    return boolean or kind in ADDED or kind in BITWISE or kind in STATISTICS


def ordered(type_name: str) -> bool:
    return bool(_ORDERED.search(type_name)) and not _UNORDERED.search(type_name)


def accumulation(catalyst: Catalyst, aggregate: Any, names: dict[int, str]) -> Accumulation:
    """A maintained aggregate in its canonical form as a node holds it."""
    function = aggregate.aggregateFunction()
    kind = class_name(function)
    condition = aggregate.filter().get() if aggregate.filter().isDefined() else None
    arguments = catalyst.items(function.children())
    details: Any = ()
    if kind in PERCENTILES:
        arguments, details = arguments[:1], _fractions(catalyst, function)
    if kind == "Mode":  # of the equally frequent the least, or in the opposite order of the greatest
        details = ((), False, not function.reverseOpt().get())
    distinct = bool(aggregate.isDistinct()) and kind not in EXTREMES
    if kind == "Count" and not distinct:
        given = _counted(catalyst, arguments, condition)
    else:
        given = [_chosen(catalyst, a, condition) if i == 0 else a for i, a in enumerate(arguments)]
    bound = tuple(catalyst.expression(e, names) for e in given)
    return Accumulation(_name(function, kind, type_text(arguments[0])), bound, type_text(function), distinct, details)


def _name(function: Any, kind: str, of: str) -> str:
    if kind in EXTREMES and of == "boolean":  # the least is false unless all are true
        return "bit_and" if kind == "Min" else "bit_or"
    if kind == "Mode":
        return "mode"
    for names in (BITWISE, STATISTICS, EXTREMES, PERCENTILES):
        if kind in names:
            return names[kind]
    if kind == "Sum" and of in _WHOLE and _mode(function) == "LEGACY":
        return WRAPPED_SUM
    return ("try_" if forgives(function) else "") + ADDED[kind]


def forgives(function: Any) -> bool:
    """Whether an overflow of a sum or mean is NULL instead of an error; without ANSI it is that for decimals."""
    mode = _mode(function)
    return mode == "TRY" or (mode == "LEGACY" and type_text(function).startswith("decimal("))


def _mode(function: Any) -> str:
    """What becomes of an overflow: ANSI, TRY or LEGACY."""
    kind = class_name(function)
    if kind == "Sum":
        return str(function.evalContext().evalMode().toString())
    return str(function.evalMode().toString()) if kind == "Average" else ""


def _counted(catalyst: Catalyst, arguments: list[Any], condition: Any | None) -> list[Any]:
    """What is counted: null where the row does not count; nothing where every row does."""
    expressions, test = catalyst.expressions, condition
    for a in arguments:
        if a.nullable():
            present = expressions.IsNotNull(a)
            test = present if test is None else expressions.And(test, present)
    if test is None:
        return []
    one = singleton(expressions, "Literal").apply(1)
    return [expressions.If(test, one, _null(catalyst, one))]


def _chosen(catalyst: Catalyst, argument: Any, condition: Any | None) -> Any:
    if condition is None:
        return argument
    return catalyst.expressions.If(condition, argument, _null(catalyst, argument))


def _null(catalyst: Catalyst, like: Any) -> Any:
    return singleton(catalyst.expressions, "Literal").create(None, like.dataType())


def _fractions(catalyst: Catalyst, function: Any) -> tuple[tuple[float, ...], bool, bool] | None:
    """The fractions of a percentile, whether there is an array of them, whether the order is descending.

    None when it is recomputed: copies counted by a column, values whose double Spark does not round once.
    """
    value, fraction, *frequency = catalyst.items(function.children())
    kind = type_text(value)
    exact = kind in ("tinyint", "smallint", "int", "bigint", "float", "double")
    if kind.startswith("decimal"):
        exact = int(kind.removeprefix("decimal(").split(",")[0]) <= 15
    if not exact or any(class_name(f) != "Literal" or int(f.value()) != 1 for f in frequency):
        return None
    if class_name(function) == "PercentileDisc" and function.legacyCalculation():
        return None
    if class_name(fraction) != "Literal" or fraction.value() is None:
        return None
    if type_text(fraction) == "double":
        return (float(fraction.value()),), False, bool(function.reverse())
    if type_text(fraction) != "array<double>":
        return None
    return tuple(float(f) for f in fraction.value().toDoubleArray()), True, bool(function.reverse())
