"""Ticks: transactions that move the clock, which views read as a relation of one row. Appended only when it matters."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa

from headrace.circuit.build import TABLE
from headrace.circuit.node import Node
from headrace.engine.kept import Kept
from headrace.engine.program import Program
from headrace.engine.unroll import feeds_of
from headrace.formats.types.arrow import to_arrow
from headrace.log.append import LogWriter
from headrace.log.read import FrameRef
from headrace.model.clock import CLOCK, NOW
from headrace.model.schema import Relation
from headrace.model.transaction import INSERT, OPERATION, ORDINAL, TransactionBatch, TransactionOrigin
from headrace.state.run import column, merge, open_run


def tick(log: LogWriter, at_us: int) -> int:
    """Move the clock to a time in microseconds since the epoch; the commit that does. It never goes back:
    ``ValueError`` for a time before the last tick."""
    last = last_tick(log)
    if last is not None and at_us < last:
        raise ValueError(f"a tick at {at_us} after one at {last}")
    row = {
        ORDINAL: pa.array([0], pa.int32()), OPERATION: pa.array([INSERT], pa.int8()), "one": pa.array([0], pa.int32()),
        "now": pa.array([at_us], to_arrow("timestamp")),
    }  # fmt: skip
    origin = TransactionOrigin(CLOCK.name, str(at_us), at_us)
    return log.append(TransactionBatch((origin,), {CLOCK.name: pa.table(row)}))


def last_tick(log: LogWriter) -> int | None:
    """The last tick in the log, None before the first."""
    position = log.positions.get(CLOCK.name)
    return None if position is None else int(position)


def shown(kept: Kept) -> int | None:
    """The tick that views show: the last one at or before their frontier. None where no view reads the clock."""
    paths = kept.paths().get(TABLE + CLOCK.name)
    if not paths:
        return None
    rows = merge([open_run(path) for path in paths])
    return int(column(rows.select([f"c{NOW}"]).cast(pa.schema([(f"c{NOW}", pa.int64())])), f"c{NOW}")[0])


def with_clock(tables: Mapping[str, Relation], roots: Iterable[Node]) -> dict[str, Relation]:
    """The tables, and the clock where a view reads it."""
    read = any(CLOCK.name in feeds_of(root) for root in roots)
    return {**tables, CLOCK.name: CLOCK} if read else dict(tables)


class Ticks:
    """Moves the clock when views need it. ``present``: the time in microseconds since the epoch."""

    def __init__(self, log: LogWriter, resolution_s: float) -> None:
        self.log, self.resolution_us = log, int(resolution_s * 1_000_000)
        self.present: Callable[[], int] = lambda: time.time_ns() // 1_000
        self.tables: frozenset[str] = frozenset()  # those that views with a clock read beside it

    def watch(self, program: Program) -> None:
        """These are the circuits from now on."""
        readers = program.downstream({CLOCK.name}) - {CLOCK.name}
        self.tables = frozenset(program.tables(readers)) - {CLOCK.name}

    def begin(self) -> None:
        """Have a tick that is not older than the resolution."""
        last, now = last_tick(self.log), self.present()
        if last is None or now - last >= self.resolution_us:
            tick(self.log, now)

    def advance(self, pending: Iterable[FrameRef]) -> None:
        """Have one before a step over ``pending``, if a view with a clock has something of it to show."""
        if any(self.tables & ref.rows.keys() for ref in pending):
            self.begin()
