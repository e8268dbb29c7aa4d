"""What stored queries cost the steps of a running project, against none: they are told of by a sink, and watched.

python -m benchmarks.stored [--queries 10000] [--rows 20000] [--writes 20] [--seconds 30]

A project over HTTP, run by `headrace up`, with a view of ``--rows`` rows of words. ``--writes`` transactions of 10 rows
a second change it: once without stored queries, then with ``--queries`` of them, all in one sink that tells the page,
and `headrace queries watch` beside it. The time of a step is that from its newest commit to its being published. What
the watcher was told is held to what the queries match in the end. One JSON line; the exit status is 1 when it differs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import yaml

from benchmarks.bench import Memory, report
from benchmarks.search import WORDS, stored
from benchmarks.serving import Plain, addresses, at_times
from headrace.catalog.store import Catalog
from headrace.serve import snapshot
from headrace.serve.search.matching import QUERY, Matcher

COLUMNS = {"id": "bigint", "title": "string", "note": "string", "total": "decimal(12,2)"}
FILLING, CHANGED = 5_000, 10  # rows of a transaction that fills, and that changes
COMMAND = str(Path(sys.executable).with_name("headrace"))
WARM_S = 5.0
WAIT_S = 60.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--writes", type=int, default=20, help="transactions a second")
    parser.add_argument("--seconds", type=float, default=30)
    chosen = parser.parse_args()
    found = []
    for queries in (0, chosen.queries):
        with tempfile.TemporaryDirectory() as folder:
            found.append(_ran(Path(folder), queries, chosen))
    none, all_ = found
    report(
        benchmark="stored queries beside steps", queries=chosen.queries, rows=chosen.rows, steps=all_["steps"],
        without_p50_ms=none["p50_ms"], p50_ms=all_["p50_ms"], ratio=round(all_["p50_ms"] / none["p50_ms"], 2),
        without_p99_ms=none["p99_ms"], p99_ms=all_["p99_ms"], p99_ratio=round(all_["p99_ms"] / none["p99_ms"], 2),
        without_mean_ms=none["mean_ms"], mean_ms=all_["mean_ms"], matches=all_["matches"], differ=all_["differ"],
        sink_behind=all_["sink_behind"], peak_mib=all_["peak_mib"], without_peak_mib=none["peak_mib"],
    )  # fmt: skip
    return 1 if all_["differ"] or all_["sink_behind"] else 0


def _ran(project: Path, queries: int, chosen: argparse.Namespace) -> dict[str, Any]:
    drawn = random.Random(3)
    asked = {f"q{number}": stored(drawn, number) for number in range(queries)}
    _make(project, asked)
    command = [COMMAND, "up", "--project", str(project), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            return asyncio.run(_measured(project, process, asked, chosen))
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(WAIT_S)


def _make(project: Path, queries: dict[str, str]) -> None:
    files: dict[str, Any] = {
        "sources/push.yaml": {"type": "http", "port": 0, "tables": {"pushed": {"columns": COLUMNS, "key": ["id"]}}},
        "headrace.yaml": {"name": "stored", "api": {"port": 0}},
    }
    files |= {f"searches/{name}.yaml": {"view": "orders", "query": query} for name, query in queries.items()}
    if queries:
        files["sinks/page.yaml"] = {"type": "page", "searches": list(queries)}
    for name, content in files.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(yaml.safe_dump(content))
    (project / "views").mkdir()
    (project / "views/orders.sql").write_text("SELECT * FROM pushed")


async def _measured(
    project: Path, process: subprocess.Popen[str], queries: dict[str, str], chosen: argparse.Namespace
) -> dict[str, Any]:
    push_url, api_url = await asyncio.to_thread(addresses, process)
    tokens = project / ".headrace/tokens"
    push, api = (
        Plain(url, (tokens / name).read_text().strip()) for url, name in ((push_url, "push"), (api_url, "api"))
    )
    await push.open(1)
    await api.open(1)
    draw = np.random.default_rng(1)
    for begin in range(0, chosen.rows, FILLING):
        commit = await _pushed(push, draw, np.arange(begin, min(begin + FILLING, chosen.rows)))
    assert (await api.post("/api/wait", {"token": commit, "timeout": WAIT_S}))[0] == 200
    watch = [COMMAND, "queries", "watch", "--view", "orders", "--project", str(project), "--json"]
    with (project / "watched").open("wb") as told:
        watcher = subprocess.Popen(watch, stdout=told) if queries else None
        while watcher is not None and (project / "watched").stat().st_size == 0:
            await asyncio.sleep(0.1)
        with Memory(5.0, psutil.Process(process.pid)) as memory:
            await at_times(lambda: _change(push, draw, chosen.rows), chosen.writes, WARM_S)
            begun = time.time()
            await at_times(lambda: _change(push, draw, chosen.rows), chosen.writes, chosen.seconds)
        commit = await _pushed(push, draw, np.arange(1))
        assert (await api.post("/api/wait", {"token": commit, "timeout": WAIT_S}))[0] == 200
        if watcher is not None:
            await api.post("/api/wait", {"token": commit, "sink": "page", "timeout": WAIT_S})
            await asyncio.sleep(2)
            watcher.send_signal(signal.SIGINT)
            watcher.wait(WAIT_S)
    with closing(Catalog(snapshot.catalog_path(project), read_only=True)) as catalog:
        taken = [
            (step.published_us - step.committed_us) / 1e3
            for step in catalog.steps()
            if step.published_us is not None and step.committed_us / 1e6 >= begun
        ]
        behind = sum(commit - reached for reached, *_ in catalog.sinks().values())
    matches, differ = _compared(project, queries)
    return {
        "steps": len(taken), "p50_ms": round(float(np.median(taken)), 1), "mean_ms": round(float(np.mean(taken)), 1),
        "p99_ms": round(float(np.percentile(taken, 99)), 1), "sink_behind": behind, "matches": matches,
        "differ": differ, "peak_mib": round(memory.peak),
    }  # fmt: skip


async def _change(push: Plain, draw: np.random.Generator, rows: int) -> None:
    await _pushed(push, draw, np.unique(draw.integers(0, rows, CHANGED)))


async def _pushed(push: Plain, draw: np.random.Generator, ids: np.ndarray) -> int:
    """Rows of words by Zipf's law, so that the commonest stand in nearly every row."""
    words = WORDS[draw.zipf(1.3, (len(ids), 16)) % len(WORDS)].tolist()
    totals = draw.integers(1, 1_000, len(ids)).tolist()
    changes = [
        {"table": "pushed", "op": "upsert",
         "row": {"id": id, "title": " ".join(row[:6]), "note": " ".join(row[6:]), "total": f"{total}.00"}}
        for id, row, total in zip(ids.tolist(), words, totals, strict=True)
    ]  # fmt: skip
    status, answer = await push.post("/transactions", {"changes": changes})
    assert status == 200, answer
    return int(answer["commit"])


def _compared(project: Path, queries: dict[str, str]) -> tuple[int, int]:
    """(how many matches there are in the end, how many the watcher was told otherwise)."""
    _, schema, rows = snapshot.contents(project, "orders")
    expected = Counter[tuple[str, int, str]]()
    for row in Matcher(schema, queries).matches(rows).to_pylist():
        expected[row[QUERY], row["id"], row["note"]] += row["_w"]
    told = Counter[tuple[str, int, str]]()
    for line in (project / "watched").read_text().splitlines():
        for change in json.loads(line)["changes"]:
            told[change["query"], change["row"]["id"], change["row"]["note"]] += change["weight"]
    wrong = {each: n for each in {*expected, *told} if (n := expected[each] - told[each])}
    return expected.total(), len(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
