"""Goal: a run is written whole, read as written, and merging runs adds weights up. Oracle: Counter of rows."""

from __future__ import annotations

import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from headrace.model.errors import HeadraceError
from headrace.state import run as runs
from headrace.state.run import (
    BLOCK,
    STRETCH,
    checksums,
    column,
    copies,
    damage,
    let_gone_go,
    merge,
    open_run,
    write_run,
)  # fmt: skip


def run(entries: list[tuple[int, int, float | None]]) -> pa.Table:
    """(hash, weight, value) as a run: ``_h``, ``_w``, ``c0``, sorted by hash."""
    entries = sorted(entries, key=lambda e: e[0])
    hashes, weights, values = (list(x) for x in zip(*entries, strict=True)) if entries else ([], [], [])
    arrays = [pa.array(hashes, pa.int64()), pa.array(weights, pa.int64()), pa.array(values, pa.float64())]
    return pa.table(arrays, names=["_h", "_w", "c0"])


def counted(tables: list[pa.Table]) -> dict[tuple[int, str], int]:
    total: Counter[tuple[int, str]] = Counter()
    for table in tables:
        for row in table.to_pylist():
            total[row["_h"], repr(row["c0"])] += row["_w"]
    return {row: weight for row, weight in total.items() if weight}


def test_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    table = run([(3, 1, 0.5), (-2, 2, None), (3, -1, -0.0)])
    path = tmp_path / "run.arrow"
    write_run(path, table)
    assert open_run(str(path)).equals(table)
    assert [p.name for p in tmp_path.iterdir()] == ["run.arrow"]


def test_a_file_tells_how_many_rows_it_stands_for(tmp_path: Path) -> None:
    """By its footer; one that was written without, by its weights."""
    table = run([(3, 1, 0.5), (-2, 5, None), (3, -1, -0.0)])
    write_run(tmp_path / "run.arrow", table)
    assert copies(str(tmp_path / "run.arrow")) == 5
    with pa.OSFile(str(tmp_path / "old.arrow"), "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    assert copies(str(tmp_path / "old.arrow")) == 5
    with pytest.raises(HeadraceError) as caught:
        copies(str(tmp_path / "gone.arrow"))
    assert caught.value.code == "state.missing"


def test_a_run_of_many_pieces_is_one_record_batch(tmp_path: Path) -> None:
    pieces = pa.concat_tables([run([(n, 1, float(n))]) for n in range(50)])
    path = tmp_path / "run.arrow"
    write_run(path, pieces)
    assert column(open_run(str(path)), "_h").tolist() == list(range(50))
    assert open_run(str(path))["c0"].num_chunks == 1


def test_a_run_that_is_gone_is_an_error_and_never_empty(tmp_path: Path) -> None:
    with pytest.raises(HeadraceError) as caught:
        open_run(str(tmp_path / "gone.arrow"))
    assert caught.value.code == "state.missing"
    assert "gone.arrow" in caught.value.where


def test_a_large_run_that_another_process_has_removed_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.state.run.STRETCH", 1_000)
    for name, rows in (("small", 3), ("gone", 1_000), ("there", 1_000)):
        write_run(tmp_path / name, pa.table({"c0": range(rows), "_w": [1] * rows}))
        open_run(str(tmp_path / name))
    (tmp_path / "small").unlink()
    (tmp_path / "gone").unlink()
    let_gone_go()
    assert [str(tmp_path / name) in runs._open for name in ("small", "gone", "there")] == [True, False, True]


@pytest.mark.parametrize("stretch", [20, 100, STRETCH])
def test_merged_runs_add_up_and_are_sorted(monkeypatch: pytest.MonkeyPatch, stretch: int) -> None:
    monkeypatch.setattr("headrace.state.run.STRETCH", stretch)
    random = np.random.default_rng(11)
    for _ in range(200):
        tables = []
        for _ in range(random.integers(1, 5)):
            entries = [
                (int(random.integers(-3, 3)), int(random.choice([1, 1, 2, -1])), random.choice([None, 0.0, -0.0, 1.0]))
                for _ in range(random.integers(0, 7))
            ]
            tables.append(run(entries))
        if random.integers(2):  # as rows come that a step finds in several runs, or that no run has had yet
            tables = [pa.concat_tables(tables)]
        merged = merge(tables)
        assert counted([merged]) == counted(tables)
        hashes = column(merged, "_h")
        assert (np.diff(hashes) >= 0).all()
        if (column(pa.concat_tables(tables), "_w") < 0).any():
            assert 0 not in merged["_w"].to_pylist()


MERGE = """
import numpy as np, pyarrow as pa
from headrace.state import run
run.STRETCH = 1 << 20
hashes = np.arange(40_000)
table = pa.table({"_h": hashes, "_w": np.where(hashes % 10, 1, -1), "c0": ["x" * 1000] * len(hashes)})
tables, before = [table, table.slice(10)], pa.total_allocated_bytes()
merged = run.merge(tables)
print((pa.default_memory_pool().max_memory() - before) / merged.nbytes)
"""


def test_a_merge_takes_twice_the_memory_of_its_result() -> None:
    """In a process of its own: a pool tells the most that it has ever had."""
    told = subprocess.run([sys.executable, "-c", MERGE], check=True, capture_output=True, text=True)
    assert 1 <= float(told.stdout) < 2.2


def test_a_merge_of_nothing_but_cancelling_rows_is_empty() -> None:
    merged = merge([run([(1, 1, 2.0)]), run([(1, -1, 2.0)])])
    assert merged.num_rows == 0
    assert merged.schema == run([]).schema


def test_damage_is_told_with_the_bytes_that_differ(tmp_path: Path) -> None:
    file, size = tmp_path / "run", 2 * BLOCK + 1000
    whole = np.random.default_rng(3).bytes(size)
    file.write_bytes(whole)
    sums = checksums(file, sync=True)
    blocks = [whole[:BLOCK], whole[BLOCK : 2 * BLOCK], whole[2 * BLOCK :]]
    assert sums == "".join(f"{zlib.crc32(block):08x}" for block in blocks)
    assert damage(file, sums) == damage(file, f"{zlib.crc32(whole):08x}") == ""
    for at, told in (
        (0, f"bytes 0 to {BLOCK - 1} "), (BLOCK - 1, f"bytes 0 to {BLOCK - 1} "),
        (BLOCK, f"bytes {BLOCK} to {2 * BLOCK - 1} "), (size - 1, f"bytes {2 * BLOCK} to {size - 1} "),
    ):  # fmt: skip
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert damage(file, sums).startswith(told) and "behind" not in damage(file, sums)
        assert damage(file, f"{zlib.crc32(whole):08x}").startswith(f"bytes 0 to {size - 1} ")
    file.write_bytes(bytes(10) + whole[10:-1])
    assert damage(file, sums).endswith(f"; so do 1 of the blocks of {BLOCK} bytes behind it")
    for cut, told in (
        (size - 1, f"bytes {2 * BLOCK} to {size - 2} "), (2 * BLOCK, f"it ends after {2 * BLOCK} bytes"),
        (BLOCK + 1, f"bytes {BLOCK} to {BLOCK} "), (BLOCK, f"it ends after {BLOCK} bytes"), (0, "it ends after 0 bytes"),
    ):  # fmt: skip
        file.write_bytes(whole[:cut])
        assert damage(file, sums).startswith(told)
    file.write_bytes(whole + b"more")
    assert damage(file, sums).startswith(f"bytes {2 * BLOCK} to {size + 3} ")
    file.write_bytes(whole + bytes(BLOCK))
    assert damage(file, sums).startswith(f"bytes {2 * BLOCK} to {3 * BLOCK - 1} ")
