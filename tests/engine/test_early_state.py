"""Goal: after a kill little is done again, and what a start reads through it reads once, while Spark starts.

Method: the real coordinator, catalogue and kept state; a stand-in for steps writes the runs, takes its time, and is
counted for that time, however busy the machine is.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock

import pyarrow as pa
import pytest

from headrace.catalog.store import Catalog
from headrace.engine import kept
from headrace.engine.durable import Durable
from headrace.engine.maintain import Maintainer
from headrace.engine.reopen import look_at_state
from headrace.engine.step import Result
from headrace.log.append import LogWriter
from headrace.model.definition import Settings
from headrace.model.errors import HeadraceError
from headrace.model.transaction import OPERATION, ORDINAL, TransactionBatch, TransactionOrigin
from headrace.serve import sound
from headrace.state.run import write_run

CHECKPOINT_S, STEP_S, WAIT_S = 3.0, 0.2, 20.0


class Slow(Maintainer):
    """Each step writes a run and takes ``STEP_S``."""

    def load(self, tables: Any, views: Any) -> None:
        self.stepper = cast(Any, SimpleNamespace(run=self.ran))

    def ran(self, number: int, *_: Any, **__: Any) -> Result:
        folder = self.folder / "state" / f"{number}.0"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "a1~0~0~1.arrow"
        write_run(path, pa.table({"_h": pa.array([number]), "_w": pa.array([1])}))
        time.sleep(STEP_S)
        return Result(number, runs=[path])


class Engine:
    def __init__(self, folder: Path) -> None:
        self.catalog, self.log = Catalog(folder / "catalog.db"), LogWriter(folder / "log")
        settings = Settings(checkpoint_seconds=CHECKPOINT_S)
        self.maintainer = Slow(MagicMock(), folder, self.catalog, self.log, settings, lambda event: None)
        self.maintainer.recover({}, {})

    def step(self) -> None:
        change = pa.table({ORDINAL: pa.array([0], pa.int32()), OPERATION: pa.array([0], pa.int8())})
        self.log.append(TransactionBatch((TransactionOrigin("s", "", 0),), {"t": change}))
        self.maintainer.step()
        self.maintainer.tidy()

    def durable(self) -> int:
        """The step that a start goes on from, once what is on its way to the disk is there."""
        while self.maintainer.durable.writing:
            time.sleep(0.01)
            self.maintainer.tidy()
        found = self.catalog.checkpoint()
        return found[0] if found else 0

    def close(self) -> None:
        self.maintainer.close()
        self.log.close()
        self.catalog.close()


@pytest.fixture(autouse=True)
def _counted(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = Durable.ran
    monkeypatch.setattr(Durable, "ran", lambda durable, _: ran(durable, STEP_S))


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = Engine(tmp_path)
    yield made
    made.close()


def test_state_is_durable_before_much_of_it_would_be_done_again(engine: Engine) -> None:
    engine.step()
    engine.step()
    assert engine.durable() == 0, "two steps of 0.2 s are less than the sixth of 3 s"
    engine.step()
    assert engine.durable() == 3
    engine.step()
    assert engine.durable() == 3


def test_a_disk_that_takes_long_holds_up_no_step(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, at = threading.Event(), kept.checksums
    monkeypatch.setattr(kept, "checksums", lambda *a, **k: (slow.wait(WAIT_S), at(*a, **k))[1])
    for _ in range(6):
        engine.step()
    assert engine.maintainer.durable.writing and engine.catalog.checkpoint() is None and engine.maintainer.number == 6
    slow.set()
    assert engine.durable() == 3, "as it was when the writing began, not as it is now"
    found = engine.catalog.checkpoint()
    assert found is not None and [Path(path).parent.name for path, *_ in found[1]["a1"]] == ["1.0", "2.0", "3.0"]
    engine.step()
    assert engine.durable() == 7, "of the steps meanwhile three had taken long enough"


def test_no_file_is_deleted_that_a_checkpoint_on_its_way_names(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, at = threading.Event(), kept.checksums
    monkeypatch.setattr(kept, "checksums", lambda *a, **k: (slow.wait(WAIT_S), at(*a, **k))[1])
    for _ in range(4):
        engine.step()
    engine.maintainer.kept.runs["a1"] = engine.maintainer.kept.runs["a1"][3:]  # as a merge beside does
    time.sleep(CHECKPOINT_S)
    engine.maintainer.tidy()
    assert engine.maintainer.durable.writing and engine.maintainer.durable.due
    slow.set()
    assert engine.durable() == 3
    found = engine.catalog.checkpoint()
    assert found is not None and len(found[1]["a1"]) == 3
    assert all(Path(path).exists() for path, *_ in found[1]["a1"])


def test_what_waits_for_the_disk_is_given_up_when_state_is_made_durable_at_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, at = threading.Event(), kept.checksums
    monkeypatch.setattr(kept, "checksums", lambda *a, **k: (slow.wait(WAIT_S), at(*a, **k))[1])
    for _ in range(4):
        engine.step()
    threading.Timer(0.2, slow.set).start()
    engine.maintainer.checkpoint()
    assert engine.durable() == 4 and not engine.maintainer.durable.writing
    engine.maintainer.tidy()
    assert engine.durable() == 4


def test_what_a_disk_refuses_beside_ends_the_engine(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(kept, "checksums", full)
    with pytest.raises(OSError, match="No space left"):
        for _ in range(5):
            engine.step()
    assert engine.catalog.checkpoint() is None


def test_what_a_start_does_again_counts_for_the_next(tmp_path: Path) -> None:
    killed = Engine(tmp_path)
    killed.step()
    killed.step()
    killed.close()  # without a checkpoint, as a kill would
    again = Engine(tmp_path)
    again.maintainer.tidy()
    assert again.durable() == 0
    again.step()
    assert again.durable() == 3
    again.close()


def test_state_is_read_through_once_and_beside(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        engine.step()
    assert engine.durable() == 3
    read: list[Path] = []
    damage = sound.damage
    monkeypatch.setattr(sound, "_known", type(sound._known)())
    monkeypatch.setattr(sound, "damage", lambda path, sums: (read.append(path), damage(path, sums))[1])
    look_at_state(engine.catalog).join()
    assert len(read) == 3
    found = engine.catalog.checkpoint()
    assert found is not None
    engine.maintainer.kept.restore(found[1])
    assert len(read) == 3


def test_damage_is_told_by_the_recovery_that_follows(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        engine.step()
    assert engine.durable() == 3
    found = engine.catalog.checkpoint()
    assert found is not None
    ((first, *_), *_) = found[1]["a1"]
    content = bytearray(Path(first).read_bytes())
    content[len(content) // 2] ^= 1
    Path(first).write_bytes(content)
    monkeypatch.setattr(sound, "_known", type(sound._known)())
    look_at_state(engine.catalog).join()
    with pytest.raises(HeadraceError, match=r"state\.corrupt"):
        engine.maintainer.kept.restore(found[1])
