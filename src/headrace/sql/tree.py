"""Walking Catalyst's trees from Python: the arguments of a node whatever their shape, and nodes made anew from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from py4j.java_gateway import JavaObject, is_instance_of

from headrace.sql.catalyst import Catalyst
from headrace.sql.java_names import full_name

# What an argument of a node can be, first match wins. An Iterable may be a Seq or a Map of tuples.
_KINDS = (
    ("plan", "org.apache.spark.sql.catalyst.plans.logical.LogicalPlan"),
    ("expression", "org.apache.spark.sql.catalyst.expressions.Expression"),
    ("type", "org.apache.spark.sql.types.DataType"),
    ("option", "scala.Option"),
    ("items", "scala.collection.Iterable"),
    ("product", "scala.Product"),
)
_REPLACED = "org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable"


# Expressions that hold a plan, reached by ``plan()``.
SUBQUERIES = ("ScalarSubquery", "Exists", "ListQuery", "LateralSubquery")

# The kind of each class met so far: a class says the same in every session.
_met: dict[str, str] = {}
_replaced: dict[str, bool] = {}


class Tree:
    """Plans and expressions as Python sees them. Bound to one session."""

    def __init__(self, catalyst: Catalyst) -> None:
        self.catalyst = catalyst
        self._gateway: Any = catalyst.spark.sparkContext._gateway

    def kind(self, value: Any) -> str:
        """plan, expression, type, option, items, product or other (a string, a number, a Java object)."""
        if not isinstance(value, JavaObject):
            return "other"
        name = full_name(value)
        if name not in _met:
            found = (kind for kind, cls in _KINDS if is_instance_of(self._gateway, value, cls))
            _met[name] = next(found, "other")
        return _met[name]

    def replacement(self, expression: Any) -> Any | None:
        """What Spark puts in the expression's place before it runs, if it does."""
        name = full_name(expression)
        if name not in _replaced:
            _replaced[name] = bool(is_instance_of(self._gateway, expression, _REPLACED))
        return expression.replacement() if _replaced[name] else None

    def evaluated(self, expression: Any) -> list[Any]:
        """The children; of an expression that Spark replaces before it runs, the replacement alone."""
        replacement = self.replacement(expression)
        return self.catalyst.items(expression.children()) if replacement is None else [replacement]

    def arguments(self, node: Any) -> list[Any]:
        """The constructor's arguments of a node (a Scala case class)."""
        return [node.productElement(i) for i in range(node.productArity())]

    def inside(self, node: Any) -> list[tuple[str, Any]]:
        """The plans, expressions and types in a node's arguments, however deep they lie in lists, maps and options."""
        found: list[tuple[str, Any]] = []
        waiting = [(self.kind(value), value) for value in self.arguments(node)]
        while waiting:
            kind, value = waiting.pop(0)
            if kind in ("plan", "expression", "type"):
                found.append((kind, value))
            elif kind == "option":
                waiting += [(self.kind(v), v) for v in ([value.get()] if value.isDefined() else [])]
            elif kind == "items":
                waiting += [(self.kind(v), v) for v in self.catalyst.items(value.toSeq())]
            elif kind == "product":
                waiting += [(self.kind(v), v) for v in self.arguments(value)]
        return found

    def transformed(self, expression: Any, change: Callable[[Any], Any]) -> Any:
        """The expression with ``change`` applied to every part, leaves first; the same object when none changed."""
        children = self.catalyst.items(expression.children())
        new = [self.transformed(child, change) for child in children]
        if any(a is not b for a, b in zip(children, new, strict=True)):
            expression = expression.withNewChildren(self.catalyst.seq(new))
        return change(expression)

    def with_expressions(self, node: Any, change: Callable[[Any], Any]) -> Any:
        """The plan node with ``change`` applied to each of its expressions; the same object when none changed."""
        before = self.arguments(node)
        after = [self._changed(value, change) for value in before]
        if all(old is new for old, new in zip(before, after, strict=True)):
            return node
        array = self._gateway.new_array(self.catalyst.jvm.java.lang.Object, len(after))
        for i, value in enumerate(after):
            array[i] = value
        return node.makeCopy(array)

    def _changed(self, value: Any, change: Callable[[Any], Any]) -> Any:
        kind = self.kind(value)
        if kind == "expression":
            return change(value)
        if kind == "option" and value.isDefined():
            inner = value.get()
            new = self._changed(inner, change)
            return value if new is inner else self.catalyst.jvm.scala.Option.apply(new)
        if kind == "items":
            old = self.catalyst.items(value.toSeq())
            changed = [self._changed(v, change) for v in old]
            return value if all(a is b for a, b in zip(old, changed, strict=True)) else self.catalyst.seq(changed)
        return value
