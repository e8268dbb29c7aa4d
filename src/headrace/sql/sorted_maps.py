"""Maps with their entries in the order of their keys, from where they are made on.

SQL leaves that order open; map_keys, to_json, a cast to text and functions of users show it. Spark's own MapSort is of
no use here: in 4.3.0 a NULL among values of a primitive type becomes 0.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql.functions import lit
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from headrace.formats.types.arrow import quote
from headrace.sql.catalyst import Catalyst, class_name, type_text
from headrace.sql.tree import Tree

# What makes a map with its entries in an order of its own; all other expressions keep that of the maps they are given.
_MAKERS = frozenset({
    "Cast", "CreateMap", "CsvToStructs", "JsonToStructs", "MapConcat", "MapFromArrays", "MapFromEntries", "MapZipWith",
    "PythonUDF", "StringToMap", "TransformKeys", "VariantGet", "XmlToStructs",
})  # fmt: skip
_BY_KEY = "(a, b) -> CASE WHEN a.key < b.key THEN -1 WHEN a.key > b.key THEN 1 ELSE 0 END"


class SortedMaps:
    """Bound to one session."""

    def __init__(self, catalyst: Catalyst, tree: Tree) -> None:
        self.catalyst, self.tree = catalyst, tree
        self._made: dict[str, tuple[Any, int]] = {}

    def of(self, expression: Any, kind: str) -> Any:
        """The expression, of that class, with every map in its value sorted; itself where it makes none."""
        if kind not in _MAKERS or "map<" not in type_text(expression):
            return expression
        sorting, place = self._sorting(expression.dataType())

        def filled(part: Any) -> Any:
            return expression if class_name(part) == "AttributeReference" and part.exprId().id() == place else part

        return self.tree.transformed(sorting, filled)

    def _sorting(self, java_type: Any) -> tuple[Any, int]:
        """What sorts a value of the type, over a column, and the column's id."""
        text = str(java_type.sql())
        if text not in self._made:
            field = {"name": "m", "type": json.loads(str(java_type.json())), "nullable": True, "metadata": {}}
            kind = StructField.fromJson(field).dataType
            column: Any = self.catalyst.spark.range(0).select(lit(None).cast(kind).alias("m"))
            plan = column.selectExpr(_sorted(kind, "m"))._jdf.queryExecution().analyzed()
            place = int(plan.child().output().apply(0).exprId().id())
            self._made[text] = plan.projectList().apply(0).child(), place
        return self._made[text]


def _has_map(kind: DataType) -> bool:
    return "map<" in kind.simpleString()


def _sorted(kind: DataType, value: str) -> str:
    """SQL for ``value``, an expression of that type, with its maps sorted."""
    if not _has_map(kind):
        return value
    if isinstance(kind, MapType):
        entries = f"map_entries({value})"
        if _has_map(kind.valueType):
            inner = _sorted(kind.valueType, "e.value")
            entries = f"transform({entries}, e -> struct(e.key AS key, {inner} AS value))"
        return f"map_from_entries(array_sort({entries}, {_BY_KEY}))"
    if isinstance(kind, ArrayType):
        return f"transform({value}, e -> {_sorted(kind.elementType, 'e')})"
    assert isinstance(kind, StructType)
    fields = [f"{_sorted(f.dataType, f'{value}.{quote(f.name)}')} AS {quote(f.name)}" for f in kind.fields]
    return f"if({value} IS NULL, NULL, struct({', '.join(fields)}))"
