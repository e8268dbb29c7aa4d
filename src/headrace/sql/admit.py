"""The gate: a text is parsed by Spark's own parser and every part of the tree must stand on a list; default deny.

``admit`` runs before anything is resolved, ``check_analyzed`` after Spark's analysis, for what only types and
resolved names show: a bare ``user``, a text cast to a timestamp that would be read as today's.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from pyspark.errors import ParseException

from headrace.model.errors import HeadraceError
from headrace.sql.catalyst import Catalyst
from headrace.sql.clock import check_casts, check_constant, check_text
from headrace.sql.errors import UnknownRelation, did_you_mean, origin_place, syntax_error
from headrace.sql.functions import TABLES, is_generator, verdicts
from headrace.sql.java_names import class_name
from headrace.sql.tree import SUBQUERIES, Tree

_PLANS = """
Aggregate AsOfJoin Distinct Except Filter Generate GlobalLimit Intersect Join LateralJoin LimitAll LocalLimit
LocalRelation Offset OneRowRelation PipeOperator Pivot Project Sort SubqueryAlias Union Unpivot UnresolvedHaving
UnresolvedInlineTable UnresolvedQualify UnresolvedRelation UnresolvedSubqueryColumnAliases
UnresolvedTVFAliases UnresolvedTableValuedFunction UnresolvedWith WithWindowDefinition
"""

_EXPRESSIONS = """
Add AggregateExpression Alias And AnyValue AttributeReference BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CaseWhen Cast
Coalesce Collate Concat CreateNamedStruct Cube CurrentDate CurrentRow CurrentTimestamp Divide EqualNullSafe EqualTo
Exists First GreaterThan GreaterThanOrEqual GroupingSets ILike In InSubquery IntegralDivide IsNotNull IsNull
LambdaFunction Last LateralSubquery LessThan LessThanOrEqual Like LikeAll LikeAny ListQuery Literal Lower MultiAlias
Multiply NamePlaceholder NamedArgumentExpression Not NotLikeAll NotLikeAny Or Overlay PipeExpression RLike Remainder
Rollup ScalarSubquery SemiStructuredExtract ShiftLeft ShiftRight ShiftRightUnsigned SortOrder SpecifiedWindowFrame
StringLocate StringTrim StringTrimLeft StringTrimRight Substring Subtract TimestampAdd TimestampDiff UnaryMinus
UnaryPositive UnboundedFollowing UnboundedPreceding Unnest UnresolvedAlias UnresolvedAttribute UnresolvedCollation
UnresolvedExtractValue UnresolvedFunction UnresolvedGenerator UnresolvedNamedLambdaVariable UnresolvedOrdinal
UnresolvedPipeAggregateOrdinal UnresolvedStar UnresolvedStarExceptOrReplace UnresolvedWindowExpression
UnspecifiedFrame WindowExpression WindowSpecDefinition WindowSpecReference
"""

# Names that Spark takes for a function without parentheses when no column in reach has them.
_BARE = (
    "current_catalog current_database current_date current_schema current_time current_timestamp current_user "
    "localtime localtimestamp session_user"
)

PLANS, EXPRESSIONS, BARE = (frozenset(names.split()) for names in (_PLANS, _EXPRESSIONS, _BARE))

_PARAMETER = ("a parameter", "a view is complete in its file; write the value")
_PLACED = ("SORT BY, CLUSTER BY or DISTRIBUTE BY", "a view has no partitions to place rows in; use ORDER BY")
_NAME = ("IDENTIFIER()", "write the name itself")
_TIME_TRAVEL = ("VERSION AS OF or TIMESTAMP AS OF", "a view reads its relations as they are at each step")
_NEAR = ("a NEAREST BY join", "it is not maintained yet")

# Class -> clause and why, for what is likely to be met. Whatever is on no list is refused under its class name.
REFUSALS: dict[str, tuple[str, str]] = {
    "CompoundBody": ("BEGIN ... END", "a view is one SELECT"),
    "CurrentTime": ("current_time", "it begins anew every day; compare timestamps instead"),
    "ExpressionWithUnresolvedIdentifier": _NAME,
    "JsonTable": ("JSON_TABLE", "use from_json and explode"),
    "NamedParameter": _PARAMETER,
    "NamedStreamingRelation": ("STREAM", "every relation is followed; leave STREAM out"),
    "NearestByJoin": _NEAR,
    "PlanWithUnresolvedIdentifier": _NAME,
    "PosParameter": _PARAMETER,
    "RelationChanges": ("CHANGES", "a view is written over contents; Headrace follows the changes"),
    "RelationTimeTravel": _TIME_TRAVEL,
    "RepartitionByExpression": _PLACED,
    "Sample": ("TABLESAMPLE", "which rows it takes is not determined"),
    "ScriptTransformation": ("TRANSFORM ... USING", "it runs a program"),
}


@dataclass(frozen=True, slots=True)
class Ordering:
    """One column of a view's order of presentation."""

    column: str
    descending: bool
    nulls_last: bool


@dataclass(frozen=True, slots=True)
class Admitted:
    """``relations``: those read, spelled as declared, in order of first mention. ``order``: the outermost ORDER BY
    when all its entries are output columns (named, or by number), else empty. ``plan``: Spark's parsed plan.
    ``functions``: those of users that it calls, by their lower-case names."""

    relations: tuple[str, ...]
    order: tuple[Ordering, ...]
    plan: Any
    functions: tuple[str, ...] = ()


def admit(catalyst: Catalyst, text: str, relations: Collection[str], where: str = "") -> Admitted:
    """Admit a view's text over the declared ``relations``; nothing is resolved or run.

    Raises ``HeadraceError``: sql.syntax, sql.refused, sql.unknown_relation, sql.not_deterministic.
    """
    session: Any = catalyst.spark
    if "${" in text and session.conf.get("spark.sql.variable.substitute") == "true":
        raise HeadraceError("sql.refused", "${...} is not admitted", where=where, why="a view is complete in its file")
    parser = session._jsparkSession.sessionState().sqlParser()
    try:
        check_text(catalyst, parser, text, where)
        plan = parser.parsePlan(text)
    except ParseException as error:
        raise syntax_error(error, where) from None
    gate = _Gate(Tree(catalyst), {name.lower(): name for name in relations}, where)
    gate.plan(plan, frozenset())
    return Admitted(tuple(gate.found), _presentation(catalyst, plan), plan, tuple(sorted(gate.called)))


class _Gate:
    def __init__(self, tree: Tree, declared: dict[str, str], where: str) -> None:
        self.tree, self.declared, self.where = tree, declared, where
        self.found: list[str] = []
        self.called: set[str] = set()

    def refused(self, node: Any, clause: str, why: str, code: str = "sql.refused", instead: str = "") -> HeadraceError:
        place = origin_place(self.where, node)
        return HeadraceError(code, f"{clause} is not admitted in a view", where=place, why=why, next=instead)

    def plan(self, plan: Any, scope: frozenset[str]) -> None:
        """``scope``: lower-case names of the common table expressions in reach."""
        kind = class_name(plan)
        if kind == "UnresolvedHint":  # the session leaves it out
            self.plan(plan.child(), scope)
            return
        if kind not in PLANS:
            raise self.refused(plan, *REFUSALS.get(kind, (spelled(kind), "a view is one SELECT, it only reads")))
        if kind == "UnresolvedWith":
            self.common(plan, scope)
            return
        if kind == "UnresolvedRelation":
            self.relation(plan, scope)
        elif kind == "UnresolvedTableValuedFunction":
            self.table_function(plan)
        elif kind == "Sort" and not plan.productElement(1):
            raise self.refused(plan, *_PLACED)
        for expression in self.constants(plan, kind):
            check_constant(self.tree.catalyst, expression, self.where)
        self.inside(plan, scope)

    def inside(self, node: Any, scope: frozenset[str]) -> None:
        for kind, part in self.tree.inside(node):
            if kind == "plan":
                self.plan(part, scope)
            elif kind == "expression":
                self.expression(part, scope)

    def constants(self, plan: Any, kind: str) -> list[Any]:
        """What analysis computes, so that the second gate sees but the result."""
        items = self.tree.catalyst.items
        if kind == "Pivot":
            return items(plan.pivotValues())
        if kind == "UnresolvedTableValuedFunction" and str(items(plan.name())[-1]).lower() not in TABLES.split():
            return []
        if kind not in ("UnresolvedTableValuedFunction", "UnresolvedInlineTable"):
            return []
        return [part for of, part in self.tree.inside(plan) if of == "expression"]

    def common(self, plan: Any, scope: frozenset[str]) -> None:
        """WITH: each definition sees the ones before it (and itself when recursive), the body sees all."""
        recursive = bool(plan.allowRecursion())
        for entry in self.tree.catalyst.items(plan.cteRelations()):
            name = str(entry.productElement(0)).lower()
            self.plan(entry.productElement(1), scope | {name} if recursive else scope)
            scope |= {name}
        self.plan(plan.child(), scope)

    def relation(self, plan: Any, scope: frozenset[str]) -> None:
        parts = [str(part) for part in self.tree.catalyst.items(plan.multipartIdentifier())]
        name = ".".join(parts)
        if len(parts) > 1:
            raise self.refused(plan, f"the relation {name}", "a relation of the project has one name, no path")
        if name.lower() in scope:
            return
        if plan.options().size() or plan.isStreaming():
            raise self.refused(plan, f"{name} with options", "how a relation is read is set in its source")
        if name.lower() not in self.declared:
            known = sorted(self.declared.values())
            raise UnknownRelation(
                name,
                where=origin_place(self.where, plan),
                why=f"the project has {', '.join(known) if known else 'no relation yet'}",
                next=did_you_mean(name, known),
            )
        if self.declared[name.lower()] not in self.found:
            self.found.append(self.declared[name.lower()])

    def table_function(self, plan: Any) -> None:
        name = ".".join(str(part) for part in self.tree.catalyst.items(plan.name()))
        if not is_generator(name):
            why = verdicts()[name.lower()].note if name.lower() in verdicts() else "no such function is known"
            raise self.refused(plan, f"{name}() in FROM", why)

    def expression(self, expression: Any, scope: frozenset[str]) -> None:
        kind = class_name(expression)
        if kind not in EXPRESSIONS:
            clause, why = REFUSALS.get(kind, (kind, "it is not on the list of what a view may contain"))
            code = "sql.not_deterministic" if kind.startswith("Current") else "sql.refused"
            raise self.refused(expression, clause, why, code)
        if kind == "UnresolvedFunction":
            self.function(expression, [str(part) for part in self.tree.catalyst.items(expression.nameParts())])
        elif kind == "UnresolvedGenerator":
            identifier = expression.name()
            catalog_parts = [part.get() for part in (identifier.catalog(), identifier.database()) if part.isDefined()]
            self.function(expression, [*catalog_parts, str(identifier.funcName())])
        elif kind == "UnresolvedAttribute":
            self.bare_name(expression)
        self.inside(expression, scope)

    def function(self, expression: Any, parts: list[str]) -> None:
        name = ".".join(parts)
        functions = self.tree.catalyst.functions
        if name.lower() in functions.known:
            self.called.add(name.lower())
            return
        if name.lower() in functions.withheld:
            raise HeadraceError(
                "function.not_allowed",
                f"the function {name} is not allowed to run",
                where=origin_place(self.where, expression),
                why=f"{functions.withheld[name.lower()]} is code, and the project's settings do not allow code",
                next="if you trust it: `code: true` in headrace.yaml",
            )
        verdict = verdicts().get(name.lower())
        if verdict is None:
            known = [v.name for v in verdicts().values() if v.kind != "refused"] + list(functions.known)
            raise HeadraceError(
                "sql.refused",
                f"the function {name} is not admitted in a view",
                where=origin_place(self.where, expression),
                why="it is not on the list of known functions; docs/reference/functions.md has them",
                next=did_you_mean(name, known),
            )
        if verdict.kind == "refused":
            raise self.refused(expression, f"the function {name}", verdict.note, verdict.code, verdict.instead)

    def bare_name(self, attribute: Any) -> None:
        parts = [str(part) for part in self.tree.catalyst.items(attribute.nameParts())]
        if len(parts) == 1 and parts[0].lower() in BARE:
            verdict = verdicts()[parts[0].lower()]
            if verdict.kind != "refused":
                return
            why = f"{verdict.note}; if a column has this name, write relation.{parts[0]}"
            raise self.refused(attribute, parts[0], why, verdict.code)


def spelled(kind: str) -> str:
    """A plan node's class in SQL's own words, nearly: ``InsertIntoStatement`` is INSERT INTO."""
    words = re.findall(r"[A-Z][a-z0-9]*", re.sub(r"(Statement|Command|Plan)$", "", kind))
    return " ".join(words).upper() or kind


# -- the order of presentation ------------------------------------------------------------------------------


def _presentation(catalyst: Catalyst, plan: Any) -> tuple[Ordering, ...]:
    while class_name(plan) in ("UnresolvedWith", "GlobalLimit", "LocalLimit", "Offset"):
        plan = plan.child()
    if class_name(plan) != "Sort":
        return ()
    columns = _outputs(catalyst, plan.child())
    found = []
    for entry in catalyst.items(plan.order()):
        name = _output_name(catalyst, entry.child(), columns)
        if name is None:
            return ()
        last = class_name(entry.nullOrdering()) == "NullsLast"
        found.append(Ordering(name, class_name(entry.direction()) == "Descending", last))
    return tuple(found)


def _outputs(catalyst: Catalyst, plan: Any) -> list[tuple[str | None, list[str]]]:
    """What the SELECT list shows of its columns: their names, None where only analysis knows; and of those that are
    taken as they are what they are called there, in lower case. No column at all from a star on."""
    while class_name(plan) in ("Distinct", "UnresolvedHaving", "UnresolvedQualify", "WithWindowDefinition"):
        plan = plan.child()
    if class_name(plan) not in ("Project", "Aggregate"):
        return []
    entries = plan.projectList() if class_name(plan) == "Project" else plan.aggregateExpressions()
    shown: list[tuple[str | None, list[str]]] = []
    for entry in catalyst.items(entries):
        if "Star" in class_name(entry):
            return []
        if class_name(entry) == "Alias":
            shown.append((str(entry.name()), []))
        elif class_name(entry) == "UnresolvedAttribute":
            parts = [str(part) for part in catalyst.items(entry.nameParts())]
            shown.append((parts[-1], [part.lower() for part in parts]))
        else:
            shown.append((None, []))
    return shown


def _output_name(catalyst: Catalyst, expression: Any, columns: list[tuple[str | None, list[str]]]) -> str | None:
    if class_name(expression) == "UnresolvedOrdinal":
        ordinal = int(expression.ordinal())
        return columns[ordinal - 1][0] if 0 < ordinal <= len(columns) else None
    if class_name(expression) != "UnresolvedAttribute":
        return None
    parts = [str(part) for part in catalyst.items(expression.nameParts())]
    if len(parts) > 1:  # `t.x` may be another one than the column `x` that is shown
        return next((name for name, own in columns if own == [part.lower() for part in parts]), None)
    named = [name for name, _ in columns if name is not None and name.lower() == parts[0].lower()]
    if named:
        return named[0]
    return parts[0] if not columns else None


# -- after analysis -----------------------------------------------------------------------------------------

OF_USERS = ("PythonUDF", "PythonUDAF")
_RESOLVED: dict[str, tuple[str, str]] = {
    "CurrentTime": ("sql.not_deterministic", REFUSALS["CurrentTime"][1]),
    **dict.fromkeys(
        ("CurrentUser", "CurrentCatalog", "CurrentDatabase", "CurrentPath", "VariableReference"),
        ("sql.not_deterministic", "it depends on the session; if a column was meant, write relation.column"),
    ),
    **dict.fromkeys(
        ("PythonUDF", "PythonUDAF", "ScalaUDF", "ScalaAggregator", "CallMethodViaReflection", "HiveGenericUDF"),
        ("sql.refused", "it runs code that is not Spark's own"),
    ),
}


def check_analyzed(catalyst: Catalyst, analyzed: Any, where: str = "") -> None:
    """The second gate, over the analyzed plan of an admitted text; relations (temporary views) are not entered.

    Raises ``HeadraceError``: sql.refused, sql.not_deterministic.
    """
    _check_plan(Tree(catalyst), analyzed, where)


def _check_plan(tree: Tree, plan: Any, where: str) -> None:
    if class_name(plan) in ("View", "MapInArrow"):
        return
    for expression in tree.catalyst.items(plan.expressions()):
        _check_resolved(tree, expression, where)
    for child in tree.catalyst.items(plan.children()):
        _check_plan(tree, child, where)


def _check_resolved(tree: Tree, expression: Any, where: str) -> None:
    kind = class_name(expression)
    if kind in ("AttributeReference", "Literal", "OuterReference"):
        return
    children = tree.evaluated(expression)
    if kind in _RESOLVED and not (kind in OF_USERS and str(expression.name()).lower() in tree.catalyst.functions.known):
        code, why = _RESOLVED[kind]
        what = f"{expression.prettyName()} is not admitted in a view"
        raise HeadraceError(code, what, where=origin_place(where, expression), why=why)
    for child in children:
        _check_resolved(tree, child, where)
    check_casts(tree.catalyst, expression, where)
    if not expression.deterministic() and all(child.deterministic() for child in children):
        what = f"{expression.prettyName()} is not admitted in a view"
        place = origin_place(where, expression)
        raise HeadraceError("sql.not_deterministic", what, where=place, why="Spark says its value is not determined")
    if kind in SUBQUERIES:
        _check_plan(tree, expression.plan(), where)
