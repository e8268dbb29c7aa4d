"""What a running project takes of its machine: processes, the JVM's memory, what the page cache has of its files."""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from headrace.engine.pipeline import Pipeline

FOLDERS = ("log", "state")
_IN_MEMORY = 1  # the bit of a page in what mincore(2) answers


def usage(pipeline: Pipeline) -> dict[str, Any]:
    """``{"at_s", "commit", "frontier", "steps", "step_seconds", "rows", "machine", "processes", "jvm", "files"}``.

    Counters since the start: two answers make a rate. ``at_s``: seconds of a clock that never goes back; ``rows``: that
    the sources brought. All sizes are bytes.
    """
    return {
        "at_s": time.monotonic(),
        "commit": pipeline.log.end,
        "frontier": pipeline.maintainer.frontier,
        "steps": pipeline.latest["steps"],
        "step_seconds": round(pipeline.latest["step_seconds"], 4),
        "rows": sum(ingest.rows for ingest in list(pipeline.ingests.values())),
        "machine": {**_machine(), "driver_memory": pipeline.project.settings.driver_memory},
        "processes": list(processes(psutil.Process())),
        "jvm": jvm(pipeline.spark),
        "files": [{"name": name, **held(_files(pipeline.folder / name))} for name in FOLDERS],
    }


def _machine() -> dict[str, Any]:
    memory = psutil.virtual_memory()
    cores = psutil.cpu_count() or 1
    return {"cores": cores, "load": os.getloadavg()[0], "memory": memory.total, "available": memory.available}


def processes(engine: psutil.Process) -> Iterator[dict[str, Any]]:
    """The engine's process and those below it: ``{"name", "pid", "cpu_s", "own", "mapped"}``.

    ``own``: memory that is no file's; ``mapped``: of the files that it has mapped. What several share is divided among
    them, so that both add up. Where the system does not tell (it is no Linux), ``own`` is what nobody shares.
    """
    for process in (engine, *engine.children(recursive=True)):
        with suppress(psutil.Error):  # it has ended meanwhile
            with process.oneshot():
                times = process.cpu_times()
                name = "engine" if process.pid == engine.pid else _name(process)
            own, mapped = _memory(process)
            yield {
                "name": name, "pid": process.pid, "cpu_s": round(times.user + times.system, 2),
                "own": own, "mapped": mapped,
            }  # fmt: skip


def _name(process: psutil.Process) -> str:
    name: str = process.name()
    if name == "java":
        return "JVM"
    above, command = process.parent(), process.cmdline()
    if "headrace.api.serving" in command:
        return "serving"
    if "headrace.engine.daemon" not in command or above is None:
        return name
    return "Python daemon" if above.name() == "java" else "Python worker"  # which is a fork of the daemon


def _memory(process: psutil.Process) -> tuple[int, int]:
    rollup = Path(f"/proc/{process.pid}/smaps_rollup")
    if not rollup.exists():
        return int(process.memory_full_info().uss), 0
    try:
        text = rollup.read_text()
    except OSError as error:
        raise psutil.NoSuchProcess(process.pid) from error
    sizes = {line.split()[0].rstrip(":"): int(line.split()[1]) << 10 for line in text.splitlines()[1:]}
    return sizes.get("Pss_Anon", 0) + sizes.get("Pss_Shmem", 0), sizes.get("Pss_File", 0)


def jvm(spark: SparkSession) -> dict[str, Any]:
    """``{"heap", "heap_now", "heap_max", "arrow", "buffers", "code", "gc_s"}``: what is used of each, in bytes.

    ``heap_now``: how large the heap is, of at most ``heap_max``; ``arrow``: batches on their way; ``buffers``: other
    memory outside the heap; ``code``: classes and compiled code; ``gc_s``: seconds of garbage collections so far.
    """
    view: Any = spark.sparkContext._jvm
    beans = view.java.lang.management.ManagementFactory
    memory = beans.getMemoryMXBean()
    heap = memory.getHeapMemoryUsage()
    collectors, pools = beans.getGarbageCollectorMXBeans(), beans.getPlatformMXBeans(
        view.java.lang.Class.forName("java.lang.management.BufferPoolMXBean")
    )  # fmt: skip
    return {
        "heap": heap.getUsed(),
        "heap_now": heap.getCommitted(),
        "heap_max": heap.getMax(),
        "arrow": view.org.apache.spark.sql.util.ArrowUtils.rootAllocator().getAllocatedMemory(),
        "buffers": sum(pools[i].getMemoryUsed() for i in range(pools.size())),
        "code": memory.getNonHeapMemoryUsage().getUsed(),
        "gc_s": sum(collectors[i].getCollectionTime() for i in range(collectors.size())) / 1000,
    }


def _files(folder: Path) -> Iterator[Path]:
    for above, _, names in os.walk(folder):
        yield from (Path(above, name) for name in names)


def held(files: Iterable[Path]) -> dict[str, int]:
    """``{"files", "bytes", "cached"}``: how many there are, what they take on the disk, what of it is in memory."""
    number = size = cached = 0
    for file in files:
        with suppress(OSError):  # it is gone meanwhile
            number, size, cached = number + 1, size + file.stat().st_blocks * 512, cached + in_memory(file)
    return {"files": number, "bytes": size, "cached": cached}


def in_memory(file: Path) -> int:
    """The bytes of a file that the page cache has, by mincore(2): in whole pages, and nothing is read for it."""
    with file.open("rb") as opened:
        size = os.fstat(opened.fileno()).st_size
        if not size:
            return 0
        with mmap.mmap(opened.fileno(), size, prot=mmap.PROT_READ) as mapped:
            pages = np.zeros(-(-size // mmap.PAGESIZE), np.uint8)
            first = np.frombuffer(mapped, np.uint8)
            at, into = ctypes.c_void_p(first.ctypes.data), ctypes.c_void_p(pages.ctypes.data)
            failed = ctypes.CDLL(None, use_errno=True).mincore(at, ctypes.c_size_t(size), into)
            del first  # it would keep the file mapped
        if failed:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(file))
    return int(np.count_nonzero(pages & _IN_MEMORY)) * mmap.PAGESIZE
