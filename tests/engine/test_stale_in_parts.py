"""Goal: a sink that catches up in parts is told at each of them which views had failed there, not which have now.

Method: a pipeline stepped by hand while its sink is away; then the sink takes one step after the other, and what its
store says after each of them, contents and states, is held against what was published when that step was the newest.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from failing_case import COUNT, SHARE, TABLES, begin, rows, state
from running_case import Case, Running, running

from headrace.engine import deliver
from headrace.engine.connectors import make_sink
from headrace.engine.deliver import Deliver
from headrace.model.definition import SinkDefinition

pytestmark = pytest.mark.spark

WORD = {"live": "live", "failed": "stale"}
LATER = {
    "it fails": {"orders": {"insert": [[7, 2, 0], [8, 2, 1]], "delete": [[1]]}},
    "others go on": {"orders": {"insert": [[9, 3, 10]]}},
    "it comes back": {"orders": {"delete": [[7]]}},
    "it changes": {"orders": {"delete": [[2]]}},
    "it fails again": {"orders": {"insert": [[10, 1, 0]]}},
    "and comes back as it was": {"orders": {"delete": [[10]]}},
    "it goes on": {"orders": {"insert": [[11, 1, 20]]}},
    "it fails for good": {"orders": {"insert": [[12, 1, 0]]}},
    "and stays so": {"orders": {"insert": [[13, 1, 25]]}},
}


@pytest.mark.parametrize("each", [False, True])
def test_each_part_tells_what_had_failed_by_then(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, each: bool
) -> None:
    monkeypatch.setattr(deliver, "ROWS_MAX", -1)  # one step after the other
    with running(Case("shop", TABLES, {}, (), {}), tmp_path / "shop") as shop:
        sink, seen = begun(shop, tmp_path / "out.duckdb")
        published = []
        for transaction in LATER.values():
            shop.push(transaction)
            assert shop.pipeline.maintainer.step(each=each)
            published.append((
                shop.pipeline.maintainer.frontier, {view: shop.contents(view) for view in ("shares", "counts")},
                {view: WORD[word] for view, word in state(shop).items()},
            ))  # fmt: skip
        assert [states["shares"] for _, _, states in published] == [
            "stale", "stale", "live", "live", "stale", "live", "live", "stale", "stale",
        ]  # fmt: skip
        for part, (commit, contents, states) in zip(LATER, published, strict=True):
            assert sink.deliver() and sink.frontier == commit, part
            assert seen() == (contents, states), part
        assert not sink.deliver()
        sink.sink.close()


def test_transactions_one_by_one_are_cut_where_a_view_fails(spark: Any, tmp_path: Path) -> None:
    """As many at once as there may be: a view is stale from the first of them on, or from none."""
    with running(Case("shop", TABLES, {}, (), {}), tmp_path / "shop") as shop:
        sink, seen = begun(shop, tmp_path / "out.duckdb")
        ends = []
        for transaction in LATER.values():
            shop.push(transaction)
            assert shop.pipeline.maintainer.step(each=True)
            ends.append(shop.pipeline.maintainer.frontier)
        taken = []
        while sink.deliver():
            taken.append((sink.frontier, seen()[1]["shares"]))
        told = ["stale", "live", "stale", "live", "stale"]
        assert taken == list(zip([ends[n] for n in (1, 3, 4, 6, 8)], told, strict=True))
        assert seen()[0] == {view: shop.contents(view) for view in ("shares", "counts")}
        sink.sink.close()


def begun(shop: Running, path: Path) -> tuple[Deliver, Callable[[], tuple[Any, Any]]]:
    """A sink that holds the first contents, and what its store says: contents and state of each view."""
    begin(shop, {"shares": SHARE, "counts": COUNT})
    made = make_sink(SinkDefinition("out", "duckdb", options={"path": str(path)}), shop.project)
    sink = Deliver(made, None, shop.pipeline.catalog, shop.pipeline.maintainer.reader, shop.events.append)
    sink.begin()
    assert sink.deliver()

    def seen() -> tuple[Any, Any]:
        sink.sink.close()  # nobody else may read the file
        with duckdb.connect(str(path), read_only=True) as store:
            contents = {view: rows(*store.execute(f"SELECT * FROM {view}").fetchall()) for view in ("shares", "counts")}
            states = dict(store.execute("SELECT view, state FROM headrace_views").fetchall())
        sink.begin()
        return contents, states

    return sink, seen
