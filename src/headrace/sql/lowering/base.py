"""What every rule of lowering needs: walking down a plan, names by position, refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.circuit.node import Expression, Node, Project
from headrace.model.errors import HeadraceError
from headrace.sql.catalyst import Catalyst
from headrace.sql.java_names import class_name, type_name

# A lowered node and the expression ids of its output columns, in order.
Lowered = tuple[Node, list[int]]
# How one kind of plan node is lowered: (lowering, plan, ids that the parent reads).
Rule = Callable[["Lowering", Any, set[int]], Lowered]


def refuse(clause: str, why: str, rewrite: str = "") -> HeadraceError:
    return HeadraceError(
        "sql.not_incremental", f"{clause} cannot be maintained incrementally yet", why=why, next=rewrite
    )


class Lowering:
    """Lowers a plan by the rules for its nodes' kinds."""

    def __init__(self, catalyst: Catalyst, rules: Mapping[str, Rule]) -> None:
        self.catalyst, self.rules = catalyst, rules
        self.loops: dict[int, int] = {}  # Spark's number of a recursive query -> in how many others it is
        self.around = 0  # recursive queries, of whose recursive parts this is one

    def node(self, plan: Any, needed: set[int]) -> Lowered:
        """``needed``: the expression ids that the parent reads; a leaf reads no other column."""
        kind = class_name(plan)
        if kind in self.rules:
            return self.rules[kind](self, plan, needed)
        raise refusal(kind)

    def ordered(self, lowered: Lowered, plan: Any, wanted: list[int]) -> Node:
        """The node with exactly the wanted columns, in their order."""
        node, ids = lowered
        if ids == wanted:
            return node
        names = names_of(ids)
        outputs = {attribute.exprId().id(): attribute for attribute in self.catalyst.items(plan.output())}
        return projected(node, [self.catalyst.expression(outputs[i], names) for i in wanted])

    def references(self, expressions: list[Any]) -> set[int]:
        found: set[int] = set()
        for expression in expressions:
            if class_name(expression) == "AttributeReference":
                found.add(expression.exprId().id())
            found |= self.references(self.catalyst.items(expression.children()))
        return found


def id_of(entry: Any) -> int:
    return int(entry.exprId().id())


def names_of(ids: list[int], letter: str = "c") -> dict[int, str]:
    return {known: f"{letter}{i}" for i, known in enumerate(ids)}


def projected(child: Node, expressions: list[Expression]) -> Node:
    types = tuple(e.type for e in expressions)
    return Project(types, tuple(e.nullable for e in expressions), child, tuple(expressions))


def refuse_keys(keys: tuple[Expression, ...]) -> None:
    for key in keys:
        if " collate " in key.type:
            raise refuse("a key with a collation", "keys that are equal may hash apart", "use a lower() of the column")
        if key.type.startswith(("map<", "variant")) or "map<" in key.type:
            raise refuse("a map or variant as a key", "its hash is not defined", "use a field of it")


def refusal(kind: str) -> HeadraceError:
    clauses = {
        "Sort": ("ORDER BY inside the query", "", "order the outermost SELECT only"),
        "Sample": ("TABLESAMPLE", "it is not deterministic", ""),
    }
    clause, why, rewrite = clauses.get(kind, (kind, f"no operator covers the plan node {kind}", ""))
    return refuse(clause, why, rewrite)


def output_types(catalyst: Catalyst, plan: Any) -> list[tuple[str, str, bool]]:
    """Name, type text and nullability of a plan's output columns."""
    return [(str(a.name()), type_name(a.dataType()), bool(a.nullable())) for a in catalyst.items(plan.output())]
