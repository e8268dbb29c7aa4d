"""Collations live inside expressions; what passes from one plan node to the next is plain text.

Text that a collation takes as equal is grouped, joined and ordered by its collation key, a binary value that compares
as the text does. Of a group's spellings the least by its bytes is shown. The columns of a view are plain text too.
"""

from __future__ import annotations

import re
from typing import Any

from headrace.model.errors import HeadraceError
from headrace.sql.build import Build
from headrace.sql.distinct import together
from headrace.sql.java_names import class_name, type_text
from headrace.sql.tree import SUBQUERIES, Tree

_COMPARISONS = (
    "EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual",
)  # fmt: skip
_COLLATION = re.compile(r" collate \w+")
# Aggregates that take what a collation holds for equal as one value.
_OF_ROWS = ("Lag", "Lead", "NthValue")  # window functions that are no aggregates
_BY_EQUALITY = ("CollectSet", "CollectUnion", "Mode", "PivotFirst")


def named_in(text: str) -> bool:
    """Whether a query can have collations at all: they come into it by their name only."""
    return "collat" in text.lower()


class Collated:
    """The rewriting of plans with collations. Bound to one session."""

    def __init__(self, build: Build, tree: Tree, for_batch: bool) -> None:
        self.build, self.tree, self.for_batch = build, tree, for_batch
        self.catalyst, self.made = build.catalyst, build.expressions

    def plain(self, plan: Any) -> Any:
        """The plan without collated columns; names and ids of the output stay."""
        kind = class_name(plan)
        if kind == "MapInArrow":
            return plan
        if kind == "Aggregate" and not self.for_batch:
            plan = together(self.build, self.tree, plan)
        children = self.catalyst.items(plan.children())
        plan = plan.withNewChildren(self.catalyst.seq([self.plain(child) for child in children]))
        if kind == "Aggregate":
            return self.aggregate(plan)
        if kind == "Window":
            return self.window(plan)
        return self.tree.with_expressions(plan, self.generated if kind == "Generate" else self.column)

    def window(self, plan: Any) -> Any:
        """Functions over plain text; what else is made of one of them stands in a Project above."""
        items, seq, nothing = self.catalyst.items, self.catalyst.seq, self.catalyst.seq([])
        entries, made = [], []
        for entry in items(plan.windowExpressions()):
            if class_name(entry) != "Alias":  # the outer key of a correlated subquery, see ``canonical_window``
                continue
            function, spec = entry.child().windowFunction(), self.value(entry.child().windowSpec())
            found = self.value(function)
            if not collated(found):
                entries.append(entry.withNewChildren(seq([self.made.WindowExpression(found, spec)])))
                made.append(entry.toAttribute())
                continue
            if class_name(found) in _OF_ROWS:
                found = found.withNewChildren(seq([self.text(c) for c in items(found.children())]))
            parts: list[Any] = []

            def parted(expression: Any, spec: Any = spec, parts: list[Any] = parts) -> Any:
                if class_name(expression) not in ("AggregateExpression", *_OF_ROWS):
                    return expression
                parts.append(self.build.alias(self.made.WindowExpression(expression, spec), "part"))
                return parts[-1].toAttribute()

            whole = self.tree.transformed(found, parted)
            entries += parts
            made.append(
                self.made.Alias(self.text(whole), entry.name(), entry.exprId(), nothing, self.build.none(), nothing)
            )
        partition = [self.key(self.value(e)) for e in items(plan.partitionSpec())]
        order = [self.value(o) for o in items(plan.orderSpec())]
        windowed = self.catalyst.logical.Window(seq(entries), seq(partition), seq(order), plan.child(), plan.hint())
        return self.catalyst.logical.Project(seq([*items(plan.child().output()), *made]), windowed)

    def generated(self, expression: Any) -> Any:
        """A generator makes plain text of plain text; the columns it fills are such."""
        if class_name(expression) == "AttributeReference":
            return self.column(expression)
        children = [self.text(self.value(c)) for c in self.catalyst.items(expression.children())]
        return self.rebuilt(expression, children)

    def aggregate(self, plan: Any) -> Any:
        """Grouped by collation keys; a key that is shown is the least spelling there is."""
        groups = [g for g in self.catalyst.items(plan.groupingExpressions()) if collated(g)]
        least = [self.least(self.value(g)) for g in groups]

        def shown(expression: Any) -> Any:
            for group, spelling in zip(groups, least, strict=True):
                if group.semanticEquals(expression):
                    return spelling
            if class_name(expression) == "AggregateExpression":
                return self.value(expression)
            children = self.catalyst.items(expression.children())
            if not children:
                return self.part(expression)
            return self.part(expression.withNewChildren(self.catalyst.seq([shown(child) for child in children])))

        entries = [self.named(e, shown(e)) for e in self.catalyst.items(plan.aggregateExpressions())]
        keys = [self.key(self.value(g)) for g in self.catalyst.items(plan.groupingExpressions())]
        seq = self.catalyst.seq
        return self.catalyst.logical.Aggregate(seq(keys), seq(entries), plan.child(), plan.hint())

    def least(self, value: Any) -> Any:
        least = self.made.aggregate.Min(self.text(value))
        return self.build.cast(least.toAggregateExpression(False, self.build.none()), value.dataType())

    # -- expressions ------------------------------------------------------------------------------------------

    def column(self, expression: Any) -> Any:
        """What a node passes on, or tests: plain text in the place of collated text."""
        return self.named(expression, self.value(expression))

    def named(self, old: Any, new: Any) -> Any:
        """The new value of an entry as plain text, under the entry's name and id if it has them."""
        if class_name(old) == "AttributeReference":
            if class_name(new) == "AttributeReference":
                return new
            if class_name(new) == "Cast" and class_name(new.child()) == "AttributeReference":
                return new.child()
            nothing = self.catalyst.seq([])
            return self.made.Alias(self.text(new), old.name(), old.exprId(), nothing, self.build.none(), nothing)
        if class_name(new) == "Alias":
            return new.withNewChildren(self.catalyst.seq([self.text(new.child())]))
        return self.text(new)

    def value(self, expression: Any) -> Any:
        """The expression over plain columns, of its own type."""
        return self.tree.transformed(expression, self.part)

    def part(self, expression: Any) -> Any:
        kind = class_name(expression)
        if kind == "AttributeReference":
            if not collated(expression):
                return expression
            return self.build.cast(expression.withDataType(self.plain_type(expression)), expression.dataType())
        if kind in SUBQUERIES:
            inner = expression.withNewPlan(self.plain(expression.plan()))
            return self.build.cast(inner, expression.dataType()) if kind == "ScalarSubquery" else inner
        children = self.catalyst.items(expression.children())
        if kind in _COMPARISONS or kind == "SortOrder":
            return self.rebuilt(expression, [self.key(c) for c in children])
        if kind == "WindowSpecDefinition":
            partition = [self.key(e) for e in self.catalyst.items(expression.partitionSpec())]
            frame = expression.frameSpecification()
            return self.made.WindowSpecDefinition(self.catalyst.seq(partition), expression.orderSpec(), frame)
        if kind == "AggregateExpression" and any(map(collated, self.arguments(expression))):
            return self.function(expression)
        return expression

    def arguments(self, aggregate: Any) -> list[Any]:
        return self.catalyst.items(aggregate.aggregateFunction().children())

    def function(self, aggregate: Any) -> Any:
        """An aggregate over collated values."""
        function, arguments = aggregate.aggregateFunction(), self.arguments(aggregate)
        kind = class_name(function)

        def of(made: Any) -> Any:
            return made.toAggregateExpression(aggregate.isDistinct(), aggregate.filter())

        if kind in ("Min", "Max"):
            pair = self.build.struct(k=self.key(arguments[0]), v=self.text(arguments[0]))
            extreme = getattr(self.made.aggregate, kind)(self.build.present(arguments[0], pair))
            return self.build.cast(self.build.field(of(extreme), 1), function.dataType())
        if kind == "Count":
            return of(function.withNewChildren(self.catalyst.seq([self.key(a) for a in arguments])))
        if aggregate.isDistinct() or kind in _BY_EQUALITY:
            raise HeadraceError(
                "sql.refused", f"{function.prettyName()} of collated values is not admitted in a view",
                why="which of several spellings stands for all of them is not determined",
                next="take the values of lower(...), or of a query below that groups by them",
            )  # fmt: skip
        # Of those with two arguments the second is an order; functions of users are given texts.
        plain = [self.text(a) if i == 0 or kind == "PythonUDAF" else self.key(a) for i, a in enumerate(arguments)]
        return self.build.cast(of(function.withNewChildren(self.catalyst.seq(plain))), function.dataType())

    def key(self, value: Any) -> Any:
        """What equals, and comes before, another one as the collated text does."""
        if not collated(value):
            return value
        if not type_text(value).startswith("string collate "):
            raise HeadraceError(
                "sql.refused", f"a key or order of type {type_text(value)} is not admitted in a view",
                why="collations are kept in texts alone, not in arrays and structs of them",
                next="use the text itself, COLLATE it where it is compared",
            )  # fmt: skip
        return self.made.CollationKey(value)

    def text(self, value: Any) -> Any:
        """A value without its collation."""
        if not collated(value):
            return value
        if class_name(value) == "Cast" and type_text(value.child()) == _COLLATION.sub("", type_text(value)):
            return value.child()
        return self.build.cast(value, self.plain_type(value))

    def plain_type(self, value: Any) -> Any:
        return self.build.types.DataType.fromDDL(_COLLATION.sub("", type_text(value)))

    def rebuilt(self, expression: Any, children: list[Any]) -> Any:
        old = self.catalyst.items(expression.children())
        if all(a is b for a, b in zip(old, children, strict=True)):
            return expression
        return expression.withNewChildren(self.catalyst.seq(children))


def collated(expression: Any) -> bool:
    """Whether values of the expression are, or hold, collated text."""
    return class_name(expression) not in _UNTYPED and " collate " in type_text(expression)


# Expressions whose type cannot be asked for.
_UNTYPED = frozenset({"WindowSpecDefinition", "SpecifiedWindowFrame", "SortOrder", "ListQuery"})
