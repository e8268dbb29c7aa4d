"""Goal: of many rows at once stored queries over a number match those whose number is in their span.

Oracle: numpy's comparison. NaN is in no span.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from headrace.model.delivery import WEIGHT
from headrace.model.schema import Column, ViewSchema
from headrace.serve.search.matching import Matcher

ROWS = 5000


@pytest.mark.parametrize("kind", ["double", "float", "bigint"])
def test_many_rows_match_by_their_numbers(kind: str) -> None:
    rng = np.random.default_rng(0)
    prices = np.round(rng.random(ROWS) * 1000 - 500, 2)
    prices = prices.astype(np.int64) if kind == "bigint" else np.where(rng.random(ROWS) < 0.1, np.nan, prices)
    prices = prices.astype({"double": np.float64, "float": np.float32, "bigint": np.int64}[kind])
    schema = ViewSchema("v", 1, (Column("id", "bigint"), Column("price", kind)), ("id",))
    rows = pa.table({"id": np.arange(ROWS), "price": prices, WEIGHT: np.ones(ROWS, np.int64)})
    found = Matcher(schema, {"high": "price:>450", "low": "price:[-20 TO 25]"}).matches(rows)
    for query, inside in {"high": prices > 450, "low": (prices >= -20) & (prices <= 25)}.items():
        matched = [row["id"] for row in found.to_pylist() if row["_query"] == query]
        assert sorted(matched) == np.flatnonzero(inside).tolist() and len(matched) > 100
