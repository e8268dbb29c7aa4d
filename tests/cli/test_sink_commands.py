"""`verify --sink` and `repair` beside a running project: what they ask it, what they print, and their exit status.

Method: the commands in processes of their own; the running project is a control server in this process whose
pipeline answers fixed values.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

import warm_command
from headrace.control import lock
from headrace.control.running import PipelineVerbs
from headrace.control.socket import ControlServer
from headrace.control.verbs import Dispatcher


class Answers:
    """A pipeline with one sink whose rows differ as often as a test says; it notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.differences = 0

    def verify_sink(self, sink: str, views: list[str], on_progress: Any) -> dict[str, Any]:
        self.asked.append(("verify", sink, views))
        row = {"row": {"region": "north", "at": datetime(2026, 3, 1, tzinfo=UTC)}, "expected": 0, "found": 2}
        view = {
            "view": "revenue", "rows": 1200, "quarantined": 7, "differences": self.differences, "diverged": "",
            "additions": ["the column 'mine'"], "first": [row] if self.differences else [], "seconds": 0.25,
        }  # fmt: skip
        left_out = [{"view": "clicks", "why": "it has not been delivered yet"}]
        return {"sink": sink, "commit": 900, "views": [view], "left_out": left_out,
                "differences": self.differences, "same": not self.differences}  # fmt: skip

    def repair(self, sink: str, views: list[str], on_progress: Any) -> dict[str, Any]:
        answer = self.verify_sink(sink, views, on_progress)
        self.asked[-1] = ("repair", sink, views)
        self.differences = 0
        return answer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "headrace.yaml").write_text("name: shop\n")
    return tmp_path


@pytest.fixture
def answers(folder: Path) -> Iterator[Answers]:
    pipeline = Answers()
    dispatcher = Dispatcher(folder, lambda: None)
    dispatcher.attach(cast(PipelineVerbs, pipeline))
    with lock.hold(folder, "headrace up"), ControlServer(folder, dispatcher.handle):
        yield pipeline


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return warm_command.run(folder, *arguments)


def test_verify_of_a_sink_says_what_differs_and_what_is_apart(folder: Path, answers: Answers) -> None:
    done = run(folder, "verify", "--sink", "out")
    assert done.returncode == 0
    assert done.stdout.endswith("\n0 differences in 1,200 rows of 1 view of the sink out at commit 900\n")
    answers.differences = 2
    done = run(folder, "verify", "--sink", "out", "revenue")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["view", "rows", "differences", "quarantined", "seconds"]
    assert lines[2].split() == ["revenue", "1200", "2", "7", "0.2"]
    assert lines[3:6] == [
        "  differs revenue: expected 0 of this row, found 2: region=north, at=2026-03-01T00:00:00Z",
        "  note revenue: the column 'mine' is not of the view; it is left alone",
        "  left out clicks: it has not been delivered yet",
    ]
    assert json.loads(run(folder, "verify", "--sink", "out", "--json").stdout)["views"][0]["quarantined"] == 7
    assert answers.asked == [("verify", "out", views) for views in ([], ["revenue"], [])]


def test_repair_looks_first_and_asks_about_many_rows(folder: Path, answers: Answers) -> None:
    look, write = ("verify", "out", []), ("repair", "out", [])
    done = run(folder, "repair", "--sink", "out")
    assert (done.returncode, answers.asked) == (0, [look])
    answers.differences = 2
    done = run(folder, "repair", "--sink", "out", "--dry-run")
    assert done.stdout.endswith("at commit 900; nothing is written\n")
    assert (done.returncode, answers.asked[1:]) == (0, [look])
    done = run(folder, "repair", "--sink", "out")
    assert done.stdout.endswith("\n2 differences in 1,200 rows of 1 view of the sink out at commit 900: repaired\n")
    assert (done.returncode, answers.asked[2:]) == (0, [look, write])
    answers.differences = 1001
    done = run(folder, "repair", "--sink", "out")
    assert (done.returncode, answers.asked[4:]) == (2, [look])
    assert "1,001 differences in 1,200 rows of 1 view of the sink out" in done.stderr.replace("\n", " ")
    assert json.loads(run(folder, "repair", "--sink", "out", "--yes", "--json").stdout)["repaired"] is True
    assert answers.asked[5:] == [write]
