"""Commands beside a running project: what they ask it, what they print, and their exit status.

Method: the installed command in its own process. The running project is a control server in this process whose
pipeline answers fixed values; everything between the two (arguments, socket, errors, text) is the product's own.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import warm_command
from headrace.control import lock, socket
from headrace.control.socket import ControlServer
from headrace.control.verbs import Dispatcher
from headrace.engine.heard import Heard
from headrace.model.errors import HeadraceError

COMMAND = Path(sys.executable).with_name("headrace")
PLAN: dict[str, Any] = {
    "changes": [
        {"action": "create", "kind": "source", "name": "shop", "reason": "new", "affects": []},
        {"action": "keep", "kind": "view", "name": "clicks", "reason": "", "affects": []},
        {"action": "replace", "kind": "view", "name": "revenue", "reason": "its SQL changed", "affects": ["daily"]},
        {"action": "keep", "kind": "view", "name": "draw", "reason": "refused; it is not created", "affects": []},
        {"action": "drop", "kind": "view", "name": "old", "reason": "its file is gone", "affects": []},
    ],
    "tables": {"shop": ["customers", "orders"]},
    "functions": [
        {"name": "gross", "file": "functions/prices.py", "allowed": True, "views": ["clicks", "revenue"]},
        {"name": "net", "file": "functions/prices.py", "allowed": False, "views": []},
    ],
    "views": [
        {"name": "clicks", "incremental": True, "operators": ["aggregate"], "refused": None, "warnings": []},
        {
            "name": "revenue", "incremental": True, "operators": ["join", "aggregate"], "refused": None,
            "warnings": ["w1"],
        },
        {
            "name": "draw", "incremental": False, "operators": [], "warnings": [],
            "refused": {"code": "sql.not_deterministic", "what": "rand() is not determined by its input",
                        "where": "views/draw.sql:2", "why": "", "next": "leave it out"},
        },
    ],
    "warnings": ["orders has no key: it is taken as insert-only"],
}  # fmt: skip


class Answers:
    """A pipeline whose answers a test sets; it notes what it was asked."""

    tell = Heard(None)

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.plan_answer = PLAN
        self.differences = 0

    def plan(self, project: Any) -> dict[str, Any]:
        return self.plan_answer

    def apply(self, project: Any) -> dict[str, Any]:
        return {"changes": PLAN["changes"][1:3], "views": PLAN["views"][:2]}

    def explain(self, view: str) -> dict[str, Any]:
        return {"view": view, "sql": "SELECT 1", "operators": [], "text": "aggregate\n  join \x1b[2J"}

    def query(self, text: str, seconds: float | None, still_wanted: object, limit: int | None) -> SimpleNamespace:
        self.asked.append(text)
        when = datetime(2026, 3, 1, 8, tzinfo=UTC)
        rows = pa.table({
            "region": ["nörth", None, "a\nb"],
            "total": pa.array([Decimal("19.90"), Decimal("-1.00"), None]),
            "seen": pa.array([when] * 3, pa.timestamp("us", tz="UTC")),
            "x": [float("nan"), 1.5, float("inf")],
        })  # fmt: skip
        return SimpleNamespace(commit=1042, rows=rows.slice(0, limit), more=limit is not None and limit < 3, stale={})

    def verify(self, views: list[str] | None, on_progress: Any = None) -> dict[str, Any]:
        self.asked.append(views)
        first = (
            [{"row": {"region": "north", "total": Decimal("1.00")}, "expected": 1, "found": 0}]
            if self.differences
            else []
        )
        view = {"view": "revenue", "rows": 1200, "differences": self.differences, "seconds": 0.25, "first": first}
        return {"commit": 1042, "views": [view], "differences": self.differences}

    def drop(self, view: str) -> dict[str, Any]:
        if view == "clicks":
            raise HeadraceError("view.has_readers", "daily and weekly read 'clicks'", next="drop them first")
        return {}

    def status(self) -> dict[str, Any]:
        error = {"code": "sink.connect", "what": "no route to host", "where": "sinks/out.yaml", "why": "", "next": ""}
        return {
            "commit": 1042, "frontier": 1040,
            "views": [{"name": "revenue", "version": 2, "state": "live", "frontier": 1040, "rows": 1200}],
            "sources": [{"name": "shop", "type": "http", "state": "running", "tables": ["customers", "orders"]}],
            "sinks": [{"name": "out", "type": "postgres", "state": "down", "frontier": 900, "error": error}],
        }  # fmt: skip

    def frontier(self) -> dict[str, Any]:
        error = {"code": "sink.connect", "what": "no route to host", "where": "", "why": "", "next": ""}
        return {
            "commit": 1042, "least": 900, "lag": 142, "behind_s": 31.5,
            "views": [
                {"name": "revenue", "state": "live", "reason": "", "commit": 1040, "lag": 2, "behind_s": 0.25,
                 "in_least": True},
                {"name": "draw", "state": "failed", "reason": "it divides\nby zero", "commit": 7, "lag": 1035,
                 "behind_s": 900.0, "in_least": False},
            ],
            "sinks": [{"name": "out", "state": "failed", "error": error, "commit": 900, "lag": 142, "behind_s": 31.5,
                       "in_least": True}],
        }  # fmt: skip

    def wait_for(
        self, token: str, timeout_s: float, view: str | None, sink: str | None, on_progress: Any, whose: str | None
    ) -> dict[str, Any]:
        self.asked.append((token, timeout_s, view, sink))
        if token == "1042":
            why = "sink out is at commit 900, failed: [sink.connect] no route to host"
            raise HeadraceError("wait.timeout", "not reached", why=why)
        return {"token": token, "commit": 1031, "reached": 1040, "of": f"view {view}"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "views").mkdir()
    (tmp_path / "headrace.yaml").write_text("name: shop\n")
    (tmp_path / "views/revenue.sql").write_text("SELECT 1 AS one")
    (tmp_path / "views/clicks.sql").write_text("SELECT 2 AS two")
    return tmp_path


@pytest.fixture
def answers(folder: Path) -> Iterator[Answers]:
    pipeline, stopping = Answers(), threading.Event()
    dispatcher = Dispatcher(folder, stopping.set)
    dispatcher.attach(pipeline)
    ended = threading.Event()

    def serve() -> None:
        with lock.hold(folder, "headrace up"), ControlServer(folder, dispatcher.handle):
            ended.set()
            stopping.wait(60)

    thread = threading.Thread(target=serve)
    thread.start()
    assert ended.wait(10)
    yield pipeline
    stopping.set()
    thread.join()


def run(folder: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HEADRACE")}
    return warm_command.run(folder, *arguments, env=environment, stdin=stdin)


def test_plan_reads_like_a_plan_and_fails_for_a_refused_view(folder: Path, answers: Answers) -> None:
    done = run(folder, "plan")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "  + source shop   new; tables customers, orders",
        "    view clicks   incremental: aggregate",
        "  ~ view revenue  its SQL changed; incremental: join, aggregate",
        "      affects daily",
        "      warning: w1",
        "    view draw     refused; it is not created",
        "      refused [sql.not_deterministic] rand() is not determined by its input",
        "        where: views/draw.sql:2",
        "        next:  leave it out",
        "  - view old      its file is gone",
        "    code gross  functions/prices.py; called by clicks, revenue",
        "    code net  functions/prices.py; not allowed to run: headrace.yaml does not say `code: true`",
        "",
        "warning: orders has no key: it is taken as insert-only",
        "",
        "Plan: 1 to create, 1 to replace, 1 to drop, 1 unchanged, 1 refused.",
    ]
    assert json.loads(run(folder, "plan", "--json").stdout) == PLAN


def test_a_plan_tells_of_a_source_that_is_not_read_beside_all_else(folder: Path, answers: Answers) -> None:
    error = {
        "code": "source.connect",
        "what": "PostgreSQL cannot be reached",
        "where": "sources/shop.yaml",
        "why": "refused\nthere",
        "next": "start it",
    }
    answers.plan_answer = {**PLAN, "unread": {"shop": error}, "views": [], "tables": {}}
    done = run(folder, "plan")
    assert done.returncode == 1
    assert done.stdout.splitlines()[:6] == [
        "  + source shop   new",
        "      not read [source.connect] PostgreSQL cannot be reached",
        "        where: sources/shop.yaml",
        "        why:   refused",
        "               there",
        "        next:  start it",
    ]


def test_a_plan_of_nothing_succeeds(folder: Path, answers: Answers) -> None:
    answers.plan_answer = {"changes": [], "tables": {}, "views": [], "warnings": []}
    done = run(folder, "plan")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "Plan: nothing to do.")


def test_apply_tells_what_was_done(folder: Path, answers: Answers) -> None:
    done = run(folder, "apply")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "Done: 1 to replace, 1 unchanged."


def test_sql_prints_exact_values_that_cannot_steer_the_terminal(folder: Path, answers: Answers) -> None:
    done = run(folder, "sql", "SELECT * FROM revenue")
    assert done.stdout.splitlines() == [
        "region  total  seen                         x",
        "─" * 45,
        "nörth   19.90  2026-03-01T08:00:00Z       NaN",
        "NULL    -1.00  2026-03-01T08:00:00Z       1.5",
        "a\\nb     NULL  2026-03-01T08:00:00Z  Infinity",
        "",
        "3 rows",
    ]
    assert answers.asked == ["SELECT * FROM revenue"]


def test_sql_from_stdin_with_a_limit_as_json(folder: Path, answers: Answers) -> None:
    done = run(folder, "sql", "-", "--limit", "1", "--json", stdin="SELECT\n  1")
    answer = json.loads(done.stdout)
    assert [column["type"] for column in answer["columns"]] == ["string", "decimal(4,2)", "timestamp", "double"]
    assert answer["rows"] == [["nörth", "19.90", "2026-03-01T08:00:00Z", "NaN"]]
    assert (answer["more"], answer["commit"], answer["stale"]) == (True, 1042, {})
    assert answers.asked == ["SELECT\n  1"]
    assert run(folder, "sql", "x", "-n", "2").stdout.endswith("\n2 rows (--limit shows more)\n")


def test_explain_prints_its_text(folder: Path, answers: Answers) -> None:
    assert run(folder, "explain", "REVENUE").stdout == "aggregate\n  join \\u001b[2J\n"
    assert json.loads(run(folder, "explain", "revenue", "--json").stdout)["view"] == "revenue"


def test_verify_succeeds_only_without_differences(folder: Path, answers: Answers) -> None:
    done = run(folder, "verify")
    assert done.returncode == 0
    assert done.stdout.endswith("\n0 differences in 1,200 rows of 1 view at commit 1,042\n")
    answers.differences = 1
    done = run(folder, "verify", "revenue")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[2].split() == ["revenue", "1200", "1", "0.2"]
    assert lines[3] == "  differs revenue: expected 1 of this row, found 0: region=north, total=1.00"
    assert run(folder, "verify", "--json").returncode == 1
    assert answers.asked == [None, ["revenue"], None]


def test_status_shows_every_part_and_its_error(folder: Path, answers: Answers) -> None:
    lines = run(folder, "status").stdout.splitlines()
    assert lines[0] == f"running (process {os.getpid()}), commit 1,042, views at 1,040"
    assert lines[-2].split() == ["out", "postgres", "down", "900"]
    assert lines[-1] == "  out: [sink.connect] no route to host (sinks/out.yaml)"
    assert json.loads(run(folder, "status", "--json").stdout)["sinks"][0]["frontier"] == 900


def test_frontier_names_the_least_and_who_is_not_in_it(folder: Path, answers: Answers) -> None:
    lines = run(folder, "frontier").stdout.splitlines()
    assert lines[:2] == [
        "running; the log is at commit 1,042",
        "every live view and every sink has reached commit 900, 142 commits and 31.5 s behind",
    ]
    words = [line.split() for line in lines]
    assert words[4] == ["name", "state", "commit", "lag", "behind", "s"]
    assert words[6:8] == [["revenue", "live", "1040", "2", "0.25"], ["draw", "failed", "7", "1035", "900.0"]]
    assert lines[8] == "  draw: stale, not in the least: it divides; by zero"
    assert words[-2] == ["out", "failed", "900", "142", "31.5"]
    assert lines[-1] == "  out: [sink.connect] no route to host"
    assert json.loads(run(folder, "frontier", "--json").stdout)["least"] == 900


def test_wait_prints_the_commit_or_fails_with_who_is_late(folder: Path, answers: Answers) -> None:
    done = run(folder, "wait", "--token", "shop:0/16B3748", "--view", "revenue", "--timeout", "5")
    assert (done.returncode, done.stdout) == (
        0, "shop:0/16B3748 is commit 1,031; view revenue has reached commit 1,040\n",
    )  # fmt: skip
    done = run(folder, "wait", "--token", "1031", "--view", "revenue")
    assert done.stdout == "view revenue has reached commit 1,040\n"
    assert json.loads(run(folder, "wait", "--token", "1031", "--json").stdout)["reached"] == 1040
    done = run(folder, "wait", "--token", "1042", "--sink", "out")
    assert (done.returncode, done.stdout) == (1, "")
    assert "sink out is at commit 900, failed: [sink.connect] no route to host" in done.stderr
    assert answers.asked == [
        ("shop:0/16B3748", 5.0, "revenue", None), ("1031", 60.0, "revenue", None), ("1031", 60.0, None, None),
        ("1042", 60.0, None, "out"),
    ]  # fmt: skip


def test_drop_asks_first_and_refuses_what_others_read(folder: Path, answers: Answers) -> None:
    done = run(folder, "drop", "revenue")
    assert done.returncode == 2
    assert "--yes" in done.stderr
    done = run(folder, "drop", "clicks", "--yes")
    assert done.returncode == 1
    assert "daily and weekly read 'clicks'" in done.stderr
    assert (folder / "views/clicks.sql").exists()
    done = run(folder, "drop", "revenue", "--yes")
    assert done.returncode == 0
    assert "views/revenue.sql.dropped" in done.stdout
    assert not (folder / "views/revenue.sql").exists()


def test_stop_waits_until_the_project_is_free(folder: Path, answers: Answers) -> None:
    done = run(folder, "stop")
    assert (done.returncode, done.stdout) == (0, f"stopped (process {os.getpid()})\n")
    assert json.loads(run(folder, "stop", "--json").stderr)["error"]["code"] == "project.not_running"


def test_an_error_says_what_where_why_and_next(folder: Path, answers: Answers) -> None:
    done = run(folder, "explain", "revenu")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        "error [view.unknown] there is no view 'revenu'",
        "  next:  did you mean 'revenue'?",
        "  help:  headrace help view.unknown",
    ]
    (folder / "headrace.yaml").write_text("name: shop\nmastr: x\n")
    done = run(folder, "plan", "--json")
    assert (done.returncode, done.stdout) == (1, "")
    assert json.loads(done.stderr) == {
        "error": {
            "code": "config.unknown_key",
            "what": "unknown key 'mastr'",
            "where": "headrace.yaml:2",
            "why": "nothing reads it",
            "next": "did you mean 'master'?",
        }
    }


@pytest.mark.parametrize(
    "arguments",
    [["nonsense"], ["show"], ["sql"], ["views", "--nonsense"], ["sql", "x", "--limit", "many"], ["drop"],
     ["drop", "a", "--all", "--yes"], ["repair"], ["wait"], ["wait", "--token", "1", "--view", "a", "--sink", "b"],
     ["show", "a", "--csv", "--json"]],
)  # fmt: skip
def test_wrong_usage_has_status_2(folder: Path, arguments: list[str]) -> None:
    done = run(folder, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage: headrace" in done.stderr


def test_a_misspelt_command_has_a_suggestion(folder: Path) -> None:
    assert "Did you mean 'verify'" in run(folder, "verfiy").stderr


def test_the_project_is_found_from_below_named_or_missed(folder: Path, answers: Answers, tmp_path: Path) -> None:
    assert json.loads(run(folder / "views", "status", "--json").stdout)["commit"] == 1042
    assert json.loads(run(Path("/"), "status", "-p", str(folder), "--json").stdout)["commit"] == 1042
    done = run(Path("/"), "status")
    assert done.returncode == 1
    assert "[project.not_found]" in done.stderr
    assert "headrace init" in done.stderr


def test_a_reader_that_goes_away_is_no_error(folder: Path, answers: Answers) -> None:
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {COMMAND} --help | true; {COMMAND} status | true"],
        check=False, capture_output=True, text=True, cwd=folder,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


DRIVER = """
import json, sys, time
from headrace.control import up
class Pipeline:
    def start(self): time.sleep(0.2)
    def stop(self): print("pipeline stopped", flush=True)
    def wait(self, timeout_s): time.sleep(0.05)
    def status(self): return {"commit": 5, "frontier": 5, "sources": [
        {"name": "shop", "state": "running", "endpoint": "http://127.0.0.1:7071", "token_file": "t",
         "tables": ["a", "b"]}],
        "views": [{"name": "revenue", "state": "live", "rows": 1234}], "sinks": []}
def make(project, on_event, *, yielding):
    on_event({"event": "note", "text": "hello"})
    on_event({"event": "source.started", "source": "shop", "tables": ["a", "b"]})
    error = {"code": "sink.connect", "what": "no route", "where": "w"}
    on_event({"event": "sink.failed", "sink": "out", "error": error})
    on_event({"event": "engine.failed", "error": "[internal] one\\n  why: two"})
    return Pipeline()
up._pipeline = make
from headrace.cli.main import main
main()
"""


@contextlib.contextmanager
def running_up(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process of `headrace up`, once it answers; killed when the test has not ended it."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", DRIVER, "up", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
    )  # fmt: skip
    with process:
        try:
            end = time.monotonic() + 20
            while not socket.running(folder) or socket.request(folder, "status")["state"] != "running":
                assert process.poll() is None
                assert time.monotonic() < end
                time.sleep(0.02)
            yield process
        finally:
            if process.poll() is None:
                process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up_says_when_it_is_ready_and_ends_in_order(folder: Path, number: signal.Signals) -> None:
    with running_up(folder) as process:
        done = run(folder, "up")
        assert done.returncode == 1
        assert f"process {process.pid} (`headrace up`) runs this project" in done.stderr
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    lines = out.splitlines()
    assert process.returncode == 0
    assert lines[:5] == [
        "starting Spark",
        "hello",
        "source shop has started",
        "  source shop  http://127.0.0.1:7071  token in t  tables a, b",
        "  view   revenue  1,234 rows",
    ]
    assert lines[5].startswith("shop is up after ")
    assert lines[-2:] == ["pipeline stopped", "stopped"]
    assert err.splitlines() == [
        "sink out fails: [sink.connect] no route (w)",
        "the engine has failed",
        "",
        "stopping after this step; once more ends it at once",
    ]


def test_up_as_json_is_an_object_a_line(folder: Path) -> None:
    with running_up(folder, "--json") as process:
        assert run(folder, "stop").stdout == f"stopped (process {process.pid})\n"
        out, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "")
    events = [json.loads(line) for line in out.splitlines() if line != "pipeline stopped"]
    kinds = [event["event"] for event in events]
    assert kinds[:6] == ["starting", "note", "source.started", "sink.failed", "engine.failed", "ready"]
    assert kinds[-1] == "stopped"
    assert events[5]["pid"] == process.pid


def test_up_refuses_an_unknown_connector_before_it_starts_anything(folder: Path) -> None:
    (folder / "sources").mkdir()
    (folder / "sources/shop.yaml").write_text("type: htttp\n")
    done = run(folder, "up")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "error [config.unknown_type] no source of type 'htttp'",
        "  where: sources/shop.yaml",
        "  next:  did you mean 'http'?",
        "  help:  headrace help config.unknown_type",
    ]
    assert not (folder / ".headrace").exists()
