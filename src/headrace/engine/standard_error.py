"""What the JVM says on standard error, without the line that it says at every start."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# Spark asks for the module itself, whether a query uses it or not, and Java warns of it before any option is heard.
NOISE = b"WARNING: Using incubator modules: jdk.incubator.vector\n"


@contextmanager
def without_noise() -> Iterator[None]:
    """A process that is started inside writes to a pipe, whose lines go on to standard error as they come."""
    reading, writing = os.pipe()
    to = os.dup(2)
    os.dup2(writing, 2)
    os.close(writing)
    threading.Thread(target=_pass_on, args=(reading, to), name="jvm-stderr", daemon=True).start()
    try:
        yield
    finally:
        os.dup2(to, 2)


def _pass_on(reading: int, to: int) -> None:
    with os.fdopen(reading, "rb") as lines, os.fdopen(to, "wb", buffering=0) as out:
        for line in lines:
            if line != NOISE:
                out.write(line)
