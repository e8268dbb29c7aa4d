"""What an index is of: a view, whose steps are published as deltas, or a table, whose changes are in the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, Protocol
from urllib.parse import quote

import pyarrow as pa

from headrace.catalog.store import Catalog, StepRecord, ViewRecord
from headrace.formats import recorded
from headrace.formats.types.arrow import schema as arrow_schema
from headrace.model.errors import HeadraceError
from headrace.model.schema import Relation, ViewSchema
from headrace.model.transaction import OPERATION, TRUNCATE
from headrace.serve import replay, snapshot
from headrace.serve.history import reader_of
from headrace.serve.search import deltas
from headrace.state.rows import canonical, consolidate

_ATTEMPTS = 20  # retention may take commits away while they are read


class Changed(Protocol):
    """What was published of a relation between two frontiers."""

    def touched(self) -> pa.Table | None:
        """Of each row that changes the columns that it is ``found_by``; None: nothing does."""

    def moved(self, held: pa.Table) -> pa.Table:
        """What becomes of ``held``, the rows with ``_w`` that are found by those, and perhaps others."""


class Indexed(Protocol):
    """``feed``: a file name of its own. ``found_by``: the columns by which a change finds the rows that it is of."""

    def __hash__(self) -> int: ...
    @property
    def kind(self) -> Literal["view", "table"]: ...
    @property
    def schema(self) -> ViewSchema: ...
    @property
    def feed(self) -> str: ...
    @property
    def found_by(self) -> Sequence[str]: ...

    def frontier(self, step: StepRecord | None) -> deltas.Frontier:
        """The frontier after that step; None: before the first."""

    def begin(self, catalog: Catalog) -> tuple[deltas.Frontier, pa.Table]:
        """The rows, with ``_w``, after the last published step."""

    def since(self, catalog: Catalog, frontier: deltas.Frontier) -> tuple[deltas.Frontier, Changed] | None:
        """What was published since; None: it cannot be told from what is kept; begin anew."""


def find(project: Path, catalog: Catalog, name: str) -> Indexed:
    """The view, else the table of that name; ``view.unknown`` names the nearest view."""
    if name not in catalog.views():
        tables = catalog.relations()
        if name in tables:
            return IndexedTable(project, tables[name][1])
    return IndexedView(replace(snapshot.known(catalog, name), state="live", reason=""))


def feeds(catalog: Catalog) -> frozenset[str]:
    """The feeds of all that there is."""
    return frozenset(
        {record.feed for record in catalog.views().values()} | {_table_feed(name) for name in catalog.relations()}
    )


def _table_feed(name: str) -> str:
    return f"{quote(name, safe='')}@table"


@dataclass(frozen=True)
class IndexedView:
    """A view version."""

    record: ViewRecord
    kind: Literal["view", "table"] = "view"

    @property
    def schema(self) -> ViewSchema:
        return self.record.schema

    @property
    def feed(self) -> str:
        return self.record.feed

    @property
    def found_by(self) -> Sequence[str]:
        return self.schema.names

    def frontier(self, step: StepRecord | None) -> deltas.Frontier:
        return deltas.reached(self.record, step)

    def begin(self, catalog: Catalog) -> tuple[deltas.Frontier, pa.Table]:
        return deltas.begin(catalog, self.record)

    def since(self, catalog: Catalog, frontier: deltas.Frontier) -> tuple[deltas.Frontier, Changed] | None:
        found = deltas.since(catalog, self.record, frontier)
        if found is None:
            return None
        changes = [delta for _, delta in found if delta.num_rows]
        return found[-1][0] if found else frontier, _Deltas(consolidate(pa.concat_tables(changes)) if changes else None)


@dataclass(frozen=True)
class _Deltas:
    delta: pa.Table | None

    def touched(self) -> pa.Table | None:
        return self.delta

    def moved(self, held: pa.Table) -> pa.Table:
        assert self.delta is not None
        return consolidate(pa.concat_tables([held, self.delta.cast(held.schema)]))


@dataclass(frozen=True)
class IndexedTable:
    """A table of a source, as the log has it at the published frontier. A change finds its row by the key, if any."""

    project: Path
    relation: Relation
    kind: Literal["view", "table"] = "table"

    @cached_property
    def schema(self) -> ViewSchema:
        return ViewSchema(self.relation.name, 0, self.relation.columns, self.relation.key)

    @property
    def feed(self) -> str:
        return _table_feed(self.relation.name)

    @property
    def found_by(self) -> Sequence[str]:
        return self.relation.key or self.relation.names

    def frontier(self, step: StepRecord | None) -> deltas.Frontier:
        return deltas.after(repr(self.relation), step)

    def begin(self, catalog: Catalog) -> tuple[deltas.Frontier, pa.Table]:
        for attempt in range(_ATTEMPTS):
            frontier = self.frontier(catalog.last_published())
            try:
                return frontier, replay.contents(self.project, self.relation, frontier.commit)
            except HeadraceError as error:
                if error.code != "log.retained" or attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def since(self, catalog: Catalog, frontier: deltas.Frontier) -> tuple[deltas.Frontier, Changed] | None:
        if frontier.made != self.frontier(None).made or (steps := deltas.later(catalog, frontier)) is None:
            return None
        reached = self.frontier(steps[-1]) if steps else frontier
        reader, name = reader_of(self.project), self.relation.name
        try:
            refs = [ref for ref in reader.refs(frontier.commit, reached.commit) if name in ref.rows]
            batches = tuple(reader.read(refs, name, frontier.commit, reached.commit))
        except HeadraceError as error:
            if error.code != "log.retained":
                raise
            return None
        if any((batch.column(OPERATION).to_numpy() == TRUNCATE).any() for batch in batches):
            return None
        return reached, _Changes(self.relation, tuple(self.found_by), batches)


@dataclass(frozen=True)
class _Changes:
    relation: Relation
    found_by: Sequence[str]
    batches: Sequence[pa.RecordBatch]

    def touched(self) -> pa.Table | None:
        if not self.batches:
            return None
        fields = [field for field in arrow_schema(self.relation.columns) if field.name in self.found_by]
        parts = [[canonical(recorded.values(batch, f.name, f.type)) for f in fields] for batch in self.batches]
        return pa.concat_tables(pa.table(columns, [field.name for field in fields]) for columns in parts)

    def moved(self, held: pa.Table) -> pa.Table:
        changes = replay.Replay(self.relation)
        changes.kept = held
        for batch in self.batches:
            changes.add(batch)
        return changes.contents()
