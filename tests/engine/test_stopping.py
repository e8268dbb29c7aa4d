"""Goal: a view that says so stops the source of the row it fails on, and that source alone, until the view is put right.

Method: a pipeline stepped by hand over two sources that are pushed to; a clerk of the log says what came in.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from failing_case import COUNT, FIRST, SHARE, TABLES, rows, state, stepped
from running_case import Case, running

from headrace.engine import stopping
from headrace.model.definition import SourceDefinition
from headrace.model.errors import HeadraceError

pytestmark = pytest.mark.spark

STOPS = "-- on_error: stop_source\n" + SHARE


def test_the_source_of_the_row_takes_nothing_in_until_the_view_is_put_right(spark: Any, tmp_path: Path) -> None:
    with running(Case("shop", TABLES, {}, (), {}), tmp_path / "shop") as shop:
        other = SourceDefinition("other", "http", {"listen": False, "tables": {"notes": {"columns": {"n": "int"}}}})
        shop.project = replace(shop.project, sources=(*shop.project.sources, other))
        views = {"shares": STOPS, "counts": COUNT, "noted": "SELECT n FROM notes"}
        shop.define(views)
        stepped(shop, FIRST, {"orders": {"insert": [[7, 2, 0]]}})
        assert state(shop) == {"shares": "failed", "counts": "live", "noted": "live"}
        stopping.hold(shop.pipeline)

        def held() -> None:
            end = shop.pipeline.log.end
            with pytest.raises(HeadraceError, match="nothing is taken in while view shares fails") as caught:
                shop.push({"orders": {"insert": [[8, 2, 1]]}})
            assert "row {id: 7, customer: 2, amount: 0}" in caught.value.why and caught.value.code == "view.failed"
            assert shop.pipeline.log.end == end
            (source,) = [s for s in shop.pipeline.status()["sources"] if s["name"] == "pushed"]
            assert (source["state"], source["error"]["code"]) == ("failed", "view.failed")

        held()
        shop.pipeline.push("other", [{"table": "notes", "op": "insert", "row": {"n": 1}}])
        shop.step()
        assert shop.contents("noted") == rows((1,))
        shop.reopen()  # it is still so after a restart
        held()
        shop.define({**views, "shares": SHARE.replace("amount", "nullif(amount, 0)")})
        stopping.hold(shop.pipeline)
        shop.push({"orders": {"insert": [[8, 2, 1]]}})
        shop.step()
        assert set(state(shop).values()) == {"live"}
        assert shop.contents("shares") == rows((1, 20), (2, 50), (3, 25), (7, None), (8, 100))
        assert [e["source"] for e in shop.events if e["event"] == "source.recovered"] == ["pushed"]
        shop.verify()
