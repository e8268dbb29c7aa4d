"""The log of a running project is kept short in the background: as its settings say, when it is worth it, calmly.

Method: the thread's own look over a log that the test has written and a catalogue that it has filled; the pipeline around
it is a stand-in, the log, the bases and the removal are the real ones.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.catalog.store import Catalog, StepShape
from headrace.engine import retention
from headrace.engine.kept import Kept
from headrace.engine.retention import RetentionThread
from headrace.governance.audit import AuditLog, Event
from headrace.log.append import LogWriter
from headrace.log.read import LogReader
from headrace.model.definition import AuditRetention, Retention
from headrace.model.errors import HeadraceError
from random_log import RELATIONS, SOURCE, RandomLog

SEGMENT = 1 << 12


class Running:
    """What the thread sees of a pipeline: everything up to the log's end is published and checkpointed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.told = folder, list[dict[str, Any]]()
        self.random = RandomLog(3)
        self.random.grow(folder / "log", 300, segment_bytes=SEGMENT)
        self.catalog = Catalog(folder / "catalog.db")
        for name, relation in RELATIONS.items():
            self.catalog.put_relation(SOURCE[name], relation)
        self.catalog.record_step(1, 0, 300, StepShape(), 0)
        self.catalog.publish(1, [], 1)
        self.catalog.put_checkpoint(1, {})
        self.log = LogWriter(folder / "log", segment_bytes=SEGMENT)
        self.tell = self.told.append
        self.project = SimpleNamespace(settings=SimpleNamespace(retention=Retention(), audit=AuditRetention()))
        self.maintainer = SimpleNamespace(kept=Kept(folder / "state"), checkpoint=lambda: None)
        self.on_engine = lambda work: work()
        self.delivers = dict[str, Any]()
        self.thread = RetentionThread(cast(Any, self))

    def keep(self, **settings: Any) -> None:
        self.project.settings.retention = Retention(**settings)

    @property
    def begins(self) -> int:
        return LogReader(self.folder / "log").base.commit + 1


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    (tmp_path / ".headrace").mkdir()
    made = Running(tmp_path / ".headrace")
    yield made
    made.thread.close()
    made.log.close()
    made.catalog.close()


def used(running: Running) -> int:
    return sum(segment.bytes for segment in LogReader(running.folder / "log").segments())


def test_it_keeps_a_size(running: Running) -> None:
    running.thread._look()
    assert running.begins == 1 and not running.told  # the default keeps everything
    before = used(running)
    running.keep(keep_bytes=before // 2)
    running.thread._look()
    assert before // 2 - 2 * SEGMENT < used(running) <= before // 2
    (event,) = running.told
    assert (event["event"], event["first"], event["bytes"]) == ("log.retained", running.begins, before - used(running))
    running.thread._look()
    assert len(running.told) == 1  # there is nothing more to do


def test_a_base_is_not_written_again_for_little(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    running.keep(keep_bytes=used(running) // 2)
    running.thread._look()
    begins = running.begins
    monkeypatch.setattr(retention, "WORTH", 10_000.0)
    running.keep(keep_bytes=1)
    running.thread._look()
    assert running.begins == begins
    monkeypatch.setattr(retention, "WORTH", 0.25)
    running.thread._look()
    assert running.begins > begins


def test_a_sink_that_lags_holds_it_back_and_one_that_is_not_waited_for_does_not(running: Running) -> None:
    running.catalog.put_sink("slow", 60, "", 0)
    running.keep(keep_bytes=1)
    running.thread._look()
    assert 40 < running.begins <= 61
    running.keep(keep_bytes=1, wait_for=())
    running.thread._look()
    assert running.begins > 200


def test_it_rests_as_long_as_it_works_and_leaves_off_when_the_project_stops(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests: list[float] = []

    class Stopping(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            rests.append(timeout or 0.0)
            return len(rests) > 3

    monkeypatch.setattr(running.thread, "_closed", Stopping())
    running.keep(keep_bytes=1)
    files = sorted(path.name for path in (running.folder / "log").glob("*.segment"))
    with pytest.raises(HeadraceError, match="stopping"):
        running.thread._look()
    assert len(rests) == 4 and all(0 < rest < 5 for rest in rests)
    assert running.begins == 1
    assert sorted(path.name for path in (running.folder / "log").glob("*.segment")) == files


def test_who_reads_from_the_beginning_is_not_disturbed(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.engine import retain

    monkeypatch.setattr(retain, "HOLD_S", 0.05)
    running.keep(keep_bytes=1)
    with running.log.held():
        running.thread._look()
        assert running.begins == 1 and not running.told
    running.thread._look()
    assert running.begins > 200


def test_what_goes_wrong_is_told_once_and_tried_again(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "LOOK_S", 0.01)
    part = threading.Event()

    def failing(*arguments: Any) -> Any:
        part.set()
        raise OSError(28, "No space left on device")

    from headrace.engine import bases

    with monkeypatch.context() as broken:
        broken.setattr(bases, "parts", failing)
        running.keep(keep_bytes=1)
        running.thread.start()
        assert part.wait(20)
        part.clear()
        assert part.wait(20)  # again
        assert [event["event"] for event in running.told] == ["log.retention_failed"]
    for _ in range(2000):
        if running.begins > 200:
            break
        threading.Event().wait(0.01)
    assert running.begins > 200


def test_the_audit_log_is_kept_as_its_settings_say_and_never_while_it_is_copied(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    ago = time.time_ns() // 1_000 - 8 * 86_400 * 1_000_000  # no entry younger than a week goes
    log = AuditLog(running.folder, clock_us=lambda: ago, file_bytes=1_100)  # three entries a file
    for _ in range(7):
        log.append(Event("owner", "apply", "done"))
    running.thread._look_at_audit()
    assert log.verify().removed == 0 and not running.told  # the default keeps everything
    running.project.settings.audit = AuditRetention(None, 1_100)
    with running.thread.audit:  # a backup
        looking = threading.Thread(target=running.thread._look_at_audit)
        looking.start()
        looking.join(0.2)
        assert looking.is_alive() and log.verify().removed == 0
    looking.join()
    verdict = log.verify()
    assert (verdict.damage, verdict.removed, verdict.entries) == (None, 6, 2)
    (event,) = running.told
    assert (event["event"], event["entries"]) == ("audit.retained", 6)
    monkeypatch.setattr(retention, "LOOK_S", 0.01)
    for _ in range(3):
        log.append(Event("owner", "apply", "done"))
    running.thread.start()
    for _ in range(500):
        if log.verify().removed > 6:
            break
        running.thread._closed.wait(0.01)
    assert log.verify().damage is None and log.verify().removed > 6
