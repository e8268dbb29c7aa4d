"""Goal: the embedded demo shows exact views, delivers them to its DuckDB file, and leaves nothing running.

Method: run the command as a user does, for a few seconds, and look at its summary: it holds every view against Spark
batch, the DuckDB file and the rows that a subscriber kept from the feeds. What is left of its processes is looked for.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HEADRACE = str(Path(sys.executable).with_name("headrace"))
VIEWS = {"revenue_by_region", "click_through_rate", "top_products", "customers_without_order"}
SECONDS = 12
RATE = 40


def demo(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [HEADRACE, "demo", "--path", str(folder), "--json", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)


@pytest.mark.spark
def test_the_demo_proves_its_views_and_ends_what_it_started(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    done = demo(folder, "--seconds", str(SECONDS), "--rate", str(RATE))
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads(done.stdout)
    assert summary["ok"] and summary["differences"] == 0 and summary["missing"] == []
    assert {view["view"] for view in summary["views"]} == VIEWS
    for view in summary["views"]:
        assert view["rows"] > 0, view
        assert (view["differences"], view["duckdb_differences"], view["followed_differences"]) == (0, 0, 0), view
    assert summary["transactions"] > SECONDS * RATE / 4
    assert summary["commit"] >= summary["transactions"]
    assert 0 < summary["latency_ms"]["p50"] <= summary["latency_ms"]["p99"]
    assert summary["exit_status"] == 0
    assert _processes_naming(folder) == []


def test_the_demo_leaves_a_folder_alone_that_it_did_not_make(tmp_path: Path) -> None:
    kept = tmp_path / "thesis.txt"
    kept.write_text("years of work", encoding="utf-8")
    done = demo(tmp_path, "--seconds", "1")
    assert done.returncode == 1
    assert json.loads(done.stderr.splitlines()[-1])["error"]["code"] == "project.exists"
    assert kept.read_text(encoding="utf-8") == "years of work"


def _processes_naming(folder: Path) -> list[str]:
    """Command lines of processes that were started with this folder."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = place.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line:
            found.append(line)
    return found
