"""`headrace profile`: what it asks, what it prints, and what it says when it cannot.

Method: the installed command beside a control server in this process whose profiles are fixed; py-spy itself draws a
program, and for what it seldom does a script in its place says what it says.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.control import flame, lock
from headrace.control.socket import ControlServer
from headrace.control.verbs import Dispatcher
from headrace.engine.shares import PHASES, Measured, summed
from headrace.model.errors import HeadraceError
from project_folder import ProjectFolder

COMMAND = Path(sys.executable).with_name("headrace")


class Profiles:
    """Answers as ``headrace.engine.profile.Profiles``; ``steps``: those there are."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        phases = {**dict.fromkeys(PHASES, 0), "jvm": 40_000_000, "probe": 60_000_000}
        self.steps = [Measured(7, 31, 100_000_000, phases, {"probe": 1200}, 2)]

    def profile(self, view: str, steps: int, seconds: float, on_progress: Any) -> dict[str, Any]:
        self.asked.append((view, steps, seconds))
        on_progress({"text": f"profiling {view}", "done": 0, "total": steps})
        return {"view": view, "steps": len(self.steps), "others": 3, "seconds": 1.25, **summed(self.steps)}


@pytest.fixture
def profiles(project: ProjectFolder) -> Iterator[Profiles]:
    project.view("revenue", "SELECT 1 AS one")
    made = Profiles()
    dispatcher = Dispatcher(project.path, lambda: None)
    dispatcher.attach(SimpleNamespace(profiles=made, status=dict))  # type: ignore[arg-type]
    with lock.hold(project.path, "headrace up"), ControlServer(project.path, dispatcher.handle):
        yield made


def run(project: ProjectFolder, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HEADRACE")}
    return subprocess.run(
        [COMMAND, "profile", *arguments], check=False, capture_output=True, text=True, cwd=project.path, env=environment
    )


def test_it_prints_the_phases_that_took_time(project: ProjectFolder, profiles: Profiles) -> None:
    done = run(project, "Revenue", "--steps", "3", "--seconds", "2.5")
    assert done.returncode == 0, done.stderr
    head, empty, *lines = done.stdout.splitlines()
    assert head == (
        "1 step changed 2 rows of revenue in 1.2 s: 100.0 ms in the middle, 100.0 ms the longest; "
        "3 steps did not change it"
    )
    assert empty == ""
    assert [line.split() for line in lines if "──" not in line] == [
        ["phase", "median", "ms", "largest", "ms", "share", "rows"],
        ["JVM", "40.00", "40.00", "40.0", "%"],
        ["probe", "60.00", "60.00", "60.0", "%", "1,200"],
    ]
    assert profiles.asked == [("revenue", 3, 2.5)]


def test_json_is_the_whole_answer(project: ProjectFolder, profiles: Profiles) -> None:
    answer = json.loads(run(project, "revenue", "--json").stdout)
    assert profiles.asked == [("revenue", 10, 10.0)]
    assert list(answer) == ["view", "steps", "others", "seconds", "wall", "phases", "each"]
    assert [phase["phase"] for phase in answer["phases"]] == list(PHASES)
    assert answer["each"][0]["phases"]["probe"] == 60.0


def test_it_says_that_no_step_came(project: ProjectFolder, profiles: Profiles) -> None:
    profiles.steps = []
    done = run(project, "revenue")
    assert (done.returncode, done.stdout) == (0, "no step changed revenue within 1.2 s; 3 steps did not change it\n")


def test_a_view_that_is_not_there(project: ProjectFolder, profiles: Profiles) -> None:
    done = run(project, "revenu")
    assert done.returncode == 1 and profiles.asked == []
    assert done.stderr.splitlines() == [
        "error [view.unknown] there is no view 'revenu'",
        "  next:  did you mean 'revenue'?",
        "  help:  headrace help view.unknown",
    ]  # fmt: skip


def test_beside_no_running_project(project: ProjectFolder) -> None:
    project.view("revenue", "SELECT 1 AS one")
    for arguments in (("revenue",), ("revenue", "--flame", "f.svg")):
        done = run(project, *arguments)
        assert done.returncode == 1
        assert done.stderr.splitlines()[0] == "error [project.not_running] `headrace up` does not run"


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of this Python's programs and, beside the system's, all of PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def draws(tools: Path, text: str) -> None:
    script = tools / "py-spy"
    script.write_text(f"#!/bin/bash\n{text}\n")
    script.chmod(0o755)


LOOKS_ON = """
while [ "$1" != -o ]; do shift; done
trap 'echo "<svg/>" > "$2"; exit 0' INT
echo "py-spy> Sampling process 200 times a second for 41 seconds. Press Control-C to exit."
n=0
while [ $n -lt 600 ]; do sleep 0.05; n=$((n + 1)); done  # no subshell: it would have the signal to itself
"""


def test_py_spy_draws_what_a_process_does(tmp_path: Path) -> None:
    program, drawn = tmp_path / "busy.py", tmp_path / "f.svg"
    program.write_text(
        "def adding_up():\n    while True:\n        sum(range(1000))\n\nprint('on', flush=True)\nadding_up()\n"
    )
    with subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE) as busy:
        try:
            assert busy.stdout is not None and busy.stdout.readline() == b"on\n"
            with flame.recorded(busy.pid, drawn, 10.0):
                time.sleep(1.0)
        except HeadraceError as error:
            if "may not look into" in error.what:
                pytest.skip(error.why)
            raise
        finally:
            busy.kill()
    assert f"adding_up ({program.name}:" in drawn.read_text()


def test_a_flame_graph_is_drawn_while_the_steps_run(tools: Path, tmp_path: Path) -> None:
    draws(tools, LOOKS_ON)
    with flame.recorded(os.getpid(), tmp_path / "f.svg", 10.0):
        assert not (tmp_path / "f.svg").exists()
    assert (tmp_path / "f.svg").read_text() == "<svg/>\n"


def test_an_error_meanwhile_ends_the_drawing(tools: Path, tmp_path: Path) -> None:
    draws(tools, LOOKS_ON)
    with pytest.raises(HeadraceError, match="stopping"), flame.recorded(os.getpid(), tmp_path / "f.svg", 10.0):
        raise HeadraceError("project.not_running", "stopping")
    assert not (tmp_path / "f.svg").exists()


def test_without_py_spy(tools: Path, tmp_path: Path) -> None:
    with pytest.raises(HeadraceError) as missing, flame.recorded(os.getpid(), tmp_path / "f.svg", 1.0):
        raise AssertionError
    assert (missing.value.code, missing.value.next) == ("config.library", "pip install 'headrace[profile]'")


@pytest.mark.parametrize(
    ("scope", "why", "helps"),
    [
        ("1\n", "kernel.yama.ptrace_scope is 1", "sudo sysctl kernel.yama.ptrace_scope=0"),
        ("3\n", "until the machine starts anew", "without --flame"),
        (None, "Error: No python processes found in process 17 or any", "--cap-add SYS_PTRACE"),
    ],
)
def test_where_one_process_may_not_look_into_another(
    tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scope: str | None, why: str, helps: str
) -> None:
    place = tmp_path / "ptrace_scope"
    if scope is not None:
        place.write_text(scope)
    monkeypatch.setattr(flame, "SCOPE", place)
    draws(tools, "echo 'Error: No python processes found in process 17 or any of its subprocesses' >&2; exit 1")
    with pytest.raises(HeadraceError) as refused, flame.recorded(os.getpid(), tmp_path / "f.svg", 1.0):
        raise AssertionError
    assert (refused.value.code, refused.value.where) == ("profile.flame", f"process {os.getpid()}")
    assert why in refused.value.why and helps in refused.value.next


def test_the_system_says_so_before_py_spy_is_started(
    tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, flags: int) -> int:
        raise PermissionError(13, "Permission denied", path)

    draws(tools, LOOKS_ON)
    monkeypatch.setattr(flame, "SCOPE", tmp_path / "none")
    monkeypatch.setattr(flame.os, "open", refuse)
    with pytest.raises(HeadraceError) as refused, flame.recorded(17, tmp_path / "f.svg", 1.0):
        raise AssertionError
    assert refused.value.why == "[Errno 13] Permission denied: '/proc/17/mem'"


def test_another_fault_of_py_spy_is_told_in_its_words(tools: Path, tmp_path: Path) -> None:
    draws(tools, "echo 'Error: Failed to get process executable name' >&2; exit 1")
    with pytest.raises(HeadraceError) as refused, flame.recorded(os.getpid(), tmp_path / "f.svg", 1.0):
        raise AssertionError
    assert refused.value.why == "Error: Failed to get process executable name"


def test_a_folder_that_is_missing_is_told_before(tools: Path, tmp_path: Path) -> None:
    draws(tools, LOOKS_ON)
    with pytest.raises(HeadraceError) as refused, flame.recorded(17, tmp_path / "no/f.svg", 1.0):
        raise AssertionError
    assert refused.value.next == f"mkdir -p {tmp_path / 'no'}"
