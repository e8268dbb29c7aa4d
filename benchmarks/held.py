"""A pipeline of views held to Spark batch: after every step each view equals its query over the tables' plain rows.

The views run through the engine's own maintainer, as a project's do: the log, recorded steps, published feeds. The
rows that batch reads are kept apart from it all: what each transaction says, applied to Arrow tables.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from benchmarks.bench import Memory, processor_seconds, report
from headrace.catalog.store import Catalog
from headrace.circuit.work import Tally
from headrace.engine.compile import Compiler
from headrace.engine.maintain import Maintainer
from headrace.engine.swap import swap
from headrace.engine.work import Work, work
from headrace.formats.types.arrow import from_arrow
from headrace.formats.types.arrow import schema as arrow_schema
from headrace.log.append import LogWriter
from headrace.model.definition import Settings, ViewDefinition
from headrace.model.delivery import WEIGHT
from headrace.model.schema import Column, Relation
from headrace.model.transaction import DELETE, OPERATION, ORDINAL, TransactionBatch, TransactionOrigin
from headrace.serve import snapshot
from headrace.state.rows import consolidate, difference

PART = 1_000_000  # rows of a table that are looked at, or written, at a time
SMALL = 200_000  # rows below which batch takes longer to compile a query than to run it
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
}
Changes = Mapping[str, Sequence[tuple[int, pa.Table]]]  # table -> (operation, whole rows), in the order they happen


def queries(folder: Path) -> dict[str, str]:
    """The queries of a folder by name."""
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.sql"))}


def relation(name: str, key: Sequence[str], rows: pa.Schema) -> Relation:
    """A table of rows of this schema; a table without a key is one of whole rows."""
    return Relation(name, tuple(Column(f.name, from_arrow(f.type), f.name not in key) for f in rows), tuple(key))


class Contents:
    """The rows of tables as their transactions leave them.

    ``folder``: where they lie, in files that are mapped, when memory does not hold them. ``rows``: those at first.
    """

    def __init__(
        self,
        relations: Mapping[str, Relation],
        folder: Path | None = None,
        rows: Mapping[str, pa.Table] | None = None,
    ) -> None:
        self.relations, self.folder = relations, folder
        self.rows = dict(rows or {name: arrow_schema(r.columns).empty_table() for name, r in relations.items()})

    def apply(self, changes: Changes) -> None:
        for name, parts in changes.items():
            kept, key = self.rows[name], list(self.relations[name].key)
            if not key:
                for operation, rows in parts:
                    if operation == DELETE:
                        kept = duckdb.sql("from kept except all from rows").to_arrow_table().cast(kept.schema)
                    else:
                        kept = pa.concat_tables([kept, rows.cast(kept.schema)])
                self.rows[name] = kept
                continue
            added = kept.schema.empty_table()
            for operation, rows in parts:
                added = without(added, rows.select(key))
                added = added if operation == DELETE else pa.concat_tables([added, rows.cast(kept.schema)])
            gone = pa.concat_tables([rows.select(key) for _, rows in parts])
            slices = (without(kept.slice(at, PART), gone) for at in range(0, kept.num_rows, PART))
            left = itertools.chain(slices, [added])
            self.rows[name] = mapped(self.folder, name, left) if self.folder else pa.concat_tables(left)

    def write(self, folder: Path) -> None:
        """A Parquet file of each table."""
        for name, rows in self.rows.items():
            parquet.write_table(rows, folder / f"{name}.parquet")


def without(rows: pa.Table, keys: pa.Table) -> pa.Table:
    """The rows of other keys. Threads would put them in another order each time, and so what is drawn of them."""
    if not rows.num_rows:
        return rows
    return rows.join(keys, keys.column_names, join_type="left anti", use_threads=False).cast(rows.schema)


def mapped(folder: Path, name: str, parts: Iterable[pa.Table]) -> pa.Table:
    """The parts, one at least, as one table that lies in a new file; the file goes with the table."""
    parts = iter(parts)
    first = next(parts)
    with tempfile.NamedTemporaryFile(dir=folder, prefix=f"{name}.") as file:
        with pa.ipc.new_file(file, first.schema) as writer:
            for part in itertools.chain([first], parts):
                writer.write_table(part)
        file.flush()
        return pa.ipc.open_file(pa.memory_map(file.name)).read_all()


class Held:
    """Views over tables, stepped by hand and compared with batch."""

    def __init__(
        self, spark: Any, folder: Path, relations: Mapping[str, Relation], views: Mapping[str, str], settings: Settings,
        *, counting: bool = False,
    ) -> None:  # fmt: skip
        """``counting``: whether operators count what they do, for ``work``."""
        self.spark, self.folder, self.relations, self.queries = spark, folder, relations, views
        self.contents = Contents(relations)
        folder.mkdir(parents=True, exist_ok=True)
        self.catalog, self.log = Catalog(folder / "catalog.db"), LogWriter(folder / "log")
        self.events: list[dict[str, Any]] = []
        self.maintainer = Maintainer(
            spark, folder, self.catalog, self.log, settings, self.events.append, counting=counting
        )
        self.tally = Tally()
        self.maintainer.recover({}, {})
        self.judge = spark.newSession()

    def define(self) -> float:
        """Build the views over what the tables hold; the seconds it took."""
        began = time.perf_counter()
        definitions = [ViewDefinition(name, sql) for name, sql in self.queries.items()]
        compilation = Compiler(self.spark).compile(self.relations, definitions, {})
        assert not compilation.refused, {name: str(error) for name, error in compilation.refused.items()}
        swap(self.maintainer, self.relations, compilation.views, set())
        return time.perf_counter() - began

    def append(self, changes: Changes) -> int:
        """One transaction into the log and the contents; its number of changes."""
        self.contents.apply(changes)
        return self.record(changes)

    def record(self, changes: Changes) -> int:
        """One transaction into the log alone; its number of changes."""
        made = {}
        for name, parts in changes.items():
            columns = arrow_schema(self.relations[name].columns)
            rows = pa.concat_tables([part.cast(columns) for _, part in parts])
            operations = np.repeat([o for o, _ in parts], [part.num_rows for _, part in parts]).astype(np.int8)
            head = [pa.array(np.zeros(rows.num_rows, np.int32)), pa.array(operations)]
            made[name] = pa.table([*head, *rows.columns], names=[ORDINAL, OPERATION, *rows.column_names])
        origin = TransactionOrigin("held", str(self.log.end), time.time_ns() // 1000)
        batch = TransactionBatch((origin,), made)
        self.log.append(batch)
        return batch.rows

    def step(self) -> float:
        """Move all views over what was appended; the seconds it took."""
        began = time.perf_counter()
        while (result := self.maintainer.step()) is not None:
            self.tally = result.tally
        taken = time.perf_counter() - began
        self.maintainer.tidy()
        return taken

    def work(self) -> Work:
        """What each operator of each view did in the last step."""
        maintainer = self.maintainer
        assert maintainer.stepper is not None
        return work(maintainer.views, maintainer.program, maintainer.stepper.frames, self.tally, maintainer.kept)

    def view(self, name: str) -> pa.Table:
        """A view's rows now, each distinct one with its ``_w``."""
        return snapshot.read(self.catalog, self.catalog.views()[name])[1]

    def compare(self, written: Path | None = None) -> dict[str, str]:
        """The views that differ from batch, with the first rows that do; ``written``: where the contents are."""
        if written is None:
            self.contents.write(written := self.folder)
        files = {name: written / f"{name}.parquet" for name in self.relations}
        small = sum(parquet.read_metadata(file).num_rows for file in files.values()) < SMALL
        for setting, value in INTERPRETED.items() if small else ():
            self.judge.conf.set(setting, value)
        for name, file in files.items():
            self.judge.read.parquet(str(file)).createOrReplaceTempView(name)
        found = {}
        for name, sql in self.queries.items():
            record = self.catalog.views()[name]
            if record.state != "live":
                found[name] = f"{record.state}: {record.reason}"
                continue
            columns = arrow_schema(record.schema.columns)
            batch = self.judge.sql(sql).toArrow().rename_columns(columns.names)
            batch = batch.cast(pa.schema([(f.name, f.type) for f in columns]))
            wanted = consolidate(batch.append_column(WEIGHT, pa.array(np.ones(batch.num_rows, np.int64))))
            wrong = difference(self.view(name).cast(wanted.schema), wanted)
            if wrong.num_rows:
                found[name] = "; ".join(str(row) for row in wrong.slice(0, 4).to_pylist())
        return found

    def close(self) -> None:
        self.maintainer.close()
        self.log.close()
        self.catalog.close()


def run(held: Held, name: str, steps: int, transaction: Callable[[], Changes]) -> int:
    """Build the views, then step over one or two transactions at a time; how often a view differed from batch."""
    with Memory() as memory:
        busy, began = processor_seconds(), time.perf_counter()
        held.define()
        report(
            benchmark=f"{name} built", seconds=round(time.perf_counter() - began, 1),
            processor_seconds=round(processor_seconds() - busy, 1), peak_mib=round(memory.peak),
            table_rows={table: rows.num_rows for table, rows in held.contents.rows.items()},
            view_seconds={e["view"]: e["seconds"] for e in held.events if e["event"] == "view.built"},
        )  # fmt: skip
        wrong = 0
        for step in range(steps + 1):  # the first compares what was built
            changes = sum(held.append(transaction()) for _ in range(1 + step % 2)) if step else 0
            busy = processor_seconds()
            seconds = held.step()
            busy = processor_seconds() - busy
            different = held.compare()
            wrong += len(different)
            report(
                benchmark=name, step=step, changes=changes, seconds=round(seconds, 2),
                processor_seconds=round(busy, 2), peak_mib=round(memory.peak),
                rows={view: held.view(view).num_rows for view in held.queries},
                equal=f"{len(held.queries) - len(different)} of {len(held.queries)}", different=different,
            )  # fmt: skip
    return wrong
