"""Goal: a sink that is paused is given nothing, also after a new start, and then all that it lacked, once.

Method: a real DuckDB file behind the thread that delivers; views published by hand, whose rows the test adds up.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb

from headrace.catalog.store import Catalog
from headrace.engine.connectors import make_sink
from headrace.engine.deliver import Deliver
from headrace.log.append import LogWriter
from headrace.log.read import LogReader
from headrace.model.definition import Project, SinkDefinition
from headrace.model.transaction import TransactionBatch, TransactionOrigin
from published_view import Published

WAIT_S = 30


def begun(published: Published, catalog: Catalog) -> Deliver:
    definition = SinkDefinition("store", "duckdb", keys={"sums": ()}, options={"path": "out.duckdb"})
    sink = make_sink(definition, Project(published.folder, sinks=(definition,)))
    deliver = Deliver(sink, None, catalog, LogReader(published.state / "log"), lambda event: None)
    deliver.start()
    return deliver


def reach(deliver: Deliver, commit: int) -> None:
    deliver.wake()
    end = time.monotonic() + WAIT_S
    while deliver.reached < commit:
        assert time.monotonic() < end and deliver.error is None, deliver.error
        time.sleep(0.01)


def held(published: Published) -> Counter[Any]:
    with duckdb.connect(str(published.folder / "out.duckdb"), read_only=True) as store:
        return Counter(store.execute("SELECT id, n FROM sums").fetchall())


def test_a_paused_sink_is_given_nothing_until_it_is_resumed(tmp_path: Path) -> None:
    published, rng = Published(tmp_path / "shop"), random.Random(1)
    log = LogWriter(published.state / "log")

    def step() -> None:
        log.append(TransactionBatch((TransactionOrigin("shop", "1", 1),), {}))
        published.step([published.changes(rng)])

    for _ in range(3):
        step()
    deliver = begun(published, published.catalog)
    reach(deliver, 3)
    deliver.pause(True)
    for _ in range(4):
        step()
    deliver.wake()
    assert deliver.between(lambda sink: sink.name) == "store"  # what is asked of it is done all the same
    time.sleep(0.3)
    assert (deliver.state, deliver.reached) == ("paused", 3)
    deliver.close()
    assert held(published) == published.held[3]

    again = begun(published, published.catalog)
    time.sleep(0.3)
    assert (again.state, again.reached) == ("paused", 3)
    again.pause(False)
    reach(again, 7)
    assert again.state == "running"
    again.close()
    log.close()
    assert held(published) == published.held[7]
