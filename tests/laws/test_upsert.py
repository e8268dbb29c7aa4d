"""Goal: a table with a key holds the last image of each key after every commit, whatever the changes left out; strict
changes that do not fit what it holds are set aside, and nothing else is.

Method: see harness.py; what `verify` reads from the log for a table is held to the same contents.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from harness import Operator, hold
from histories import Table
from shop import ITEMS

NAMED = Table(
    "named",
    {"v": "int", "name": "string", "w": "string", "x": "double", "part": "bigint", "y": "decimal(38,10)", "z": "boolean",
     "u1": "int", "u2": "int", "u3": "string"},
    {
        "v": (None, 1, 2),
        "name": ("", "a", "b"),
        "w": (None, "long enough to differ", ""),
        "x": (None, 0.0, -0.0, float("nan")),
        "part": (1, 2**40),
        "y": (None,),
        "z": (None, True, False),
        "u1": (None, 1),
        "u2": (None, 1),
        "u3": (None, "x", "y"),
    },
    ("name", "part"),
)  # fmt: skip

GUARDED = Table(
    "guarded",
    {"id": "int", "s": "string", "n": "bigint"},
    {"id": range(4), "s": (None, "", "a"), "n": (None, 0, 7)},
    ("id",),
    strict=0.6,
)

QUERIES = {
    "all_of_it": "select * from items",
    "some_columns": "select case_id, k, s from items",
    "of_a_key_of_two": "select * from named",
    "its_last_column": "select case_id, name, u3 from named where z is not null",
    "of_strict_changes": "select * from guarded",
    "joined_by_its_key": """
        select a.case_id, a.id, b.s from items a join items b on a.case_id = b.case_id and a.k = b.id""",
}
OPERATOR = Operator("upsert", (ITEMS, NAMED, GUARDED), QUERIES, truncated=("items", "named", "guarded"), judged=True)


@pytest.mark.spark
def test_tables_with_a_key_hold_the_last_image_of_each(spark: Any, tmp_path: Path) -> None:
    hold(spark, tmp_path, OPERATOR)
