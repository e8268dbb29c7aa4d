"""Goal: what differs is told apart by its text, by which views share what they keep.

Method: pairs of queries that differ in what Spark's own text leaves out are lowered, and their fingerprints compared.
"""

from __future__ import annotations

from typing import Any

import pytest

from headrace.engine.compile import Compiler
from headrace.model.definition import ViewDefinition
from headrace.model.schema import Column, Relation

pytestmark = pytest.mark.spark

COLUMNS = ("id int", "n bigint", "s string", "l array<int>")
TABLE = Relation("items", tuple(Column(*of.split(" ")) for of in COLUMNS))
MANY = ", ".join(map(str, range(32)))
PAIRS = {
    "many values": ("n in (0,1,7,10,11,12,13,14,15,16,17,18)", "n in (0,2,3,4,5,6,8,9,19,20,21,22)"),
    "many arguments": (f"hash({MANY}, id) > 0", f"hash({MANY}, n) > 0"),
    "patterns": ("s like any ('_, _', '_b')", "s like any ('_', '_', '_b')"),
    "every pattern": ("s like all ('_, _', '_b')", "s like all ('_', '_', '_b')"),
    "an index that may be beyond": ("get(l, id) > 0", "l[id] > 0"),
    "an element that may be beyond": ("try_element_at(l, id) > 0", "element_at(l, id) > 0"),
    "an overflow": ("try_add(id, 1) > 0", "id + 1 > 0"),
    "types of literals": ("hash(1, id) > 0", "hash(1L, id) > 0"),
    "a text like a column": ("concat(s, \"'c1\") <> ''", "concat(\"'c1\", s) <> ''"),
}


def test_what_differs_has_another_fingerprint(spark: Any) -> None:
    asked = {f"v{i}_{j}": c for i, pair in enumerate(PAIRS.values()) for j, c in enumerate(pair)}
    views = [ViewDefinition(name, f"SELECT id FROM items WHERE {condition}") for name, condition in asked.items()]
    compilation = Compiler(spark).compile({"items": TABLE}, views, {})
    assert not compilation.refused
    found = {name: view.root.fingerprint for name, view in compilation.views.items()}
    alike = [name for i, name in enumerate(PAIRS) if found[f"v{i}_0"] == found[f"v{i}_1"]]
    assert not alike
