"""Goal: a view that a step gives other rows than it had published is built again; the others do not notice.

Method: a published file is written anew with other rows, as if an expression had not been determined; then a crash.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from failing_case import COUNT, TABLES, begin, reason, rows, state, stepped, until_live
from running_case import Case, Running, running

from headrace.catalog.store import Output
from headrace.circuit.operators.publish import checksums
from headrace.engine.failures import MISMATCH
from headrace.model.errors import HeadraceError
from headrace.serve import snapshot
from headrace.state import run
from headrace.state.run import column, open_run, write_run

pytestmark = pytest.mark.spark

# Two views share the sub-query; `readers` reads one of them; `other` has nothing to do with either.
VIEWS = {
    "counts": COUNT,
    "large": "SELECT * FROM (" + COUNT + ") WHERE n > 1",
    "readers": "SELECT sum(n) AS n FROM counts",
    "other": "SELECT page, sum(n) AS n FROM clicks GROUP BY page",
}


@pytest.fixture
def shop(spark: Any, tmp_path: Path) -> Iterator[Running]:
    with running(Case("shop", TABLES, {}, (), {}), tmp_path / "shop") as at_work:
        begin(at_work, VIEWS)
        stepped(at_work, {"orders": {"insert": [[4, 2, 1]]}, "clicks": {"insert": [["c", 1]]}})
        yield at_work


def published(shop: Running, view: str) -> Output:
    """The view's part of the last step."""
    catalog, last = shop.pipeline.catalog, shop.pipeline.maintainer.number
    (output,) = catalog.outputs(last - 1, last, catalog.views()[view].feed)
    return output


def restarted(shop: Running) -> None:
    shop.kill()
    run._open.clear()  # another process has no file open yet
    shop.pipeline = shop.opened()
    shop.pipeline.definitions.carry_out(shop.project)


def test_it_is_built_again_with_its_readers_and_the_rest_goes_on(shop: Running) -> None:
    output = published(shop, "counts")
    path, delta = Path(output.path), open_run(output.path)
    n = delta.column_names.index("c1")
    write_run(path, delta.set_column(n, "c1", pa.array(column(delta, "c1") + 40)))
    shop.pipeline.catalog.put_outputs([replace(output, sums=checksums(path, sync=False))])
    restarted(shop)
    assert state(shop) == {"counts": "failed", "large": "failed", "readers": "failed", "other": "live"}
    assert snapshot.read(shop.pipeline.catalog, shop.pipeline.catalog.views()["counts"])[1].num_rows == 4  # -41, +42
    assert MISMATCH in reason(shop, "counts")
    assert reason(shop, "readers").startswith("it reads counts: ")
    assert {e["view"] for e in shop.events if e["event"] == "view.failed"} == {"counts", "large", "readers"}
    until_live(shop)
    assert shop.contents("counts") == rows((1, 2), (2, 2))
    assert shop.contents("readers") == rows((4,))
    stepped(shop, {"orders": {"insert": [[5, 3, 1]]}, "clicks": {"insert": [["c", 1]]}})
    restarted(shop)
    assert set(state(shop).values()) == {"live"}
    shop.verify()


def test_a_published_file_that_is_damaged_stops_the_start(shop: Running) -> None:
    path = Path(published(shop, "counts").path)
    path.write_bytes(path.read_bytes()[:-8] + bytes(8))
    with pytest.raises(HeadraceError, match=r"state\.corrupt.*damaged"):
        restarted(shop)
