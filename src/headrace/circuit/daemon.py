"""Spark's Python worker daemon with what every stage needs imported once, before it forks workers.

A worker that imports by itself takes a second and 100 MB of its own; a fork takes milliseconds and shares them.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads made before a fork do not survive it

import numpy
import pyarrow.compute
import pyspark.worker
from pyspark.daemon import manager

import headrace.circuit.operators
import headrace.log.read

PRELOADED = (numpy, pyarrow.compute, pyspark.worker, headrace.circuit.operators, headrace.log.read)

if __name__ == "__main__":
    manager()
