"""Spark's Python worker daemon with what every stage needs imported once, before it forks workers.

A worker that imports by itself takes a second and 100 MB of its own; a fork takes milliseconds and shares them.
After every task a worker collects garbage: over the modules that is 35 ms of processor time a stage, unless they
are frozen first.
"""

from __future__ import annotations

import gc
import os
import sys
import time
import zipimport
from importlib.machinery import PathFinder
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads made before a fork do not survive it
# Spark names its own archive first, whose modules are compiled at each start; those of an installed package are not.
sys.path[:] = [
    path
    for path in sys.path
    if not (path.endswith("pyspark.zip") and PathFinder.find_spec("pyspark", [p for p in sys.path if p != path]))
]

import numpy
import pandas
import pyarrow.compute
import pyspark.sql.pandas.serializers
import pyspark.worker
from pyspark import daemon

import headrace.circuit.operators
import headrace.engine.changes
from headrace.engine.memory import give_back

PRELOADED = (
    numpy,
    pandas,
    pyarrow.compute,
    pyspark.sql.pandas.serializers,
    pyspark.worker,
    headrace.circuit.operators,
    headrace.engine.changes,
)

GIVE_BACK_S = 30.0  # between two times at which a worker lets the system have what it has freed

_at_work = daemon.worker
_given_back = time.monotonic()


def _worker(sock: Any, authenticated: bool) -> int:
    """A task. A worker that the JVM has let go of, idle as it was, ends without a word."""
    global _given_back  # noqa: PLW0603 - of this process, which forks for each worker
    try:
        code: int = _at_work(sock, authenticated)
    except BrokenPipeError:
        return 1
    if time.monotonic() - _given_back > GIVE_BACK_S:
        give_back()
        _given_back = time.monotonic()
    return code


if __name__ == "__main__":
    # A task forgets what Python knows of its path, and would read Spark's archives there again, each time.
    zipimport.zipimporter.invalidate_caches = lambda self: None  # type: ignore[method-assign]
    gc.collect()
    gc.freeze()
    daemon.worker = _worker
    daemon.manager()
