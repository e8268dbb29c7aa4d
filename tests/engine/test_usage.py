"""Goal: what `headrace top` tells of memory is what the system and the JVM themselves tell.

Method: files whose pages are put into the page cache and thrown out of it; processes that take a known amount of memory
and of time; a JVM that is made to fill its heap.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from headrace.engine.usage import held, in_memory, jvm, processes

MIB = 1 << 20


def written(path: Path, size: int) -> Path:
    with path.open("wb") as file:
        file.write(os.urandom(size))
        file.flush()
        os.fsync(file.fileno())
    return path


def forget(path: Path) -> None:
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def test_the_page_cache_has_what_was_written_or_read_and_not_thrown_out(tmp_path: Path) -> None:
    file = written(tmp_path / "run", 3 * MIB + 1)
    assert in_memory(file) == 3 * MIB + 4096
    forget(file)
    assert in_memory(file) == 0
    with file.open("rb", buffering=0) as opened:
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_RANDOM)  # else the system reads ahead
        opened.read(100)
    assert 0 < in_memory(file) < MIB


def test_folders_add_up_and_what_is_gone_counts_nothing(tmp_path: Path) -> None:
    there, out = written(tmp_path / "a", 2 * MIB), written(tmp_path / "b", MIB)
    forget(out)
    (tmp_path / "empty").touch()
    given = [there, out, tmp_path / "empty", tmp_path / "gone"]
    assert held(given) == {"files": 3, "bytes": 3 * MIB, "cached": 2 * MIB}


def _fills(taken: int, at: Any, ends: Any) -> None:
    kept = np.ones(taken, np.uint8)
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass
    at.set()
    ends.wait()
    assert kept[-1]


def test_processes_below_are_told_with_their_memory_and_time() -> None:
    spawn = multiprocessing.get_context("spawn")
    at, ends = spawn.Event(), spawn.Event()
    child = spawn.Process(target=_fills, args=(64 * MIB, at, ends))
    child.start()
    try:
        assert at.wait(60)
        found = {told["pid"]: told for told in processes(psutil.Process())}
    finally:
        ends.set()
        child.join()
    assert found[os.getpid()]["name"] == "engine"
    assert child.pid is not None
    assert 64 * MIB < found[child.pid]["own"] < 256 * MIB
    assert found[child.pid]["cpu_s"] >= 0.3
    assert 0 < found[os.getpid()]["mapped"] < psutil.Process().memory_info().rss


@pytest.mark.spark
def test_the_jvm_tells_of_itself_and_its_python_workers_are_known(spark: Any) -> None:
    spark._jvm.System.gc()  # so that none comes between what is told of the heap and of collections
    before = jvm(spark)
    assert 0 < before["heap"] <= before["heap_now"] <= before["heap_max"]
    assert before["heap_max"] <= 1 << 30  # driver_memory: 1g
    kept = spark.sparkContext._gateway.new_array(spark._jvm.long, 12 * MIB)
    after = jvm(spark)
    assert after["heap"] - before["heap"] > 64 * MIB or after["gc_s"] > before["gc_s"]
    assert len(kept) == 12 * MIB
    spark.range(0, 2, 1, 2).mapInArrow(lambda batches: batches, "id bigint").collect()
    names = [told["name"] for told in processes(psutil.Process())]
    assert names.count("JVM") == 1
    assert {"engine", "Python daemon", "Python worker"} <= set(names)
