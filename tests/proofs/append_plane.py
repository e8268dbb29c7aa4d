"""A process of the control plane whose source appends values to lists, and whose sink is a real PostgreSQL.

Arguments: the folder, the seed, how many transactions, "each" or "grouped", the server's DSN, the schema. It goes on
from where the log ends; it may be killed and started again.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock

import numpy as np
import pyarrow as pa
from control_plane import _TASK

from headrace.catalog.store import Catalog, Output, ViewRecord
from headrace.circuit import task, written
from headrace.circuit.operators.publish import Publish
from headrace.engine.deliver import Deliver
from headrace.engine.maintain import Maintainer
from headrace.engine.step import Result
from headrace.log.append import LogWriter
from headrace.model.definition import Settings
from headrace.model.schema import Column, ViewSchema
from headrace.model.transaction import TransactionBatch, TransactionOrigin
from headrace.sinks.connectors.postgres.connector import PostgresSink
from headrace.state.run import HASH

SOURCE = "lists"
NAMES = ("even", "odd")  # the views: of the lists whose key is
LENGTH = 32  # values of a list; then it is appended to no more, and another begins
OPEN_LISTS = 40
COLUMNS = ("key", "place", "value")
SCHEMAS = tuple(ViewSchema(n, 1, tuple(Column(c, "bigint") for c in COLUMNS), ("key", "place")) for n in NAMES)


def history(seed: int, transactions: int) -> list[list[tuple[int, int]]]:
    """Each appends values, of which none comes twice, to one to six lists."""
    rng = random.Random(seed)
    values, keys = count(1), count(OPEN_LISTS)
    lists, lengths = list(range(OPEN_LISTS)), dict.fromkeys(range(OPEN_LISTS), 0)
    made = []
    for _ in range(transactions):
        appends = []
        for at in rng.sample(range(OPEN_LISTS), rng.randrange(1, 7)):
            if lengths[lists[at]] == LENGTH:
                lists[at] = next(keys)
                lengths[lists[at]] = 0
            lengths[lists[at]] += 1
            appends.append((lists[at], next(values)))
        made.append(appends)
    return made


def batches(made: list[list[tuple[int, int]]], after: int) -> Any:
    """What the source gives behind a transaction, some at a time; its rows say the place in the list."""
    lengths: dict[int, int] = {}
    rng = random.Random(after)
    for key, _ in (append for appends in made[:after] for append in appends):
        lengths[key] = lengths.get(key, 0) + 1
    while after < len(made):
        upto = min(len(made), after + rng.randrange(1, 60))
        rows: dict[str, list[tuple[int, int, int, int]]] = {name: [] for name in NAMES}
        for ordinal, appends in enumerate(made[after:upto]):
            for key, value in appends:
                lengths[key] = lengths.get(key, 0) + 1
                rows[NAMES[key % 2]].append((ordinal, key, lengths[key], value))
        changes = {}
        for name, given in rows.items():
            if given:
                ordinals, *columns = map(np.array, zip(*given, strict=True))
                head = [pa.array(ordinals, pa.int32()), pa.array(np.zeros(len(given)), pa.int8())]
                changes[name] = pa.table([*head, *map(pa.array, columns)], names=["_t", "_op", *COLUMNS])
        yield TransactionBatch(tuple(TransactionOrigin(SOURCE, str(n + 1), n + 1) for n in range(after, upto)), changes)
        after = upto


class Lists(Maintainer):
    """The coordinator; a step's outputs are its rows as they are."""

    def load(self, tables: Any, views: Any) -> None:
        self.tables, self.views = dict(tables), dict(views)
        self.stepper = cast(Any, SimpleNamespace(run=self.run))
        self.numbers = count()

    def run(self, number: int, after: int, upto: int, *, wide: bool, instants: str, again: bool) -> Result:
        result, refs = Result(number), self.reader.refs(after, upto)
        folder = self.folder / "state" / f"{number}.{next(self.numbers)}.{id(self)}"
        folder.mkdir()
        for name in NAMES:
            read = list(self.reader.read(refs, name, after, upto))
            if not read:
                continue
            rows = pa.Table.from_batches(read)
            instant = np.asarray(rows["_c"]) - after if instants == "each" else np.ones(rows.num_rows)
            table = pa.table([
                rows["key"], *(rows[column] for column in COLUMNS), pa.array(instant.astype(np.int32)),
                pa.array(np.ones(rows.num_rows, np.int64)),
            ], names=[HASH, "c0", "c1", "c2", "_i", "_w"])  # fmt: skip
            _TASK.begin(folder)
            for made in Publish(f"{name}@1", durable=True, consolidated=False)(table.to_batches()):
                for file in written.files_of(made):
                    result.outputs.append(Output(number, file.circuit, file.path, file.rows, file.sums))
        return result


def work(
    folder: Path, seed: int, transactions: int, each: bool, dsn: str, schema: str, wait: Callable[[], None]
) -> None:
    task._task = lambda: _TASK
    log, catalog = LogWriter(folder / "log"), Catalog(folder / "catalog.db")
    if not catalog.views():
        with catalog.transaction():
            for view in SCHEMAS:
                catalog.put_view(ViewRecord(view, "", "", "live", "", 0))
    engine = Lists(MagicMock(), folder, catalog, log, Settings(transactions="each" if each else "grouped"), print)
    engine.recover({}, {s.name: cast(Any, SimpleNamespace(schema=s, feed=f"{s.name}@1")) for s in SCHEMAS})
    deliver = Deliver(PostgresSink("lists", {"dsn": dsn, "schema": schema}, {}), None, catalog, engine.reader, print)
    deliver.start()
    for batch in batches(history(seed, transactions), int(log.positions.get(SOURCE, "0"))):
        log.append(batch)
        engine.step()
        deliver.wake()
        while engine.frontier - deliver.reached > 2000:
            wait()
        engine.tidy()
    while engine.step() is not None:
        pass
    while deliver.reached < transactions:
        deliver.wake()
        wait()
    deliver.close()
    engine.close()
    log.close()


if __name__ == "__main__":
    import time

    place, number, size, how, server, space = sys.argv[1:]
    work(Path(place), int(number), int(size), how == "each", server, space, lambda: time.sleep(0.005))
