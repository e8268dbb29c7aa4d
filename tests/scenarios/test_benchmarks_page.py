"""Goal: the page of benchmarks says what was measured and nothing else. Method: recorded runs, and the page of them."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks import report, watched
from benchmarks.page import Run, command, page
from benchmarks.workload import Workload
from benchmarks.workloads import WORKLOADS

NAMED = {workload.name: workload for workload in WORKLOADS}
LATENCY, MANY, SOAK, NEXMARK = (NAMED[name] for name in ("latency", "many", "soak", "nexmark"))
LINE = {
    "benchmark": "latency", "rate": 9987, "p50_ms": 132.7, "p99_ms": 521.5, "max_ms": 505.9, "state_bytes": 53810185,
    "wrong": 0, "series": [[1.0, 120.5, 300.0], [2.0, 130.0, 410.0]], "load": 6.96,
}  # fmt: skip


def recorded(workload: Workload, *lines: dict[str, Any], **other: Any) -> Run:
    made = Run(workload.name, command(workload), "abc1234", "2026-01-31T10:00:00+00:00", 2, 0, lines)
    return replace(made, **other)


def section(text: str, title: str) -> str:
    return text.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_each_figure_stands_beside_its_goal_with_its_verdict() -> None:
    told = section(page([recorded(LATENCY, LINE)]), LATENCY.title)
    assert "| append acknowledged to published, median | 132.7 ms | at most 150 ms | met |" in told
    assert "| append acknowledged to published, 99 of 100 | 521.5 ms | at most 500 ms | **missed** |" in told
    assert "| rate that was reached | 9,987 events a second | at least 9,900 events a second | met |" in told
    assert "| state | 51.3 MiB |  |  |" in told
    assert f"`{command(LATENCY)}`, 2 cores, load 6.96, commit abc1234, 2026-01-31." in told
    assert "median step" not in told  # the line has no such figure


def test_lines_are_told_apart_and_the_last_counts() -> None:
    lines = [{"benchmark": "many", "views": n, "median_ms": ms} for n, ms in ((10, 99.0), (10, 40.0), (100, 180.5))]
    told = section(page([recorded(MANY, *lines, {"benchmark": "many ratio", "ratio": 4.51, "wrong": 0})]), MANY.title)
    assert "| median step of 10 views | 40.0 ms |" in told
    assert "| median step of 100 views | 180.5 ms |" in told
    assert "| the most views to the fewest | 4.51 times | at most 5 times | met |" in told


def test_of_rounds_the_median_counts_and_what_may_never_be_has_to_hold_in_each() -> None:
    said = ((70.5, 0, 7), (151.2, 3, 8), (149.9, 0, 5))
    lines = [
        LINE | {"round": number, "p50_ms": p50, "wrong": wrong, "steps": steps}
        for number, (p50, wrong, steps) in enumerate(said, 1)
    ]
    told = section(page([recorded(LATENCY, *lines)]), LATENCY.title)
    assert "| append acknowledged to published, median | 149.9 ms (70.5 to 151.2) | at most 150 ms | met |" in told
    assert "| rows of the view that differ from DuckDB's | 3 (0 to 3) | at most 0 | **missed** |" in told
    assert "| steps | 7 (5 to 8) |  |  |" in told
    assert "| state | 51.3 MiB |  |  |" in told  # the same in each
    assert f"`{command(LATENCY)}`, 3 rounds, 2 cores" in told
    # A round without a figure does not count for it, and a line of another round is not its last one.
    halves = [{"benchmark": "many ratio", "round": n, "ratio": ratio} for n, ratio in ((1, 4.0), (2, 6.0))]
    told = section(page([recorded(MANY, *halves, {"benchmark": "many", "round": 3, "views": 10})]), MANY.title)
    assert "| the most views to the fewest | 5.0 times (4.0 to 6.0) | at most 5 times | met |" in told


def test_a_smaller_size_is_not_judged_and_the_asked_size_counts_however_old() -> None:
    small = recorded(LATENCY, LINE, command=command(LATENCY, LATENCY.small), date="2026-02-01T10:00:00+00:00")
    told = section(page([small]), LATENCY.title)
    assert "| 132.7 ms | at most 150 ms | not judged at this size |" in told
    assert (
        f"**Not at that size:** these are figures of `{small.command}`; what is asked for is `{command(LATENCY)}`."
        in told
    )
    older = recorded(LATENCY, {**LINE, "p50_ms": 88.0})
    assert "| 88.0 ms | at most 150 ms | met |" in section(page([older, small]), LATENCY.title)


def test_a_run_that_failed_meets_nothing() -> None:
    told = section(page([recorded(LATENCY, LINE, exit=1)]), LATENCY.title)
    assert "ended with status 1" in told and "| met |" not in told


def test_what_has_no_figures_of_its_own_is_shown_as_printed_and_the_rest_is_named() -> None:
    log = NAMED["log"]
    text = page([recorded(log, {"name": "one writer", "per_second": 1750, "load": 2.0})])
    assert "| one writer | per_second 1,750 |" in section(text, log.title)
    assert f"- {MANY.title}: `{command(MANY)}`" in section(text, "Not measured yet")


def test_what_was_raced_is_a_table_of_medians() -> None:
    rates = (("q0", "flink", 500), ("q0", "headrace", 1_600_000), ("q0", "headrace", 1_400_000), ("q6", "headrace", 7))
    lines = [{"benchmark": "nexmark", "query": q, "engine": e, "per_second": rate} for q, e, rate in rates]
    lines.insert(2, {"benchmark": "nexmark", "query": "q3", "engine": "flink", "failed": -9})
    lines[-1] |= {"commit": "def5678", "date": "2026-02-02 10:00:00"}
    ratio = {"benchmark": "nexmark ratio", "to_flink": 3.1, "least": 0.9, "least_query": "q6", "least_dbsp": 0.29}
    told = section(page([recorded(NEXMARK, *lines, ratio)]), NEXMARK.title)
    assert (
        "| query | headrace | flink |\n|---|---:|---:|\n| q0 | 1,500,000 | 500 (3000.00) |\n| q3 |  | failed |\n| q6 | 7 |  |"
        in told
    )
    assert "commit abc1234, def5678, 2026-01-31 to 2026-02-02." in told
    assert "| ours to Flink SQL, geometric mean | 3.1 times | at least 3 times | met |" in told
    assert "| the query of that | q6 |  |  |" in told
    # The mean of all queries and the least of them are judged each by itself.
    assert "DBSP in Rust, least | 0.29 times | at least 0.5 times | **missed** |" in told
    assert "DBSP in Rust, in memory, geometric mean | not measured | at least 0.5 times | **not measured** |" in told


def test_what_neighbours_answered_is_told_below_the_table() -> None:
    race = NAMED["nexmark-1m"]
    open_windows = {"per_second": 5, "equal": None, "why": "windows are open"}
    cells: tuple[tuple[str, str, dict[str, Any]], ...] = (
        *((query, "headrace", {"per_second": 10, "wrong": 0}) for query in ("q0", "q5", "q6", "q7")),
        ("q0", "flink", {"per_second": 5, "equal": True}),
        ("q0", "flink", {"per_second": 5}),  # compared once
        ("q5", "flink", {"per_second": 2, "equal": False, "missing": 1, "extra": 0}),
        ("q0", "pathway", {"per_second": 4}),
        *(("q0", "spark", {"per_second": 5, "equal": True}), ("q5", "spark", open_windows)),
        *((query, "spark", {"refused": "[NO] No window. Ever; "}) for query in ("q6", "q7")),
    )
    lines = [{"benchmark": "nexmark", "query": query, "engine": engine, **said} for query, engine, said in cells]
    told = section(page([recorded(race, *lines)]), race.title)
    assert "| q5 | 10 | 2 (5.00), **differs** |  | 5 (2.00) |" in told
    assert "| q6 | 10 |  |  | refused |" in told
    assert "\nflink: q0: the answer equals DuckDB's; q5: **the answer differs from DuckDB's**.\n" in told
    assert "\npathway: all 1: the answer was not compared.\n" in told
    untold = "q6, q7: refused, [NO] No window; q5: the answer cannot be held to DuckDB's, windows are open."
    assert f"\nspark: q0: the answer equals DuckDB's; {untold}\n" in told


def test_a_figure_that_is_judged_is_never_left_out() -> None:
    told = section(page([recorded(SOAK, LINE)]), SOAK.title)
    assert (
        "| memory of its own, the last window to the first | not measured | at most 1.05 | **not measured** |" in told
    )
    assert "peak rate" not in told  # nothing is asked of it


def test_of_each_workload_the_run_that_counts_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results, new = tmp_path / "results.jsonl", recorded(MANY, {"benchmark": "many", "views": 10, "median_ms": 1.5})
    older = recorded(MANY, date="2026-01-01T10:00:00+00:00")
    results.write_text("".join(json.dumps(asdict(run)) + "\n" for run in (older, recorded(LATENCY, LINE))))
    monkeypatch.setattr(report, "PAGE", tmp_path / "benchmarks.md")
    asked: list[int] = []
    monkeypatch.setattr(report, "measured", lambda _, __, rounds: asked.append(rounds) or new)
    monkeypatch.setattr(sys, "argv", ["report", "--only", "many", "--results", str(results)])
    assert report.main() == 0
    told = [(run.workload, run.date, [*run.lines]) for run in report.kept(results)]
    assert told == [("latency", new.date, [LINE]), ("many", new.date, [*new.lines])]
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--rounds", "2"])
    assert report.main() == 0 and asked == [MANY.rounds, 2] == [5, 2]


def test_a_neighbour_that_takes_all_memory_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = [sys.executable, "-c", "import time; time.sleep(100)"]
    monkeypatch.setattr(watched, "LEAST_LEFT", 1 << 62)
    assert watched.run(waits) == {"failed": -9}


def test_runs_are_kept_and_the_page_written_with_its_drawing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results, written = tmp_path / "results.jsonl", tmp_path / "benchmarks.md"
    results.write_text(json.dumps(asdict(recorded(LATENCY, LINE))) + "\n")
    monkeypatch.setattr(report, "PAGE", written)
    monkeypatch.setattr(sys, "argv", ["report", "--page", "--results", str(results)])
    assert report.main() == 0
    assert f"![{LATENCY.title}](benchmarks/latency.svg)" in written.read_text()
    assert "<svg" in (tmp_path / "benchmarks/latency.svg").read_text()


def test_a_program_is_run_its_lines_kept_and_its_status_told(capsys: pytest.CaptureFixture[str]) -> None:
    missing = report.measured(Workload("none", "No such program", ("benchmarks.none",)), None)
    assert missing.exit != 0 and missing.lines == []
    done = report.measured(Workload("json", "JSON", ("timeit", "-n", "1", "-r", "1", "-s", "print('{}')")), None)
    assert (done.exit, done.lines, done.command) == (0, [{}], "python -m timeit -n 1 -r 1 -s print('{}')")
    assert "{}" in capsys.readouterr().out
    twice = report.measured(Workload("json", "JSON", ("timeit", "-n", "1", "-r", "1", "-s", "print('{}')")), None, 2)
    assert (twice.exit, twice.lines) == (0, [{"round": 1}, {"round": 2}])
    assert report.measured(Workload("none", "No such program", ("benchmarks.none",)), None, 2).exit != 0


def test_a_quick_look_runs_the_small_sizes_and_tells_how_long_it_took(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    said = "import json, sys; print(json.dumps({'events': int(sys.argv[1])}))"
    (tmp_path / "said.py").write_text(said)
    (tmp_path / "broken.py").write_text("raise SystemExit(3)")
    programs = [
        Workload("said", "Said", ("said", "1000"), ("10",)),
        Workload("large", "Only large", ("said", "1000")),
        Workload("broken", "Broken", ("broken",), ()),
    ]
    results, written = tmp_path / "results.jsonl", tmp_path / "benchmarks.md"
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(report, "WORKLOADS", programs)
    monkeypatch.setattr(report, "PAGE", written)
    monkeypatch.setattr(sys, "argv", ["report", "--quick", "--results", str(results)])
    assert report.main() == 1  # as one of them failed
    *lines, last = capsys.readouterr().out.splitlines()
    assert lines == ["python -m said 10", '{"events": 10}', "python -m broken", "failed: broken"]
    assert re.fullmatch(r"bench-quick: \d+ s", last)
    assert not results.exists() and not written.exists()
    assert sum(workload.small is not None for workload in WORKLOADS) > 10
