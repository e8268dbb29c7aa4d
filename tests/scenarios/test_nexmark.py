"""Nexmark: the 23 queries in one pipeline, equal to Spark batch after every step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks.held import Held
from benchmarks.nexmark.events import QUERIES, RELATIONS, Events

from headrace.model.definition import Settings

FIRST, CHANGES = 6000, 1000


@pytest.mark.spark
def test_23_views_equal_batch_after_every_step(spark: Any, tmp_path: Path) -> None:
    held = Held(spark, tmp_path, RELATIONS, QUERIES, Settings())
    events = Events(held.contents, seed=1)
    try:
        held.append(events.side_input())
        held.append(events.transaction(FIRST))
        held.define()
        before = {name: held.view(name) for name in QUERIES}
        for transactions in (1, 2):
            for _ in range(transactions):
                held.append(events.transaction(CHANGES))
            held.step()
            assert held.compare() == {}
            now = {name: held.view(name) for name in QUERIES}
            assert [name for name, rows in now.items() if not rows.num_rows or rows.equals(before[name])] == []
            before = now
        assert len(QUERIES) == 23
    finally:
        held.close()
