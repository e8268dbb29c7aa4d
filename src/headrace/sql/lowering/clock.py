"""What of a query follows from the clock alone, and comparisons brought to the form in which it stands on one side."""

from __future__ import annotations

from typing import Any

from headrace.model.clock import CLOCK
from headrace.model.errors import HeadraceError
from headrace.sql.java_names import class_name, type_text
from headrace.sql.lowering.base import refuse
from headrace.sql.lowering.linear import LEAF_PREFIX
from headrace.sql.lowering.rewrite import Rewrite

LEAF = LEAF_PREFIX + CLOCK.name
DAY_US = 86_400 * 1_000_000
CENTURY_US = 100 * 366 * DAY_US
# What keeps the order of its first argument when the others are constant; in a zone of fixed offset.
_RISING = frozenset(
    {
        "AddMonths",
        "Alias",
        "Cast",
        "DateAdd",
        "DateAddInterval",
        "DateAddYMInterval",
        "DateSub",
        "TimestampAddInterval",
        "TimestampAddYMInterval",
    }
)
_TRUNCATIONS = {"TruncDate": 0, "TruncTimestamp": 1}  # the argument whose order is kept
# Difference of two times -> microseconds in one of its units, the type of what it is compared with.
_DIFFERENCES = {
    "SubtractTimestamps": (1, "interval day to second"),
    "SubtractDates": (1, "interval day"),
    "DateDiff": (DAY_US, "int"),
}
MIRRORED = {
    "LessThan": "GreaterThan", "LessThanOrEqual": "GreaterThanOrEqual",
    "GreaterThan": "LessThan", "GreaterThanOrEqual": "LessThanOrEqual",
}  # fmt: skip
_ORDERED = ("date", "timestamp", "timestamp_ntz")


def is_clock(plan: Any) -> bool:
    """Whether a plan is the clock's relation, or a projection of it."""
    while class_name(plan) in ("Project", "Subquery"):
        plan = plan.child()
    return class_name(plan) == "MapInArrow" and str(plan.functionExpr().name()) == LEAF


def of_clock(make: Rewrite, expression: Any, *, alone: bool = False) -> bool:
    """Whether an expression reads the clock; ``alone``: and nothing else."""
    leaves = _leaves(make, expression)
    clocks = [class_name(leaf) == "ScalarSubquery" and is_clock(leaf.plan()) for leaf in leaves]
    if not alone:
        return any(clocks)
    return any(clocks) and all(c or class_name(e) == "Literal" for c, e in zip(clocks, leaves, strict=True))


def _leaves(make: Rewrite, expression: Any) -> list[Any]:
    children = make.catalyst.items(expression.children())
    if not children or class_name(expression) == "ScalarSubquery":
        return [expression]
    return [leaf for child in children for leaf in _leaves(make, child)]


def refuse_clock(kind: str) -> HeadraceError:
    """For a use of the clock that is not a filter."""
    places = {"Project": "a SELECT list", "Aggregate": "an aggregate or GROUP BY", "Join": "the ON of an outer join"}
    return refuse(
        f"the clock in {places.get(kind, kind)}", "each tick would change every row",
        "compare a column with it in WHERE: `WHERE ts > now() - INTERVAL 1 HOUR`; for a CASE by age, "
        "write one SELECT for each age and join them by UNION ALL",
    )  # fmt: skip


def fixed_zone(make: Rewrite) -> bool:
    """Whether local time never goes back in the session's time zone."""
    zone = str(make.catalyst.spark.conf.get("spark.sql.session.timeZone"))
    dates = make.catalyst.jvm.org.apache.spark.sql.catalyst.util.DateTimeUtils
    return bool(dates.getZoneId(zone).getRules().isFixedOffset())


def isolated(make: Rewrite, comparison: Any) -> Any:
    """``now() - ts < INTERVAL ..`` as ``ts > now() - INTERVAL ..``, so that one side is the row's alone; else as it is.

    Exact where local time never goes back, for differences within a century.
    """
    left, right = make.catalyst.items(comparison.children())
    kind, expressions = class_name(comparison), make.expressions
    if class_name(right) in _DIFFERENCES:
        kind, left, right = MIRRORED[kind], right, left
    if class_name(left) not in _DIFFERENCES or class_name(right) != "Literal" or right.value() is None:
        return comparison
    unit, type_name = _DIFFERENCES[class_name(left)]
    if type_text(right) != type_name or not fixed_zone(make) or not of_clock(make, left):
        return comparison
    by_us = int(right.value()) * unit
    if abs(by_us) > CENTURY_US:
        return comparison
    days = None if class_name(left) == "SubtractTimestamps" else make.literal(by_us // DAY_US)
    end, start = make.catalyst.items(left.children())[:2]
    if of_clock(make, end, alone=True):  # end - start < d: start > end - d
        back = moved(make, end, -by_us) if days is None else expressions.DateSub(end, days)
        return getattr(expressions, MIRRORED[kind])(start, back)
    if of_clock(make, start, alone=True):  # end - start < d: end < start + d
        forth = moved(make, start, by_us) if days is None else expressions.DateAdd(start, days)
        return getattr(expressions, kind)(end, forth)
    return comparison


def moved(make: Rewrite, time: Any, by_us: int) -> Any:
    """A timestamp so many microseconds later."""
    interval = make.literal(
        make.catalyst.jvm.java.time.Duration.ofSeconds(by_us // 1_000_000, by_us % 1_000_000 * 1_000)
    )
    zone = make.some(str(make.catalyst.spark.conf.get("spark.sql.session.timeZone")))
    return make.expressions.TimestampAddInterval(time, interval, zone)


def grows(make: Rewrite, plan: Any) -> bool:
    """Whether a plan is one value of the clock that never falls while the clock does not."""
    while class_name(plan) == "Subquery":
        plan = plan.child()
    if not is_clock(plan) or not fixed_zone(make):
        return False
    entries = make.catalyst.items(plan.projectList()) if class_name(plan) == "Project" else []
    return (
        len(entries) == 1
        and _rises(make, entries[0])
        and (class_name(plan.child()) == "MapInArrow" or grows(make, plan.child()))
    )


def _rises(make: Rewrite, expression: Any) -> bool:
    kind = class_name(expression)
    if kind == "AttributeReference":
        return True
    children = make.catalyst.items(expression.children())
    at = _TRUNCATIONS.get(kind, 0)
    if (kind not in _RISING and kind not in _TRUNCATIONS) or type_text(expression) not in _ORDERED:
        return False
    others = [child for i, child in enumerate(children) if i != at]
    return _rises(make, children[at]) and all(class_name(o) == "Literal" and o.value() is not None for o in others)
