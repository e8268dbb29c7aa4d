"""Goal: a table without a key holds each row as often as it came and did not go, after every commit.

Method: see harness.py; deletes of rows that are not there must be set aside, and nothing else; what `verify` reads
from the log for a table is held to the same contents.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from harness import Operator, hold
from histories import NAN, Table
from shop import BAG

ODD = Table(
    "odd",
    {"f": "double", "s": "string", "n": "bigint"},
    {"f": (None, 0.0, -0.0, NAN, 1.0), "s": (None, "a"), "n": (None, 1)},
)

QUERIES = {
    "all_of_it": "select * from bag",
    "doubles": "select * from odd",
    "one_column": "select case_id, s from bag",
    "counted": "select case_id, k, s, count(*) n from bag group by case_id, k, s",
}
OPERATOR = Operator("multiset", (BAG, ODD), QUERIES, truncated=("bag", "odd"), judged=True)


@pytest.mark.spark
def test_tables_without_a_key_hold_every_copy(spark: Any, tmp_path: Path) -> None:
    hold(spark, tmp_path, OPERATOR)
