"""Goal: a fault in an operator is noticed, by name. Method: a law of tests/laws runs over a copy of the source with one
fault planted in it, and must fail at the query that the fault is known to spoil.

``HEADRACE_PLANTED=all`` (``make planted``) takes every fault of faults.toml; the usual run the ones marked ``usual``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
SOURCE, LAWS = HERE.parents[1] / "src" / "headrace", HERE.parent / "laws"
FAULTS: dict[str, dict[str, Any]] = tomllib.loads((HERE / "faults.toml").read_text())
EVERY = os.environ.get("HEADRACE_PLANTED") == "all"
HISTORIES = "60"


def planted(fault: dict[str, Any], text: str) -> str:
    return text.replace(fault["old"], fault["new"])


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_has_its_place(name: str) -> None:
    fault = FAULTS[name]
    text = (SOURCE / fault["file"]).read_text()
    assert text.count(fault["old"]) == 1, f"{fault['file']} has changed: say anew where this fault is planted"
    compile(planted(fault, text), fault["file"], "exec")
    assert (LAWS / fault["law"]).exists()


@pytest.mark.spark
@pytest.mark.parametrize("name", [n for n, fault in FAULTS.items() if EVERY or fault.get("usual")])
def test_the_fault_is_noticed(name: str, tmp_path: Path) -> None:
    fault = FAULTS[name]
    shutil.copytree(SOURCE, tmp_path / "headrace", ignore=shutil.ignore_patterns("__pycache__"))
    file = tmp_path / "headrace" / fault["file"]
    file.write_text(planted(fault, file.read_text()))
    settings = {
        "PYTHONPATH": str(tmp_path),
        "HEADRACE_LAWS_HISTORIES": HISTORIES,
        "HEADRACE_LAWS_REGRESSIONS": str(tmp_path),
        "HEADRACE_LAWS_SHRINK": "0",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(LAWS / fault["law"])]
    run = subprocess.run(
        command,
        check=False,
        cwd=HERE.parents[1],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=800,
    )
    told = [line for line in run.stdout.splitlines() if line.startswith("E ")]
    assert run.returncode == 1, f"no law noticed it\n{run.stdout[-2000:]}{run.stderr[-2000:]}"
    assert any(fault["seen"] in line for line in told), f"noticed elsewhere: {told[:12]}"
