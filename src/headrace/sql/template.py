"""Expressions from SQL text: Spark resolves the text once for given types, then its names stand for any expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.formats.types.arrow import quote
from headrace.sql.catalyst import Catalyst
from headrace.sql.java_names import class_name
from headrace.sql.tree import Tree


class Templates:
    """Bound to one session."""

    def __init__(self, catalyst: Catalyst, tree: Tree) -> None:
        self.catalyst, self.tree = catalyst, tree
        self._resolved: dict[tuple[str, ...], tuple[Any, dict[int, str]]] = {}

    def filled(self, text: str, values: Mapping[str, Any]) -> Any:
        """The resolved expression that ``text`` is, each of its names being one of ``values``."""
        resolved, places = self._of_types(text, {name: str(value.dataType().sql()) for name, value in values.items()})

        def filled(part: Any) -> Any:
            is_name = class_name(part) == "AttributeReference" and part.exprId().id() in places
            return values[places[part.exprId().id()]] if is_name else part

        return self.tree.transformed(resolved, filled)

    def _of_types(self, text: str, types: Mapping[str, str]) -> tuple[Any, dict[int, str]]:
        known = (text, *types.values())
        if known not in self._resolved:
            columns = [f"CAST(NULL AS {kind}) AS {quote(name)}" for name, kind in types.items()]
            given: Any = self.catalyst.spark.range(0).selectExpr(*columns).selectExpr(f"{text} AS made")
            plan = given._jdf.queryExecution().analyzed()
            outputs = self.catalyst.items(plan.child().output())
            places = {int(output.exprId().id()): str(output.name()) for output in outputs}
            self._resolved[known] = plan.projectList().apply(0).child(), places
        return self._resolved[known]
