"""A statement that can make much of little: answered whole, in a process whose memory and time have a hard end.

Record: docs/decisions/0031-questions-apart.md.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from weakref import WeakSet

import duckdb
import pyarrow as pa

from headrace.api.postgres.result import Result, ResultColumn, each, spelled
from headrace.api.postgres.rewrite import Rewritten
from headrace.model import bounds
from headrace.serve.asking import Answered, Asked, Runs
from headrace.serve.database import parsed

BYTES_MAX = 256 << 20  # of an answer's columns, as over HTTP in Arrow

Found = tuple[list[ResultColumn], Any]


@dataclass(frozen=True, slots=True)
class Statement(Asked):
    """As it is passed on. ``catalogue``: tables that it may read beside the known relations; ``wanted``: what of its
    result beside the columns."""

    query: Rewritten
    parameters: tuple[Any, ...]
    catalogue: Mapping[str, pa.Table]
    wanted: Callable[[Result], Any]

    @property
    def behind(self) -> bool:
        """What a transaction reads of such a view stays so, whatever is published meanwhile."""
        return True

    def reads(self, connection: duckdb.DuckDBPyConnection) -> list[str]:
        return [name.lower() for name in self.known]

    def answer(self, connection: duckdb.DuckDBPyConnection) -> Found:
        for name, table in self.catalogue.items():
            connection.register(name, table)
        statement = parsed(connection, self.query.sql)
        result = Result(connection, self.query, self.parameters, statement, self.known)
        return result.columns, self.wanted(result)


def rows(forms: Sequence[int], result: Result) -> list[pa.RecordBatch]:
    """All of them, in the forms that a client wants. Raises ``query.size``."""
    found, size = list[pa.RecordBatch](), 0
    for batch in result.batches(each(forms, len(result.columns))):
        size += batch.nbytes
        if size > BYTES_MAX:
            raise bounds.size(BYTES_MAX)
        found.append(batch)
    return found


def none(result: Result) -> None:
    """The columns alone are wanted."""


class Held:
    """Answers that wait to be sent, of all connections: so many bytes at most. Used by any thread."""

    def __init__(self, most: int) -> None:
        self._most, self._answers, self._lock = most, WeakSet[Apart](), threading.Lock()

    def keep(self, answer: Apart, size: int) -> None:
        """Raises ``query.memory`` where there is no room for so many bytes."""
        with self._lock:
            taken = sum(other.size for other in self._answers if other is not answer)
            if taken + size > self._most:
                raise bounds.memory(f"answers of {taken >> 20:,} MiB wait to be fetched already")
            answer.size = size
            self._answers.add(answer)


class Apart:
    """A result as ``Result``, from a process of its own.

    ``put`` passes a statement on; ``forms``: those in which its rows will be fetched; None: not known, or never.
    ``size``: bytes of the rows that it holds.
    """

    def __init__(
        self, put: Callable[[Statement, Runs], Answered], statement: Statement, forms: Sequence[int] | None, held: Held,
        runs: Runs,
    ) -> None:  # fmt: skip
        self._put, self._held = put, held
        self._batches, self.size = list[pa.RecordBatch](), 0
        self._as_text: list[bool] | None = None
        self._end: Callable[[], None] | None = None
        self._interrupted = False
        wanted = none if forms is None else partial(rows, forms)
        answered = put(replace(statement, wanted=wanted), runs)
        self.columns, found = answered.found
        self.reads, self.commit, self.stale = statement.known, answered.commit, answered.stale
        self._statement = replace(statement, at=self.commit if self.reads else None)
        if forms is not None:
            self._keep(found, each(forms, len(self.columns)))

    def batches(self, forms: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """The rows in parts, asked for anew where they were not, or in other forms."""
        if self._as_text != spelled(self.columns, forms):
            self._keep(self._asked(partial(rows, forms)), forms)
        yield from self._batches

    def plan(self) -> str:
        """How DuckDB would run it."""
        return str(self._asked(Result.plan))

    def interrupt(self) -> None:
        """End it from another thread."""
        self._interrupted = True
        if self._end is not None:
            self._end()

    def close(self) -> None:
        self._batches, self.size = [], 0

    def _asked(self, wanted: Callable[[Result], Any]) -> Any:
        return self._put(replace(self._statement, wanted=wanted), self._runs).found[1]

    def _runs(self, end: Callable[[], None]) -> None:
        self._end = end
        if self._interrupted:  # before it could be told what ends it
            end()

    def _keep(self, batches: list[pa.RecordBatch], forms: Sequence[int]) -> None:
        self._held.keep(self, sum(batch.nbytes for batch in batches))
        self._batches, self._as_text = batches, spelled(self.columns, forms)
