"""One query by the product: from Parquet files through the log into its published changes.

python -m benchmarks.nexmark.rates.ours --data FOLDER --query q4 [--answer ANSWER.parquet]

A project with a source of files for each relation, as a user would write it. Time runs from the moment the sources
start to read until the view's last step is published: what Spark compiles meanwhile, and the looks that tell that a
file rests, are in it. One JSON line.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.bench import Memory, processor_seconds, report
from benchmarks.nexmark.rates import texts
from headrace.catalog import project
from headrace.engine.pipeline import Pipeline
from headrace.serve import snapshot

LOOK_S = 0.002


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with person, auction and bid")
    parser.add_argument("--events", type=int, required=True, help="how many there are of all kinds")
    parser.add_argument("--query", required=True)
    parser.add_argument("--answer", type=Path, help="Parquet file with the rows that the view must hold")
    parser.add_argument("--memory", default="2g", help="of the JVM")
    parser.add_argument("--step-rows", type=int, default=1_000_000)
    chosen = parser.parse_args()
    told: list[tuple[float, dict[str, Any]]] = []
    with tempfile.TemporaryDirectory() as name, Memory() as memory:
        folder = Path(name)
        _write(folder, chosen.data.resolve(), chosen.query, chosen.memory, chosen.step_rows)
        began, busy = time.monotonic(), processor_seconds()
        pipeline = Pipeline(project.read(folder), on_event=lambda event: told.append((time.monotonic(), event)))
        pipeline.start()
        while not pipeline.caught_up():
            if pipeline.error is not None:
                raise pipeline.error
            time.sleep(LOOK_S)
        ended, busy = time.monotonic(), processor_seconds() - busy
        steps = pipeline.latest["steps"]
        pipeline.stop()
        kept = sum(file.stat().st_size for file in (folder / snapshot.STATE / "state").rglob("*") if file.is_file())
        wrong = _wrong(folder, chosen.query, chosen.answer) if chosen.answer else None
    started = min(at for at, event in told if event["event"] == "source.started")
    report(
        benchmark="nexmark", engine="headrace", query=chosen.query, events=chosen.events, steps=steps,
        startup_s=round(started - began, 2), seconds=round(ended - started, 3),
        per_second=round(chosen.events / (ended - started)), processor_seconds=round(busy, 2),
        peak_mib=round(memory.peak), state_bytes=kept, wrong=wrong,
    )  # fmt: skip
    return 1 if wrong else 0


def _write(folder: Path, data: Path, query: str, memory: str, step_rows: int) -> None:
    (folder / "headrace.yaml").write_text(f"name: nexmark\ndriver_memory: {memory}\nstep_rows: {step_rows}\n")
    for kind in ("sources", "views"):
        (folder / kind).mkdir()
    for table in texts.reads(query):
        (folder / "sources" / f"{table}.yaml").write_text(f"type: files\npath: {json.dumps(str(data / table))}\n")
    (folder / "views" / f"{query}.sql").write_text(texts.text("spark", query) or "")


def _wrong(folder: Path, query: str, answer: Path) -> int:
    """How many rows are missing or too many."""
    _, schema, table = snapshot.contents(folder, query)
    names = ", ".join(f'CAST("{column}" AS VARCHAR)' for column in schema.names)
    both = f"SELECT {names}, _w AS w FROM held UNION ALL SELECT {names}, -1 FROM '{answer}'"
    with duckdb.connect() as connection:
        connection.register("held", table)
        found = connection.execute(
            f"SELECT coalesce(sum(abs(w)), 0) FROM (SELECT sum(w) AS w FROM ({both}) GROUP BY ALL)"
        ).fetchone()
    assert found is not None
    return int(found[0])


if __name__ == "__main__":
    sys.exit(main())
