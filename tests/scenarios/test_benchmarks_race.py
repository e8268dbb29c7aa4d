"""Goal: a race that is run in parts gives the medians of all of its parts. Method: programs that count their runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.nexmark.rates import __main__ as race

RUN = """
import json, pathlib, sys
made = pathlib.Path(sys.argv[1])
made.write_text(str(number := int(made.read_text() if made.exists() else 0) + 1))
print(json.dumps({"per_second": int(sys.argv[2]) * number, "wrong": 0})) if int(sys.argv[2]) else sys.exit(1)
"""


@pytest.fixture
def raced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """A race of q0 and q1 with so many rounds: its exit status and the summary that it printed."""

    def command(query: str, engine: str, rate: int) -> tuple[str, list[str]]:
        return engine, [sys.executable, "-c", RUN, str(tmp_path / f"{query}-{engine}"), str(rate)]

    def commands(query: str, *_: Any) -> list[tuple[str, list[str]]]:
        rates = {"headrace": 100, "flink": 40, "dbsp": 1_000, "pathway": 0}
        return [command(query, engine, rate) for engine, rate in rates.items()]

    def run(rounds: int) -> tuple[int, dict[str, Any]]:
        kept = ["--keep", str(tmp_path / "runs.jsonl"), "--cold", "--folder", str(tmp_path / "data")]
        told = ["race", "--queries", "q0", "q1", "--peers", "flink,pathway,dbsp", "--rounds", str(rounds), *kept]
        monkeypatch.setattr(sys, "argv", told)
        status = race.main()
        *_, summary, _ = capsys.readouterr().out.splitlines()
        return status, json.loads(summary)

    monkeypatch.setattr(race, "commands", commands)
    monkeypatch.setattr(race, "LOOK_S", 0.01)
    for name in ("_answers", "_as_csv"):
        monkeypatch.setattr(race, name, lambda *_: None)
    monkeypatch.setattr("benchmarks.nexmark.rates.stream.write", lambda *_: None)
    return run


def test_runs_that_are_kept_are_not_made_again(raced: Any, tmp_path: Path) -> None:
    assert raced(1)[1]["median"] == {"q0": 100, "q1": 100}
    status, summary = raced(3)
    assert (status, summary["wrong"]) == (0, 0)
    assert summary["median"] == {"q0": 200, "q1": 200}  # of 100, 200 and 300
    assert (tmp_path / "q1-headrace").read_text() == "3"
    assert (tmp_path / "q1-pathway").read_text() == "1"  # it has failed
    assert raced(2)[1] == summary
    assert (tmp_path / "q1-flink").read_text() == "3"


def test_the_least_ratio_is_that_to_a_neighbour_and_not_to_the_yardstick(raced: Any) -> None:
    summary = raced(1)[1]
    assert (summary["to_flink"], summary["to_dbsp"]) == (2.5, 0.1)
    assert (summary["least"], summary["least_query"]) == (2.5, "q0")
    assert "to_pathway" not in summary  # it failed
