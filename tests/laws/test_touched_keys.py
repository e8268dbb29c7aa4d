"""Goal: the touched-key rules answer what the cheaper ones do, whose oracle they stay. Method: queries of the laws of the
cheaper rules, by the touched-key rule alone, equal batch after every commit; see harness.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import test_distinct_aggregates
import test_extremes
import test_running_window
import test_top_k
import test_variance
from harness import Circuits, Operator, hold

from headrace.circuit.node import Aggregate, OrderedAggregate, Regroup, Running, TopK, Window
from headrace.sql import canonical, canonical_window
from headrace.sql.lowering import aggregate, per_place, running, top_k

# What each cheaper rule asks whether it may take a query.
CHOICES = {
    aggregate: ("maintained",),
    canonical: ("maintained",),
    canonical_window: ("takes", "is_of_place", "is_of_partition"),
    per_place: ("is_of_place", "is_of_partition"),
    running: ("takes",),
}
LAWS = {
    test_extremes: ("of_text", "of_doubles", "with_sums", "by_another", "first_and_last", "filtered", "percentiles"),
    test_distinct_aggregates: ("summed_doubles", "several", "modes"),
    test_variance: ("of_doubles",),
    test_top_k: ("row_numbers", "first_of_ties", "ranks", "dense_ranks"),
    test_running_window: ("row_number", "rank", "sums_of_peers", "doubles", "statistics", "extremes", "first_and_last",
                          "neighbours", "fixed_frames", "dense_ranks", "copies", "peers_of_copies"),
}  # fmt: skip


def operator() -> Operator:
    tables = {table.name: table for law in LAWS for table in law.OPERATOR.tables}
    queries = {f"{law.OPERATOR.name}_{name}": law.QUERIES[name] for law, names in LAWS.items() for name in names}
    return Operator("touched_keys", tuple(tables.values()), queries, truncated=("items", "bag"))


@pytest.mark.spark
def test_touched_keys_alone_equal_batch(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, names in CHOICES.items():
        for name in names:
            monkeypatch.setattr(module, name, lambda *_: False)
    monkeypatch.setattr(top_k, "_bound", lambda *_: None)
    found = operator()
    roots = [view.root for view in Circuits(spark, found, tmp_path / "nodes").compilation.views.values()]
    nodes = [node for root in roots for node in root.walk()]
    assert not any(isinstance(node, OrderedAggregate | Running | TopK) for node in nodes)
    assert not any(isinstance(node, Aggregate) and node.accumulations for node in nodes)
    assert sum(isinstance(node, Regroup | Window) for node in nodes) >= len(roots)
    hold(spark, tmp_path, found)
