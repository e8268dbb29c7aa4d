"""``headrace test`` as a user runs it: what it prints, and its exit status."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

import warm_command


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return warm_command.run(cwd, *arguments)


@pytest.mark.spark
def test_a_failing_test_shows_the_rows_and_fails_the_command(tmp_path: Path) -> None:
    assert run("init", cwd=tmp_path).returncode == 0
    written = tmp_path / "tests/shop.yaml"
    text = written.read_text()
    (tmp_path / "tests/wrong.yaml").write_text(text.replace('revenue: "19.90"', 'revenue: "19.80"', 1))
    done = run("test", cwd=tmp_path)
    assert done.returncode == 1
    lines = re.sub(r"\d+\.\d s", "N s", done.stdout).splitlines()
    line = 1 + text.splitlines().index("  - name: the first order counts")
    assert lines == [
        "passed shop  3 steps, N s",
        "failed wrong  3 steps, N s",
        f"  tests/wrong.yaml:{line}  the first order counts",
        "    revenue: 1 missing, 1 unexpected",
        "      - region: north, orders: 1, revenue: 19.80",
        "      + region: north, orders: 1, revenue: 19.90",
        "",
        "1 passed, 1 failed",
    ]
    assert not (tmp_path / ".headrace").exists()  # nothing of the project is touched


def test_a_misspelt_key_is_told_before_anything_is_started(tmp_path: Path) -> None:
    run("init", cwd=tmp_path)
    (tmp_path / "tests/shop.yaml").write_text("steps:\n  - gievn: {}\n")
    done = run("test", "--json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    error = json.loads(done.stderr)["error"]
    assert (error["code"], error["where"], error["next"]) == (
        "config.unknown_key", "tests/shop.yaml:2", "did you mean 'given'?"
    )  # fmt: skip
