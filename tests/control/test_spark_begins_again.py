"""Goal: where Spark's process ends, `up` says so and begins it again after a pause; what is served beside goes on.

Method: `up` runs a pipeline that ends with the errors that the test gives it.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from headrace.control import up
from headrace.control.up import PAUSE_MAX_S, PAUSE_S, Pauses
from headrace.model.definition import Project
from headrace.model.errors import HeadraceError

LOST = HeadraceError("spark.lost", "Spark's Java process has ended", why="it was killed")


class Life:
    """A pipeline that ends as its turn says: by an error, or because somebody stops it."""

    def __init__(
        self, project: Project, ends: list[Exception | None], stopping: threading.Event, told: list[str]
    ) -> None:
        self.project, self.ends, self.stopping, self.told = project, ends, stopping, told

    def start(self) -> None:
        self.told.append("start")

    def wait(self, timeout_s: float | None) -> None:
        error = self.ends.pop(0)
        if error is not None:
            raise error
        self.stopping.set()

    def caught_up(self) -> bool:
        return False

    def status(self) -> dict[str, Any]:
        return {"sources": [], "views": []}

    def stop(self) -> None:
        self.told.append("stop")


class Page:
    def __init__(self, told: list[str]) -> None:
        self.told = told

    def listen(self) -> None:
        self.told.append("listen")

    def begin(self, call: Any) -> None:
        self.told.append("begin")

    def close(self) -> None:
        self.told.append("close")


def run(folder: Path, ends: list[Exception | None], told: list[str], *, once: bool = False) -> list[dict[str, Any]]:
    stopping, events = threading.Event(), list[dict[str, Any]]()
    up.run(
        Project(folder), stopping, on_event=events.append, on_ready=lambda status: told.append("ready"),
        on_tick=lambda status: None, once=once, beside=[Page(told)],
        make=lambda project, on_event: Life(project, ends, stopping, told),  # type: ignore[arg-type,return-value]
    )  # fmt: skip
    return events


def test_spark_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(up, "PAUSE_S", 0.01)
    told: list[str] = []
    events = run(tmp_path, [LOST, LOST, None], told)
    again = ["start", "ready", "stop"]
    assert told == ["listen", "start", "ready", "begin", "stop", *again, "start", "ready", "close", "stop"]
    lost = [event["text"] for event in events if event["event"] == "spark.lost"]
    assert len(lost) == 2 and "it was killed; it begins again in 0.01 s, and nothing acknowledged is lost" in lost[0]


@pytest.mark.parametrize(("error", "once"), [(LOST, True), (HeadraceError("state.full", "no space"), False)])
def test_what_is_to_end_ends(error: HeadraceError, once: bool, tmp_path: Path) -> None:
    told: list[str] = []
    with pytest.raises(HeadraceError) as raised:
        run(tmp_path, [error], told, once=once)
    assert raised.value is error and told == ["listen", "start", "ready", "begin", "close", "stop"]


def test_pauses_grow_and_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(up.time, "monotonic", lambda: now[0])
    pauses = Pauses()
    found = [pauses.next() for _ in range(8)]
    assert found == [PAUSE_S, 2, 4, 8, 16, 32, PAUSE_MAX_S, PAUSE_MAX_S]
    now[0] += 1000
    assert pauses.next() == PAUSE_S
