"""Goal: memory that Python and Arrow have freed does not stay with the process, but is there for a worker's next array."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

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
