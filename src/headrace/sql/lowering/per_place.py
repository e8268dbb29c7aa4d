"""Lowering of windows that have one value for all rows of a partition, or of a place in it: computed once for each,
met by its rows.

An aggregate over whole partitions is that of a GROUP BY. dense_rank() numbers the distinct places of a partition. A
change reaches other rows only where such a value changes.
"""

from __future__ import annotations

from typing import Any

from headrace.sql.catalyst import Catalyst
from headrace.sql.java_names import class_name, type_text
from headrace.sql.lowering.aggregate_functions import maintained
from headrace.sql.lowering.base import Lowering
from headrace.sql.lowering.rewrite import Rewrite

WHOLE = ("UnboundedPreceding", "UnboundedFollowing")


def is_of_partition(catalyst: Catalyst, entry: Any) -> bool:
    """Whether a window's entry is a maintained aggregate over its whole partition."""
    expression = entry.child()
    if class_name(expression) != "WindowExpression":
        return False
    function, specification = expression.windowFunction(), expression.windowSpec()
    frame = specification.frameSpecification()
    return (
        (class_name(frame.lower()), class_name(frame.upper())) == WHOLE
        and not specification.partitionSpec().isEmpty()
        and class_name(function) == "AggregateExpression"
        and class_name(function.aggregateFunction()) not in ("First", "Last")
        and maintained(catalyst, function)
    )


def is_of_place(catalyst: Catalyst, entry: Any) -> bool:
    """Whether a window's entry is a dense rank over an order whose equal values have equal hashes."""
    expression = entry.child()
    if class_name(expression) != "WindowExpression" or class_name(expression.windowFunction()) != "DenseRank":
        return False
    return not any(" collate " in type_text(o.child()) for o in catalyst.items(expression.windowSpec().orderSpec()))


def per_place(lowering: Lowering, plan: Any, entries: list[Any]) -> Any | None:
    """The plan in the place of a window of such entries of one kind, or None."""
    made = _PerPlace(lowering.catalyst, plan, entries)
    if all(is_of_partition(lowering.catalyst, entry) for entry in entries):
        return made.of_partitions()
    return made.of_places() if all(is_of_place(lowering.catalyst, entry) for entry in entries) else None


class _PerPlace:
    """Bound to one Window node."""

    def __init__(self, catalyst: Catalyst, plan: Any, entries: list[Any]) -> None:
        self.plan, self.entries, self.make = plan, entries, Rewrite(catalyst)
        self.items, self.seq = catalyst.items, catalyst.seq

    def of_partitions(self) -> Any:
        partition = self.items(self.plan.partitionSpec())
        keys = [self.make.alias(value, "key") for value in partition]
        made = [self.make.alias(e.child().windowFunction(), "made") for e in self.entries]
        grouped = self.make.aggregate(partition, [*keys, *made], self.plan.child())
        return self.met(partition, [k.toAttribute() for k in keys], grouped, [m.toAttribute() for m in made])

    def of_places(self) -> Any:
        partition, order = self.items(self.plan.partitionSpec()), self.items(self.plan.orderSpec())
        values = [*partition, *(o.child() for o in order)]
        places = [self.make.alias(value, "place") for value in values]
        distinct = self.make.aggregate(values, places, self.plan.child())
        place = [p.toAttribute() for p in places]
        by, after, expressions = place[: len(partition)], place[len(partition) :], self.make.expressions
        sorts = [
            expressions.SortOrder(p, o.direction(), o.nullOrdering(), self.seq([]))
            for p, o in zip(after, order, strict=True)
        ]
        single = self.make.single
        frame = expressions.SpecifiedWindowFrame(single("RowFrame"), single("UnboundedPreceding"), single("CurrentRow"))
        over = expressions.WindowSpecDefinition(self.seq(by), self.seq(sorts), frame)
        number = self.make.alias(expressions.WindowExpression(expressions.RowNumber(), over), "number")
        numbered = self.make.logical.Window(
            self.seq([number]), self.seq(by), self.seq(sorts), distinct, self.plan.hint()
        )
        return self.met(values, place, numbered, [number.toAttribute()] * len(self.entries))

    def met(self, values: list[Any], place: list[Any], other: Any, made: list[Any]) -> Any:
        """The child's rows, each with what was ``made`` for its place."""
        make, nothing = self.make, self.seq([])
        same = make.all_of([make.expressions.EqualNullSafe(v, p) for v, p in zip(values, place, strict=True)])
        renamed = [
            make.expressions.Alias(m, e.name(), e.exprId(), nothing, make.none(), nothing)
            for m, e in zip(made, self.entries, strict=True)
        ]
        child = self.plan.child()
        return make.project([*make.output(child), *renamed], make.join("Inner", child, other, same))
