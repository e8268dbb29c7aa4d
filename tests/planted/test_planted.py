"""Goal: a fault is noticed, by name. Method: a test runs over a copy of the source with one fault planted in it, and
must fail: over an operator a law of tests/laws, at the query that the fault is known to spoil (faults.toml); over what
keeps and delivers a proof or a test of the room (losses.toml).

``HEADRACE_PLANTED=all`` (``make planted``) takes every fault, ``HEADRACE_PLANTED=usual`` too, but runs of the tests what
`make test` takes of them; else the ones marked ``usual``.
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
LOSSES: dict[str, dict[str, Any]] = tomllib.loads((HERE / "losses.toml").read_text())
HOW = os.environ.get("HEADRACE_PLANTED")
HISTORIES = "60"


def planted(fault: dict[str, Any], text: str) -> str:
    return text.replace(fault["old"], fault["new"])


def noticing(fault: dict[str, Any]) -> str:
    """The test that must notice it, as pytest names it."""
    return str(HERE.parent / fault["proof"] if "proof" in fault else LAWS / fault["law"])


def chosen(faults: dict[str, dict[str, Any]]) -> list[str]:
    return [name for name, fault in faults.items() if HOW or fault.get("usual")]


@pytest.mark.parametrize("name", [*FAULTS, *LOSSES])
def test_every_fault_has_its_place(name: str) -> None:
    fault = {**FAULTS, **LOSSES}[name]
    text = (SOURCE / fault["file"]).read_text()
    assert text.count(fault["old"]) == 1, f"{fault['file']} has changed: say anew where this fault is planted"
    compile(planted(fault, text), fault["file"], "exec")
    assert Path(noticing(fault).partition("::")[0]).exists()


@pytest.mark.spark
@pytest.mark.parametrize("name", chosen(FAULTS))
def test_the_fault_is_noticed(name: str, tmp_path: Path) -> None:
    noticed(FAULTS[name], tmp_path)


@pytest.mark.parametrize("name", chosen(LOSSES))
def test_the_loss_is_noticed(name: str, tmp_path: Path) -> None:
    noticed(LOSSES[name], tmp_path)


def noticed(fault: dict[str, Any], tmp_path: Path) -> None:
    shutil.copytree(SOURCE, tmp_path / "headrace", ignore=shutil.ignore_patterns("__pycache__"))
    file = tmp_path / "headrace" / fault["file"]
    file.write_text(planted(fault, file.read_text()))
    settings = {"PYTHONPATH": str(tmp_path), "HEADRACE_LAWS_REGRESSIONS": str(tmp_path), "HEADRACE_LAWS_SHRINK": "0"}
    if HOW == "usual":
        settings |= {"HEADRACE_TESTS": "usual"}
    else:
        size = fault.get("size", "quick")
        settings |= {"HEADRACE_TESTS": "all", "HEADRACE_LAWS_HISTORIES": HISTORIES, "HEADRACE_PROVE": size}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", noticing(fault)]
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
    print(*(line for line in run.stdout.splitlines() if line.startswith("FAILED")), sep="\n")
    assert run.returncode == 1, f"no law noticed it\n{run.stdout[-2000:]}{run.stderr[-2000:]}"
    assert any(fault["seen"] in line for line in told), f"noticed elsewhere: {told[:12]}"
