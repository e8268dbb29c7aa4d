"""A ``.test`` file, and a pipeline over its tables that is stepped, killed and opened again by hand.

A file names tables (columns and key, as a source of type http declares them), views, transactions and what the views
hold at the end. A transaction maps each table to lists of rows by verb, in the order of the columns; a delete gives
the key alone where there is one; ``truncate: true`` empties. ``functions``: the Python that views call. ``clock`` in the place of tables moves the clock, and at
the top of the file says what it stands at when the case begins; by itself it stands still. The rows go through the source, the log and the engine's
own step; nothing is replaced but the thread that drives the steps.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.catalog.functions import read_functions
from headrace.catalog.store import StepRecord
from headrace.engine import maintain, pipeline, verify
from headrace.engine.batch import Batch
from headrace.engine.clock import tick
from headrace.engine.compile import Compiler
from headrace.engine.failures import MISMATCH
from headrace.engine.pipeline import Pipeline
from headrace.engine.program import Frames
from headrace.model.definition import FunctionFile, Project, Settings, SourceDefinition, ViewDefinition
from headrace.serve import snapshot
from small_batch import small

SOURCE = "pushed"
ANSWER_S = 60
Rows = Counter[tuple[str, ...]]


@dataclass(frozen=True)
class Case:
    """A ``.test`` file, read."""

    name: str
    tables: Mapping[str, Mapping[str, Any]]
    views: Mapping[str, str]
    transactions: tuple[Mapping[str, Any], ...]
    expected: Mapping[str, Rows]
    clock_us: int = 0
    functions: str = ""  # the text of a file of functions/

    def document(self, transaction: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """A transaction in the form that the source takes."""
        return {
            "tables": {t: {v: self._rows(t, v, rows) for v, rows in verbs.items()} for t, verbs in transaction.items()}
        }

    def _rows(self, table: str, verb: str, rows: Any) -> Any:
        if verb == "truncate":
            return rows
        given = self.tables[table]
        names = list(given["columns"])
        key = given.get("key", [])
        if verb == "delete" and key:
            names = [key] if isinstance(key, str) else list(key)
        return [dict(zip(names, row, strict=verb != "update")) if isinstance(row, list) else row for row in rows]


def read_case(path: Path) -> Case:
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    expected = {view: Counter(_shown(row) for row in rows) for view, rows in document["expected"].items()}
    assert expected.keys() == document["views"].keys(), path.name
    began = microseconds(document.get("clock", "1970-01-01"))
    return Case(
        path.stem, document["tables"], document["views"], tuple(document["transactions"]), expected, began,
        document.get("functions", ""),
    )  # fmt: skip


def microseconds(time: str | datetime.date) -> int:
    """Since the epoch; a time without a zone is UTC."""
    at = datetime.datetime.fromisoformat(str(time)).replace(tzinfo=datetime.UTC)
    return int(at.timestamp()) * 1_000_000


def _shown(row: Any) -> tuple[str, ...]:
    return tuple("null" if value is None else str(value) for value in row)


_compilers: dict[str, Compiler] = {}  # of each case, the last that was made anew


class Running:
    """A case's project at work, without the engine's thread. ``reopen`` does what a crash and a restart do.

    ``anew``: whether the views are compiled as in a new process; else by what compiled them in another mode, which
    has them still.
    """

    def __init__(self, case: Case, folder: Path, partitions: int = 2, *, anew: bool = True) -> None:
        self.case, self.folder = case, folder
        folder.mkdir(parents=True, exist_ok=True)
        source = SourceDefinition(SOURCE, "http", {"listen": False, "tables": dict(case.tables)})
        settings = Settings(name=case.name, partitions=partitions, code=bool(case.functions))
        views = tuple(ViewDefinition(n, sql) for n, sql in case.views.items())
        self.events: list[dict[str, Any]] = []
        self.now_us = case.clock_us
        self.project = Project(folder, settings, (source,), views, functions=functions_in(case.functions, folder))
        self.pipeline = self.opened(anew)

    def opened(self, anew: bool = True, wanted: Collection[str] | None = None) -> Pipeline:
        """``wanted``: see ``headrace.engine.reopen``."""
        opened = Pipeline(self.project, on_event=self.events.append)
        with pytest.MonkeyPatch.context() as patch:
            if not anew and self.case.name in _compilers:
                patch.setattr(pipeline, "Compiler", lambda *_: _compilers[self.case.name])
            opened.prepare(wanted=wanted)
        _compilers[self.case.name] = opened.compiler
        opened.maintainer.ticks.present = lambda: self.now_us
        return opened

    def define(self, views: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Take the case's views, or these in their place."""
        if views is not None:
            definitions = tuple(ViewDefinition(n, sql) for n, sql in views.items())
            self.project = replace(self.project, views=definitions)
        answer = self.pipeline.apply(self.project)
        refused = self.pipeline.refused
        assert not refused, {name: str(error) for name, error in refused.items()}
        return answer

    def push(self, *transactions: Mapping[str, Any]) -> int:
        """Push transactions; returns the last one's commit once the log holds them."""
        source: Any = self.pipeline.sources[SOURCE]
        self.pipeline.ingests[SOURCE].ready.wait(ANSWER_S)
        commit = 0
        for ticks, some in groupby(transactions, lambda t: "clock" in t):
            if ticks:
                for transaction in some:
                    self.now_us = microseconds(transaction["clock"])
                    commit = tick(self.pipeline.log, self.now_us)
                continue
            answers = source.push([self.case.document(t) for t in some])
            commit = int([answer.result(ANSWER_S) for answer in answers][-1])
        return commit

    def step(self) -> None:
        assert self.pipeline.maintainer.step(), "there was nothing to step over"

    def contents(self, view: str) -> Rows:
        record = self.pipeline.catalog.views()[view]
        _, rows = snapshot.read(self.pipeline.catalog, record)
        found: Rows = Counter()
        for row in rows.to_pylist():
            weight = row.pop("_w")
            assert weight > 0, (view, row, weight)
            found[_shown(row.values())] += weight
        return found

    def all_contents(self) -> dict[str, Rows]:
        return {view: self.contents(view) for view in self.case.views}

    def verify(self) -> None:
        """Every view equals Spark batch over the log at the frontier."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(verify, "Batch", lambda *given: small(Batch(*given)))
            found = self.pipeline.verify()
        assert found["differences"] == 0, found
        assert {v["view"] for v in found["views"]} == set(self.pipeline.catalog.views())

    def published(self) -> list[tuple[StepRecord, list[tuple[str, int, int]]]]:
        """Each published step, with feed, rows and checksum of what it wrote; without times."""
        catalog = self.pipeline.catalog
        found = []
        for step in catalog.steps():
            outputs = catalog.outputs(step.number - 1, step.number)
            plain = StepRecord(step.number, step.after, step.upto, step.shape, 0, None)
            found.append((plain, sorted((o.feed, o.rows, o.sums) for o in outputs)))
        return found

    def kill(self) -> None:
        """Let go of everything as a killed process does: no checkpoint, nothing finished."""
        pipeline = self.pipeline
        for ingest in pipeline.ingests.values():
            ingest.close()
        pipeline.maintainer.kept.close()
        pipeline.log.close()
        pipeline.catalog.close()

    def reopen(self, *, anew: bool = True) -> None:
        self.kill()
        self.pipeline = self.opened(anew)
        self.pipeline.definitions.carry_out(self.project)
        assert not any(MISMATCH in str(event) for event in self.events), self.events


def functions_in(text: str, folder: Path) -> tuple[FunctionFile, ...]:
    """``text`` as the one file of functions/ in a project."""
    path = folder / "functions" / "declared.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return read_functions([("declared", path)], folder) if text else ()


@contextmanager
def running(case: Case, folder: Path, partitions: int = 2, *, anew: bool = True) -> Iterator[Running]:
    made = Running(case, folder, partitions, anew=anew)
    try:
        yield made
    finally:
        made.kill()


def all_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step, however small, is laid out over all partitions."""
    monkeypatch.setattr(maintain, "WIDE_ROWS", 1)
    monkeypatch.setattr(Frames, "deal_all", True)
