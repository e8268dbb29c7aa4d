"""Goal: a wait ends when what it asks for has reached the write, and says at once, or in time, when it will not.

Method: a real log and catalogue; views, sinks and sources that stand where the test puts them, without Spark.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.catalog.store import Catalog, ErrorRow, StepShape, ViewRecord
from headrace.engine import frontier as waiting
from headrace.engine.ingest import Ingest
from headrace.engine.reached import reached
from headrace.log.append import LogWriter
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column, ViewSchema
from headrace.model.transaction import TransactionBatch, TransactionOrigin
from headrace.serve import frontier as published
from headrace.serve.frontier import Clock
from headrace.sources.base import Source

LATE_S = 0.15


class Numbered(Source):
    """A source whose positions are numbers; points are spelled ``p7``. What it hands on is put there by the test."""

    def __init__(self, name: str = "shop") -> None:
        self.name, self.batches, self.at = name, list[TransactionBatch](), 0

    def relations(self) -> tuple[Any, ...]:
        return ()

    def start(self, tables: frozenset[str], position: str | None) -> None:
        self.at = int(position or 0)

    def add(self, tables: frozenset[str]) -> None: ...

    def poll(self, wait_s: float) -> TransactionBatch | None:
        time.sleep(0.001)
        return self.batches.pop(0) if self.batches else None

    def confirm(self, batch: TransactionBatch, first_commit: int) -> None: ...

    def close(self) -> None: ...

    def holding(self, point: str, tables: frozenset[str]) -> Callable[[str], bool]:
        if not point.startswith("p"):
            return super().holding(point, tables)
        return lambda position: int(position) >= int(point[1:])

    def seen(self) -> str | None:
        return str(self.at)


class Product:
    """What a wait knows of a pipeline."""

    def __init__(self, folder: Path) -> None:
        self.project_path, self.folder = folder, folder / ".headrace"
        self.folder.mkdir()
        self.log, self.catalog = (
            LogWriter(self.folder / "log", segment_bytes=1 << 15),
            Catalog(self.folder / "catalog.db"),
        )
        self.clock = Clock(self.folder / "log")
        self.maintainer = SimpleNamespace(frontier=0, views={"revenue": None, "Daily": None})
        for name in ("revenue", "Daily", "broken"):
            schema = ViewSchema(name, 1, (Column("n", "int"),), ())
            self.catalog.put_view(ViewRecord(schema, "", "", "live", "", 0))
        self.catalog.set_view_state("broken", 1, "failed", "it divides by zero")
        self.catalog.put_error_rows("broken", 1, [ErrorRow("t", 0, b"", "{}", 1, 1, "by zero")])
        self.delivers: dict[str, Any] = {}
        self.ingests: dict[str, Any] = {}
        self.refused: dict[str, HeadraceError] = {}
        self.error: HeadraceError | None = None
        self.stopping = False
        self.waits = waiting.Waits(self)  # type: ignore[arg-type]

    def write(self, count: int = 1, source: str = "pushed", position: str = "") -> int:
        origin = TransactionOrigin(source, position, time.time_ns() // 1000)
        return self.log.append(TransactionBatch((origin,) * count, {})) + count - 1

    def sink(self, name: str, at: int, error: HeadraceError | None = None, *, over: bool = False) -> None:
        named = SimpleNamespace(name=name)
        ended, state = error if over else None, "failed" if error else "running"
        self.delivers[name] = SimpleNamespace(
            sink=named, reached=at, error=error, ended=ended, paused=False, state=state
        )

    def wait(self, token: int | str, timeout_s: float = LATE_S, **of: Any) -> dict[str, Any]:
        return self.waits.wait_for(
            token, timeout_s, of.get("view"), of.get("sink"), of.get("on_progress"), of.get("whose")
        )

    def fails(self, code: str, token: int | str, **of: Any) -> HeadraceError:
        with pytest.raises(HeadraceError) as caught:
            self.wait(token, **of)
        assert caught.value.code == code, caught.value
        return caught.value

    def publish(self, upto: int) -> None:
        self.catalog.record_step(upto, upto - 1, upto, StepShape(), 0)
        self.catalog.publish(upto, [], 1)


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    made = Product(tmp_path)
    yield made
    for ingest in made.ingests.values():
        ingest.close()
    made.log.close()
    made.catalog.close()


def test_every_live_view_and_every_sink_is_waited_for_unless_one_is_named(product: Product) -> None:
    product.write(4)
    product.maintainer.frontier = 3
    product.sink("out", 2)
    assert product.wait(2) == {"token": "2", "commit": 2, "reached": 2, "of": "every live view and every sink"}
    assert product.wait("3", view="revenue") == {"token": "3", "commit": 3, "reached": 3, "of": "view revenue"}
    assert product.wait(3, view="DAILY")["of"] == "view Daily"
    assert product.wait(1, sink="Out") == {"token": "1", "commit": 1, "reached": 2, "of": "sink out"}
    late = product.fails("wait.timeout", 3)
    assert isinstance(late, TimeoutError)
    assert late.what == "every live view and every sink has not reached commit 3 within 0.15 s"
    assert late.why == "sink out is at commit 2"
    assert product.fails("wait.timeout", 4).why == "the views are at commit 3; sink out is at commit 2"
    assert product.fails("wait.timeout", 4, view="revenue").why == "view revenue is at commit 3"
    assert product.fails("wait.timeout", 3, sink="out").why == "sink out is at commit 2"


def test_a_wait_ends_when_the_last_of_them_is_there(product: Product) -> None:
    product.write(2)
    product.sink("out", 0)
    told = list[dict[str, Any]]()
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(product.wait, 2, 20.0, on_progress=told.append)
        product.maintainer.frontier = 2
        time.sleep(0.1)
        assert not answer.done()
        product.delivers["out"].reached = 2
        assert answer.result(5)["reached"] == 2
    assert told[0]["text"].startswith("waiting for commit 2; ")


def test_what_will_never_be_reached_is_refused_at_once(product: Product) -> None:
    product.write(2)
    began = time.monotonic()
    beyond = product.fails("wait.token", 3, timeout_s=60)
    assert beyond.what == "commit 3 is not known: the log ends at commit 2"
    broken = product.fails("view.failed", 2, timeout_s=60, view="broken")
    assert (broken.what, broken.why) == ("view broken has failed at commit 1", "it divides by zero")
    assert product.wait(1, view="broken")["reached"] == 1  # it holds that write all the same
    assert product.fails("view.unknown", 2, view="revenu").next == "did you mean 'revenue'?"
    assert product.fails("sink.unknown", 2, sink="out").next == "sinks: none"
    assert "not both" in product.fails("wait.token", 2, view="revenue", sink="out").what
    product.sink("out", 0, HeadraceError("sink.fenced", "another has it"), over=True)
    assert product.fails("sink.fenced", 2, timeout_s=60).what == "sink out has stopped: another has it"
    product.refused["later"] = HeadraceError("sql.refused", "not that")
    assert product.fails("sql.refused", 2, view="later").what == "not that"
    product.stopping = True
    product.fails("project.not_running", 2, timeout_s=60, view="revenue")
    product.error = HeadraceError("log.failed", "the disk is gone")
    product.fails("log.failed", 2, timeout_s=60, view="revenue")
    assert time.monotonic() - began < 5


def test_a_sink_that_cannot_be_reached_is_waited_for_and_named(product: Product) -> None:
    product.write()
    product.maintainer.frontier = 1
    product.sink("out", 0, HeadraceError("sink.connect", "no route to host"))
    why = product.fails("wait.timeout", 1).why
    assert why == "sink out is at commit 0, failed: [sink.connect] no route to host"
    assert product.wait(1, view="revenue")["reached"] == 1


@pytest.mark.parametrize("token", ["", "-1", "1.5", "soon", "nobody:1", ":1", "1e3", "²"])
def test_what_is_no_token_is_refused(product: Product, token: str) -> None:
    product.ingests = {"a": None, "b": None}
    product.fails("wait.token", token)
    product.ingests.clear()


def test_only_so_many_wait_at_once_and_who_leaves_makes_room(product: Product) -> None:
    product.write()
    left = threading.Event()

    class Left(Exception):
        pass

    def gone(event: dict[str, Any]) -> None:
        if left.is_set():
            raise Left

    with ThreadPoolExecutor(waiting.WAITERS) as pool:
        waits = list[Future[Any]]()
        for whose, count in (("ada", waiting.WAITERS_OF_ONE), ("bo", 1), (None, waiting.WAITERS_OF_ONE - 1)):
            waits += [pool.submit(product.wait, 1, 60.0, on_progress=gone, whose=whose) for _ in range(count)]
            end = time.monotonic() + 10
            while product.waits._places.taken < len(waits) and time.monotonic() < end:
                time.sleep(0.01)
            assert product.fails("wait.busy", 1, whose="ada").what == (
                "8 wait by this token already" if whose is not None else "16 wait already"
            )
        product.fails("wait.busy", 1)
        product.sink("out", 1)
        assert product.wait(1, sink="out")["reached"] == 1  # what is there already needs no room
        del product.delivers["out"]
        left.set()
        assert len(waits) == 16 and all(isinstance(wait.exception(5), Left) for wait in waits)
    product.fails("wait.timeout", 1)


# ---- points of sources


@pytest.fixture
def shop(product: Product) -> Numbered:
    source = Numbered()
    product.ingests["shop"] = Ingest(source, product.log, frozenset(), lambda event: None)
    product.ingests["shop"].start()
    return source


def logged(product: Product, source: Numbered, *positions: int) -> int:
    """These transactions come of the source; the log's end once it has them."""
    end = product.log.end
    origins = tuple(TransactionOrigin(source.name, str(p), 0) for p in positions)
    source.at = positions[-1]
    source.batches.append(TransactionBatch(origins, {}))
    return product.log.wait(end + len(positions) - 1, 10)


def test_a_point_is_the_first_commit_at_which_the_log_has_it_all(product: Product, shop: Numbered) -> None:
    """Among the commits of two sources, in several segments."""
    expected = {}
    for n in range(10, 3000, 10):
        if n % 700 == 0:
            product.write(300)
        expected[n] = logged(product, shop, n)
    product.write(500)
    product.maintainer.frontier = product.log.end
    assert len(list((product.folder / "log").glob("*.segment"))) > 3
    for n in [*range(10, 2990, 130), 2990]:
        assert product.wait(f"shop:p{n}")["commit"] == expected[n]
        assert product.wait(f"p{n - 9}")["commit"] == expected[n]  # the only source need not be named
    assert product.wait("shop:p0")["commit"] == expected[10]


def test_an_idle_source_that_has_come_far_enough_blocks_nobody(product: Product, shop: Numbered) -> None:
    commit = logged(product, shop, 5)
    product.write(3)  # of others
    product.maintainer.frontier = commit
    assert "source shop is at 5 (running)" in product.fails("wait.timeout", "shop:p8").why
    shop.at = 9  # without a transaction
    assert product.wait("shop:p8", 5.0) == {
        "token": "shop:p8", "commit": commit, "reached": commit, "of": "every live view and every sink",
    }  # fmt: skip


def test_a_point_waits_for_its_transaction_and_then_for_the_views(product: Product, shop: Numbered) -> None:
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(product.wait, "shop:p20", 20.0, view="revenue")
        time.sleep(0.05)
        commit = logged(product, shop, 20)
        time.sleep(0.1)
        assert not answer.done()
        product.maintainer.frontier = commit
        assert answer.result(5)["commit"] == commit


def test_a_source_without_an_order_of_its_own_refuses(product: Product, shop: Numbered) -> None:
    error = product.fails("wait.token", "shop:x")
    assert error.next == "wait for a commit number"


def test_a_source_that_has_ended_is_not_waited_for(product: Product, shop: Numbered) -> None:
    broken = HeadraceError("source.schema", "a column went")

    def poll(wait_s: float) -> TransactionBatch | None:
        raise broken

    shop.poll = poll  # type: ignore[method-assign]
    product.ingests["shop"].join(10)
    assert product.fails("source.schema", "p1", timeout_s=60).what == "source shop has stopped: a column went"


def test_while_a_source_is_begun_anew_its_older_positions_do_not_count(product: Product) -> None:
    product.write(1, "shop", "900")
    source = Numbered()
    begun = threading.Event()
    product.ingests["shop"] = Ingest(source, product.log, frozenset(), lambda event: None, begun.set)
    product.ingests["shop"].start()
    product.fails("wait.timeout", "p5")
    logged(product, source, 90)  # of another server, say
    assert begun.wait(5)
    commit = logged(product, source, 110)
    product.maintainer.frontier = commit
    assert product.wait("p100", 5.0)["commit"] == commit


# ---- the frontier


def test_the_frontier_is_the_least_of_live_views_and_all_sinks(product: Product) -> None:
    product.write(10)
    product.maintainer.frontier = 8
    product.sink("slow", 5, HeadraceError("sink.connect", "no route"))
    product.sink("quick", 8)
    found = waiting.frontier(product)  # type: ignore[arg-type]
    assert (found["commit"], found["least"], found["lag"]) == (10, 5, 5)
    assert 0 <= found["behind_s"] < 60
    assert [(v["name"], v["commit"], v["lag"], v["in_least"]) for v in found["views"]] == [
        ("Daily", 8, 2, True), ("broken", 1, 9, False), ("revenue", 8, 2, True),
    ]  # fmt: skip
    assert [(s["name"], s["state"], s["commit"]) for s in found["sinks"]] == [
        ("slow", "failed", 5),
        ("quick", "running", 8),
    ]
    product.delivers.clear()
    assert waiting.frontier(product)["least"] == 8  # type: ignore[arg-type]


def test_the_files_of_a_stopped_project_tell_the_same(product: Product) -> None:
    folder = product.project_path
    (folder / "headrace.yaml").write_text("")
    for kind, name, text in (("sinks", "late", "type: duckdb\npath: x"), ("sinks", "out", "type: duckdb\npath: y"),
                             ("sources", "shop", "type: postgres\nhost: h\ndatabase: d\nuser: u\n")):  # fmt: skip
        (folder / kind).mkdir(exist_ok=True)
        (folder / kind / f"{name}.yaml").write_text(text)
    positions = ['{"lsn": "0/10", "tables": ["a"]}', '{"lsn": "0/20", "tables": ["a"]}']
    commits = [product.write(2), *(product.write(1, "shop", position) for position in positions), product.write(2)]
    product.publish(5)
    product.catalog.put_sink("out", 4, "", 1)
    found = published.look(folder)
    assert (found["commit"], found["least"]) == (commits[-1], 0)  # `late` was never written to
    assert {v["name"]: (v["commit"], v["in_least"]) for v in found["views"]} == {
        "Daily": (5, True), "revenue": (5, True), "broken": (1, False),
    }  # fmt: skip
    assert {s["name"]: s["commit"] for s in found["sinks"]} == {"late": 0, "out": 4}
    assert reached(folder, "shop:0/11", None, "out")["commit"] == commits[2]
    assert reached(folder, "0/10", "revenue", None) == {
        "token": "0/10", "commit": commits[1], "reached": 5, "of": "view revenue",
    }  # fmt: skip
    assert reached(folder, "6", "revenue", None)["reached"] is None
    assert (
        reached(folder, "4", None, None)["why"]
        == "commit 4 is not reached yet: every live view and every sink is at commit 0"
    )
    assert reached(folder, "0/21", "revenue", None)["why"].startswith("the log does not hold 0/21 yet")
    for token, view in (("7", None), ("0/zz", None), ("4", "broken"), ("4", "nothing")):
        with pytest.raises(HeadraceError):
            reached(folder, token, view, None)
