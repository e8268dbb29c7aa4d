"""TPC-H: the 22 queries in one pipeline, equal to Spark batch after every refresh step; what one row costs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks.held import Held
from benchmarks.tpch.refresh import Refresh
from benchmarks.tpch.tables import QUERIES, generate, relations
from benchmarks.tpch.touched import CHANGED

from headrace.model.definition import Settings
from headrace.model.transaction import INSERT, UPDATE

SCALE, CHANGES = 0.005, 1000
MOST = 100  # rows of kept state that an operator may read for one changed row


@pytest.mark.spark
def test_22_views_equal_batch_after_every_refresh_step(spark: Any, tmp_path: Path) -> None:
    tables = generate(SCALE, tmp_path / "rows")
    held = Held(spark, tmp_path / "held", relations(tables), QUERIES, Settings(), counting=True)
    refresh = Refresh(held.contents, seed=3)
    try:
        held.append({name: [(INSERT, rows)] for name, rows in tables.items()})
        held.define()
        before = {name: held.view(name) for name in QUERIES}
        filled, moved = set(), set()
        for transactions in (1, 2):
            for _ in range(transactions):
                held.append(refresh.transaction(CHANGES))
            held.step()
            assert held.compare() == {}
            now = {name: held.view(name) for name in QUERIES}
            filled |= {name for name, rows in now.items() if rows.num_rows}
            moved |= {name for name, rows in now.items() if not rows.equals(before[name])}
            before = now
        assert len(QUERIES) == len(filled) == len(moved) == 22
        held.append({table: [(UPDATE, refresh.changed(refresh.sample(table, 1)))] for table in CHANGED})
        held.step()
        done = {(view, name): of for view, found in held.work().items() for name, of in found.items()}
        assert sum(of["rows_probed"] for of in done.values()) > 0
        # Far below what is kept: the orders are 7,500, their lines 30,000.
        assert {name: of for name, of in done.items() if of["rows_probed"] > MOST * len(CHANGED)} == {}
    finally:
        held.close()
