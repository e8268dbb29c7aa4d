"""What the operators of a step did: rows that each passed on, and rows of kept state that each read.

Every operator of a circuit counts under a key of its own: ``Passed`` stands behind it, and its reads of arrangements
name it as the reader. What a stage's process has counted goes into a file of the step's folder. Where only Spark makes
the rows, counting them would be one more crossing into Python: that is done in tests alone (``Builder.counting``).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pyarrow as pa

from headrace.circuit.task import current, partition
from headrace.state.reads import READS

FILES = "work~"
_PASSED: Counter[str] = Counter()  # key -> rows, in this process


@dataclass(slots=True)
class Operator:
    """An operator of a circuit. ``inputs``: the keys of what it is given, none for a leaf; ``arrangements``: what
    is kept of its inputs, by it or by another."""

    key: str
    name: str
    inputs: list[str] = field(default_factory=list)
    arrangements: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Tally:
    """What a step has counted: key -> rows passed on, reader -> rows read of what is kept. ``unseen``: the keys of
    operators that worked without their rows being counted."""

    passed: Counter[str] = field(default_factory=Counter)
    read: Counter[str] = field(default_factory=Counter)
    unseen: set[str] = field(default_factory=set)

    def add(self, folder: Path) -> None:
        """What the tasks of a job wrote into its folder."""
        for path in folder.glob(f"{FILES}*"):
            passed, read = orjson.loads(path.read_bytes())
            self.passed.update(passed)
            self.read.update(read)


class Passed:
    """A stage that counts the rows which pass."""

    takes_picked = True

    def __init__(self, key: str) -> None:
        self.key = key

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in pieces:
            _PASSED[self.key] += batch.num_rows
            yield batch


@contextmanager
def noted() -> Iterator[None]:
    """Around a stage's work: what was counted meanwhile, written down."""
    before = Counter(_PASSED), Counter(READS)
    yield
    passed, read = (now - then for now, then in zip((_PASSED, READS), before, strict=True))
    if passed or read:
        name = f"{FILES}{partition()}~{os.getpid()}~{os.urandom(6).hex()}"
        (Path(current().folder) / name).write_bytes(orjson.dumps((passed, read)))
