"""Goal: a query that takes too long or too much ends, alone: views are kept up to date meanwhile, and the next one is answered.

Method: queries that Spark cannot end, asked of a running project, whose JVM must stay the same.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from headrace.catalog.project import read
from headrace.engine.enclosed import Enclosed
from headrace.engine.pipeline import Pipeline
from headrace.model.errors import HeadraceError
from project_folder import ProjectFolder

TABLES = {"orders": {"columns": {"id": "int not null", "n": "int"}, "key": "id"}}
FROZEN = "SELECT rlike(repeat('a', 300), '.*.*.*.*.*.*b') AS found FROM orders"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    folder = ProjectFolder(tmp_path_factory.mktemp("enclosed") / "shop")
    folder.settings(driver_memory="600m", query_seconds=30)
    folder.source("shop", "http", port=0, tables=TABLES)
    folder.view("counted", "SELECT count(*) AS n FROM orders")
    pipeline = Pipeline(read(folder.path))
    pipeline.start()
    push(pipeline, 1)
    yield pipeline
    begun = children(pipeline)
    pipeline.stop()
    assert begun and not [each for each in begun if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]


def push(shop: Pipeline, number: int) -> None:
    row = {"id": number, "n": 7}
    shop.wait_for(shop.push("shop", [{"table": "orders", "op": "insert", "row": row}]))


def ask(shop: Pipeline, text: str, seconds: float | None = None, wanted: Any = lambda: True) -> list[tuple[Any, ...]]:
    found = shop.query(text, seconds, wanted, None)
    return [tuple(row.values()) for row in found.rows.to_pylist()]


def refused(shop: Pipeline, text: str, seconds: float | None = None, wanted: Any = lambda: True) -> HeadraceError:
    with pytest.raises(HeadraceError) as caught:
        ask(shop, text, seconds, wanted)
    return caught.value


def children(shop: Pipeline) -> list[psutil.Process]:
    assert isinstance(shop.asking, Enclosed) and shop.asking._process is not None
    return [found := psutil.Process(shop.asking._process.pid), *found.children(recursive=True)]


def goes_on(shop: Pipeline) -> None:
    ((number,),) = ask(shop, "SELECT n FROM counted")
    push(shop, number + 1)
    assert ask(shop, "SELECT n, (SELECT count(*) FROM orders) AS m FROM counted") == [(number + 1, number + 1)]


def test_a_query_that_no_cancellation_ends_ends_with_its_time(shop: Pipeline) -> None:
    goes_on(shop)
    ((number,),) = ask(shop, "SELECT n FROM counted")
    began = time.monotonic()
    frozen = threading.Thread(target=lambda: errors.append(refused(shop, FROZEN, 2)))
    errors: list[HeadraceError] = []
    frozen.start()
    push(shop, number + 1)  # while it is at work
    frozen.join(30)
    assert [error.code for error in errors] == ["query.timeout"]
    assert time.monotonic() - began < 20
    goes_on(shop)


def test_a_query_that_nobody_waits_for_ends(shop: Pipeline) -> None:
    left = time.monotonic() + 1
    began = time.monotonic()
    assert refused(shop, FROZEN, 30, lambda: time.monotonic() < left).code == "query.canceled"
    assert time.monotonic() - began < 20
    goes_on(shop)


@pytest.mark.parametrize(("text", "code", "why"), [
    ("SELECT length(format_string('%2000000000d', id)) AS n FROM orders", "sql.analysis", "more than 16 MiB"),
    ("SELECT size(collect_list(concat(id, repeat('x', 10000000)))) AS n FROM range(1000)", "query.memory", "memory"),
    ("SELECT length(aggregate(sequence(1, 40), 'a', (t, x) -> concat(t, t))) AS n FROM orders", "query.memory", "memory"),
])  # fmt: skip
def test_a_query_that_takes_too_much_ends(text: str, code: str, why: str, shop: Pipeline) -> None:
    error = refused(shop, text)
    assert (error.code, why in str(error)) == (code, True), error
    goes_on(shop)


def test_what_answers_may_be_killed(shop: Pipeline) -> None:
    goes_on(shop)
    killed = children(shop)
    for each in killed:
        each.kill()
    psutil.wait_procs(killed[1:], 10)
    goes_on(shop)
