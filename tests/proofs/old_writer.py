"""Writers of one sink that know nothing of each other: the real delivery thread, over a history instead of a log."""

from __future__ import annotations

import random
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
from bank import SOURCE, VIEWS, History, Rows
from control_plane import FINISHED, World

from headrace.engine import deliver as delivering
from headrace.engine.deliver import Deliver
from headrace.model.delivery import Delivery, Succession
from headrace.model.transaction import TransactionOrigin
from headrace.sinks.base import Sink

FENCED, NO_ENTRY = 10, 11
SCHEMAS = {schema.name: schema for schema in VIEWS}


def write(world: World, upto: int) -> int:
    """Open the sink and write up to transaction ``upto``, as the product does: what fails is tried again."""
    delivering.RETRY_S = (0.01,)
    writer = Writer(world.sink(), History(world.seed, world.transactions), upto)
    writer.run()
    if writer.error is None:
        return FINISHED
    return FENCED if writer.error.code == "sink.fenced" else NO_ENTRY


class Writer(Deliver):
    """Delivers transactions of a history, several at a time: some as one delivery, some each by itself."""

    def __init__(self, sink: Sink, history: History, upto: int) -> None:
        last = SimpleNamespace(upto=upto)
        catalog = SimpleNamespace(
            sinks=dict, put_sink=lambda *values: None, last_published=lambda: last, meta=lambda name: None
        )
        super().__init__(sink, None, cast(Any, catalog), cast(Any, None), lambda event: None)
        self.history, self.upto = history, upto

    def next(self, held: dict[str, int]) -> Delivery | Succession | None:
        at = self.frontier or 0
        if at >= self.upto:
            self._closed.set()
            return None
        last = min(self.upto, at + self.history.together(at) + 1)
        if not at or random.Random(f"{self.history.seed} {at} shape").random() < 0.5:
            return delivery(self.history, at, last)
        return succession(self.history, at, last)

    def failed(self, error: Exception) -> None:
        super().failed(error)
        if self.attempt > 200:
            self._closed.set()


def delivery(history: History, after: int, upto: int) -> Delivery:
    """What takes a sink from one transaction to another; all of the views when it has nothing."""
    deltas = {name: weighted(history.held[upto][name], history.held[after][name]) for name in SCHEMAS}
    rest = {"replacements" if after == 0 else "deltas": deltas}
    return Delivery(upto, SCHEMAS, origin=origin(upto), **cast(Any, rest))


def succession(history: History, after: int, upto: int) -> Succession:
    deltas: dict[str, pa.Table] = {}
    of_row: dict[str, pa.Array] = {}
    commits = range(after + 1, upto + 1)
    for name in SCHEMAS:
        parts = [weighted(history.held[n][name], history.held[n - 1][name]) for n in commits]
        rows = [n for n, part in zip(commits, parts, strict=True) for _ in range(part.num_rows)]
        if rows:
            deltas[name], of_row[name] = pa.concat_tables(parts), pa.array(rows, pa.int64())
    return Succession(tuple(commits), tuple(map(origin, commits)), SCHEMAS, deltas, of_row)


def origin(commit: int) -> TransactionOrigin:
    return TransactionOrigin(SOURCE, str(commit), commit)


def weighted(now: Rows, before: Rows) -> pa.Table:
    change = Counter(now)
    change.subtract(before)
    rows = [(*row, weight) for row, weight in change.items() if weight]
    columns = list(zip(*rows, strict=True)) or [[], [], []]
    return pa.table({n: pa.array(c, pa.int64()) for n, c in zip(("id", "amount", "_w"), columns, strict=True)})
