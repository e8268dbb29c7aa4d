"""ASOF JOIN with no tie left open: a left row takes, of the right rows that come nearest to it in time, the first by
all their columns, ascending.

Rows meet by keys that are equal, then by time: both sides lie in one order, in which a left row takes the last right
row before it. Where the condition compares the sides in yet another way, rows are joined in pairs and ranked.
"""

from __future__ import annotations

from typing import Any

from headrace.model.errors import HeadraceError
from headrace.sql.catalyst import Catalyst
from headrace.sql.java_names import class_name
from headrace.sql.lowering.rewrite import Rewrite
from headrace.sql.total_order import total
from headrace.sql.tree import Tree

# Comparison of the left's time with the right's -> whether the nearest right row is the latest one, and may be equal.
_COMPARISONS = {
    "GreaterThanOrEqual": (True, True), "GreaterThan": (True, False),
    "LessThanOrEqual": (False, True), "LessThan": (False, False),
}  # fmt: skip


class AsOf:
    """One ASOF JOIN of an optimized plan. ``time`` and ``other``: what is compared, of the left and of the right;
    ``keys``: pairs of values that are equal; ``mixed``: what else the condition says of both sides together."""

    def __init__(self, catalyst: Catalyst, plan: Any) -> None:
        self.catalyst, self.make, self.tree = catalyst, Rewrite(catalyst), Tree(catalyst)
        self.plan, self.left, self.right = plan, plan.left(), plan.right()
        self.inner = class_name(plan.joinType()) == "Inner"
        self.lefts, self.rights = self.make.output(self.left), self.make.output(self.right)
        compared = plan.asOfCondition()
        self.time, self.other = self._times(compared)
        self.latest, self.inclusive = _COMPARISONS[class_name(compared)]
        self.keys, rest = self._equalities()
        self.of_right = [p for p in rest if not self._of(p, self.lefts)]
        self.of_left = [p for p in rest if self._of(p, self.lefts) and not self._of(p, self.rights)]
        self.mixed = [p for p in rest if self._of(p, self.lefts) and self._of(p, self.rights)]

    def canonical(self, for_batch: bool) -> Any:
        """The plan in the place of this one; itself where the circuit has an operator for it."""
        if self.mixed:
            return self.paired()
        return self.windowed() if for_batch else self.plan

    # -- rows of both sides in one order ------------------------------------------------------------------------

    def both(self) -> Any:
        """All rows of the left and all of the right that can be met: whether a row is of the left, the keys, the
        time, the left's columns, the right's columns."""
        make, null = self.make, self.make.null
        lefts = [make.literal(True), *self._keys(0), self._left_time()]
        rights = [make.literal(False), *self._keys(1), self.other]
        of_left = [*map(self._made, lefts), *self.lefts, *(self._made(null(a.dataType())) for a in self.rights)]
        of_right = [*map(self._made, rights), *(self._made(null(a.dataType())) for a in self.lefts), *self.rights]
        return make.union([make.project(of_left, self._left_rows()), make.project(of_right, self._right_rows())])

    def order(self, both: list[Any]) -> list[Any]:
        """The order in which, of the right rows before a left one, that to take comes last; ``both``: all columns."""
        time = self._sort(both[1 + len(self.keys)], descending=not self.latest, nulls_last=False)
        instead = {_id(a): b for a, b in zip(self.rights, both[len(both) - len(self.rights) :], strict=True)}
        ties = total(self.make, self.right, [], [])
        return [time, *(self._sort(self._replaced(t.child(), instead), descending=True) for t in ties)]

    def windowed(self) -> Any:
        """The last right row before each left row, by a window over both."""
        union = self.both()
        both = self.make.output(union)
        time, *ties = self.order(both)
        side = self._sort(both[0], descending=not self.inclusive)
        keys, rights = both[1 : 1 + len(self.keys)], both[len(both) - len(self.rights) :]
        match = self.make.struct(**{f"r{i}": a for i, a in enumerate(rights)})
        own = self.make.expressions.If(both[0], self.make.null(match.dataType()), match)
        last = self.make.expressions.aggregate.Last(own, True)
        named = self._over(last.toAggregateExpression(False, self.make.none()), keys, [time, side, *ties])
        rows = self.make.filter(both[0], self._window(named, keys, [time, side, *ties], union))
        met = named.toAttribute()
        if self.inner:
            rows = self.make.filter(self.make.expressions.IsNotNull(met), rows)
        columns = [self._as(a, self.make.field(met, i)) for i, a in enumerate(self.rights)]
        return self.make.project([*self.lefts, *columns], rows)

    # -- pairs ------------------------------------------------------------------------------------------------

    def paired(self) -> Any:
        """The first of the right rows that each distinct left row meets, joined to the left."""
        make = self.make
        whole = [self.plan.asOfCondition(), self.plan.condition().get()]
        used = [a for a in self.lefts if any(self._of(e, [a]) for e in whole)]
        named = [make.alias(a, "met") for a in used]
        attributes = [n.toAttribute() for n in named]
        instead = {_id(a): b for a, b in zip(used, attributes, strict=True)}
        condition = self._replaced(make.all_of(whole), instead)
        pairs = make.join("Inner", make.aggregate(used, named, self.left), self.right, condition)
        nearest = [self._sort(self.other, descending=self.latest), *total(make, self.right, [], [])]
        number = self._over(make.expressions.RowNumber(), attributes, nearest)
        ranked = self._window(number, attributes, nearest, pairs)
        first = make.filter(make.expressions.LessThanOrEqual(number.toAttribute(), make.literal(1)), ranked)
        same = [make.expressions.EqualNullSafe(a, b) for a, b in zip(used, attributes, strict=True)]
        joined = make.join(self.plan.joinType(), self.left, first, make.all_of(same))
        return make.project([*self.lefts, *self.rights], joined)

    # -- parts ------------------------------------------------------------------------------------------------

    def _times(self, compared: Any) -> tuple[Any, Any]:
        sides = self.catalyst.items(compared.children()) if class_name(compared) in _COMPARISONS else []
        if sides and self._of(sides[0], self.lefts) and self._of(sides[1], self.rights):
            return sides[0], sides[1]
        raise HeadraceError(
            "sql.not_incremental", "this MATCH_CONDITION cannot be maintained incrementally",
            why="it does not compare a value of the left side with one of the right",
            next="compare a column of each side, and write what is said of one side alone in ON or WHERE",
        )  # fmt: skip

    def _equalities(self) -> tuple[list[tuple[Any, Any]], list[Any]]:
        """(pairs of equal values, the other parts of the condition)."""
        condition = self.plan.condition()
        if condition.isEmpty():
            return [], []
        join = self.make.join("Inner", self.left, self.right, condition.get())
        found = self.catalyst.jvm.org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys.unapply(join)
        if found.isEmpty():
            return [], self.make.conjuncts(condition.get())
        lefts, rights = (self.catalyst.items(side) for side in (found.get()._2(), found.get()._3()))
        others = found.get()._4()
        return list(zip(lefts, rights, strict=True)), self.make.conjuncts(others.get()) if others.isDefined() else []

    def _left_time(self) -> Any:
        """The left's time; none where a row meets nothing, so that it lies before all others."""
        if self.inner or not self.of_left:
            return self.time
        nothing = self.make.null(self.time.dataType())
        return self.make.expressions.If(self.make.all_of(self.of_left), self.time, nothing)

    def _left_rows(self) -> Any:
        return self._present(self.left, self.of_left, 0, self.time) if self.inner else self.left

    def _right_rows(self) -> Any:
        return self._present(self.right, self.of_right, 1, self.other)

    def _present(self, rows: Any, conditions: list[Any], side: int, time: Any) -> Any:
        """The rows that can meet others: with keys and a time."""
        values = [*(pair[side] for pair in self.keys), time]
        tested = [*conditions, *(self.make.expressions.IsNotNull(v) for v in values if v.nullable())]
        return self.make.filter(self.make.all_of(tested), rows) if tested else rows

    def _keys(self, side: int) -> list[Any]:
        return [self.make.normal(pair[side]) for pair in self.keys]

    def _sort(self, child: Any, *, descending: bool, nulls_last: bool | None = None) -> Any:
        single = self.make.single
        nulls = single("NullsLast" if (descending if nulls_last is None else nulls_last) else "NullsFirst")
        direction = single("Descending" if descending else "Ascending")
        return self.make.expressions.SortOrder(child, direction, nulls, self.catalyst.seq([]))

    def _over(self, function: Any, keys: list[Any], order: list[Any]) -> Any:
        """The function over each row and those before it."""
        made, single, seq = self.make.expressions, self.make.single, self.catalyst.seq
        frame = made.SpecifiedWindowFrame(single("RowFrame"), single("UnboundedPreceding"), single("CurrentRow"))
        spec = made.WindowSpecDefinition(seq(keys), seq(order), frame)
        return self.make.alias(made.WindowExpression(function, spec), "met")

    def _window(self, named: Any, keys: list[Any], order: list[Any], rows: Any) -> Any:
        seq = self.catalyst.seq
        return self.make.logical.Window(seq([named]), seq(keys), seq(order), rows, self.make.none())

    def _made(self, expression: Any) -> Any:
        return self.make.alias(expression, "made")

    def _as(self, attribute: Any, value: Any) -> Any:
        nothing = self.catalyst.seq([])
        alias = self.make.expressions.Alias
        return alias(value, attribute.name(), attribute.exprId(), nothing, self.make.none(), nothing)

    def _replaced(self, expression: Any, instead: dict[int, Any]) -> Any:
        def part(inner: Any) -> Any:
            return instead.get(_id(inner), inner) if class_name(inner) == "AttributeReference" else inner

        return self.tree.transformed(expression, part)

    def _of(self, expression: Any, attributes: list[Any]) -> bool:
        """Whether the expression reads one of these columns."""
        if class_name(expression) == "AttributeReference":
            return _id(expression) in {_id(a) for a in attributes}
        return any(self._of(child, attributes) for child in self.catalyst.items(expression.children()))


def _id(attribute: Any) -> int:
    return int(attribute.exprId().id())
