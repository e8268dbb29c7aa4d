"""Goal: a fresh machine is told what it lacks. Method: real programs that answer as old, new and odd Javas do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PREPARE = Path(__file__).resolve().parents[2] / "tools" / "prepare.py"


def missing_java(**environment: str) -> str:
    program = f"import runpy; print(runpy.run_path({str(PREPARE)!r})['missing_java']())"
    answer = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=30, check=True
    )
    return answer.stdout.strip()


def java_home(folder: Path, answer: str) -> str:
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{answer}' >&2\n", encoding="utf-8")
    program.chmod(0o755)
    return str(folder)


@pytest.mark.parametrize("version", ['openjdk version "17.0.15" 2025-04-15', 'openjdk version "25" 2025-09-16'])
def test_a_java_that_is_new_enough_is_accepted(version: str, tmp_path: Path) -> None:
    assert missing_java(JAVA_HOME=java_home(tmp_path, version)) == ""


@pytest.mark.parametrize(
    ("version", "said"),
    [('java version "1.8.0_402"', "is 8"), ('openjdk version "11.0.22"', "is 11"), ("odd", "gave no version")],
)
def test_a_java_that_is_too_old_is_named_with_what_to_install(version: str, said: str, tmp_path: Path) -> None:
    why = missing_java(JAVA_HOME=java_home(tmp_path, version))
    assert said in why
    assert "apt-get install default-jre-headless" in why


def test_no_java_at_all_says_what_to_install(tmp_path: Path) -> None:
    assert "none was found" in missing_java(PATH=str(tmp_path))


def test_an_unknown_task_lists_those_there_are() -> None:
    answer = subprocess.run(
        [sys.executable, PREPARE, "everything"], env=dict(os.environ), capture_output=True, text=True, check=False
    )
    assert (answer.returncode, answer.stderr) == (
        1,
        "tools/prepare.py needs one of: venv, postgres, mariadb, mysql, chromium, node\n",
    )
