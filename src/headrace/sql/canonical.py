"""The canonical form of a query: what SQL leaves open is determined by content, the same way in circuit and batch.

Rewrites Catalyst's optimized plan; types, names and ids of the output columns stay. What is closed, and how:
docs/decisions/0004-admission-and-canonical-form.md; which function: headrace.sql.functions.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from headrace.sql.as_of import AsOf
from headrace.sql.build import Build
from headrace.sql.canonical_aggregate import Aggregates
from headrace.sql.canonical_window import Windows
from headrace.sql.catalyst import Catalyst
from headrace.sql.collated import Collated
from headrace.sql.distinct import together
from headrace.sql.filtered_first import FilteredFirst
from headrace.sql.java_names import class_name
from headrace.sql.lowering.aggregate_functions import maintained
from headrace.sql.map_keys import MapKeys
from headrace.sql.per_type import PerType
from headrace.sql.present import FUNCTIONS, Present, replaced_by
from headrace.sql.sizes import Sizes
from headrace.sql.sorted_maps import SortedMaps
from headrace.sql.total_order import total
from headrace.sql.tree import SUBQUERIES, Tree

_LIMITS = ("GlobalLimit", "LocalLimit", "Offset")
_PASSING = ("Project", "SubqueryAlias")
_EVALUATING = ("ArrowEvalPython", "BatchEvalPython")


def canonical(catalyst: Catalyst, optimized_plan: Any, *, for_batch: bool, collations: bool = False) -> Any:
    """The canonical form of an optimized plan; relations (``MapInArrow`` leaves) are not entered.

    ``for_batch``: sums and means are made exact too, and an order of presentation is kept. Without it they are left
    to the accumulating operator, which is exact by itself, wherever that operator will do the whole Aggregate.
    ``collations``: whether the plan may contain some. Raises ``HeadraceError`` (sql.not_deterministic) where ties
    cannot be broken.
    """
    made = _Canonical(catalyst, for_batch)
    plan = Collated(made.build, made.tree, for_batch).plain(optimized_plan) if collations else optimized_plan
    return made.plan(plan, limited=False)


def execute(catalyst: Catalyst, plan: Any) -> DataFrame:
    """A resolved logical plan as a DataFrame of the session."""
    session: Any = catalyst.spark
    rows = catalyst.jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, plan)
    return ClassicDataFrame(rows, session)


def executed(catalyst: Catalyst, plan: Any) -> DataFrame:
    """The same for one that has its final form; of a recursive query the rows, without what they were made by.

    Whatever is asked of them would have Spark analyze the plan again, and say of the optimized query what it says of
    the written one: where the recursive part may read itself.
    """
    frame = execute(catalyst, plan)
    if not any(class_name(leaf) == "UnionLoopRef" for leaf in catalyst.items(plan.collectLeaves())):
        return frame
    session: Any = catalyst.spark
    execution = frame._jdf.queryExecution()
    made = session._jsparkSession.internalCreateDataFrame(execution.toRdd(), plan.schema(), False)
    return ClassicDataFrame(made, session)


def optimized(catalyst: Catalyst, frame: DataFrame, present: Present | None = None) -> Any:
    """The optimized plan of a query in which text cast to a timestamp never reads the clock, what names the present
    time has the value that ``present`` makes (the real time without it), each map lies in the order of its keys, and
    rows are grouped by the entries of maps.

    These go in before the optimizer, which computes such expressions and leaves constants.
    """
    execution = frame._jdf.queryExecution()
    guarded = _Guarded(catalyst, present).plan(execution.analyzed())
    if guarded is execution.analyzed():
        return execution.optimizedPlan()
    return execute(catalyst, guarded)._jdf.queryExecution().optimizedPlan()


def is_ordered(catalyst: Catalyst, optimized_plan: Any) -> bool:
    """Whether a query says in which order its rows come."""
    while class_name(optimized_plan) in (*_PASSING, *_EVALUATING):
        optimized_plan = optimized_plan.child()
    return class_name(optimized_plan) == "Sort"


class _Canonical:
    def __init__(self, catalyst: Catalyst, for_batch: bool) -> None:
        self.catalyst, self.for_batch = catalyst, for_batch
        self.tree, self.build = Tree(catalyst), Build(catalyst)
        self.aggregates, self.filtered_first = Aggregates(self.build), FilteredFirst(self.build, self.tree)
        self.windows = Windows(self.build, self.tree, self.aggregates, for_batch)

    def plan(self, plan: Any, limited: bool) -> Any:
        """``limited``: the rows go to a LIMIT or OFFSET as they come, so that their order says which are taken."""
        plan = self.filtered_first.plan(plan)
        kind = class_name(plan)
        if kind == "MapInArrow":
            return plan
        below = kind in _LIMITS or (limited and kind in (*_PASSING, *_EVALUATING)) or self.windows.unordered(plan)
        children = self.catalyst.items(plan.children())
        new = [self.plan(child, below) for child in children]
        if any(a is not b for a, b in zip(children, new, strict=True)):
            plan = plan.withNewChildren(self.catalyst.seq(new))
        plan = self.tree.with_expressions(plan, self.expression)
        if kind == "Aggregate":
            return self.aggregate(plan)
        if kind == "Window":
            return self.windows.rewrite(plan)
        if kind == "AsOfJoin":
            return AsOf(self.catalyst, plan).canonical(self.for_batch)
        if kind == "Sort":
            return self.sort(plan, limited)
        if kind in _EVALUATING:
            return self.evaluated(plan)
        if kind == "Generate" and self.for_batch:
            return self.generated(plan)
        if kind in _LIMITS:
            return self.limit(plan, kind)
        return plan.child() if kind == "WindowGroupLimit" else plan

    def expression(self, expression: Any) -> Any:
        return self.tree.transformed(expression, self.part)

    def part(self, expression: Any) -> Any:
        kind = class_name(expression)
        if kind == "Cast":
            return self.build.guarded(expression)
        if kind in SUBQUERIES:
            inner = expression.plan()
            changed = self.plan(inner, limited=False)
            return expression if changed is inner else expression.withNewPlan(changed)
        return expression

    def aggregate(self, plan: Any) -> Any:
        if not self.for_batch:
            plan = together(self.build, self.tree, plan)
        found: list[Any] = []

        def collect(expression: Any) -> Any:
            if class_name(expression) == "AggregateExpression":
                found.append(expression)
            return expression

        self.tree.with_expressions(plan, lambda e: self.tree.transformed(e, collect))
        exact = self.for_batch or not all(maintained(self.catalyst, a) for a in found)

        def close(expression: Any) -> Any:
            if class_name(expression) != "AggregateExpression":
                return expression
            return self.aggregates.replace(expression, exact)

        return self.tree.with_expressions(plan, lambda e: self.tree.transformed(e, close))

    def evaluated(self, plan: Any) -> Any:
        """Calls of Python functions as columns again; Spark takes them out once more where it runs the plan."""
        attributes = self.catalyst.items(plan.resultAttrs())
        nothing = self.catalyst.seq([])
        calls = [
            self.build.expressions.Alias(call, a.name(), a.exprId(), nothing, self.build.none(), nothing)
            for call, a in zip(self.catalyst.items(plan.udfs()), attributes, strict=True)
        ]
        below = self.catalyst.items(plan.child().output())
        return self.catalyst.logical.Project(self.catalyst.seq([*below, *calls]), plan.child())

    def generated(self, plan: Any) -> Any:
        """What a generator makes, under ids of its own.

        EXCEPT ALL and INTERSECT ALL reuse their child's; the optimizer sees the plan once more, and where such a column
        of the child is a constant it would put that in the place of the generator's.
        """
        made = {a.exprId().id(): a for a in self.catalyst.items(plan.generatorOutput())}
        if made.keys().isdisjoint(a.exprId().id() for a in self.catalyst.items(plan.child().output())):
            return plan
        fresh = {known: attribute.newInstance() for known, attribute in made.items()}
        below = self.catalyst.logical.Generate(
            plan.generator(), plan.unrequiredChildIndex(), plan.outer(), plan.qualifier(),
            self.catalyst.seq(list(fresh.values())), plan.child(),
        )  # fmt: skip
        required = [a for a in self.catalyst.items(plan.requiredChildOutput()) if a.exprId().id() not in made]
        nothing = self.catalyst.seq([])
        renamed = [
            self.build.expressions.Alias(fresh[known], a.name(), a.exprId(), nothing, self.build.none(), nothing)
            for known, a in made.items()
        ]
        return self.catalyst.logical.Project(self.catalyst.seq([*required, *renamed]), below)

    def sort(self, plan: Any, limited: bool) -> Any:
        if limited:
            return self.sorted(plan.child(), self.catalyst.items(plan.order()))
        return plan if self.for_batch else plan.child()

    def sorted(self, child: Any, order: list[Any]) -> Any:
        whole = self.catalyst.seq(total(self.build, child, [], order))
        return self.catalyst.logical.Sort(whole, True, child, self.build.none())

    def limit(self, plan: Any, kind: str) -> Any:
        """A limit over rows in a total order; each LocalLimit is made anew: the optimizer leaves some further down."""
        child = plan.child()
        if kind == "LocalLimit":
            return child
        if child.output().isEmpty():  # rows without a column, as EXISTS asks for: one gives them an order
            return self.limit_of_none(plan, kind)
        if not self.in_order(child):
            child = self.sorted(child, [])
        if kind == "Offset":
            return plan.withNewChildren(self.catalyst.seq([child]))
        local = self.catalyst.logical.LocalLimit(plan.limitExpr(), child)
        return self.catalyst.logical.GlobalLimit(plan.limitExpr(), local)

    def limit_of_none(self, plan: Any, kind: str) -> Any:
        one = self.catalyst.seq([self.build.alias(self.build.literal(1), "one")])
        rows = plan.withNewChildren(self.catalyst.seq([self.catalyst.logical.Project(one, plan.child())]))
        return self.catalyst.logical.Project(self.catalyst.seq([]), self.limit(rows, kind))

    def in_order(self, plan: Any) -> bool:
        while class_name(plan) in (*_PASSING, *_LIMITS):
            plan = plan.child()
        return class_name(plan) == "Sort"


class _Guarded:
    """What ``optimized`` puts into an analyzed plan."""

    def __init__(self, catalyst: Catalyst, present: Present | None) -> None:
        self.build, self.tree, self.present = Build(catalyst), Tree(catalyst), present
        per_type = PerType(catalyst, self.tree)
        self.maps, self.keys = SortedMaps(self.build, per_type), MapKeys(self.build, per_type)
        self.sizes, self.aggregates = Sizes(self.build, self.tree), Aggregates(self.build)

    def plan(self, plan: Any) -> Any:
        kind = class_name(plan)
        if kind == "MapInArrow":
            return plan
        children = self.build.catalyst.items(plan.children())
        new = [self.plan(child) for child in children]
        if any(a is not b for a, b in zip(children, new, strict=True)):
            plan = plan.withNewChildren(self.build.catalyst.seq(new))
        plan = self.tree.with_expressions(plan, lambda e: self.tree.transformed(e, self.part))
        if kind == "LocalRelation":
            return self.maps.constants(plan)
        return self.keys.grouped(plan) if kind == "Aggregate" else plan

    def part(self, expression: Any) -> Any:
        kind = class_name(expression)
        return self.sizes.bounded(self.maps.of(self.guarded(expression, kind), kind), kind)

    def guarded(self, expression: Any, kind: str) -> Any:
        if kind == "Cast":
            return self.build.guarded(expression)
        if kind == "AggregateExpression":
            listed = self.aggregates.listed_once(expression)
            return self.keys.counted(expression) if listed is expression else listed
        if self.present is not None and kind in FUNCTIONS:
            return replaced_by(self.build, expression, self.present)
        replaced = self.tree.replacement(expression)
        if replaced is not None:
            changed = self.tree.transformed(replaced, self.part)
            return expression if changed is replaced else changed
        if kind in SUBQUERIES:
            inner = expression.plan()
            changed = self.plan(inner)
            return expression if changed is inner else expression.withNewPlan(changed)
        return expression
