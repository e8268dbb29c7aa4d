"""Goal: hashes only route and find; whether keys are equal is always looked at in the keys themselves.

Method: every key hash is cut down to one of three, so that unequal keys meet everywhere; all laws must hold as ever.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import test_aggregate
import test_inner_join
import test_linear
import test_multiset
import test_outer_join
import test_regroup
import test_upsert
import test_window
from harness import Operator, hold
from pyspark.sql import Column
from pyspark.sql import functions as F
from shop import BAG, ITEMS, PARTS

from headrace.circuit import hashing

CHOSEN = {
    test_aggregate: ("count", "doubles", "distinct", "of_an_aggregate"),
    test_inner_join: ("by_value", "by_the_tables_key", "of_multisets"),
    test_linear: ("union", "rollup"),
    test_multiset: ("all_of_it",),
    test_outer_join: ("left", "full", "anti", "existence", "except_all"),
    test_regroup: ("collected", "count_distinct"),
    test_upsert: ("some_columns", "of_a_key_of_two"),
    test_window: ("top_two", "running_doubles"),
}
QUERIES = {f"{m.OPERATOR.name}_{q}": m.QUERIES[q] for m, queries in CHOSEN.items() for q in queries}
OPERATOR = Operator(
    "collisions", (ITEMS, PARTS, BAG, test_upsert.NAMED), QUERIES, truncated=("items", "bag"), judged=True
)
HISTORIES = 12  # pairs of equal hash are many more here


@pytest.mark.spark
def test_keys_of_equal_hash_are_never_mixed(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = F.xxhash64

    def colliding(*columns: Column) -> Column:
        return F.pmod(whole(*columns), F.lit(3)) - F.lit(1)

    monkeypatch.setattr(F, "xxhash64", colliding)
    monkeypatch.setattr(hashing, "hash_of", lambda *_, **__: None)  # no key is hashed by Arrow
    hold(spark, tmp_path, OPERATOR, HISTORIES)
