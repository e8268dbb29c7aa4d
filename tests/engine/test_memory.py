"""Goal: memory that Python and Arrow have freed does not stay with the process, but is there for a worker's next array."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.engine.session import freed
from headrace.model.definition import Settings

PROGRAM = """
import psutil
from headrace.engine.memory import give_back

used = psutil.Process().memory_info
before = used().rss
blocks = [bytes(8000) for _ in range(25_000)]
kept = blocks[::200]  # no stretch at the end is free, where an allocator lets go by itself
del blocks
scattered = used().rss
give_back()
print((scattered - before) >> 20, (used().rss - before) >> 20)
"""


def test_freed_memory_goes_back_to_the_system() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True, timeout=60)
    scattered, left = map(int, done.stdout.split())
    assert scattered > 100
    assert left < 30


OWN = """
import pyarrow as pa


def own():
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Anonymous")) >> 10  # MiB


"""
FREED = """
before = own()
for _ in range(3):
    rows = [pa.array([b"x" * 4000] * 2500) for _ in range(10)]
    del rows
print(own() - before)
"""


@pytest.mark.parametrize(("memory", "low", "high"), [("512m", 0, 70), ("1g", 120, 300)])
def test_where_memory_is_short_a_worker_keeps_none_that_it_has_freed(memory: str, low: int, high: int) -> None:
    """100 MB of long rows, three times."""
    told = {name.removeprefix("spark.executorEnv."): to for name, to in freed(Settings(driver_memory=memory)).items()}
    done = subprocess.run(
        [sys.executable, "-c", OWN + FREED],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **told},
    )
    assert low <= int(done.stdout) <= high


MERGED = """
import sys
from pathlib import Path

import numpy as np
from headrace.engine.kept import Kept
from headrace.state.run import write_run

kept, rows, random = Kept(Path(sys.argv[1])), 40_000, np.random.default_rng(0)
for step in range(4):
    place = Path(sys.argv[1]) / str(step)
    place.mkdir()
    texts = pa.array([text.tobytes() for text in random.integers(0, 256, (rows, 1000), np.uint8)])
    columns = [np.arange(rows) + step * rows, np.ones(rows, np.int64), texts]
    write_run(path := place / f"a~0~0~{rows}.arrow", pa.table(columns, names=["_h", "_w", "c0"]))
    kept.add([path])
del texts, columns
pa.default_memory_pool().release_unused()
before = own()
assert kept.merge()
print(*[run.size >> 20 for run in kept.runs["a"]], own() - before)
"""


def test_a_large_merge_gives_back_what_it_took(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OWN + MERGED, str(tmp_path)], check=True, capture_output=True, text=True, timeout=60
    )
    merged, more = map(int, done.stdout.split())
    assert merged > 150
    assert more < 80


@pytest.mark.spark
def test_a_worker_keeps_what_its_next_arrays_take(spark: Any) -> None:
    def new_pages(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """How often the kernel had to find a page for arrays like those that were freed just before."""
        list(batches)
        found = []
        for _ in range(3):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            arrays = [np.ones(3 << 20) for _ in range(6)]
            del arrays
            found.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
        yield pa.RecordBatch.from_pydict({"faults": pa.array(found, pa.int64())})

    first, *later = [row[0] for row in spark.range(1).coalesce(1).mapInArrow(new_pages, "faults bigint").collect()]
    assert first > 60  # 144 MiB, in huge pages where there are some
    assert max(later) < 10
