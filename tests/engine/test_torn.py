"""Goal: what fails half-way leaves no half behind: an apply that fails is as if it had never been, and state that a step
has left half moved is neither gone on with nor saved.

Method: a disk that is full at a chosen moment, in pipelines stepped by hand and in one with the engine's own thread;
oracle: Spark batch over the log, and the rows counted by hand.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from failing_case import COUNT, TABLES, begin, rows, state, stepped
from running_case import SOURCE, Case, Running, running

from headrace.catalog.project import read
from headrace.catalog.store import Catalog
from headrace.engine.backfill import Backfill
from headrace.engine.maintain import Maintainer
from headrace.engine.pipeline import Pipeline
from headrace.model.definition import SourceDefinition
from headrace.model.errors import HeadraceError
from headrace.serve import quarantine
from project_folder import ProjectFolder

pytestmark = pytest.mark.spark

RATES = "SELECT customer, sum(amount * rate) AS due FROM orders JOIN customers c ON c.id = customer GROUP BY customer"
HIGH = "SELECT id FROM customers WHERE rate > 15"
VIEWS = {"counts": COUNT, "dues": RATES, "high": HIGH}


@pytest.fixture
def shop(spark: Any, tmp_path: Path) -> Iterator[Running]:
    with running(Case("shop", TABLES, {}, (), {}), tmp_path / "shop") as at_work:
        yield at_work


def full(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_an_apply_that_the_disk_refuses_is_as_if_it_had_never_been(
    shop: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read a table and built a view by then; both are read anew by the next."""
    begin(shop, {"counts": COUNT})
    kept, build = set(shop.pipeline.maintainer.kept.runs), Backfill.view

    def built(self: Backfill, compiled: Any, *given: Any) -> Any:
        return full() if compiled.schema.name == "high" else build(self, compiled, *given)

    with monkeypatch.context() as patch:
        patch.setattr(Backfill, "view", built)
        with pytest.raises(OSError, match="No space left"):
            shop.define(VIEWS)
    assert set(shop.pipeline.maintainer.kept.runs) == kept
    assert state(shop) == {"counts": "live"}
    stepped(shop, {"customers": {"delete": [[1]], "upsert": [[2, 30], [3, 40]]}, "orders": {"insert": [[4, 3, 1]]}})
    shop.define(VIEWS)
    assert shop.contents("dues") == rows((2, 120), (3, 40))
    stepped(shop, {"customers": {"delete": [[2]], "upsert": [[1, 1]]}})
    assert shop.contents("dues") == rows((1, 7), (3, 40))
    assert shop.contents("high") == rows((3,))
    shop.verify()


def test_what_the_catalogue_refuses_is_as_if_it_had_never_been(shop: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(shop, {"counts": COUNT})
    with monkeypatch.context() as patch:
        patch.setattr(Catalog, "put_checkpoint", full)
        with pytest.raises(OSError, match="No space left"):
            shop.define(VIEWS)
    stepped(shop, {"customers": {"delete": [[1]]}})
    shop.define(VIEWS)
    assert shop.contents("dues") == rows((2, 80))
    shop.verify()


def test_what_is_set_aside_outlives_an_apply_that_fails(spark: Any, tmp_path: Path) -> None:
    """A new column makes the table anew, with all of it that was set aside; the step after it sets aside one more."""
    orders = {"columns": {"id": "int not null", "amount": "int"}, "key": "id", "on_conflict": "quarantine"}
    wider = {**orders, "columns": {"id": "int not null", "amount": "int", "note": "string"}}
    with running(Case("shop", {"orders": orders}, {}, (), {}), tmp_path / "shop") as shop:
        shop.define({"shares": "SELECT id, amount AS share FROM orders"})
        stepped(shop, {"orders": {"insert": [[1, 5], [2, 0]]}}, *({"orders": {"insert": [[1, n]]}} for n in range(4)))
        before = shop.project
        source = SourceDefinition(SOURCE, "http", {"listen": False, "tables": {"orders": wider}})
        shop.project = replace(before, sources=(source,))
        with pytest.raises(HeadraceError, match="the new version of view shares fails"):
            shop.define({"shares": "SELECT id, 10 div amount AS share FROM orders"})
        shop.project = before
        assert shop.pipeline.project.sources == before.sources
        assert aside(shop) == [1, 1, 1, 1]
        stepped(shop, {"orders": {"insert": [[2, 9], [3, 1]]}})
        assert aside(shop) == [1, 1, 1, 1, 2]
        shop.verify()


def aside(shop: Running) -> list[int]:
    found, _ = quarantine.entries(shop.folder, "orders", None)
    return sorted(entry["row"]["id"] for entry in found)


def test_a_step_that_failed_half_way_is_not_gone_on_with(shop: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(shop, VIEWS)
    shop.push({"orders": {"insert": [[4, 1, 10]]}, "clicks": {"insert": [["a", 1]]}})
    with monkeypatch.context() as patch:
        patch.setattr(Maintainer, "publish", full)
        with pytest.raises(OSError, match="No space left"):
            shop.step()
    saved = shop.pipeline.catalog.checkpoint()
    for again in (shop.step, shop.pipeline.maintainer.checkpoint, shop.pipeline.maintainer.tidy):
        with pytest.raises(OSError, match="No space left"):
            again()
    assert shop.pipeline.catalog.checkpoint() == saved
    shop.reopen()
    assert shop.contents("counts") == rows((1, 3), (2, 1))
    assert shop.contents("dues") == rows((1, 170), (2, 80))
    stepped(shop, {"orders": {"delete": [[4]]}})
    assert shop.contents("dues") == rows((1, 70), (2, 80))
    shop.verify()


def test_a_command_that_leaves_state_torn_ends_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asked hears why, as does who waits for the engine; what stopped is asked in vain."""
    project = ProjectFolder(tmp_path / "shop")
    project.settings()
    project.source(SOURCE, "http", port=0, tables=TABLES)
    project.view("counts", COUNT)
    pipeline = Pipeline(read(project.path))
    pipeline.start()
    try:
        monkeypatch.setattr(Maintainer, "publish", full)
        with pytest.raises(HeadraceError, match="no space is left") as caught:
            pipeline.on_engine(lambda: (_pushed(pipeline), pipeline.maintainer.step()))
        with pytest.raises(HeadraceError) as ended:
            pipeline.wait(30)
        assert ended.value.code == caught.value.code == "state.full"
    finally:
        pipeline.stop()
    again = Pipeline(read(project.path))
    monkeypatch.undo()
    again.start()
    try:
        again.wait_for(again.push(SOURCE, [{"table": "orders", "op": "insert", "row": _order(5)}]))
        assert again.show("counts").to_pylist() == [{"customer": 1, "n": 2}]
    finally:
        again.stop()
    with pytest.raises(HeadraceError, match=r"project\.not_running"):
        again.plan()


def _pushed(pipeline: Pipeline) -> None:
    pipeline.push(SOURCE, [{"table": "orders", "op": "insert", "row": _order(4)}])


def _order(key: int) -> dict[str, int]:
    return {"id": key, "customer": 1, "amount": 1}
