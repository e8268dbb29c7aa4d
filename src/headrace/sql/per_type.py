"""Changes of the maps in a value, however deep they lie: SQL spells them by the value's type, resolved once a type."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

from pyspark.sql.functions import lit
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from headrace.formats.types.arrow import quote
from headrace.sql.catalyst import Catalyst
from headrace.sql.java_names import class_name, type_text
from headrace.sql.tree import Tree

# SQL for a map's new value, given its type and the SQL for what is in its place.
OfMap: TypeAlias = Callable[[MapType, str], str]


class PerType:
    """Bound to one session."""

    def __init__(self, catalyst: Catalyst, tree: Tree) -> None:
        self.catalyst, self.tree = catalyst, tree
        self._made: dict[tuple[str, ...], tuple[Any, int]] = {}

    def changed(self, expression: Any, java_type: Any, *changes: OfMap) -> Any:
        """The expression, which has what all changes but the last make of a value of the type, with the last made."""
        change, place = self._change(java_type, changes)

        def filled(part: Any) -> Any:
            return expression if class_name(part) == "AttributeReference" and part.exprId().id() == place else part

        return self.tree.transformed(change, filled)

    def _change(self, java_type: Any, changes: tuple[OfMap, ...]) -> tuple[Any, int]:
        """The last of the changes over a column, and the column's id."""
        known = (str(java_type.sql()), *(change.__name__ for change in changes))
        if known not in self._made:
            field = {"name": "m", "type": json.loads(str(java_type.json())), "nullable": True, "metadata": {}}
            kind = StructField.fromJson(field).dataType
            values: Any = self.catalyst.spark.range(0).select(lit(None).cast(kind).alias("m"))
            for change in changes:
                values = values.selectExpr(f"{spelled(kind, 'm', change)} AS m")
            plan = values._jdf.queryExecution().analyzed()
            place = int(plan.child().output().apply(0).exprId().id())
            self._made[known] = plan.projectList().apply(0).child(), place
        return self._made[known]


def holds_map(expression: Any) -> bool:
    """Whether values of the expression are maps, or have some in them."""
    return "map<" in type_text(expression)


def spelled(kind: DataType, value: str, of_map: OfMap) -> str:
    """SQL for ``value``, an expression of that type, with its maps changed, which see to those in their values."""
    if not _has_map(kind):
        return value
    if isinstance(kind, MapType):
        return of_map(kind, value)
    if isinstance(kind, ArrayType):
        return f"transform({value}, e -> {spelled(kind.elementType, 'e', of_map)})"
    assert isinstance(kind, StructType)
    fields = [f"{spelled(f.dataType, f'{value}.{quote(f.name)}', of_map)} AS {quote(f.name)}" for f in kind.fields]
    return f"if({value} IS NULL, NULL, struct({', '.join(fields)}))"


def with_values(kind: MapType, entries: str, of_map: OfMap) -> str:
    """SQL for the entries of a map of that type with the maps in their values changed."""
    if not _has_map(kind.valueType):
        return entries
    return f"transform({entries}, e -> struct(e.key AS key, {spelled(kind.valueType, 'e.value', of_map)} AS value))"


def _has_map(kind: DataType) -> bool:
    return "map<" in kind.simpleString()
