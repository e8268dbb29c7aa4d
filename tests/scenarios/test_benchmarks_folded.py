"""Goal: what neighbours wrote is told equal or not for what it comes to. Method: changes of each form, a few by hand and
those of Spark's own Structured Streaming over a small stream, beside DuckDB's answer."""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pytest
from benchmarks import ctr
from benchmarks.nexmark.rates import __main__ as race
from benchmarks.nexmark.rates import stream
from benchmarks.nexmark.rates.folded import compared
from benchmarks.nexmark.rates.neighbours import commands
from benchmarks.watched import run

EVENTS = 5_000
ANSWER = (
    "SELECT * FROM (VALUES (1, '2023-11-14', ''), (1, '2023-11-14', ''), (2, '2023-11-15', 'a,b')) t(id, day, dir1)"
)
ROWS = [(1, "2023-11-14", ""), (1, "2023-11-14", ""), (2, "2023-11-15", "a,b")]


def told(folder: Path, engine: str, **line: Any) -> dict[str, Any]:
    answer = folder / "answer.parquet"
    duckdb.sql(ANSWER).write_parquet(str(answer))
    return compared({"engine": engine, "per_second": 1, **line}, folder / "changes", answer)


@pytest.fixture
def changes(tmp_path: Path) -> Path:
    folder = tmp_path / "changes"
    folder.mkdir()
    return folder


def debezium(op: str, *values: Any) -> str:
    row = dict(zip(("id", "day", "dir1"), values, strict=True))
    return json.dumps({"before": row if op == "d" else None, "after": None if op == "d" else row, "op": op})


def test_changes_of_flink_are_folded(tmp_path: Path, changes: Path) -> None:
    assert told(tmp_path, "flink") == {"equal": False, "why": "it wrote nothing"}
    lines = [debezium("c", *row) for row in ROWS]
    (changes / "part-0").write_text("\n".join([debezium("c", 9, "x", "y"), *lines[:2]]))
    (changes / "part-1").write_text("\n".join([debezium("d", 9, "x", "y"), lines[2]]))
    assert told(tmp_path, "flink") == {"equal": True}
    (changes / "part-1").write_text(lines[2])
    assert told(tmp_path, "flink") == {"equal": False, "missing": 0, "extra": 1}


def test_changes_of_pathway_are_folded_under_their_own_names(tmp_path: Path, changes: Path) -> None:
    rows = ['1,19675,"",0,1', '1,19675,"",0,1', '2,19676,"a,b",0,1', '7,19676,"",0,1', '7,19676,"",2,-1']
    (changes / "changes.csv").write_text("\n".join(["id_,day,a,time,diff", *rows]))
    assert told(tmp_path, "pathway") == {"equal": True}
    (changes / "changes.csv").write_text("\n".join(["id_,day,a,time,diff", *rows[1:]]))
    assert told(tmp_path, "pathway") == {"equal": False, "missing": 1, "extra": 0}  # rows count as often as they are


def test_windows_that_are_still_open_are_not_held_against_spark(tmp_path: Path, changes: Path) -> None:
    (changes / "0").mkdir()
    duckdb.sql(f"{ANSWER} LIMIT 2").write_parquet(str(changes / "0" / "part-0.parquet"))
    assert told(tmp_path, "spark") == {"equal": False, "missing": 1, "extra": 0}
    untold = told(tmp_path, "spark", watermark=True)
    assert (untold["equal"], untold["missing"]) == (None, 1) and "watermark" in untold["why"]
    duckdb.sql("SELECT 3 AS id, '2023-11-14' AS day, '' AS dir1").write_parquet(str(changes / "0" / "part-1.parquet"))
    assert told(tmp_path, "spark", watermark=True) == {"equal": False, "missing": 1, "extra": 1}


def test_what_was_not_written_or_not_run_is_not_compared(tmp_path: Path) -> None:
    assert told(tmp_path, "dbsp") == {"equal": None, "why": "its changes are counted, not written"}
    assert compared({"engine": "flink", "failed": -9}, tmp_path, tmp_path / "none") == {}


# In Flink's place: click-through rates of the CSV files that it is given, as changes in its form.
IN_FLINKS_PLACE = """
import json, pathlib, sys
import duckdb
data, changes, off = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
rows = duckdb.sql(
    f"SELECT i.column1, strftime(CAST(i.column2 AS TIMESTAMP), '%Y-%m-%d %H:%M'), count(*) + {off}, count(c.column0),"
    f" count(c.column0) / count(*) FROM read_csv('{data}/impressions/*', header = false) i LEFT JOIN"
    f" read_csv('{data}/clicks/*', header = false) c ON c.column0 = i.column0 GROUP BY ALL"
).fetchall()
names = ("campaign", "minute", "impressions", "clicks", "rate")
lines = [json.dumps({"before": None, "after": dict(zip(names, row)), "op": "c"}) for row in rows]
(changes / "part-0").write_text("\\n".join(lines))
print(json.dumps({"events": 1, "per_second": 1}))
"""


@pytest.mark.parametrize("off", [0, 1])
def test_click_through_rates_of_flink_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, off: int) -> None:
    ctr.write(tmp_path, 2_000, 1)
    answer = ctr.VIEW.format(**{table: f"'{tmp_path}/{table}/*.parquet'" for table in ctr.TIMES})

    def command(_: Path, data: Path, __: int, text: Path, changes: Path) -> list[str]:
        assert text.read_text() == ctr.OF_FLINK
        return [sys.executable, "-c", IN_FLINKS_PLACE, str(data), str(changes), str(off)]

    monkeypatch.setattr(ctr, "flink_command", command)
    line = ctr.flink(tmp_path, answer, 2_000, tmp_path)
    assert (line["engine"], line["equal"]) == ("flink", not off)
    assert off == 0 or line["missing"] == line["extra"] > 100


@pytest.mark.usefixtures("own_jvm")
def test_structured_streaming_answers_or_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JDK_JAVA_OPTIONS", os.environ["HEADRACE_JAVA_OPTIONS"])  # a JVM that does not optimize
    data, changes = tmp_path / "data", tmp_path / "changes"
    stream.write(data, EVENTS)
    race._answers(data, ["q17", "q18"])

    def raced(query: str) -> dict[str, Any]:
        _, (_, command) = commands(query, data, EVENTS, ["spark"], tmp_path, changes / query)
        (changes / query).mkdir(parents=True)
        line = run(command)
        return line | compared(line, changes / query, data / "answers" / f"{query}.parquet")

    with ThreadPoolExecutor() as pool:
        updated, refused = pool.map(raced, ("q17", "q18"))
    assert (updated["engine"], updated["mode"], updated["equal"]) == ("spark", "update", True)
    assert updated["state_bytes"] > 0 and updated["peak_mib"] > 100
    assert "NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING" in refused["refused"] and "equal" not in refused
