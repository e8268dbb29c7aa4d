"""Goal: a source with a bound goes on only as far ahead of those that it waits for as its file says, and after a restart
too; what a source cannot do is refused before anything is started.

Method: a real log and the thread that follows a source, with a source that always has more; no Spark.
"""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from headrace.catalog.project import read
from headrace.engine.backlog import Backlog, backlog_of
from headrace.engine.connectors import check
from headrace.engine.ingest import Ingest
from headrace.log.append import LogWriter
from headrace.model.definition import SourceDefinition
from headrace.model.errors import HeadraceError
from headrace.model.schema import Relation
from headrace.model.transaction import TransactionBatch, TransactionOrigin
from headrace.sources.base import Source
from project_folder import ProjectFolder
from waiting import until


class Endless(Source):
    """Three rows a poll, as often as it is polled."""

    name = "endless"

    def __init__(self) -> None:
        self.polls = self.asked = 0

    def relations(self) -> tuple[Relation, ...]:
        return ()

    def start(self, tables: frozenset[str], position: str | None) -> None: ...

    def add(self, tables: frozenset[str]) -> None: ...

    def poll(self, wait_s: float) -> TransactionBatch | None:
        self.polls += 1
        rows = {"_t": pa.array([0] * 3, pa.int32()), "_op": pa.array([0] * 3, pa.int8()), "n": pa.array([1, 2, 3])}
        return TransactionBatch((TransactionOrigin(self.name, str(self.polls), 0),), {"t": pa.table(rows)})

    def confirm(self, batch: TransactionBatch, first_commit: int) -> None: ...

    def seen(self) -> str | None:
        self.asked += 1
        return None

    def close(self) -> None: ...


def product(log: LogWriter, folder: Path, frontier: int, **sinks: int) -> Any:
    """As much of a pipeline as a bound looks at."""
    return SimpleNamespace(
        maintainer=SimpleNamespace(frontier=frontier, views={"v": None}), log=log, folder=folder,
        delivers={name: SimpleNamespace(reached=at) for name, at in sinks.items()},
    )  # fmt: skip


def test_a_source_is_not_polled_while_views_and_sinks_are_too_far_behind(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "log")
    running = product(log, tmp_path, 0, slow=0, other=0)
    backlog = backlog_of(running, SourceDefinition("endless", "x", max_backlog=30, waits_for=("slow",)))
    source = Endless()
    ingest = Ingest(source, log, frozenset({"t"}), lambda event: None, backlog=backlog)
    ingest.start()
    assert backlog is not None
    until(lambda: backlog.shown()["waits"])
    assert (log.end, backlog.changes, source.asked) == (10, 30, 1)  # the server hears of us
    time.sleep(0.3)
    assert (log.end, source.polls) == (10, 10)
    running.maintainer.frontier = 10  # the views alone do not help
    time.sleep(0.3)
    assert log.end == 10
    running.delivers["slow"].reached = 4
    until(lambda: log.end == 14)
    running.delivers["slow"].reached = 1 << 40
    running.maintainer.frontier = 1 << 40
    until(lambda: log.end > 100)
    assert backlog.shown()["waited_s"] > 0.5
    ingest.close()
    log.close()


def test_what_the_log_holds_from_before_counts(tmp_path: Path) -> None:
    source = Endless()
    with LogWriter(tmp_path / "log") as log:
        for _ in range(9):
            batch = source.poll(0)
            assert batch is not None
            log.append(batch)
        for frontier, changes in ((0, 27), (4, 15), (9, 0)):
            backlog = backlog_of(product(log, tmp_path, frontier), SourceDefinition("endless", "x", max_backlog=16))
            assert isinstance(backlog, Backlog)
            assert (backlog.full(), backlog.changes) == (changes >= 16, changes)
        other = backlog_of(product(log, tmp_path, 0), SourceDefinition("other", "x", max_backlog=1))
        assert other is not None
        assert not other.full()
        assert backlog_of(product(log, tmp_path, 0), SourceDefinition("endless", "x")) is None


@pytest.mark.parametrize(
    ("type", "options", "when_full", "why"),
    [
        ("files", {"path": "in"}, "drop", "what it leaves out would not come again"),
        ("files", {"path": "in"}, "refuse", "nobody is there who could be refused"),
        ("postgres", {"host": "h", "database": "d"}, "drop", "its tables would be wrong from then on"),
        ("mysql", {"host": "h", "database": "d", "user": "u"}, "drop", "its tables would be wrong from then on"),
        ("mysql", {"host": "h", "database": "d", "user": "u"}, "refuse", "nobody is there who could be refused"),
    ],
)
def test_what_a_source_cannot_do_is_refused_at_the_door(
    project: ProjectFolder, type: str, options: dict[str, Any], when_full: str, why: str
) -> None:
    project.settings()
    project.source("shop", type, **options, when_full=when_full)
    with pytest.raises(HeadraceError) as refused:
        check(read(project.path))
    assert refused.value.code == "config.invalid"
    assert f"a source of type {type} cannot {when_full}" in refused.value.what
    assert (why in refused.value.why, refused.value.where) == (True, f"sources/shop.yaml:{2 + len(options)}")


def test_http_may_do_each_and_others_wait(project: ProjectFolder) -> None:
    project.settings()
    for place, when_full in enumerate(("wait", "refuse", "drop")):
        project.source(f"http{place}", "http", port=0, tables={f"t{place}": None}, when_full=when_full)
    project.source("plain", "files", path="in", when_full="wait", max_backlog=5)
    check(read(project.path))
    assert [source.when_full for source in read(project.path).sources] == ["wait", "refuse", "drop", "wait"]


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({"when_full": "drops"}, "did you mean 'drop'?"),
        ({"max_backlog": 0}, "'max_backlog' must be a number of changes above 0"),
        ({"waits_for": ["out"]}, "'waits_for' needs a bound"),
        ({"waits_for": "ot", "max_backlog": 5}, "did you mean 'out'?"),
        ({"max_backlogg": 5}, "max_backlog"),
    ],
)
def test_what_is_written_wrongly_is_told(project: ProjectFolder, values: dict[str, Any], what: str) -> None:
    project.settings()
    project.sink("out", "duckdb", path="out.duckdb")
    project.source("shop", "files", path="in", **values)
    with pytest.raises(HeadraceError) as refused:
        check(read(project.path))
    assert what in str(refused.value)
