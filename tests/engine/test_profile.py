"""Goal: `headrace profile` tells truly where the time of the steps that change a view goes.

Method: a project at work in this process, its control socket included, while a thread pushes changes.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.catalog.project import read
from headrace.control import lock, profile
from headrace.control.socket import ControlServer
from headrace.control.verbs import Dispatcher
from headrace.engine.pipeline import Pipeline
from headrace.engine.shares import PHASES
from headrace.model.errors import HeadraceError
from project_folder import ProjectFolder

pytestmark = pytest.mark.spark

TABLES = {
    "customers": {"columns": {"id": "int", "region": "string"}, "key": ["id"]},
    "orders": {"columns": {"id": "int", "customer": "int", "amount": "int"}, "key": ["id"]},
    "notes": {"columns": {"id": "int", "text": "string"}, "key": ["id"]},
}
VIEWS = {
    "revenue": "SELECT region, count(*) AS n, sum(amount) AS total FROM orders JOIN customers c ON c.id = customer "
    "GROUP BY region",
    "words": "SELECT soundex(text) AS sound, count(*) AS n FROM notes GROUP BY soundex(text)",
    "share": "SELECT id, 100 / amount AS share FROM orders",
}
STEPS = 4


class AtWork:
    """A running pipeline, and who pushes into it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.pipeline, self.rows = folder, Pipeline(read(folder)), 0

    def push(self, table: str, **row: Any) -> int:
        self.rows += 1
        commit = self.pipeline.push("shop", [{"table": table, "op": "insert", "row": {"id": self.rows, **row}}])
        self.pipeline.wait_for(commit)
        return commit

    @contextmanager
    def pushing(self, table: str, **row: Any) -> Iterator[None]:
        enough = threading.Event()

        def go_on() -> None:
            while not enough.is_set():
                self.push(table, **row)

        thread = threading.Thread(target=go_on)
        thread.start()
        try:
            yield
        finally:
            enough.set()
            thread.join()

    def profile(self, view: str, steps: int = STEPS, seconds: float = 60.0) -> dict[str, Any]:
        asked = {"view": view, "steps": steps, "seconds": seconds}
        return profile.ask(self.folder, asked, lambda event: None, None)


@pytest.fixture
def at_work(spark: Any, project: ProjectFolder) -> Iterator[AtWork]:
    project.source("shop", "http", listen=False, tables=TABLES)
    for name, text in VIEWS.items():
        project.view(name, text)
    made = AtWork(project.path)
    dispatcher = Dispatcher(project.path, lambda: None)
    with lock.hold(project.path, "headrace up"), ControlServer(project.path, dispatcher.handle):
        made.pipeline.start()
        dispatcher.attach(made.pipeline)
        try:
            made.pipeline.ingests["shop"].ready.wait(60)
            yield made
        finally:
            made.pipeline.stop()


def checked(answer: dict[str, Any], view: str) -> dict[str, dict[str, Any]]:
    """Phase -> what is told of it, once that is found to be in itself right."""
    assert json.loads(json.dumps(answer)) == answer
    assert answer["view"] == view and answer["steps"] == len(answer["each"]) == STEPS
    for step in answer["each"]:
        assert tuple(step["phases"]) == PHASES
        assert min(step["phases"].values()) >= 0
        assert sum(step["phases"].values()) == pytest.approx(step["ms"], abs=1e-3)
        assert step["phases"]["other"] < 0.01 * step["ms"]
        assert step["rows"] > 0
    walls = [step["ms"] for step in answer["each"]]
    assert answer["wall"]["largest_ms"] == pytest.approx(max(walls), abs=1e-3)
    assert sum(walls) < 1000 * answer["seconds"]
    assert sum(phase["share"] for phase in answer["phases"]) == pytest.approx(1, abs=0.01)
    return {phase["phase"]: phase for phase in answer["phases"]}


def test_the_phases_of_live_steps_add_up_to_their_wall_time(at_work: AtWork) -> None:
    at_work.push("customers", region="north")
    at_work.push("orders", customer=1, amount=5)
    with at_work.pushing("orders", customer=1, amount=7):
        began = time.monotonic()
        told = checked(answer := at_work.profile("revenue"), "revenue")
        assert answer["seconds"] <= time.monotonic() - began
    for phase in (
        "driver",
        "catalogue",
        "jvm",
        "python_start",
        "arrow",
        "log",
        "operators",
        "probe",
        "write",
        "publish",
    ):
        assert told[phase]["median_ms"] > 0, phase
    assert told["log"]["rows"] == 1
    # Each order finds its customer and the group's row before, by both of which the new ones are made; and is kept.
    assert told["probe"]["rows"] >= 2 and told["write"]["rows"] >= 2
    assert (
        told["publish"]["rows"] >= 3
    )  # of the table the order, of the views a group less and a group more, and a share
    assert {step["rows"] for step in answer["each"]} == {2}
    assert answer["others"] == 0

    # A step of several jobs, with exchanges: what Python cannot compute goes through Spark.
    at_work.push("notes", text="Robert")
    with at_work.pushing("notes", text="Rupert"):
        told = checked(at_work.profile("words"), "words")
    assert told["python_start"]["median_ms"] > 0 and told["probe"]["rows"] >= 1

    # While nobody asks, nothing is noted.
    at_work.push("orders", customer=1, amount=7)
    files = [path.name for path in at_work.pipeline.maintainer.stepper.folder.rglob("spans~*")]
    assert files == []


def test_a_view_that_no_step_changes_that_is_unknown_or_has_failed(at_work: AtWork) -> None:
    with at_work.pushing("notes", text="Robert"):
        answer = at_work.profile("revenue", seconds=8)
    assert answer["steps"] == 0 and answer["others"] > 0 and answer["seconds"] >= 8
    assert answer["phases"] == [] and answer["each"] == []

    with pytest.raises(HeadraceError) as unknown:
        at_work.profile("revenu")
    assert (unknown.value.code, unknown.value.next) == ("view.unknown", "did you mean 'revenue'?")

    at_work.pipeline.push("shop", [{"table": "orders", "op": "insert", "row": {"id": 900, "customer": 1, "amount": 0}}])
    at_work.push("notes", text="a step later")
    with pytest.raises(HeadraceError) as failed:
        at_work.profile("share")
    assert failed.value.code == "view.failed" and "share" in failed.value.what
