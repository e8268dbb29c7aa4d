"""Goal: the building and verifying of views, and the recorded steps that are taken again after a crash, tell how far they are; to who
runs the product and to who asked for it by a verb.

Method: a project at work in this process, its control socket included; told from the first moment, which is else left
out. The crash is a copy of the folder, made while it runs.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.catalog.project import read
from headrace.control import lock, socket
from headrace.control.socket import ControlServer
from headrace.control.verbs import Dispatcher
from headrace.engine import building, maintain, told_jobs
from headrace.engine.pipeline import Pipeline
from project_folder import ProjectFolder

pytestmark = pytest.mark.spark

ORDERS = {"columns": {"id": "bigint", "customer": "bigint"}, "key": ["id"]}
ROWS = 500
NEW = ("customers", "orders")


@pytest.fixture
def shop(project: ProjectFolder, monkeypatch: pytest.MonkeyPatch) -> ProjectFolder:
    for module in (building, maintain):
        monkeypatch.setattr(module, "TOLD_S", 0.0)
    project.settings(checkpoint_seconds=3600)
    project.source("shop", "http", listen=False, tables={"orders": ORDERS})
    return project


def progress(events: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(e[name] for name in ("text", *names)) for e in events if e["event"] == "progress"]


def test_the_building_of_views(spark: Any, shop: ProjectFolder) -> None:
    events: list[dict[str, Any]] = []
    heard: list[dict[str, Any]] = []
    shop.view("all_orders", "SELECT id, customer FROM orders")
    pipeline = Pipeline(read(shop.path), on_event=events.append)
    dispatcher = Dispatcher(shop.path, lambda: None)
    with lock.hold(shop.path, "headrace up"), ControlServer(shop.path, dispatcher.handle):
        pipeline.start()
        dispatcher.attach(pipeline)
        try:
            assert pipeline.ingests["shop"].ready.wait(60)
            rows = [{"table": "orders", "op": "insert", "row": {"id": n, "customer": n % 7}} for n in range(ROWS)]
            pipeline.wait_for(pipeline.push("shop", rows))
            events.clear()
            shop.view("customers", "SELECT customer, count(*) AS n FROM orders GROUP BY customer")
            shop.view("double", "SELECT customer, n * 2 AS n FROM customers")
            socket.request(shop.path, "apply", {}, heard.append)
            assert sum(row["n"] for row in pipeline.show("double").to_pylist()) == 2 * ROWS
            verified: list[dict[str, Any]] = []
            assert socket.request(shop.path, "verify", {}, verified.append)["differences"] == 0
        finally:
            pipeline.stop()
    expected = [
        ("building view customers, 1 of 2, over rows", 0, ROWS),
        ("building view double, 2 of 2, over rows", ROWS, ROWS + 7),  # and what the first has given
    ]
    assert progress(events, "done", "total") == expected
    assert [(event["text"], event["done"], event["total"]) for event in heard if "done" in event] == expected
    # The table's rows and the view's own; of views that read each other both.
    total = ROWS + ROWS + ROWS + 7 + 7 + 7
    begun = {event["text"]: event for event in reversed(verified) if "done" in event}
    assert [(text, event["done"], event["total"]) for text, event in reversed(begun.items())] == [
        ("verifying all_orders, 1 of 3, over rows", 0, total),
        ("verifying customers, 2 of 3, over rows", 2 * ROWS, total),
        ("verifying double, 3 of 3, over rows", 3 * ROWS + 7, total),
    ]
    second = [event for event in heard if "done" in event][1]
    assert second["per_s"] > 0 and (second["left_s"] or 0) < 10


def test_while_a_view_is_built_it_is_told_what_is_known(
    spark: Any, shop: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For how long it goes on and, once some of its tasks have ended, how far it is and about how long it takes."""
    events: list[dict[str, Any]] = []
    shop.view("all_orders", "SELECT id, customer FROM orders")
    pipeline = Pipeline(read(shop.path), on_event=events.append)
    pipeline.start()
    try:
        assert pipeline.ingests["shop"].ready.wait(60)
        rows = [{"table": "orders", "op": "insert", "row": {"id": n, "customer": n % 7}} for n in range(ROWS)]
        pipeline.wait_for(pipeline.push("shop", rows))
        shares, view, going = iter([0.0, 0.5]), pipeline.maintainer.backfill.view, threading.Event()

        def share(*_: Any) -> float:
            found = next(shares, None)
            going.set() if found is None else None
            return 0.5 if found is None else found

        def slow(*arguments: Any) -> Any:
            assert going.wait(60)
            return view(*arguments)

        monkeypatch.setattr(told_jobs, "TOLD_S", 0.02)
        monkeypatch.setattr(told_jobs, "_share", share)
        monkeypatch.setattr(pipeline.maintainer.backfill, "view", slow)
        events.clear()
        shop.view("customers", "SELECT customer, count(*) AS n FROM orders GROUP BY customer")
        pipeline.apply(read(shop.path))
    finally:
        pipeline.stop()
    text = "building view customers, 1 of 1, over rows"
    told = progress(events, "done", "total")
    assert told[:3] == [(text, done, ROWS) for done in (0, 0, ROWS // 2)]
    assert progress(events, "per_s", "left_s")[:2] == [(text, None, None)] * 2
    assert next(event["per_s"] for event in events if event.get("done")) > 0
    since = [event["for_s"] for event in events if event["event"] == "progress"]
    assert since == sorted(since) and since[-1] < 60


def test_an_estimate_is_of_what_was_last_known_and_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three views of 100 rows, told every ten seconds; nothing is known of the third's jobs."""
    events: list[dict[str, Any]] = []
    shares = {"second": [0.5, 0.5, 0.25, 0.75], "third": [0.5]}
    maintainer: Any = SimpleNamespace(tell=events.append, spark=SimpleNamespace(sparkContext=None))
    views = building.Building(maintainer, "building view {0}", dict.fromkeys(["first", *shares]), wide_rows=300)
    views.pace.began = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: len(events) * 10.0)
    for name in views.names:
        views.found(name, 100)
    views.turn("first")
    for name, known in shares.items():
        monkeypatch.setattr(building, "telling", lambda _, tell, known=known: nullcontext([*map(tell, known)]))
        views.turn(name)
        views.followed(name, lambda: None, jobs_known=name == "second")
    assert [(event["text"].split()[2], event["done"], event["per_s"], event["left_s"]) for event in events] == [
        ("first,", 0, None, None),
        ("second,", 100, 10.0, 20.0),
        ("second,", 150, 7.5, 20.0),
        ("second,", 150, 7.5, 10.0),
        ("second,", 150, 7.5, None),  # it passed; another stage has begun, and nothing goes back
        ("second,", 175, 3.5, 35.7),
        ("third,", 200, 3.3, 30.0),
        ("third,", 200, 3.3, 20.0),
    ]


def test_the_first_contents_of_tables(spark: Any, shop: ProjectFolder) -> None:
    """Which nothing has read before, out of the log, those of one table without rows not told."""
    events: list[dict[str, Any]] = []
    shop.source("shop", "http", listen=False, tables={"orders": ORDERS, "customers": ORDERS, "none": ORDERS})
    pipeline = Pipeline(read(shop.path), on_event=events.append)
    pipeline.start()
    try:
        assert pipeline.ingests["shop"].ready.wait(60)
        rows = [{"table": "orders", "op": "insert", "row": {"id": n, "customer": 1}} for n in range(ROWS)]
        pipeline.wait_for(pipeline.push("shop", [*rows, {**rows[0], "table": "customers"}]))
        events.clear()
        for table in (*NEW, "none"):
            shop.view(f"of_{table}", f"SELECT count(*) AS n FROM {table}")
        pipeline.apply(read(shop.path))
        assert pipeline.show("of_orders").to_pylist() == [{"n": ROWS}]
    finally:
        pipeline.stop()
    told = [each for each in progress(events, "done", "total") if "table" in each[0]]
    texts = list(dict.fromkeys(text for text, *_ in told))
    assert texts == [f"reading table {name} from the log, {n} of 2, over rows" for n, name in enumerate(NEW, 1)]
    assert told[0][1:] == (0, ROWS + 1)


def test_the_share_of_a_job_that_is_done_while_it_runs(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told_jobs, "TOLD_S", 0.05)

    def slow(pieces: Iterator[Any]) -> Iterator[Any]:
        for piece in pieces:
            time.sleep(0.05)
            yield piece

    shares: list[float] = []
    with told_jobs.telling(spark.sparkContext, shares.append):
        assert spark.range(0, 24, 1, 24).mapInArrow(slow, "id bigint").count() == 24
    assert shares == sorted(shares) and shares[-1] <= 1
    assert any(0.1 < share < 0.9 for share in shares)


def test_steps_that_are_taken_again_after_a_crash(spark: Any, shop: ProjectFolder, tmp_path: Path) -> None:
    shop.view("customers", "SELECT customer, count(*) AS n FROM orders GROUP BY customer")
    pipeline = Pipeline(read(shop.path))
    pipeline.start()
    try:
        assert pipeline.ingests["shop"].ready.wait(60)
        for number in range(3):
            row = {"table": "orders", "op": "insert", "row": {"id": number, "customer": 1}}
            pipeline.wait_for(pipeline.push("shop", [row]))
        crashed = tmp_path / "crashed"
        shutil.copytree(shop.path, crashed, ignore=shutil.ignore_patterns("*.sock"))
    finally:
        pipeline.stop()
    events: list[dict[str, Any]] = []
    again = Pipeline(read(crashed), on_event=events.append)
    again.start()
    try:
        assert again.show("customers").to_pylist() == [{"customer": 1, "n": 3}]
    finally:
        again.stop()
    told = progress(events, "done", "total")
    assert told == [("taking recorded steps again", done, len(told)) for done in range(len(told))] and len(told) >= 3


def test_a_large_step_says_so(spark: Any, shop: ProjectFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintain, "WIDE_ROWS", ROWS)
    shop.view("customers", "SELECT customer, count(*) AS n FROM orders GROUP BY customer")
    events: list[dict[str, Any]] = []
    pipeline = Pipeline(read(shop.path), on_event=events.append)
    pipeline.start()
    try:
        assert pipeline.ingests["shop"].ready.wait(60)
        rows = [{"table": "orders", "op": "insert", "row": {"id": n, "customer": 1}} for n in range(ROWS)]
        pipeline.wait_for(pipeline.push("shop", rows))
        assert pipeline.show("customers").to_pylist() == [{"customer": 1, "n": ROWS}]
    finally:
        pipeline.stop()
    assert [text for (text,) in progress(events) if text.startswith("taking")] == [
        f"taking {ROWS} changes into the views"
    ]
