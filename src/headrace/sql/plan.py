"""Catalyst's optimized plan lowered to nodes; what no operator covers yet is refused with the clause named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.circuit.node import (
    Accumulation,
    Aggregate,
    Expand,
    Expression,
    Feed,
    Filter,
    Generate,
    Join,
    Node,
    Project,
    Regroup,
    Union,
    Window,
)
from headrace.circuit.operators.recompute import NEXT, VERSION
from headrace.model.errors import HeadraceError
from headrace.sql.catalyst import Catalyst, class_name, singleton, type_name, type_text

LEAF_PREFIX = "relation__"

ACCUMULATING = {"Count": "count", "Sum": "sum", "Average": "avg"}
EXACT_INPUTS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
JOIN_KINDS = {"Inner": "inner", "LeftOuter": "left", "FullOuter": "full", "LeftSemi": "semi", "LeftAnti": "anti"}

# A lowered node and the expression ids of its output columns, in order.
Lowered = tuple[Node, list[int]]


def lower(catalyst: Catalyst, optimized: Any) -> Node:
    """The node tree of an optimized plan. Raises ``HeadraceError`` (sql.not_incremental), naming the clause."""
    lowering = _Lowering(catalyst)
    plan = optimized
    while class_name(plan) == "Sort":  # an order of presentation changes no contents
        plan = plan.child()
    wanted = [attribute.exprId().id() for attribute in catalyst.items(plan.output())]
    return lowering.ordered(lowering.node(plan, set(wanted)), plan, wanted)


def refuse(clause: str, why: str, rewrite: str = "") -> HeadraceError:
    return HeadraceError(
        "sql.not_incremental", f"{clause} cannot be maintained incrementally yet", why=why, next=rewrite
    )


class _Lowering:
    def __init__(self, catalyst: Catalyst) -> None:
        self.catalyst = catalyst
        self.rules: dict[str, Callable[[Any, set[int]], Lowered]] = {
            "MapInArrow": self.leaf,
            "Project": self.project,
            "Filter": self.filter,
            "Union": self.union,
            "Expand": self.expand,
            "Generate": self.generate,
            "Join": self.join,
            "Aggregate": self.aggregate,
            "Window": self.window,
            "SubqueryAlias": lambda plan, needed: self.node(plan.child(), needed),
            "WindowGroupLimit": lambda plan, needed: self.node(plan.child(), needed),
            "RepartitionByExpression": lambda plan, needed: self.node(plan.child(), needed),
        }

    def node(self, plan: Any, needed: set[int]) -> Lowered:
        """``needed``: the expression ids that the parent reads; a leaf reads no other column."""
        kind = class_name(plan)
        if kind in self.rules:
            return self.rules[kind](plan, needed)
        raise _refusal(kind, plan)

    def ordered(self, lowered: Lowered, plan: Any, wanted: list[int]) -> Node:
        """The node with exactly the wanted columns, in their order."""
        node, ids = lowered
        if ids == wanted:
            return node
        names = _names(ids)
        outputs = {attribute.exprId().id(): attribute for attribute in self.catalyst.items(plan.output())}
        return _project(node, [self.catalyst.expression(outputs[i], names) for i in wanted])

    def references(self, expressions: list[Any]) -> set[int]:
        found: set[int] = set()
        for expression in expressions:
            if class_name(expression) in ("ScalarSubquery", "ListQuery", "Exists"):
                raise _refusal("ScalarSubquery", expression)
            if class_name(expression) == "AttributeReference":
                found.add(expression.exprId().id())
            found |= self.references(self.catalyst.items(expression.children()))
        return found

    # -- linear ---------------------------------------------------------------------------------------------

    def leaf(self, plan: Any, needed: set[int]) -> Lowered:
        name = plan.functionExpr().name()
        if not name.startswith(LEAF_PREFIX):
            raise _refusal("MapInArrow", plan)
        attributes = self.catalyst.items(plan.output())
        kept = [i for i, a in enumerate(attributes) if a.exprId().id() in needed]
        chosen = [attributes[i] for i in kept]
        node = Feed(
            tuple(type_text(a) for a in chosen),
            tuple(bool(a.nullable()) for a in chosen),
            name.removeprefix(LEAF_PREFIX),
            tuple(kept),
        )
        return node, [a.exprId().id() for a in chosen]

    def project(self, plan: Any, needed: set[int]) -> Lowered:
        entries = [e for e in self.catalyst.items(plan.projectList()) if _id(e) in needed]
        child, ids = self.node(plan.child(), self.references(entries))
        if [_id(e) for e in entries] == ids and all(class_name(e) == "AttributeReference" for e in entries):
            return child, ids
        names = _names(ids)
        return _project(child, [self.catalyst.expression(e, names) for e in entries]), [_id(e) for e in entries]

    def filter(self, plan: Any, needed: set[int]) -> Lowered:
        child, ids = self.node(plan.child(), needed | self.references([plan.condition()]))
        condition = self.catalyst.expression(plan.condition(), _names(ids))
        return Filter(child.types, child.nullables, child, condition), ids

    def union(self, plan: Any, needed: set[int]) -> Lowered:
        attributes = self.catalyst.items(plan.output())
        kept = [i for i, a in enumerate(attributes) if a.exprId().id() in needed]
        inputs = []
        for child in self.catalyst.items(plan.children()):
            own = [a.exprId().id() for a in self.catalyst.items(child.output())]
            wanted = [own[i] for i in kept]
            inputs.append(self.ordered(self.node(child, set(wanted)), child, wanted))
        types = tuple(type_text(attributes[i]) for i in kept)
        nullables = tuple(bool(attributes[i].nullable()) for i in kept)
        return Union(types, nullables, tuple(inputs)), [attributes[i].exprId().id() for i in kept]

    def expand(self, plan: Any, needed: set[int]) -> Lowered:
        attributes = self.catalyst.items(plan.output())
        projections = [self.catalyst.items(p) for p in self.catalyst.items(plan.projections())]
        child, ids = self.node(plan.child(), self.references([e for p in projections for e in p]))
        names = _names(ids)
        node = Expand(
            tuple(type_text(a) for a in attributes),
            tuple(bool(a.nullable()) for a in attributes),
            child,
            tuple(tuple(self.catalyst.expression(e, names) for e in p) for p in projections),
        )
        return node, [a.exprId().id() for a in attributes]

    def generate(self, plan: Any, needed: set[int]) -> Lowered:
        generator = plan.generator()
        child, ids = self.node(plan.child(), needed | self.references([generator]))
        outputs = self.catalyst.items(plan.generatorOutput())
        made = self.catalyst.expression(generator, _names(ids), suffix=":outer" if plan.outer() else "")
        if plan.outer():
            outer = self.catalyst.expressions.GeneratorOuter(self.catalyst.rebind(generator, _names(ids)))
            made = Expression(type(made.column)(self.catalyst.to_column(outer)), made.text, made.type)
        # Ids the generator makes may shadow the child's (EXCEPT ALL keeps its column's id): the generator's win.
        made_ids = [a.exprId().id() for a in outputs]
        required = [i for i, known in enumerate(ids) if known in needed and known not in made_ids]
        node = Generate(
            tuple(child.types[i] for i in required) + tuple(type_text(a) for a in outputs),
            tuple(child.nullables[i] for i in required) + tuple(bool(a.nullable()) for a in outputs),
            child,
            made,
            tuple(required),
            len(outputs),
        )
        return node, [ids[i] for i in required] + made_ids

    # -- keyed ----------------------------------------------------------------------------------------------

    def join(self, plan: Any, needed: set[int]) -> Lowered:
        kind, existence = self.join_kind(plan)
        condition = plan.condition()
        keys = self.catalyst.jvm.org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys.unapply(plan)
        if condition.isEmpty() or keys.isEmpty():
            if kind == "anti" and condition.isDefined() and "isnull" in condition.get().toString().lower():
                raise refuse(
                    "NOT IN (SELECT ...)", "it has no key when either side may be NULL", "use NOT EXISTS (SELECT ...)"
                )
            raise refuse("a join without an equality", "there is no key to find partners by", "add an equality to ON")
        left_keys, right_keys = self.catalyst.items(keys.get()._2()), self.catalyst.items(keys.get()._3())
        used = needed | self.references([condition.get()])
        left, left_ids = self.node(plan.left(), used)
        right, right_ids = self.node(plan.right(), used)
        names = _names(left_ids, "l") | _names(right_ids, "r")
        bound_left = tuple(self.catalyst.expression(k, _names(left_ids)) for k in left_keys)
        bound_right = tuple(self.catalyst.expression(k, _names(right_ids)) for k in right_keys)
        if kind == "right":
            kind, names = "left", _names(left_ids, "r") | _names(right_ids, "l")
            left, right, left_ids, right_ids = right, left, right_ids, left_ids
            bound_left, bound_right = bound_right, bound_left
        _refuse_keys(bound_left + bound_right)
        types, nullables, ids = _join_output(kind, left, right, left_ids, right_ids, existence)
        bound = self.catalyst.expression(condition.get(), names)
        return Join(types, nullables, kind, left, right, bound_left, bound_right, bound), ids

    def join_kind(self, plan: Any) -> tuple[str, int | None]:
        kind = class_name(plan.joinType())
        if kind == "RightOuter":
            return "right", None
        if kind == "ExistenceJoin":
            return "existence", plan.joinType().exists().exprId().id()
        if kind not in JOIN_KINDS:
            raise refuse(f"a {kind} join", "it has no key to find partners by", "join with an equality in ON")
        return JOIN_KINDS[kind], None

    def aggregate(self, plan: Any, needed: set[int]) -> Lowered:
        keys = self.catalyst.items(plan.groupingExpressions())
        entries = [e for e in self.catalyst.items(plan.aggregateExpressions()) if _id(e) in needed]
        child, ids = self.node(plan.child(), self.references(keys + entries))
        names = _names(ids)
        bound_keys = tuple(self.catalyst.expression(k, names) for k in keys)
        _refuse_keys(bound_keys)
        functions: list[Any] = []
        for entry in entries:
            self.collect_functions(entry, functions)
        types, out_ids = tuple(type_text(e) for e in entries), [_id(e) for e in entries]
        nullables = tuple(bool(e.nullable()) for e in entries)
        if all(self.accumulates(f) for f in functions):
            replace = self.over_groups(keys, functions)
            results = tuple(self.catalyst.expression(e, {}, replace) for e in entries)
            accumulations = tuple(self.accumulation(f, names) for f in functions)
            normal_keys = tuple(self.key(k, names) for k in keys)
            return Aggregate(types, nullables, child, normal_keys, accumulations, results), out_ids
        if not keys:
            names_of = ", ".join(
                sorted({f.aggregateFunction().prettyName() for f in functions if not self.accumulates(f)})
            )
            raise refuse(f"{names_of} without GROUP BY", "there is no key to recompute by", "add a GROUP BY")
        results = tuple(self.catalyst.expression(e, names) for e in entries)
        return Regroup(types, nullables, child, bound_keys, results), out_ids

    def key(self, expression: Any, names: dict[int, str]) -> Expression:
        """A key to group by: -0.0 is 0.0 and every NaN is one, as Spark's own planner sees to."""
        bound = self.catalyst.expression(expression, names)
        if "float" not in bound.type and "double" not in bound.type:
            return bound
        optimizer = self.catalyst.jvm.org.apache.spark.sql.catalyst.optimizer
        normalized = singleton(optimizer, "NormalizeFloatingNumbers").normalize(expression)
        return self.catalyst.expression(normalized, names)

    def collect_functions(self, expression: Any, found: list[Any]) -> None:
        if class_name(expression) == "AggregateExpression":
            if not any(known.semanticEquals(expression) for known in found):
                found.append(expression)
            return
        for child in self.catalyst.items(expression.children()):
            self.collect_functions(child, found)

    def accumulates(self, aggregate: Any) -> bool:
        function = aggregate.aggregateFunction()
        kind = class_name(function)
        if aggregate.isDistinct() or kind not in ACCUMULATING:
            return False
        if kind == "Count":
            return True
        return type_text(self.catalyst.items(function.children())[0]).startswith(EXACT_INPUTS)

    def accumulation(self, aggregate: Any, names: dict[int, str]) -> Accumulation:
        function = aggregate.aggregateFunction()
        kind = ACCUMULATING[class_name(function)]
        arguments = self.catalyst.items(function.children())
        filtered = aggregate.filter()
        argument = self.argument(kind, arguments, filtered.get() if filtered.isDefined() else None)
        bound = None if argument is None else self.catalyst.expression(argument, names)
        return Accumulation(kind, bound, type_text(function))

    def argument(self, kind: str, arguments: list[Any], condition: Any | None) -> Any | None:
        """What is accumulated: null where the row does not count."""
        expressions = self.catalyst.expressions
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
            return expressions.If(test, one, self.null(one))
        if condition is None:
            return arguments[0]
        return expressions.If(condition, arguments[0], self.null(arguments[0]))

    def null(self, like: Any) -> Any:
        return singleton(self.catalyst.expressions, "Literal").create(None, like.dataType())

    def over_groups(self, keys: list[Any], functions: list[Any]) -> Callable[[Any], Any | None]:
        def replace(expression: Any) -> Any | None:
            if class_name(expression) == "AggregateExpression":
                index = next(i for i, f in enumerate(functions) if f.semanticEquals(expression))
                return self.catalyst.attribute(f"v{index}")
            for i, key in enumerate(keys):
                if key.semanticEquals(expression):
                    return self.catalyst.attribute(f"g{i}")
            return None

        return replace

    def window(self, plan: Any, needed: set[int]) -> Lowered:
        partition = self.catalyst.items(plan.partitionSpec())
        entries = [e for e in self.catalyst.items(plan.windowExpressions()) if _id(e) in needed]
        if not entries:
            return self.node(plan.child(), needed)
        if not partition:
            raise refuse("a window function without PARTITION BY", "every row would be touched", "add PARTITION BY")
        child, ids = self.node(plan.child(), needed | self.references(partition + entries))
        names = _names(ids)
        keys = tuple(self.catalyst.expression(k, names) for k in partition)
        _refuse_keys(keys)
        versions = [self.catalyst.attribute(VERSION), self.catalyst.attribute(NEXT)]

        def per_version(expression: Any) -> Any | None:
            if class_name(expression) != "WindowSpecDefinition":
                return None
            rebound = [self.catalyst.rebind(e, names) for e in self.catalyst.items(expression.partitionSpec())]
            order = [self.catalyst.rebind(e, names) for e in self.catalyst.items(expression.orderSpec())]
            frame = self.catalyst.rebind(expression.frameSpecification(), names)
            return self.catalyst.expressions.WindowSpecDefinition(
                self.catalyst.seq(rebound + versions), self.catalyst.seq(order), frame
            )

        functions = tuple(self.catalyst.expression(e, names, per_version) for e in entries)
        types = child.types + tuple(type_text(e) for e in entries)
        nullables = child.nullables + tuple(bool(e.nullable()) for e in entries)
        return Window(types, nullables, child, keys, functions), ids + [_id(e) for e in entries]


def _id(entry: Any) -> int:
    return int(entry.exprId().id())


def _names(ids: list[int], letter: str = "c") -> dict[int, str]:
    return {known: f"{letter}{i}" for i, known in enumerate(ids)}


def _project(child: Node, expressions: list[Expression]) -> Node:
    types = tuple(e.type for e in expressions)
    return Project(types, tuple(e.nullable for e in expressions), child, tuple(expressions))


def _join_output(
    kind: str, left: Node, right: Node, left_ids: list[int], right_ids: list[int], existence: int | None
) -> tuple[tuple[str, ...], tuple[bool, ...], list[int]]:
    if kind in ("semi", "anti"):
        return left.types, left.nullables, left_ids
    if kind == "existence":
        assert existence is not None
        return (*left.types, "boolean"), (*left.nullables, False), [*left_ids, existence]
    left_nullables = left.nullables if kind != "full" else (True,) * len(left.types)
    right_nullables = right.nullables if kind == "inner" else (True,) * len(right.types)
    return left.types + right.types, left_nullables + right_nullables, left_ids + right_ids


def _refuse_keys(keys: tuple[Expression, ...]) -> None:
    for key in keys:
        if " collate " in key.type:
            raise refuse("a key with a collation", "keys that are equal may hash apart", "use a lower() of the column")
        if key.type.startswith(("map<", "variant")) or "map<" in key.type:
            raise refuse("a map or variant as a key", "its hash is not defined", "use a field of it")


def _refusal(kind: str, plan: Any) -> HeadraceError:
    clauses = {
        "GlobalLimit": (
            "LIMIT",
            "which rows come first changes with every row",
            "rank rows: row_number() OVER (PARTITION BY ...) <= n",
        ),
        "LocalLimit": (
            "LIMIT",
            "which rows come first changes with every row",
            "rank rows: row_number() OVER (PARTITION BY ...) <= n",
        ),
        "Offset": ("OFFSET", "which rows come first changes with every row", ""),
        "Sort": ("ORDER BY inside the query", "", "order the outermost SELECT only"),
        "ScalarSubquery": ("an uncorrelated subquery used as a value", "", "join a view that holds it, on an equality"),
        "UnionLoop": ("WITH RECURSIVE", "", ""),
        "AsOfJoin": ("ASOF JOIN", "", ""),
        "LocalRelation": ("VALUES or a constant query", "", "put the rows in a table"),
        "OneRowRelation": ("a SELECT without FROM", "", "put the rows in a table"),
        "Range": ("range()", "", "put the rows in a table"),
        "Sample": ("TABLESAMPLE", "it is not deterministic", ""),
    }
    clause, why, rewrite = clauses.get(kind, (kind, f"no operator covers the plan node {kind}", ""))
    return refuse(clause, why, rewrite)


def output_types(catalyst: Catalyst, plan: Any) -> list[tuple[str, str, bool]]:
    """Name, type text and nullability of a plan's output columns."""
    return [(str(a.name()), type_name(a.dataType()), bool(a.nullable())) for a in catalyst.items(plan.output())]
