"""The oracle: all views of a program by Spark batch, over the tables as they were after each commit.

The queries are planned once, as one job, and run again for every commit: their leaves read the tables' rows from the
folder of that commit. The last commit is run a second time by plans made anew, so that a plan that remembered an
earlier commit would be seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
from histories import Row, Table, bitwise, rows_table
from pyspark.sql import DataFrame

from headrace.circuit.handed import handed_schema
from headrace.circuit.prepare import Prepared
from headrace.circuit.task import PROPERTY
from headrace.circuit.written import COLUMNS, Written, told
from headrace.engine.batch import Batch
from headrace.engine.compile import Compiled
from headrace.formats.types.arrow import quote
from headrace.model.schema import Column
from small_batch import small

Rows = Counter[tuple[str, ...]]


class Oracle:
    """Answers of batch. ``views`` upstream first."""

    def __init__(self, spark: Any, tables: Sequence[Table], views: Mapping[str, Compiled]) -> None:
        self.batch, self.tables, self.views = small(Batch(spark)), tables, views
        read = {name for view in views.values() for name in view.reads}
        self.levels = [[n] for n in views if n in read] + [[n for n in views if n not in read]]
        for table in tables:
            self.leaf(table.name, table.relation.columns)
        for name in read & views.keys():
            self.leaf(name, views[name].schema.columns)
        self._prepared: list[list[Prepared]] | None = None

    def leaf(self, name: str, columns: Sequence[Column]) -> None:
        """A relation read from the folder of the commit at hand, which the optimizer cannot look into."""
        ddl = ", ".join(f"{quote(c.name)} {c.type}{'' if c.nullable else ' not null'}" for c in columns)
        rows = self.batch.spark.range(0, 1, 1, 1).mapInArrow(_reading(name, [c.name for c in columns]), ddl)
        rows.createOrReplaceTempView(name)

    def frame(self, name: str) -> DataFrame:
        return self.batch.frame(self.views[name].definition.sql).mapInArrow(_writing(name), handed_schema(COLUMNS))

    def prepared(self) -> list[list[Prepared]]:
        """The plans of each level: views that others read go first, each for itself."""
        if self._prepared is None:
            self._prepared = [together([self.frame(n) for n in names]) for names in self.levels if names]
        return self._prepared

    def contents(self, folder: Path, rows: Mapping[str, Sequence[Row]]) -> dict[str, Rows]:
        """What each view holds when the tables hold ``rows``."""
        return self.run(folder, rows, self.prepared())

    def anew(self, folder: Path, rows: Mapping[str, Sequence[Row]], names: Collection[str]) -> dict[str, Rows]:
        """The same for some views, and those they read, by plans of this call."""
        wanted = {*names, *(r for n in names for r in self.views[n].reads)}
        plans = [[Prepared(self.frame(n)) for n in level if n in wanted] for level in self.levels]
        return self.run(folder, rows, plans)

    def answers(self, name: str) -> bool:
        """Whether Spark by itself can run the query of a view, over the tables of the last call."""
        try:
            self.batch.spark.sql(self.views[name].definition.sql).collect()
        except Exception:
            return False
        return True

    def run(self, folder: Path, rows: Mapping[str, Sequence[Row]], levels: list[list[Prepared]]) -> dict[str, Rows]:
        folder.mkdir(parents=True)
        self.batch.spark.sparkContext.setLocalProperty(PROPERTY, str(folder / "point.json"))
        for table in self.tables:
            write(folder / f"{table.name}.arrow", rows_table(table.relation, rows[table.name]))
        found: dict[str, Rows] = {name: Counter() for name in self.views}
        for plans in levels:
            parts: dict[str, list[pa.Table]] = {}
            for file in (file for plan in plans for file in plan.run(folder / "point.json")):
                parts.setdefault(file.circuit, []).append(pa.ipc.open_file(file.path).read_all())
            for name, tables in parts.items():
                whole = pa.concat_tables(tables)
                found[name] = Counter(shown(whole))
                write(folder / f"{name}.arrow", whole.rename_columns(self.views[name].schema.names))
        return found


def together(frames: list[DataFrame]) -> list[Prepared]:
    """One plan for all; those that cannot be run again as they are have their own."""
    whole = Prepared(reduce(DataFrame.unionAll, frames))
    if whole.reusable or len(frames) == 1:
        return [whole]
    apart = [one for one in map(Prepared, frames) if not one.reusable]
    others = [f for f in frames if all(f is not one.frame for one in apart)]
    return [*apart, *([Prepared(reduce(DataFrame.unionAll, others))] if others else [])]


def write(path: Path, table: pa.Table) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def shown(table: pa.Table) -> Iterator[tuple[str, ...]]:
    columns = [table.column(i).to_pylist() for i in range(table.num_columns)]
    return (bitwise(row) for row in zip(*columns, strict=True))


Stage = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

# Stages are functions in functions: those travel to the workers by value, which know nothing of this folder.


def _reading(name: str, columns: Sequence[str]) -> Stage:
    wanted, prop = list(columns), PROPERTY

    def read(pieces: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pathlib import Path

        import pyarrow
        from pyspark import TaskContext

        for _ in pieces:
            pass
        task = TaskContext.get()
        assert task is not None
        path = Path(str(task.getLocalProperty(prop))).with_name(f"{name}.arrow")
        if not path.exists():  # a view that has no rows
            return
        yield from pyarrow.ipc.open_file(str(path)).read_all().select(wanted).to_batches()

    return read


def _writing(name: str) -> Stage:
    prop = PROPERTY

    def write(pieces: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pathlib import Path

        import pyarrow
        from pyspark import TaskContext

        kept = [piece for piece in pieces if piece.num_rows]
        if not kept:
            return
        task = TaskContext.get()
        assert task is not None
        folder = Path(str(task.getLocalProperty(prop))).parent
        path = str(folder / f"{name}~{task.partitionId()}~{task.taskAttemptId()}.arrow")
        table = pyarrow.Table.from_batches(kept)
        with pyarrow.OSFile(path, "wb") as sink, pyarrow.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        yield told([Written(name, path, table.num_rows, "")])

    return write
