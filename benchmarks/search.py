"""Search of a large view, and stored queries against its changes.

python -m benchmarks.search [--rows 1000000] [--queries 10000] [--steps 20]

The view is published by hand, as the engine writes it; words are drawn by Zipf's law from 50,000, so that the commonest
stand in nearly every row. Stored queries are of five kinds, their words drawn evenly. Beside them stands a reader that
follows the same steps without queries and tells every change, as `headrace watch --json` does.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.bench import Memory, processor_seconds, report, size_of
from benchmarks.published import PublishedView
from headrace.catalog.store import ViewRecord
from headrace.formats.json_tables import rows as json_rows
from headrace.serve.search import deltas, index
from headrace.serve.search.found import search
from headrace.serve.search.matching import Matcher
from headrace.serve.search.watched import changes

COLUMNS = {"id": "bigint", "title": "string", "note": "string", "total": "decimal(12,2)", "seen": "timestamp"}
WORDS = np.array([f"word{number}" for number in range(50_000)])
ASKED = {
    "a rare word": "word777",
    "a word of most rows": "word1",
    "two words of most rows": "word1 word2",
    "a phrase of a third of the rows": '"word1 word2"',
    "the beginning of most words": "wor*",
    "a word and a range": "title:word5 total:>500",
    "a range": "total:[500 TO 600]",
    "a key": "id:777",
    "every row": "*",
}
STEP_ROWS = (10, 1_000)  # of a step that stored queries are matched against
FORWARD_ROWS = (1, 1_000, 10_000)
ROUNDS = 7


def texts(draw: np.random.Generator, count: int, words: int) -> np.ndarray:
    drawn = WORDS[draw.zipf(1.3, (count, words)) % len(WORDS)]
    joined = drawn[:, 0]
    for place in range(1, words):
        joined = np.char.add(np.char.add(joined, " "), drawn[:, place])
    return joined


def rows(draw: np.random.Generator, ids: np.ndarray) -> pa.Table:
    """Rows that come, as a step's file has them."""
    count = len(ids)
    totals = pa.array(draw.integers(1, 1_000, count)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(12, 2))
    seen = pa.array(draw.integers(1_600_000_000, 1_700_000_000, count) * 1_000_000).cast(pa.timestamp("us", "UTC"))
    columns = [ids, texts(draw, count, 6), texts(draw, count, 10), totals, seen, np.ones(count, np.int64)]
    return pa.Table.from_arrays([pa.array(c) for c in columns], names=[*(f"c{n}" for n in range(5)), "_w"])


def change(table: pa.Table, draw: np.random.Generator, count: int) -> pa.Table:
    """The first rows go, others with their keys come."""
    gone = table.slice(0, count).set_column(5, "_w", pa.array(np.full(count, -1)))
    return pa.concat_tables([gone, rows(draw, table["c0"].slice(0, count).to_numpy())])


def stored(draw: random.Random, number: int) -> str:
    a, b = (f"word{draw.randrange(len(WORDS))}" for _ in range(2))
    return (
        f"{a} {b}",
        f"note:{a} total:>{draw.randrange(1_000)}",
        f'"{a} {b}"',
        f"id:{draw.randrange(1_000_000)}",
        f"({a} OR {b}) NOT word1",
    )[number % 5]


def measured(work: Callable[[], object]) -> tuple[float, float]:
    """(milliseconds, those of the processor)."""
    busy, began = time.process_time(), time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000, (time.process_time() - busy) * 1000


def searched(view: PublishedView, table: pa.Table, draw: np.random.Generator) -> None:
    with Memory(0.2) as memory:
        busy, began = processor_seconds(), time.perf_counter()
        search(view.folder, view.name, "word777")
        report(
            benchmark="search made", rows=table.num_rows, seconds=round(time.perf_counter() - began, 1),
            processor_seconds=round(processor_seconds() - busy, 1), peak_mib=round(memory.peak),
            mib=round(size_of(view.folder / ".headrace/search") / (1 << 20)),
        )  # fmt: skip
    for name, query in ASKED.items():
        taken = [measured(partial(search, view.folder, view.name, query)) for _ in range(ROUNDS)]
        found = search(view.folder, view.name, query)
        report(
            benchmark="search asked", rows=table.num_rows, query=name, found=found.total,
            median_ms=round(statistics.median(t for t, _ in taken), 1), most_ms=round(max(t for t, _ in taken), 1),
            processor_ms=round(statistics.median(p for _, p in taken), 1),
        )  # fmt: skip
    for count in FORWARD_ROWS:
        taken = []
        for _ in range(ROUNDS):
            view.publish_table(change(table, draw, count))
            table = pa.concat_tables([rows(draw, table["c0"].slice(0, count).to_numpy()), table.slice(count)])
            taken.append(measured(lambda: search(view.folder, view.name, "word777")))
        report(
            benchmark="search forward", rows=table.num_rows, changes=2 * count,
            median_ms=round(statistics.median(t for t, _ in taken), 1),
            processor_ms=round(statistics.median(p for _, p in taken), 1),
        )  # fmt: skip


def matched(view: PublishedView, table: pa.Table, draw: np.random.Generator, queries: int, steps: int) -> None:
    for step_rows in STEP_ROWS:
        record = view.catalog.views()[view.name]
        start, _ = deltas.begin(view.catalog, record)
        for at in range(steps):
            view.publish_table(change(table.slice(at * step_rows), draw, step_rows // 2))

        def steps_read(record: ViewRecord = record, start: deltas.Frontier = start) -> list[pa.Table]:
            return [delta for _, delta in deltas.since(view.catalog, record, start) or ()]

        def steps_told(read: Callable[[], list[pa.Table]] = steps_read) -> list[str]:
            return list(map(told, read()))

        alone = min(measured(steps_told)[1] for _ in range(ROUNDS))
        for count in (1, queries // 10, queries):
            picked = random.Random(3)
            matcher = Matcher(record.schema, {f"q{n}": stored(picked, n) for n in range(count)})

            def watched(matcher: Matcher = matcher, read: Callable[[], list[pa.Table]] = steps_read) -> list[str]:
                return [json.dumps(changes(matcher.matches(delta))) for delta in read()]

            busy = min(measured(watched)[1] for _ in range(ROUNDS))
            report(
                benchmark="stored queries", queries=count, changes=step_rows, processor_ms=round(busy / steps, 2),
                without_ms=round(alone / steps, 2), ratio=round(busy / alone, 2),
                matches=sum(matcher.matches(delta).num_rows for delta in steps_read()),
            )  # fmt: skip


def told(delta: pa.Table) -> str:
    """Every change of a step, without stored queries."""
    cells = zip(delta["_w"].to_pylist(), json_rows(delta.select(list(COLUMNS))), strict=True)
    return json.dumps([{"weight": weight, "row": dict(zip(COLUMNS, row, strict=True))} for weight, row in cells])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=20)
    chosen = parser.parse_args()
    index.FRESH_S = 0.0
    draw = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        view = PublishedView(Path(folder) / "project", "orders", COLUMNS)
        table = rows(draw, np.arange(chosen.rows))
        view.publish_table(table)
        searched(view, table, draw)
        small = PublishedView(Path(folder) / "small", "orders", COLUMNS)
        some = table.slice(0, 50_000)
        small.publish_table(some)
        matched(small, some, draw, chosen.queries, chosen.steps)


if __name__ == "__main__":
    main()
