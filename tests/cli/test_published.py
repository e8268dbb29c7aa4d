"""Views are read from their published files: without a JVM, without a lock, beside a running `up` or without one.

Method: a catalogue and files of steps written here as the engine writes them; the installed commands read them.
"""

from __future__ import annotations

import contextlib
import json
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import IO

import pyarrow as pa
import pytest

import warm_command
from headrace.catalog.store import Catalog, ErrorRow, Output, StepShape, ViewRecord
from headrace.control import lock
from headrace.log.append import LogWriter
from headrace.model.schema import Column, ViewSchema
from headrace.model.transaction import TransactionBatch, TransactionOrigin
from headrace.state.run import write_run

COMMAND = Path(sys.executable).with_name("headrace")
SCHEMA = ViewSchema(
    "revenue", 1, (Column("region", "string"), Column("total", "decimal(12,2)"), Column("n", "bigint")), ("region",)
)
Row = tuple[str | None, str, int, int]  # region, total, n, weight


class Published:
    """A project with one view whose steps a test publishes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.step, self.upto = folder, 0, 0
        (folder / "views").mkdir()
        (folder / "headrace.yaml").write_text("")
        (folder / "views/revenue.sql").write_text("SELECT 1")
        (folder / "views/later.sql").write_text("SELECT 2")
        (folder / ".headrace").mkdir()
        self.catalog = Catalog(folder / ".headrace/catalog.db")
        self.catalog.put_view(ViewRecord(SCHEMA, "SELECT 1", "f", "live", "", 0))

    def publish(self, upto: int, rows: list[Row]) -> None:
        self.step += 1
        path = self.folder / ".headrace" / f"{self.step}.arrow"
        regions, totals, counts, weights = zip(*rows, strict=True) if rows else ([], [], [], [])
        columns = [
            pa.array(regions, pa.string()),
            pa.array([Decimal(total) for total in totals], pa.decimal128(12, 2)),
            pa.array(counts, pa.int64()),
            pa.array(weights, pa.int64()),
        ]
        write_run(path, pa.Table.from_arrays(columns, names=["c0", "c1", "c2", "_w"]))
        self.catalog.record_step(self.step, self.upto, upto, StepShape(), 0)
        self.upto = upto
        self.catalog.publish(self.step, [Output(self.step, "revenue@1", str(path), len(rows), "")], 1)


@pytest.fixture
def published(tmp_path: Path) -> Published:
    project = Published(tmp_path)
    project.publish(10, [("south", "5.00", 1, 1), ("north", "19.90", 2, 1), (None, "0.00", 7, 2)])
    return project


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return warm_command.run(folder, *arguments)


def test_views_lists_what_is_published_and_what_is_only_defined(published: Published) -> None:
    done = run(published.folder, "views")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["name", "version", "state", "commit", "rows"]
    assert lines[2:] == [["revenue", "1", "live", "10", "4"], ["later", "new"]]
    answer = json.loads(run(published.folder, "views", "--json").stdout)["views"]
    assert [(view["name"], view.get("rows")) for view in answer] == [("revenue", 4), ("later", None)]
    assert json.loads(run(published.folder, "status", "--json").stdout)["state"] == "stopped"


def test_views_are_counted_without_reading_a_row(published: Published) -> None:
    """The bodies of the files are overwritten; what their footers say is all that is needed."""
    published.publish(11, [("west", "1.00", 1, 3), ("south", "5.00", 1, -1)])
    for file in published.folder.glob(".headrace/*.arrow"):
        data = file.read_bytes()
        with pa.OSFile(str(file)) as source:
            body = pa.ipc.open_file(source).get_batch(0).get_total_buffer_size()
        start = data.rindex(b"south")
        file.write_bytes(data[: start - 4] + bytes(min(body, 64)) + data[start - 4 + min(body, 64) :])
    answer = json.loads(run(published.folder, "views", "--json").stdout)["views"]
    assert (answer[0]["commit"], answer[0]["rows"]) == (11, 6)


def test_a_stopped_project_still_tells_how_far_its_sinks_are(published: Published) -> None:
    published.catalog.put_sink("out", 7, "", 1)
    answer = json.loads(run(published.folder, "status", "--json").stdout)
    assert answer["sinks"] == [{"name": "out", "state": "stopped", "frontier": 7, "lag": 3}]


def test_a_stopped_project_tells_its_frontier_and_what_was_reached(published: Published) -> None:
    with LogWriter(published.folder / ".headrace/log") as log:
        log.append(TransactionBatch((TransactionOrigin("shop", "", 1),) * 12, {}))
    answer = json.loads(run(published.folder, "frontier", "--json").stdout)
    assert (answer["state"], answer["commit"], answer["least"], answer["lag"]) == ("stopped", 12, 10, 2)
    done = run(published.folder, "wait", "--token", "10")
    assert (done.returncode, done.stdout) == (0, "every live view and every sink has reached commit 10\n")
    done = run(published.folder, "wait", "--token", "11", "--view", "Revenue")
    assert done.returncode == 1
    assert "[project.not_running]" in done.stderr
    assert "commit 11 is not reached yet: view revenue is at commit 10" in done.stderr
    assert "the log ends at commit 12" in run(published.folder, "wait", "--token", "13").stderr


def test_show_prints_the_rows_of_one_commit(published: Published) -> None:
    done = run(published.folder, "show", "Revenue")
    assert done.returncode == 0, done.stderr
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    assert lines == [
        "revenue at commit 10: 4 rows",
        "",
        "region  total  n",
        "─" * 16,
        "NULL     0.00  7",
        "NULL     0.00  7",
        "north   19.90  2",
        "south    5.00  1",
    ]


def test_show_as_json_and_csv(published: Published) -> None:
    answer = json.loads(run(published.folder, "show", "revenue", "--json", "-o", "total:desc", "-n", "2").stdout)
    assert answer == {
        "view": "revenue",
        "version": 1,
        "commit": 10,
        "total": 4,
        "columns": [
            {"name": "region", "type": "string"},
            {"name": "total", "type": "decimal(12,2)"},
            {"name": "n", "type": "bigint"},
        ],
        "rows": [["north", "19.90", 2], ["south", "5.00", 1]],
    }
    done = run(published.folder, "show", "revenue", "--csv", "-o", "n")
    assert done.stdout == "region,total,n\nsouth,5.00,1\nnorth,19.90,2\n,0.00,7\n,0.00,7\n"


def test_a_limited_table_says_so(published: Published) -> None:
    assert run(published.folder, "show", "revenue", "-n", "1").stdout.endswith("\n1 of 4 rows (--limit shows more)\n")


@pytest.mark.parametrize("verb", ["show", "watch"])
def test_a_view_that_is_misspelt_or_not_built_yet_is_told_apart(published: Published, verb: str) -> None:
    done = run(published.folder, verb, "revenu", "--json")
    error = json.loads(done.stderr)["error"]
    assert (done.returncode, error["code"], error["next"]) == (1, "view.unknown", "did you mean 'revenue'?")
    error = json.loads(run(published.folder, verb, "later", "--json").stderr)["error"]
    assert (error["code"], error["where"]) == ("view.unknown", "views/later.sql")
    assert "`headrace up` builds it" in error["next"]
    done = run(published.folder, "show", "revenue", "-o", "totl")
    assert done.returncode == 2
    assert "did you mean 'total'?" in done.stderr


def test_a_project_that_never_ran_has_only_definitions(tmp_path: Path) -> None:
    (tmp_path / "headrace.yaml").write_text("")
    assert "There are no views yet" in run(tmp_path, "views").stdout
    assert "the project has no views yet" in run(tmp_path, "show", "x").stderr
    assert not (tmp_path / ".headrace").exists()


def test_reading_needs_no_lock(published: Published) -> None:
    with lock.hold(published.folder, "headrace up"):
        assert run(published.folder, "show", "revenue").returncode == 0
        assert run(published.folder, "views").returncode == 0


def interrupt(process: subprocess.Popen[str]) -> None:
    """Ctrl-C, and again while it ends: `timeout` signals a process and then its group."""
    for pause in (0, 0.002, 0.005, 0.01, 0.02):
        time.sleep(pause)
        process.send_signal(signal.SIGINT)


@contextlib.contextmanager
def watching(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`headrace watch revenue` at work; killed when the test has not ended it."""
    process = subprocess.Popen(
        [COMMAND, "watch", "revenue", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder
    )
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def read_line(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline()


def test_watch_tells_each_step_whole_as_it_comes(published: Published) -> None:
    with watching(published.folder, "--json") as process:
        line = json.loads(read_line(process.stdout))
        assert (line["commit"], line["snapshot"]) == (10, True)
        assert [(change["weight"], change["row"]["region"]) for change in line["changes"]] == [
            (2, None),
            (1, "north"),
            (1, "south"),
        ]
        published.publish(12, [("north", "19.90", 2, -1), ("north", "21.00", 3, 1)])
        assert json.loads(read_line(process.stdout)) == {
            "commit": 12,
            "snapshot": False,
            "changes": [
                {"weight": -1, "row": {"region": "north", "total": "19.90", "n": 2}},
                {"weight": 1, "row": {"region": "north", "total": "21.00", "n": 3}},
            ],
        }
        interrupt(process)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err.strip()) == (0, "", "")


def test_watch_takes_all_rows_back_when_another_version_has_other_columns(published: Published) -> None:
    with watching(published.folder, "--json", "--no-snapshot") as process:
        for _ in range(100):  # until it has looked at the first version
            published.publish(published.step + 20, [("south", "5.00", 1, 1)])
            if process.stdout is not None and select.select([process.stdout], [], [], 0.3)[0]:
                break
        read_line(process.stdout)
        path = published.folder / ".headrace/second.arrow"
        write_run(path, pa.table({"c0": ["all"], "_w": pa.array([1], pa.int64())}))
        second = ViewSchema("revenue", 2, (Column("region", "string"),), ("region",))
        with published.catalog.transaction():
            published.catalog.put_view(ViewRecord(second, "SELECT 2", "g", "live", "", 0))
            published.catalog.put_base("revenue@2", published.step + 1, 900, [str(path)], 1)
            published.publish(900, [])
        lines = [json.loads(read_line(process.stdout))]
        while lines[-1]["commit"] < 900 or lines[-1]["changes"][0]["weight"] < 0:
            lines.append(json.loads(read_line(process.stdout)))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    gone, came = lines[-2:]
    assert {change["weight"] < 0 for change in gone["changes"]} == {True} and gone["commit"] == came["commit"] == 900
    assert {change["row"]["region"] for change in gone["changes"]} == {None, "north", "south"}
    assert came["changes"] == [{"weight": 1, "row": {"region": "all"}}]


def test_watch_without_the_rows_of_now_begins_with_the_first_change(published: Published) -> None:
    with watching(published.folder, "--no-snapshot") as process:
        assert read_line(process.stderr) == "revenue at commit 10: 4 rows; Ctrl-C ends\n"
        published.publish(11, [("south", "5.00", 1, -1)])
        assert read_line(process.stdout) == "      11 - region=south  total=5.00  n=1\n"
        interrupt(process)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err.strip()) == (0, "", "")


def test_a_view_that_has_failed_is_said_to_have_wherever_it_is_read(published: Published) -> None:
    """With the commit that its rows are of: others have gone on since."""
    published.catalog.set_view_state("revenue", 1, "failed", "it threw")
    published.catalog.put_error_rows("revenue", 1, [ErrorRow("", -1, b"", "{}", 1, 10, "it threw")])
    published.publish(30, [])
    searches = published.folder / "searches"
    searches.mkdir()
    (searches / "north.yaml").write_text("view: revenue\nquery: region:north\n")
    shown = run(published.folder, "queries", "show", "north")
    assert shown.stdout.startswith("north in revenue at commit 10: 1 row") and "has failed: it threw" in shown.stdout
    told = json.loads(run(published.folder, "queries", "show", "north", "--json").stdout)
    assert (told["commit"], told["stale"]) == (10, {"revenue": "it threw"})
    asked = run(published.folder, "sql", "--engine", "duckdb", "SELECT * FROM revenue")
    assert asked.stdout.splitlines()[-2:] == ["4 rows", "view revenue has failed: it threw"], asked.stderr
    with watching(published.folder) as process:
        assert read_line(process.stderr) == "revenue at commit 10: 4 rows; Ctrl-C ends\n"
        assert read_line(process.stderr) == "view revenue has failed: it threw\n"
        interrupt(process)
    with watching(published.folder, "--json") as process:
        assert json.loads(read_line(process.stdout))["commit"] == 10
        interrupt(process)
