"""``NOT IN (SELECT ...)``: Spark's condition ``a = b OR isnull(a = b)``, whose pairs have no key, as other joins.

A row meets others by equality as in any join on a key; what NULLs add to that is little. For one column it follows
from two facts about the right side: whether it is empty, and whether it has a NULL. For several columns, rows with a
NULL somewhere are compared pair by pair: those of the left with the distinct rows of the right, and the distinct ones
of the right with all of the left.
"""

from __future__ import annotations

from typing import Any

from headrace.sql.java_names import class_name
from headrace.sql.lowering.base import Lowering, id_of
from headrace.sql.lowering.rewrite import Rewrite


def not_in(lowering: Lowering, plan: Any) -> Any | None:
    """The plan in the place of an anti or existence join, or None if its condition is of another form."""
    kind = class_name(plan.joinType())
    if kind not in ("LeftAnti", "ExistenceJoin") or plan.condition().isEmpty():
        return None
    made = NotIn(lowering, plan, kind == "LeftAnti")
    if not made.pairs:
        return None
    return made.of_one() if len(made.pairs) == 1 else made.of_several()


class NotIn:
    """``pairs``: the values compared, of the left and of the right; none where the condition says anything else."""

    def __init__(self, lowering: Lowering, plan: Any, anti: bool) -> None:
        self.lowering, self.plan, self.anti = lowering, plan, anti
        self.left, self.right = plan.left(), plan.right()
        self.make = Rewrite(lowering.catalyst)
        self.pairs = self.compared()

    def compared(self) -> list[tuple[Any, Any]]:
        found = []
        for part in self.make.conjuncts(self.plan.condition().get()):
            pair = self.null_aware(part)
            if pair is None:
                return []
            found.append(pair)
        return found

    def null_aware(self, part: Any) -> tuple[Any, Any] | None:
        """The two sides of ``a = b OR isnull(a = b)``."""
        if class_name(part) != "Or":
            return None
        equal, absent = self.lowering.catalyst.items(part.children())
        if class_name(equal) != "EqualTo" or class_name(absent) != "IsNull":
            return None
        if not absent.child().semanticEquals(equal):
            return None
        lefts, rights = ({id_of(a) for a in self.make.output(side)} for side in (self.left, self.right))
        a, b = self.lowering.catalyst.items(equal.children())
        for left, right in ((a, b), (b, a)):
            if self.lowering.references([left]) <= lefts and self.lowering.references([right]) <= rights:
                return left, right
        return None

    def joined(self, left: Any, right: Any, condition: Any, flag: Any) -> Any:
        """The left without rows that meet some, or with ``flag`` saying of each whether it does."""
        return self.make.join("LeftAnti" if self.anti else self.make.existence(flag), left, right, condition)

    def by_equality(self, left: Any, flag: Any) -> Any:
        equal = self.make.all_of([self.make.expressions.EqualTo(a, b) for a, b in self.pairs])
        return self.joined(left, self.right, equal, flag)

    def flagged(self, plan: Any, value: Any) -> Any:
        """The left's columns and the flag that the plan made."""
        flag = self.plan.joinType().exists()
        named = self.make.expressions.Alias(
            value, flag.name(), flag.exprId(), self.lowering.catalyst.seq([]), self.make.none(),
            self.lowering.catalyst.seq([]),
        )  # fmt: skip
        return self.make.project([*self.make.output(self.left), named], plan)

    def boolean(self) -> Any:
        return self.make.attribute(self.make.literal(True))

    def of_one(self) -> Any:
        """A row is left out, met or not, where the right has a NULL, or the row is NULL and the right has rows."""
        expressions = self.make.expressions
        ((value, other),) = self.pairs
        rows, present = self.make.count(self.make.literal(1)), self.make.count(other)
        empty = self.make.alias(expressions.EqualTo(rows, self.make.cast(self.make.literal(0), rows.dataType())), "e")
        has_null = self.make.alias(expressions.GreaterThan(rows, present), "n")
        facts = self.make.one_row(self.make.aggregate([], [empty, has_null], self.right))
        unknown = expressions.Or(has_null.toAttribute(), expressions.IsNull(value))
        absent = expressions.And(expressions.Not(empty.toAttribute()), unknown)
        flag = self.boolean()
        met = self.by_equality(self.left, flag)
        if self.anti:
            return self.make.join("LeftSemi", met, facts, expressions.Not(absent))
        return self.flagged(self.make.join("Inner", met, facts), expressions.Or(flag, absent))

    def of_several(self) -> Any:
        """Rows of the left without NULL and rows with one, each compared as far as it must be."""
        expressions = self.make.expressions
        lacking = self.make.any_of([expressions.IsNull(a) for a, _ in self.pairs])
        whole = self.make.filter(expressions.Not(lacking), self.left)
        partial = self.make.filter(lacking, self.left)
        named = [self.make.alias(b, f"b{i}") for i, (_, b) in enumerate(self.pairs)]
        values = self.make.aggregate([b for _, b in self.pairs], named, self.right)
        others = [n.toAttribute() for n in named]
        equalities = [expressions.EqualTo(a, b) for (a, _), b in zip(self.pairs, others, strict=True)]
        # Written the other way round than Spark does, as every pair is to be compared.
        unlike = self.make.all_of([expressions.Or(expressions.IsNull(e), e) for e in equalities])
        gapped = self.make.filter(self.make.any_of([expressions.IsNull(b) for b in others]), values)
        flags = [self.boolean() for _ in range(3)]
        both = self.joined(self.by_equality(whole, flags[0]), gapped, unlike, flags[1])
        rest = self.joined(partial, values, unlike, flags[2])
        if not self.anti:
            both = self.flagged(both, expressions.Or(flags[0], flags[1]))
            rest = self.flagged(rest, flags[2])
        return self.make.union([both, rest])
