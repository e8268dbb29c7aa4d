"""Processes that Spark is made of and that ended by themselves: told apart from SQL that fails, which they are not."""

from __future__ import annotations

import logging
import subprocess
from typing import Any

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.sql import SparkSession

from headrace.model.errors import HeadraceError

WORKERS_LOST_MAX = 8  # one after the other in the same job; then it is what the view's own code does to them
_WAIT_S = 2.0  # for the system to know of the end of a process, where a call to it has failed already
# As Spark says that a Python worker has ended or cannot be had. Where the process is gone that they are forked from,
# each worker that was kept idle costs a job, in this class.
_SIGNS = ("Python worker exited unexpectedly", "Python worker failed to connect", "api.python.PythonWorkerFactory")

_reasons: dict[int, str] = {}  # of processes that were ended here


def lost_worker(error: BaseException) -> bool:
    """Whether a job failed because the Python process that ran one of its tasks has ended."""
    return any(sign in str(error) for sign in _SIGNS)


def lost_spark(spark: SparkSession, error: BaseException | None = None) -> HeadraceError | None:
    """``spark.lost`` when the session's Java process has ended, else None. ``error``: what a call to it gave."""
    process = getattr(spark.sparkContext._gateway, "proc", None)
    if not isinstance(process, subprocess.Popen) or isinstance(error, HeadraceError):
        return None
    status = process.poll()
    if status is None and (isinstance(error, ConnectionError | Py4JNetworkError) or type(error) is Py4JError):
        try:
            status = process.wait(_WAIT_S)
        except subprocess.TimeoutExpired:
            return None
    if status is None:
        return None
    how = f"by signal {-status}" if status < 0 else f"with status {status}"
    return HeadraceError(
        "spark.lost",
        f"Spark's Java process has ended, {how}",
        why=_reasons.get(process.pid, "it was killed, by the system when memory is short, or by somebody"),
        next="`headrace up` goes on where it stopped, and nothing acknowledged is lost. Where memory was short: less "
        "`driver_memory` in headrace.yaml, or a machine with more",
    )


def end_spark(spark: SparkSession, why: str) -> None:
    """End the session's Java process, which ``lost_spark`` then tells with this reason."""
    process = getattr(spark.sparkContext._gateway, "proc", None)
    if isinstance(process, subprocess.Popen):
        _reasons[process.pid] = why
        process.kill()


def quiet(spark: SparkSession) -> None:
    """What Spark's and Py4J's Python side print of the end of the Java process is left out: ``lost_spark`` tells it."""
    server: Any = spark.sparkContext._accumulatorServer
    server.handle_error = lambda request, address: None
    logging.getLogger().addFilter(_told)


def _told(record: logging.LogRecord) -> bool:
    """Of the root logger's own records all but those of a call that found no Java process."""
    return not (record.exc_info and isinstance(record.exc_info[1], Py4JNetworkError))
