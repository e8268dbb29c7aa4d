"""`headrace top`: what it asks, what it prints, and what it says when it cannot.

Method: the installed command beside a control server in this process that answers with fixed numbers, one look after
the other.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.control import lock
from headrace.control.socket import ControlServer
from headrace.control.top import between
from headrace.control.verbs import Dispatcher
from project_folder import ProjectFolder

COMMAND = Path(sys.executable).with_name("headrace")
MIB = 1 << 20


def look(number: int) -> dict[str, Any]:
    """What is told ``number`` times two seconds after the start."""
    workers = [{"name": "Python worker", "pid": 43, "cpu_s": 1.0, "own": 30 * MIB, "mapped": MIB}] if number else []
    return {
        "at_s": 100.0 + 2 * number, "commit": 10 + 20 * number, "frontier": 9 + 20 * number, "steps": 5 + number,
        "step_seconds": 0.0412, "rows": 1_000 + 6_000 * number,
        "machine": {"cores": 2, "load": 1.234, "memory": 8 << 30, "available": 3 << 30, "driver_memory": "1g"},
        "processes": [
            {"name": "engine", "pid": 41, "cpu_s": 3.0 + 0.5 * number, "own": 100 * MIB, "mapped": 20 * MIB},
            {"name": "JVM", "pid": 42, "cpu_s": 9.0 + 2.5 * number, "own": 400 * MIB, "mapped": 0}, *workers,
        ],
        "jvm": {
            "heap": 200 * MIB, "heap_now": 256 * MIB, "heap_max": 1 << 30, "arrow": MIB, "buffers": 2 * MIB,
            "code": 150 * MIB, "gc_s": 0.5 + 0.02 * number,
        },
        "files": [
            {"name": "log", "files": 3, "bytes": 64 * MIB, "cached": 8 * MIB},
            {"name": "state", "files": 1200, "bytes": 5 << 30, "cached": 512 * MIB},
        ],
    }  # fmt: skip


@pytest.fixture
def looks(project: ProjectFolder) -> Iterator[list[dict[str, Any]]]:
    told: list[dict[str, Any]] = []

    def usage() -> dict[str, Any]:
        told.append(look(len(told)))
        return told[-1]

    dispatcher = Dispatcher(project.path, lambda: None)
    dispatcher.attach(SimpleNamespace(usage=usage, status=dict))  # type: ignore[arg-type]
    with lock.hold(project.path, "headrace up"), ControlServer(project.path, dispatcher.handle):
        yield told


def environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("HEADRACE")}


def run(project: ProjectFolder, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [COMMAND, "top", *arguments]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=project.path, env=environment(), timeout=60
    )


def test_rates_are_of_the_time_between_two_looks() -> None:
    found = between(look(0), look(1))
    assert (found["steps_s"], found["commits_s"], found["rows_s"]) == (0.5, 10.0, 3_000.0)
    assert [(p["pid"], p["cpu"]) for p in found["processes"]] == [(41, 0.25), (42, 1.25), (43, None)]
    assert found["jvm"]["gc"] == 0.01
    assert found["commit"] == 30


def test_a_look_as_text(project: ProjectFolder, looks: list[dict[str, Any]]) -> None:
    done = run(project, "--once", "--every", "0.1")
    assert done.returncode == 0, done.stderr
    lines = [" ".join(line.split()).strip("─") for line in done.stdout.splitlines()]
    assert lines == [
        f"process {os.getpid()}: commit 30, views at 29; 3,000 rows, 10.0 commits, 0.5 steps a second,"
        " the last step 41 ms",
        "memory 530.0 MiB, and 520.0 MiB of its files in the page cache; the machine has 8.0 GiB, 3.0 GiB of it"
        " available, and 2 cores, load 1.23",
        "",
        "process pid cpu memory of files",
        "",
        "engine 41 25.0 % 100.0 MiB 20.0 MiB",
        "JVM 42 125.0 % 400.0 MiB 0 bytes",
        "Python worker 43 30.0 MiB 1.0 MiB",
        "",
        "JVM: heap 200.0 MiB in use of 256.0 MiB, at most 1.0 GiB (driver_memory: 1g); Arrow 1.0 MiB, other buffers"
        " 2.0 MiB, classes and code 150.0 MiB; garbage collection 1.0 % of the time",
        "",
        "files of number on the disk in memory",
        "",
        "log 3 64.0 MiB 8.0 MiB",
        "state 1,200 5.0 GiB 512.0 MiB",
    ]
    assert len(looks) == 2


def test_a_look_as_json(project: ProjectFolder, looks: list[dict[str, Any]]) -> None:
    done = run(project, "--once", "--every", "0.1", "--json")
    assert json.loads(done.stdout) == {"pid": os.getpid(), **between(looks[0], looks[1])}


def test_it_looks_again_until_it_is_interrupted(project: ProjectFolder, looks: list[dict[str, Any]]) -> None:
    command = [COMMAND, "top", "--json", "--every", "0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=project.path, env=environment()) as process:
        assert process.stdout is not None
        commits = [json.loads(process.stdout.readline())["commit"] for _ in range(3)]
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    assert commits == [30, 50, 70]


def test_nothing_runs(project: ProjectFolder) -> None:
    done = run(project, "--once")
    assert done.returncode == 1
    assert "[project.not_running]" in done.stderr


def test_a_time_that_is_none(project: ProjectFolder) -> None:
    done = run(project, "--every", "0")
    assert done.returncode == 2
    assert "--every" in done.stderr
