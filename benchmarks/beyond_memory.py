"""State ten times as large as all the memory that there is: slower, no failure.

python -m benchmarks.beyond_memory [--memory 1280] [--times 10] [--width 4096] [--step 2500] [--small 200]

All processes of the product are put into a control group with ``--memory`` MiB, page cache included (Linux; it takes
the right to make such a group). ``--step`` rows at a time are pushed into a table with a key until its state is so many
times the memory, a few of them in the place of rows that are there. Then ``--small`` transactions of 100 rows each,
half of them in the place of old rows, wherever they lie. The view adds up by group, so that each old row must be found;
its answer is known from how the rows are made.

One JSON line each time the state has doubled, and one at the end; the exit status is 1 when the answer is wrong.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench import report
from benchmarks.limited import Group, limited
from headrace.catalog import project
from headrace.engine.pipeline import Pipeline
from headrace.serve import snapshot

GROUPS = 1000
ROWS = 100  # of a small transaction
DISK = 3  # times the state: the log has the rows once more, merges a part of them
OLD = 0.002  # of the rows of a large one take the place of others
VIEW = "SELECT g, count(*) AS n, sum(v) AS v, sum(length(text)) AS letters FROM rows GROUP BY g"


class Rows:
    """Rows (id, g, v, text), and what the view holds of those that were made; each ``text`` begins with its id: state
    keeps equal ones once, and would not grow."""

    def __init__(self, width: int) -> None:
        self.random, self.ids = np.random.default_rng(0), 0
        self.text = "".join(map(chr, self.random.integers(97, 123, width).tolist()))
        self.values, self.letters = np.zeros(0, np.int64), np.zeros(0, np.int64)

    def make(self, number: int, old: float) -> list[dict[str, Any]]:
        known = int(number * old) if self.ids else 0
        fresh = np.arange(self.ids, self.ids + number - known)
        ids = np.r_[fresh, self.random.choice(self.ids, known, replace=False)] if known else fresh
        self.ids += len(fresh)
        values, cuts = self.random.integers(-1000, 1000, number), self.random.integers(8, 16, number)
        self.values, self.letters = (np.r_[a, np.zeros(len(fresh), np.int64)] for a in (self.values, self.letters))
        self.values[ids], self.letters[ids] = values, 8 + len(self.text) - cuts
        return [
            {
                "table": "rows",
                "op": "insert",
                "row": {"id": i, "g": i % GROUPS, "v": v, "text": f"{i:08}{self.text[c:]}"},
            }
            for i, v, c in zip(ids.tolist(), values.tolist(), cuts.tolist(), strict=True)
        ]

    def answer(self) -> set[tuple[int, ...]]:
        groups = np.arange(self.ids) % GROUPS
        sums = [
            np.bincount(groups, weights=of).astype(np.int64) for of in (np.ones(self.ids), self.values, self.letters)
        ]
        return set(zip(range(GROUPS), *(of.tolist() for of in sums), strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memory", type=int, default=1280, help="MiB, of all processes and their page cache")
    parser.add_argument("--times", type=float, default=10)
    parser.add_argument("--width", type=int, default=4096, help="bytes of a text")
    parser.add_argument("--step", type=int, default=2_500, help="rows of a file, and of a step")
    parser.add_argument("--small", type=int, default=200, help="small transactions at the end")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, limited(chosen.memory << 20) as group:
        folder = Path(name)
        if shutil.disk_usage(folder).free < (needed := int(DISK * chosen.times * (chosen.memory << 20))):
            parser.error(f"{folder} has no room for {needed >> 30} GiB; TMPDIR may name another folder")
        _write(folder, chosen.step)
        pipeline = Pipeline(project.read(folder))
        pipeline.start()
        try:
            rows = Rows(chosen.width)
            _grow(pipeline, rows, group, chosen)
            took = [_push(pipeline, rows.make(ROWS, 0.5)) for _ in range(chosen.small)]
            _, _, held = snapshot.contents(folder, "sums")
            found = set(zip(*(held[column].to_pylist() for column in ("g", "n", "v", "letters")), strict=True))
            wrong = len(found ^ rows.answer())
            report(
                benchmark="beyond memory", memory_mib=chosen.memory, state_bytes=_state(pipeline),
                times=round(_state(pipeline) / (chosen.memory << 20), 2), rows=rows.ids,
                p50_ms=_ms(took, 50), p99_ms=_ms(took, 99), peak_mib=group.peak >> 20, killed=group.killed, wrong=wrong,
            )  # fmt: skip
        finally:
            pipeline.stop()
    return 1 if wrong else 0


def _write(folder: Path, step: int) -> None:
    for kind in ("sources", "views"):
        (folder / kind).mkdir()
    (folder / "headrace.yaml").write_text(f"name: beyond\ndriver_memory: 512m\nstep_rows: {step}\n")
    table = {"columns": {"id": "bigint", "g": "int", "v": "bigint", "text": "string"}, "key": ["id"]}
    (folder / "sources" / "pushed.yaml").write_text(
        json.dumps({"type": "http", "listen": False, "tables": {"rows": table}})
    )
    (folder / "views" / "sums.sql").write_text(VIEW)


def _grow(pipeline: Pipeline, rows: Rows, group: Group, chosen: argparse.Namespace) -> None:
    limit, told = chosen.memory << 20, 0.25
    began, since = time.monotonic(), 0
    while _state(pipeline) < chosen.times * limit:
        _push(pipeline, rows.make(chosen.step, OLD))
        since += chosen.step
        if _state(pipeline) >= told * limit:
            seconds = time.monotonic() - began
            report(
                benchmark="beyond memory growth", times=round(_state(pipeline) / limit, 2), rows=rows.ids,
                per_second=round(since / seconds), **{f"{k}_mib": v >> 20 for k, v in group.shares().items()},
            )  # fmt: skip
            told, began, since = 2 * told, time.monotonic(), 0


def _push(pipeline: Pipeline, changes: list[dict[str, Any]]) -> float:
    """Seconds from the push of a transaction to its publication."""
    began = time.monotonic()
    pipeline.wait_for(pipeline.push("pushed", changes))
    return time.monotonic() - began


def _state(pipeline: Pipeline) -> int:
    """Bytes of the live runs."""
    return sum(run.size for runs in list(pipeline.maintainer.kept.runs.values()) for run in list(runs))


def _ms(took: list[float], of: int) -> float:
    return round(statistics.quantiles(took, n=100, method="inclusive")[of - 1] * 1000, 1)


if __name__ == "__main__":
    raise SystemExit(main())
