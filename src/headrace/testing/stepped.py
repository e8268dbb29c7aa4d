"""A pipeline stepped by hand: the product's log, engine, checkpoints and recovery over tables without a source."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from headrace.catalog.store import Catalog, ViewRecord
from headrace.circuit.work import Tally
from headrace.engine.batch import Batch
from headrace.engine.clock import last_tick, shown, tick
from headrace.engine.compile import Compiler
from headrace.engine.failures import message
from headrace.engine.maintain import Maintainer
from headrace.engine.reopen import reopen
from headrace.engine.session import settled
from headrace.engine.step import Result
from headrace.engine.swap import swap
from headrace.engine.work import Work, work
from headrace.log.append import LogWriter
from headrace.model.clock import CLOCK
from headrace.model.definition import Settings, ViewDefinition
from headrace.model.delivery import WEIGHT
from headrace.model.errors import HeadraceError
from headrace.model.schema import Relation
from headrace.model.transaction import ORDINAL, TransactionBatch, TransactionOrigin
from headrace.serve import snapshot
from headrace.sql.user_functions import UserFunctions
from headrace.state.rows import consolidate
from headrace.state.run import open_run
from headrace.testing.changes import Rows, changes

GIVEN = "given"  # the name of the source that the tables have
Deltas = dict[str, pa.Table]


class ClockSetBack(ValueError):
    """A step is to have a time that lies before what the clock has shown."""


class Stepped:
    """Tables and views at work in ``folder``. Raises ``HeadraceError`` where a view is refused."""

    def __init__(
        self, folder: Path, spark: SparkSession, settings: Settings, tables: Mapping[str, Relation],
        views: Sequence[ViewDefinition], now_us: int | None, functions: UserFunctions,
    ) -> None:  # fmt: skip
        """``now_us``: the time that the clock stands at, in microseconds since the epoch; None: it goes."""
        self.now_us = now_us
        self.folder, self.settings, self.tables, self.definitions = folder, settings, dict(tables), tuple(views)
        self.functions = functions
        self.spark = settled(spark.newSession(), settings)
        self.tally = Tally()
        self._oracle: tuple[tuple[int, int, int | None], Batch] | None = None
        self.open()
        try:
            self.define()
        except BaseException:
            self.close()
            raise

    # -- life -----------------------------------------------------------------------------------------------

    def open(self) -> None:
        self.catalog, self.log = Catalog(self.folder / "catalog.db"), LogWriter(self.folder / "log")
        self.compiler = Compiler(self.spark, self.functions)
        self.maintainer = Maintainer(
            self.spark, self.folder, self.catalog, self.log, self.settings, self.tell, counting=True
        )
        self.maintainer.ticks.present = self.present
        reopen(self.maintainer, self.compiler)

    def define(self) -> None:
        compiled = self.compiler.compile(self.tables, self.definitions, {})
        if compiled.refused:
            raise next(iter(compiled.refused.values()))
        for name in sorted(compiled.tables):
            self.catalog.put_relation(GIVEN, self.tables[name])
        swap(self.maintainer, {n: self.tables[n] for n in compiled.tables}, compiled.views, set())

    def present(self) -> int:
        return time.time_ns() // 1_000 if self.now_us is None else self.now_us

    def restart(self) -> None:
        """Let go of everything as a killed process does, with no checkpoint, and open it again."""
        self.close()
        self.open()

    def close(self) -> None:
        self.let_go()
        self.maintainer.close()
        self.log.close()
        self.catalog.close()

    def tell(self, event: dict[str, Any]) -> None:
        """What the engine tells; nobody asked for it."""

    def refused(self) -> dict[str, pa.Table]:
        """Table -> the rows that the last step could not take from it."""
        last = [e for e in self.catalog.set_aside() if e.step == self.maintainer.number]
        return {e.relation: open_run(e.path).select(self.tables[e.relation].names) for e in last}

    # -- steps ----------------------------------------------------------------------------------------------

    def steps(self, transactions: Sequence[Mapping[str, Rows]], now_us: int | None) -> list[Deltas]:
        """One step over these transactions, each an instant of its own when there are several; their deltas.

        ``now_us`` moves the clock before.
        """
        made = self.batch_of(transactions)
        # Deterministic: a failed view is tried again in every step, not after a pause.
        self.maintainer.failures.hurry(dict(self.maintainer.failures.known))
        if now_us is not None:
            self.move(now_us)
        if CLOCK.name in self.maintainer.tables:
            last = last_tick(self.log)
            if last is None or self.present() > last:
                tick(self.log, self.present())
        first = self.log.append(made) - self.maintainer.frontier
        result = self.maintainer.step(self.log.end, each=len(transactions) > 1)
        assert result is not None and self.maintainer.frontier == self.log.end, "a step takes all that was given"
        self.tally = result.tally
        if self.maintainer.durable.due:
            self.maintainer.checkpoint()
        if len(transactions) == 1:
            return [self.deltas(result, None)]
        # A tick before the first transaction, with what leaves by it, belongs to that.
        found = [self.deltas(result, first + n) for n in range(len(transactions))]
        if first > 1:
            found[0] = {
                name: consolidate(pa.concat_tables([delta, found[0][name]]))
                for name, delta in self.deltas(result, 1).items()
            }
        return found

    def move(self, now_us: int) -> None:
        if now_us < max(self.now_us or 0, last_tick(self.log) or 0):
            raise ClockSetBack("now lies before the time that the clock has shown: it never goes back")
        self.now_us = now_us

    def batch_of(self, transactions: Sequence[Mapping[str, Rows]]) -> TransactionBatch:
        parts: dict[str, list[pa.Table]] = {}
        for ordinal, transaction in enumerate(transactions):
            for name, rows in transaction.items():
                table = changes(self.tables[name], rows)
                ordinals = pa.array(np.full(table.num_rows, ordinal, np.int32))
                parts.setdefault(name, []).append(table.add_column(0, ORDINAL, ordinals))
        now, first = time.time_ns() // 1000, self.log.end
        origins = tuple(TransactionOrigin(GIVEN, str(first + n + 1), now) for n in range(len(transactions)))
        tables = {name: pa.concat_tables(tables).combine_chunks() for name, tables in parts.items()}
        return TransactionBatch(origins, {name: table for name, table in tables.items() if table.num_rows})

    def deltas(self, result: Result, instant: int | None) -> Deltas:
        """What each view changed by in the last step, or at an instant of it."""
        found = {}
        for name, record in self.catalog.views().items():
            outputs = self.catalog.outputs(result.number - 1, result.number, record.feed)
            found[name] = snapshot.delta(record, [o.path for o in outputs], (instant or 1) - 1, instant)
        return found

    # -- what there is --------------------------------------------------------------------------------------

    def read(self, view: str) -> pa.Table:
        rows = snapshot.read(self.catalog, self.record(view))[1]
        copies = np.repeat(np.arange(rows.num_rows), rows[WEIGHT].to_numpy())
        return rows.drop_columns([WEIGHT]).take(pa.array(copies))

    def record(self, view: str) -> ViewRecord:
        return snapshot.known(self.catalog, view)

    def batch(self, view: str) -> pa.Table:
        batch = self.oracle()
        failed = {name: f.compiled for name, f in self.maintainer.failures.known.items()}
        everything = {**failed, **self.maintainer.views}
        wanted = everything[self.record(view).schema.name]
        for compiled in self.upstream(everything, view):
            if not batch.defines(compiled.schema.name):
                name = compiled.schema.name
                batch.define(
                    name, compiled.definition.sql, compiled.schema.columns, without=self.maintainer.aside.of(name)
                )
        schema = snapshot.delta(self.record(view), []).drop_columns([WEIGHT]).schema
        try:
            with batch.without(self.maintainer.aside.of(wanted.schema.name)):
                rows = batch.run(wanted.definition.sql)
            return rows.rename_columns(schema.names).cast(schema)
        except HeadraceError:
            raise
        except Exception as error:
            raise HeadraceError(
                "view.failed", f"Spark batch fails on view {view} too", why=message(error),
                next="`errors()` names the rows",
            ) from error  # fmt: skip

    def oracle(self) -> Batch:
        """Batch over the tables now: one for all views until something moves."""
        maintainer = self.maintainer
        now_us = shown(maintainer.kept)
        moment = (maintainer.number, maintainer.frontier, now_us)
        if self._oracle is not None and self._oracle[0] == moment:
            return self._oracle[1]
        self.let_go()
        batch = Batch(self.spark, now_us, self.functions)
        settled(batch.spark, self.settings)
        tables = {name: relation for name, relation in maintainer.tables.items() if name != CLOCK.name}
        batch.over_log(self.folder / "log", tables, maintainer.frontier)
        self._oracle = moment, batch
        return batch

    def let_go(self) -> None:
        """Of what the oracle holds."""
        if self._oracle is not None:
            self._oracle[1].close()
            self._oracle = None

    def upstream(self, everything: Mapping[str, Any], view: str) -> list[Any]:
        """The views that a view is made from, those below first."""
        found: dict[str, Any] = {}
        for name in everything[view].reads:
            if name in everything:
                found |= {c.schema.name: c for c in self.upstream(everything, name)} | {name: everything[name]}
        return list(found.values())

    def errors(self) -> dict[str, list[dict[str, Any]]]:
        return {name: snapshot.failing(failed.rows) for name, failed in self.maintainer.failures.known.items()}

    def work(self) -> Work:
        stepper = self.maintainer.stepper
        assert stepper is not None
        kept, program = self.maintainer.kept, self.maintainer.program
        return work(self.maintainer.views, program, stepper.frames, self.tally, kept)
