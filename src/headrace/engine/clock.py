"""Ticks: transactions that move the clock, which views read as a relation of one row. Appended only when it matters."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

from headrace.circuit.build import TABLE
from headrace.circuit.node import Expression, Feed, Node, Project, Shared, Single, Threshold
from headrace.circuit.operators.threshold import Ordered
from headrace.engine.kept import Kept
from headrace.engine.program import Program
from headrace.engine.unroll import feeds_of
from headrace.formats import recorded
from headrace.formats.types.arrow import to_arrow
from headrace.log.append import LogWriter
from headrace.log.read import FrameRef, LogReader
from headrace.model.clock import CLOCK, NOW
from headrace.model.schema import Relation
from headrace.model.transaction import INSERT, OPERATION, ORDINAL, TransactionBatch, TransactionOrigin
from headrace.sql.catalyst import Catalyst
from headrace.sql.present import Value
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


def tick_at(reader: LogReader, commit: int) -> int | None:
    """The last tick up to a commit, in microseconds since the epoch; None where the log has none."""
    for ref in reversed([ref for ref in reader.refs(0, commit) if CLOCK.name in ref.rows]):
        for batch in reversed(list(reader.read([ref], CLOCK.name, 0, commit))):
            if batch.num_rows:
                return int(recorded.values(batch, CLOCK.names[NOW], pa.int64())[-1].as_py())
    return None


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


@dataclass(frozen=True, slots=True)
class Compared:
    """A value that follows from the clock, and what uses it; ``at`` None where that is not a threshold."""

    value: Value
    at: Threshold | None


class Ticks:
    """Moves the clock when views need it. ``present``: the time in microseconds since the epoch."""

    def __init__(self, spark: SparkSession, log: LogWriter, kept: Kept, resolution_s: float) -> None:
        self.catalyst, self.log, self.kept = Catalyst(spark), log, kept
        self.resolution_us = int(resolution_s * 1_000_000)
        self.present: Callable[[], int] = lambda: time.time_ns() // 1_000
        self.tables: frozenset[str] = frozenset()  # those that views with a clock read beside it
        self.compared: list[Compared] = []
        self.looked_us = 0

    def watch(self, program: Program) -> None:
        """These are the circuits from now on."""
        readers = program.downstream({CLOCK.name}) - {CLOCK.name}
        self.tables = frozenset(program.tables(readers)) - {CLOCK.name}
        roots = {c.name: c.root for c in program.circuits if c.root is not None}
        self.compared = [
            Compared(Value(self.catalyst, value), node if isinstance(node, Threshold) else None)
            for root in roots.values()
            for node in root.walk()
            for child in node.children
            if (value := of_clock(roots[child.relation] if isinstance(child, Shared) else child)) is not None
        ]

    def begin(self) -> None:
        """Have a tick that is not older than the resolution."""
        last, now = last_tick(self.log), self.present()
        if last is None or now - last >= self.resolution_us:
            tick(self.log, now)

    def advance(self, pending: Iterable[FrameRef]) -> None:
        """Have one before a step over ``pending``, if a view with a clock has something of it to show, or rows of one
        are due."""
        relations = {name for ref in pending for name in ref.rows}
        if self.tables & relations or (CLOCK.name not in relations and self.due()):
            self.begin()

    def due(self) -> bool:
        """Whether the present time shows other rows than the last tick, which views have reached. Asked again within
        the resolution, it does not look."""
        last, now = last_tick(self.log), self.present()
        if not self.compared or last is None or now - max(last, self.looked_us) < self.resolution_us:
            return False
        self.looked_us = now
        runs = self.kept.paths()
        return any(self.differs(compared, last, now, runs) for compared in self.compared)

    def differs(self, compared: Compared, last: int, now: int, runs: Mapping[str, list[str]]) -> bool:
        values = [compared.value.at(last), compared.value.at(now)]
        if values[0].equals(values[1]) or compared.at is None:
            return not values[0].equals(values[1])
        kept = Ordered.of(compared.at)
        return kept.parted(runs.get(kept.name, []), pa.concat_arrays(values), compared.at.comparison)


def of_clock(node: Node) -> Expression | None:
    """The expression over the clock whose one value a node is; None for other nodes."""
    made = node.child if isinstance(node, Single) else None
    if isinstance(made, Project) and isinstance(made.child, Feed) and made.child.relation == CLOCK.name:
        return made.expressions[0]
    return None
