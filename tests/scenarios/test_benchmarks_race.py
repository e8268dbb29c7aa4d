"""Goal: a race that is run in parts gives the medians of all of its parts, and says whether answers are equal. Method:
programs that count their runs and write changes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest
from benchmarks import watched
from benchmarks.nexmark.rates import __main__ as race
from benchmarks.nexmark.rates import texts

RUN = """
import json, pathlib, sys
made, changes, rate = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
made.write_text(str(number := int(made.read_text() if made.exists() else 0) + 1))
assert not list(changes.iterdir())
(changes / "part").write_text(json.dumps({"before": None, "after": {"price": rate}, "op": "c"}))
if rate:
    print(json.dumps({"per_second": rate * number, "wrong": 0} if rate > 0 else {"refused": "no"}))
else:
    sys.exit(1)
"""


@pytest.fixture
def raced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """A race of q0 and q1 with so many rounds: its exit status and the lines that it printed."""

    def commands(query: str, *given: Any) -> list[tuple[str, list[str]]]:
        rates = {"headrace": 100, "flink": 40, "dbsp": 1_000, "pathway": 0, "spark": -1}
        changes = str(given[-1])
        return [
            (engine, [sys.executable, "-c", RUN, str(tmp_path / f"{query}-{engine}"), changes, str(rate)])
            for engine, rate in rates.items()
        ]

    def answers(data: Path, queries: list[str]) -> None:
        (data / "answers").mkdir(parents=True, exist_ok=True)
        for query, price in zip(queries, (40, 41), strict=True):
            duckdb.sql(f"SELECT {price} AS price").write_parquet(str(data / "answers" / f"{query}.parquet"))

    def run(rounds: int) -> tuple[int, list[dict[str, Any]]]:
        kept = ["--keep", str(tmp_path / "runs.jsonl"), "--cold", "--folder", str(tmp_path / "data")]
        told = ["race", "--queries", "q0", "q1", "--peers", "flink,pathway,spark,dbsp", "--rounds", str(rounds), *kept]
        monkeypatch.setattr(sys, "argv", told)
        status = race.main()
        *lines, _ = capsys.readouterr().out.splitlines()
        return status, [json.loads(line) for line in lines]

    monkeypatch.setattr(race, "commands", commands)
    monkeypatch.setattr(watched, "LOOK_S", 0.01)
    monkeypatch.setattr(race, "_answers", answers)
    monkeypatch.setattr(race, "_as_csv", lambda *_: None)
    monkeypatch.setattr("benchmarks.nexmark.rates.stream.write", lambda *_: None)
    return run


def test_runs_that_are_kept_are_not_made_again(raced: Any, tmp_path: Path) -> None:
    assert raced(1)[1][-1]["median"] == {"q0": 100, "q1": 100}
    status, (*_, summary) = raced(3)
    assert (status, summary["wrong"]) == (0, 0)
    assert summary["median"] == {"q0": 200, "q1": 200}  # of 100, 200 and 300
    assert (tmp_path / "q1-headrace").read_text() == "3"
    assert (tmp_path / "q1-pathway").read_text() == "1"  # it has failed
    assert (tmp_path / "q1-spark").read_text() == "1"  # it refuses that query
    assert raced(2)[1][-1] == summary
    assert (tmp_path / "q1-flink").read_text() == "3"


def test_the_least_ratio_is_that_to_a_neighbour_and_not_to_the_yardstick(raced: Any) -> None:
    summary = raced(1)[1][-1]
    assert (summary["to_flink"], summary["to_dbsp"]) == (2.5, 0.1)
    assert (summary["least"], summary["least_query"]) == (2.5, "q0")
    assert "to_pathway" not in summary and "to_spark" not in summary  # one failed, one refuses


def test_what_a_neighbours_changes_come_to_is_compared_once(raced: Any) -> None:
    lines = raced(2)[1][:-1]
    told = [[line.get("equal", "-") for line in lines if line["query"] == q] for q in ("q0", "q1")]
    # headrace, flink, dbsp, pathway and spark, then the first three once more
    assert told == [["-", True, None, *"-----"], ["-", False, None, *"-----"]]
    differing = next(line for line in lines if line.get("equal") is False)
    assert (differing["engine"], differing["missing"], differing["extra"]) == ("flink", 1, 1)


def test_a_query_has_sources_of_the_tables_that_it_reads() -> None:
    """Not of auctions, for a column of bids that is called so."""
    assert {query: texts.reads(query) for query in ("q0", "q3", "q4")} == {
        "q0": ["bid"],
        "q3": ["person", "auction"],
        "q4": ["auction", "bid"],
    }


def test_the_peak_counts_memory_that_processes_share_once() -> None:
    held = "import json, os, time; held = b'x' * (200 << 20); os.fork() or (time.sleep(2), os._exit(0)); os.wait()"
    line = watched.run([sys.executable, "-c", f"{held}; print(json.dumps({{'events': 1}}))"])
    assert line["events"] == 1
    assert 200 <= line["peak_mib"] < 300  # by what is resident it would be 400
