"""Spark batch over the log: the oracle of law 1, used by ``verify``; and one-off queries at the present frontier."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window, WindowSpec
from pyspark.sql import functions as F

from headrace.catalog.store import ViewRecord
from headrace.circuit.handed import handed_schema, handed_type, taken_back, to_hand_over
from headrace.formats import recorded
from headrace.formats.types.arrow import quote, to_arrow
from headrace.log.read import FrameRef, LogReader
from headrace.model.delivery import WEIGHT
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column, Relation, ViewSchema
from headrace.model.transaction import DELETE, INSERT, OPERATION, STRICT, TRUNCATE, UNCHANGED, UPDATE
from headrace.sql.canonical import canonical, executed, is_ordered, optimized
from headrace.sql.catalyst import Catalyst
from headrace.sql.collated import named_in
from headrace.sql.java_names import type_text
from headrace.sql.map_keys import entries
from headrace.sql.per_type import spelled
from headrace.sql.present import Present, literal
from headrace.sql.user_functions import NONE, UserFunctions
from headrace.state.narrow import widened
from headrace.state.rows import canonical as canonical_values
from headrace.state.rows import consolidate, difference
from headrace.state.run import column, stored_run

SEQUENCE = "_q"


class ReadHistory:
    """Every change of a relation up to a commit: ``_q``, ``_op``, ``_unchanged``, then its columns."""

    def __init__(self, log: Path, relation: Relation, upto: int) -> None:
        self.log, self.relation, self.upto = log, relation, upto
        self.refs = [asdict(ref) for ref in LogReader(log).refs(0, upto) if relation.name in ref.rows]

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in pieces:
            pass
        sequence = 0
        reader = LogReader(self.log)
        refs = [FrameRef(**ref) for ref in self.refs]
        for batch in reader.read(refs, self.relation.name, 0, self.upto):
            columns = [
                canonical_values(recorded.values(batch, c.name, to_arrow(c.type))) for c in self.relation.columns
            ]
            marks = recorded.marks(batch, self.relation.names)
            order = pa.array(np.arange(sequence, sequence + batch.num_rows))
            names = [SEQUENCE, OPERATION, UNCHANGED, *self.relation.names]
            yield pa.RecordBatch.from_arrays([order, batch.column(OPERATION), marks, *columns], names=names)
            sequence += batch.num_rows


def table_contents(spark: SparkSession, log: Path, relation: Relation, upto: int) -> DataFrame:
    """A table as of a commit, by Spark's own window functions over its history: no code shared with circuits."""
    head = ((SEQUENCE, "bigint"), (OPERATION, "tinyint"), (UNCHANGED, "binary"))
    columns = (*head, *((c.name, c.type) for c in relation.columns))
    given = spark.range(0, 1, 1, 1).mapInArrow(ReadHistory(log, relation, upto), handed_schema(columns))
    history = taken_back(given, columns)
    cut = history.filter(F.col(OPERATION) == TRUNCATE).agg(F.coalesce(F.max(SEQUENCE), F.lit(-1)).alias("_cut"))
    rows = history.crossJoin(cut).filter(F.col(SEQUENCE) > F.col("_cut"))
    names = [F.col(quote(n)) for n in relation.names]
    if not relation.key:
        return _copies_of_rows(rows, relation)
    by = Window.partitionBy(*[F.col(quote(k)) for k in relation.key])
    rows = _taken(rows, by)
    life = F.sum(F.when(F.col(OPERATION) == DELETE, 1).otherwise(0)).over(by.orderBy(SEQUENCE))
    whole = rows.withColumn("_life", life)
    filled = Window.partitionBy(*[F.col(quote(k)) for k in relation.key], "_life").orderBy(SEQUENCE)
    values = [
        F.last(F.when(~_left_out(i), F.struct(name.alias("v"))), ignorenulls=True)
        .over(filled)["v"]
        .alias(relation.names[i])
        for i, name in enumerate(names)
    ]
    last = F.row_number().over(by.orderBy(F.desc(SEQUENCE))).alias("_last")
    images = whole.select(*values, OPERATION, last)
    return images.filter((F.col("_last") == 1) & (F.col(OPERATION) != DELETE)).select(*names)


def _taken(rows: DataFrame, by: WindowSpec) -> DataFrame:
    """Changes of a keyed table without those that are set aside, with plain operations."""
    code, earlier = F.col(OPERATION), by.orderBy(SEQUENCE).rowsBetween(Window.unboundedPreceding, -1)
    strict, operation = code.bitwiseAND(F.lit(STRICT)) != 0, code.bitwiseAND(F.lit(STRICT - 1))
    known = rows.withColumn("_strict", strict).withColumn(OPERATION, operation)
    settles = F.when(~F.col("_strict") | (F.col(OPERATION) != UPDATE), F.col(OPERATION) != DELETE)
    there = F.coalesce(F.last(settles, ignorenulls=True).over(earlier), F.lit(False))
    conflict = F.col("_strict") & (there == (F.col(OPERATION) == INSERT))
    return known.withColumn("_conflict", conflict).filter(~F.col("_conflict"))


def _copies_of_rows(rows: DataFrame, relation: Relation) -> DataFrame:
    """The rows of a table without a key; a delete that finds no copy of its row is set aside and counts for nothing."""
    names = [F.col(quote(n)) for n in relation.names]
    # Grouping takes -0.0 for 0.0, which are two rows: their texts tell them apart.
    texts = [n.cast("string") for n, c in zip(names, relation.columns, strict=True) if _floating(c.type)]
    keys = [F.expr(spelled(rows.schema[n].dataType, quote(n), entries)) for n in relation.names]
    by = [e.alias(f"_b{i}") for i, e in enumerate([*keys, *texts])]
    change = F.struct(SEQUENCE, F.when(F.col(OPERATION) == DELETE, -1).otherwise(1).alias("by"))
    copies = F.aggregate(
        F.array_sort(F.collect_list(change)), F.lit(0), lambda n, at: F.greatest(n + at["by"], F.lit(0))
    )
    values = [F.first(n).alias(c) for n, c in zip(names, relation.names, strict=True)]
    counted = rows.groupBy(*by).agg(*values, copies.alias("_n"))
    return counted.select(*names, F.expr("explode(array_repeat(0, _n))").alias("_copy")).drop("_copy")


def _floating(type_text: str) -> bool:
    return "float" in type_text or "double" in type_text


def _left_out(ordinal: int) -> Any:
    """Whether the change kept column ``ordinal`` as it was."""
    byte = F.conv(F.hex(F.substring(F.col(UNCHANGED), ordinal // 8 + 1, 1)), 16, 10).cast("int")
    bit = F.getbit(F.coalesce(byte, F.lit(0)), F.lit(ordinal % 8)) == 1
    return F.col(UNCHANGED).isNotNull() & bit


class ReadRows:
    """Kept rows of some files added up, each as often as its weight says; stored columns by name."""

    def __init__(self, paths: Sequence[str], stored: Sequence[str], types: Sequence[str]) -> None:
        self.paths, self.stored, self.types = list(paths), list(stored), list(types)

    def __call__(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in pieces:
            pass
        if not self.paths:
            return
        schema = pa.schema(
            [*((n, to_arrow(t)) for n, t in zip(self.stored, self.types, strict=True)), (WEIGHT, pa.int64())]
        )
        tables = [widened(stored_run(path).select(schema.names)).cast(schema) for path in self.paths]
        rows = consolidate(pa.concat_tables(tables)) if len(tables) > 1 else tables[0]
        copies = np.repeat(np.arange(rows.num_rows), column(rows, WEIGHT))
        yield from rows.drop_columns([WEIGHT]).take(pa.array(copies)).combine_chunks().to_batches(max_chunksize=131_072)


def kept_rows(spark: SparkSession, paths: Sequence[str], columns: Sequence[Column]) -> DataFrame:
    """The contents of a table or view from its files (``c0 ..``, ``_w``), under its own column names."""
    stored = [f"c{i}" for i in range(len(columns))]
    stage = ReadRows(paths, stored, [c.type for c in columns])
    named = tuple((c.name, c.type) for c in columns)

    def renamed(pieces: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in stage(pieces):
            yield batch.rename_columns([c.name for c in columns])

    return taken_back(spark.range(0, 1, 1, 1).mapInArrow(renamed, handed_schema(named)), named)


class Batch:
    """Runs view definitions and queries as plain Spark batch, in a session of its own.

    ``now_us``: the present time for them, in microseconds since the epoch; the real time by default.
    """

    def __init__(self, spark: SparkSession, now_us: int | None = None, functions: UserFunctions = NONE) -> None:
        self.spark = spark.newSession()
        functions.register(self.spark)
        self.catalyst = Catalyst(self.spark, functions)
        self.present: Present | None = None if now_us is None else partial(literal, self.catalyst, now_us)
        self._defined: dict[str, DataFrame] = {}
        self._registered: dict[str, tuple[DataFrame, Sequence[Column]]] = {}
        self._held: list[DataFrame] = []

    def over_log(self, log: Path, tables: Mapping[str, Relation], upto: int) -> None:
        """Register every table as of a commit; its rows are found once, by the first query that reads them."""
        for name, relation in tables.items():
            self.register(name, self.hold(table_contents(self.spark, log, relation, upto)), relation.columns)

    def define(
        self, name: str, sql: str, columns: Sequence[Column], *, read: bool = True,
        without: Mapping[str, pa.Table] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        """Make a view by its SQL, over what is registered before it; registered itself if others ``read`` it.

        ``without``: relation -> rows (``c0 ..``) that it does not see of that, in all their copies.
        """
        with self.without(without):
            made = self.frame(sql)
        frame = self._defined[name] = self.hold(made) if read else made
        if read:
            self.register(name, frame, columns)

    @contextmanager
    def without(self, rows: Mapping[str, pa.Table]) -> Iterator[None]:
        """Queries inside do not see these rows of relations."""
        for relation, some in rows.items():
            self.register(relation, *self._registered[relation], without=some)
        try:
            yield
        finally:
            for relation in rows:
                self.register(relation, *self._registered[relation])

    def defines(self, name: str) -> bool:
        return name in self._defined

    def hold(self, frame: DataFrame) -> DataFrame:
        """The frame, whose rows Spark keeps in memory and on disk from its first use until ``close``."""
        self._held.append(frame.persist())
        return frame

    def close(self) -> None:
        for frame in self._held:
            frame.unpersist()
        self._held.clear()

    def register(
        self, name: str, frame: DataFrame, columns: Sequence[Column], *, without: pa.Table | None = None
    ) -> None:
        """Behind a leaf that the optimizer cannot look into, as circuits see a relation: its plan must not change
        which columns a query over it has, since those break ties. ``without``: as for ``define``."""
        self._registered[name] = frame, columns
        names = [c.name for c in columns]

        def opaque(pieces: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for piece in pieces:
                batch = piece.rename_columns(names)
                yield batch if without is None else _lacking(batch, without)

        named = tuple((c.name, c.type) for c in columns)
        given = tuple((f"c{i}", c.type) for i, c in enumerate(columns))  # PySpark would look for a field in `a.b`
        text = ", ".join(f"{quote(c.name)} {handed_type(c.type)}{'' if c.nullable else ' not null'}" for c in columns)
        handed = to_hand_over(frame.toDF(*[name for name, _ in given]), given)
        taken_back(handed.mapInArrow(opaque, text), named).createOrReplaceTempView(quote(name))

    def frame(self, sql: str, most: int | None = None) -> DataFrame:
        """A query in canonical form; of its rows the first so many, where it orders them in the canonical order."""
        given = self.spark.sql(sql)
        plan = optimized(self.catalyst, given, self.present)
        if most is None:
            return self._executed(plan, sql)
        if is_ordered(self.catalyst, plan):
            with suppress(HeadraceError):  # a column has no order: of rows that tie some come
                return self._executed(optimized(self.catalyst, given.limit(most), self.present), sql)
        return self._executed(plan, sql).limit(most)

    def _executed(self, plan: Any, sql: str) -> DataFrame:
        return executed(self.catalyst, canonical(self.catalyst, plan, for_batch=True, collations=named_in(sql)))

    def run(self, sql: str, most: int | None = None) -> pa.Table:
        """A query by Spark batch; others than the first ``most`` of its rows need not be made."""
        return self.rows(self.frame(sql, most))

    def contents(self, view: str) -> pa.Table:
        """The rows of a view that has been defined."""
        return self.rows(self._defined[view])

    def rows(self, frame: DataFrame) -> pa.Table:
        names = frame.columns
        outputs = self.catalyst.items(frame._jdf.queryExecution().analyzed().output())
        columns = tuple((f"c{i}", type_text(a)) for i, a in enumerate(outputs))
        table: pa.Table = to_hand_over(frame.toDF(*[n for n, _ in columns]), columns).toArrow()
        return table.rename_columns(names)


def _lacking(batch: pa.RecordBatch, without: pa.Table) -> pa.RecordBatch:
    """The rows that are none of ``without``, each told by the repr of its values: NaN is itself, -0.0 is not 0.0."""
    cast = without.cast(pa.schema([(n, f.type) for n, f in zip(without.column_names, batch.schema, strict=True)]))
    gone = {repr(tuple(row.values())) for row in cast.to_pylist()}
    kept = [repr(tuple(row.values())) not in gone for row in batch.to_pylist()]
    return batch.filter(pa.array(kept, pa.bool_()))


def weighted(rows: pa.Table, schema: ViewSchema) -> pa.Table:
    """A view's rows by batch as they are kept: its columns in their stored types and ``_w``, a row once."""
    stored = pa.schema([(c.name, to_arrow(c.type)) for c in schema.columns])
    made = rows.rename_columns(list(schema.names)).cast(stored)
    return consolidate(made.append_column(WEIGHT, pa.array(np.ones(made.num_rows, np.int64))))


def compare(expected: pa.Table, found: pa.Table, record: ViewRecord) -> dict[str, Any]:
    """Multisets of whole rows against each other: how many rows differ, and the first of them.

    ``expected``: batch rows; ``found``: the view's contents with ``_w``.
    """
    wanted = weighted(expected, record.schema)
    both = difference(found.select(wanted.column_names).cast(wanted.schema), wanted)
    first = []
    for row in both.slice(0, 5).to_pylist():
        surplus = row.pop(WEIGHT)
        expected_copies = _copies(wanted, row)
        first.append({"row": row, "expected": expected_copies, "found": expected_copies + surplus})
    differences = int(np.abs(column(both, WEIGHT)).sum()) if both.num_rows else 0
    return {"view": record.schema.name, "rows": expected.num_rows, "differences": differences, "first": first}


def _copies(table: pa.Table, row: dict[str, Any]) -> int:
    """How often a row stands in a consolidated table; NaN is looked for as itself."""
    schema = table.drop_columns([WEIGHT]).schema
    probe = pa.Table.from_pylist([row], schema=schema).append_column(WEIGHT, pa.array([0], pa.int64()))
    marked = pa.concat_tables(
        [
            probe.append_column("_p", pa.array([1])),
            table.append_column("_p", pa.array(np.zeros(table.num_rows, np.int64))),
        ]
    )
    from headrace.state.rows import row_codes

    codes = row_codes([marked[n] for n in schema.names])
    weights = marked[WEIGHT].to_numpy()
    return int(weights[codes == codes[0]].sum())
