"""A program in a process of its own, watched from outside."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Sequence
from typing import Any

import psutil

from benchmarks.bench import OFTEN_S, Memory

LIMIT_S, LOOK_S = 900, 0.2
LEAST_LEFT = 1 << 30


def run(command: Sequence[str]) -> dict[str, Any]:
    """The last JSON line that a command prints, with its processor time and the peak memory of all its processes where
    it does not tell; ``failed``: its status, when it prints none. It is ended after ``LIMIT_S``, and when it has
    left less than ``LEAST_LEFT`` bytes of the machine's memory: a little later nothing else would run either."""
    began = time.monotonic()
    environment = {**os.environ, "PATHWAY_THREADS": "2", "TZ": "UTC"}
    process = psutil.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
    busy = dict[int, float]()
    with Memory(OFTEN_S, process) as memory:
        while process.poll() is None:
            for each in [process, *process.children(recursive=True)]:
                try:
                    times = each.cpu_times()
                except psutil.Error:
                    continue
                busy[each.pid] = times.user + times.system
            if time.monotonic() - began > LIMIT_S or psutil.virtual_memory().available < LEAST_LEFT:
                for each in [*process.children(recursive=True), process]:
                    each.kill()
            time.sleep(LOOK_S)
    with process.stdout as printed:
        lines: list[str] = [line for line in printed.read().decode().splitlines() if line.startswith("{")]
    if not lines:
        return {"failed": process.returncode}
    measured = {"processor_seconds": round(sum(busy.values()), 2), "peak_mib": round(memory.peak)}
    return measured | json.loads(lines[-1])
