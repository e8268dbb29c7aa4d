"""Goal: a PostgreSQL under load is followed exactly, whole transactions at a time, also through SIGKILL.

Method: a short run of the example. Its checker reads the second database all the time and compares sums that every
transaction of pgbench leaves equal; at the end PostgreSQL's own answers on the source are compared row by row.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.control import lock

ROOT = Path(__file__).resolve().parents[2]
VIEWS = {"branch_balance", "history_per_hour", "accounts_in_disagreement", "account_balance"}


@pytest.mark.spark
@pytest.mark.usefixtures("own_jvm")
@pytest.mark.postgres
def test_no_transaction_is_torn_or_lost_when_the_product_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HEADRACE_JAVA_OPTIONS")  # the product's own
    options = ["--scale", "1", "--rate", "50", "--seconds", "15", "--kills", "2", "--path", str(tmp_path / "run")]
    done = subprocess.run(
        [sys.executable, "-m", "examples.pgbench.run", "--json", *options],
        cwd=ROOT, capture_output=True, text=True, timeout=580, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads(done.stdout)
    assert summary["ok"] and summary["agree"] and summary["reached_the_last"]
    assert {view["view"] for view in summary["views"]} == VIEWS
    for view in summary["views"]:
        assert view["rows"] > 0 and (view["missing"], view["surplus"]) == (0, 0), view
    assert summary["torn"] == 0 and summary["backwards"] == 0
    assert summary["reads"] > 200 and summary["steps_seen"] > 10
    arbitrary, in_a_step = summary["kills"][0], summary["kills"][-1]
    assert arbitrary["processes"] >= 2 and in_a_step["processes"] >= 2  # the driver and its JVM at least
    assert in_a_step["step"] is not None  # recorded, and not published when the kill came
    assert summary["transactions"] > 15 * 50 / 2
    assert summary["exit_status"] == 0 and summary["state_bytes"] > 0


def test_a_folder_in_which_another_run_works_stays_as_it_is(tmp_path: Path) -> None:
    kept = tmp_path / "project" / "headrace.yaml"
    kept.parent.mkdir()
    kept.write_text("name: pgbench\n")
    with lock.hold(kept.parent, "headrace up"):
        done = subprocess.run(
            [sys.executable, "-m", "examples.pgbench.run", "--path", str(tmp_path)],
            cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    assert done.returncode == 2 and f"another run works in {tmp_path}; " in done.stderr
    assert kept.read_text() == "name: pgbench\n"
