"""Goal: probing finds all rows of the hashes asked for and no other; merges are geometric. Oracle: a scan."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa

from headrace.state.arrangement import MERGE_BYTES, Arrangement, Run, mergeable
from headrace.state.run import write_run

EMPTY = pa.schema([("_h", pa.int64()), ("_w", pa.int64()), ("c0", pa.string())])


def test_a_probe_finds_what_a_scan_finds(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    tables, paths = [], []
    for number in range(6):
        size = int(random.integers(0, 40))
        hashes = np.sort(random.integers(-10, 10, size))
        table = pa.table([hashes, np.ones(size, np.int64), [f"{number}.{n}" for n in range(size)]], schema=EMPTY)
        path = tmp_path / f"{number}.arrow"
        write_run(path, table)
        tables.append(table)
        paths.append(str(path))
    for _ in range(100):
        wanted = np.unique(random.integers(-12, 12, random.integers(0, 8)))
        hits = Arrangement(paths, "").probe(wanted, EMPTY.names, EMPTY)
        expected = Counter(
            (number, row["_h"], row["c0"])
            for number, table in enumerate(tables)
            for row in table.to_pylist()
            if row["_h"] in wanted
        )
        found = Counter(zip(hits.runs.tolist(), wanted[hits.keys].tolist(), hits.rows["c0"].to_pylist(), strict=True))
        assert found == expected
        assert wanted[hits.keys].tolist() == hits.rows["_h"].to_pylist()


def test_a_probe_of_no_run_has_the_schema_asked_for() -> None:
    hits = Arrangement([], "").probe(np.array([1, 2]), EMPTY.names, EMPTY)
    assert hits.rows.schema == EMPTY
    assert (hits.rows.num_rows, len(hits.keys), len(hits.runs)) == (0, 0, 0)


def test_a_probe_takes_the_columns_asked_for_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "run.arrow"
    write_run(path, pa.table([[1, 2], [1, 1], ["a", "b"]], schema=EMPTY))
    wanted = pa.schema([EMPTY.field("c0"), EMPTY.field("_h")])
    hits = Arrangement([str(path)], "").probe(np.array([2]), wanted.names, wanted)
    assert hits.rows.to_pydict() == {"c0": ["b"], "_h": [2]}


def runs(*rows: int, size: int = 10) -> list[Run]:
    return [Run(f"{n}.arrow", r, size) for n, r in enumerate(rows)]


def test_small_runs_are_merged_into_their_elders_and_large_ones_left() -> None:
    assert mergeable([]) == 0
    assert mergeable(runs(5)) == 1
    assert mergeable(runs(1000, 10)) == 2  # the elder is much larger: left alone
    assert mergeable(runs(1000, 10, 10)) == 1
    assert mergeable(runs(15, 10)) == 0
    assert mergeable(runs(1000, 30, 10, 10)) == 1  # 20 together are enough for 30


def test_runs_are_few_however_many_steps_add_one() -> None:
    """Merging whatever ``mergeable`` says after each step leaves a logarithm of runs, and moves each row seldom."""
    live: list[Run] = []
    moved = 0
    for number in range(2000):
        live.append(Run(str(number), 1, 10))
        start = mergeable(live)
        if start < len(live):
            merged = sum(r.rows for r in live[start:])
            moved += merged
            live[start:] = [Run("merged", merged, 10)]
        assert len(live) <= 13
    assert sum(r.rows for r in live) == 2000
    assert moved <= 2000 * 14


def test_a_merge_stops_at_what_text_columns_can_hold() -> None:
    assert mergeable(runs(10, 10, size=MERGE_BYTES // 2 + 1)) == 2
    assert mergeable(runs(10, 10, size=600), 1000) == 2
    assert mergeable(runs(10, 10, size=400), 1000) == 0
