"""Maps with their entries in the order of their keys, from where they are made on.

SQL leaves that order open; map_keys, to_json, a cast to text and functions of users show it. Spark's own MapSort is of
no use here: in 4.3.0 a NULL among values of a primitive type becomes 0.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import MapType

from headrace.sql.build import Build
from headrace.sql.per_type import PerType, holds_map, with_values

# What makes a map with its entries in an order of its own; all other expressions keep that of the maps they are given.
_MAKERS = frozenset({
    "Cast", "CreateMap", "CsvToStructs", "JsonToStructs", "MapConcat", "MapFromArrays", "MapFromEntries", "MapZipWith",
    "PythonUDF", "StringToMap", "TransformKeys", "VariantGet", "XmlToStructs",
})  # fmt: skip
_BY_KEY = "(a, b) -> CASE WHEN a.key < b.key THEN -1 WHEN a.key > b.key THEN 1 ELSE 0 END"


class SortedMaps:
    """Bound to one session."""

    def __init__(self, build: Build, per_type: PerType) -> None:
        self.build, self.catalyst, self.per_type = build, build.catalyst, per_type

    def of(self, expression: Any, kind: str) -> Any:
        """The expression, of that class, with every map in its value sorted; itself where it makes none."""
        if kind not in _MAKERS or not holds_map(expression):
            return expression
        return self.sorted(expression)

    def constants(self, relation: Any) -> Any:
        """Rows of constants, whose maps Spark has made before anything can be put around what makes them."""
        columns = self.catalyst.items(relation.output())
        if not any(map(holds_map, columns)):
            return relation
        fresh = relation.newInstance()  # a Project that makes what it is given is taken for one that changes nothing
        made = zip(self.catalyst.items(fresh.output()), columns, strict=True)
        kept = [self.build.named(self.sorted(new) if holds_map(new) else new, old) for new, old in made]
        return self.catalyst.logical.Project(self.catalyst.seq(kept), fresh)

    def sorted(self, expression: Any) -> Any:
        return self.per_type.changed(expression, expression.dataType(), _sorted)


def _sorted(kind: MapType, value: str) -> str:
    entries = with_values(kind, f"map_entries({value})", _sorted)
    return f"map_from_entries(array_sort({entries}, {_BY_KEY}))"
