"""Tables that are altered: what they have lost, by commit, and which views use it; made anew with other columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import orjson

from headrace.circuit.build import TABLE
from headrace.circuit.node import Feed
from headrace.circuit.operators.changes import COMMIT
from headrace.engine.compile import Compilation, Compiled
from headrace.engine.unroll import feeds_of
from headrace.log.read import FrameRef, LogReader
from headrace.model.altered import ALTERED, WHOLE
from headrace.model.errors import HeadraceError
from headrace.model.schema import Relation

if TYPE_CHECKING:
    from headrace.catalog.store import Catalog
    from headrace.engine.attach import Tables
    from headrace.engine.kept import Kept
    from headrace.engine.maintain import Maintainer
    from headrace.sources.base import Source

LOST = "lost "  # in the catalogue's ``meta``, followed by a table: its lost columns, each with the statement
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


class Lost:
    """What tables have lost as of the frontier. Belongs to the engine's thread."""

    def __init__(self, catalog: Catalog, reader: LogReader) -> None:
        self.catalog, self.reader = catalog, reader

    def of(self, compiled: Compiled) -> str:
        """What has become of a table that a view reads columns of, when it has lost them; else empty."""
        for feed in (node for node in compiled.root.walk() if isinstance(node, Feed)):
            lost = self.columns(feed.relation)
            for name in (WHOLE, *feed.columns):
                if name in lost:
                    return lost[name]
        return ""

    def columns(self, table: str) -> dict[str, str]:
        found: dict[str, str] = orjson.loads(self.catalog.meta(LOST + table) or "{}")
        return found

    def await_copies(self, sources: Mapping[str, Source], before: Mapping[str, Relation], tables: Tables) -> None:
        """These tables have other columns now: where they are copied for it, those have no values until then."""
        for name, (owner, relation) in tables.items():
            if sources[owner].copies:
                known = {(column.name, column.type) for column in before[name].columns}
                new = [column.name for column in relation.columns if (column.name, column.type) not in known]
                text = "table {} is being copied with its column {}"
                self.put(name, {**self.columns(name), **{column: text.format(name, column) for column in new}})

    def put(self, table: str, lost: Mapping[str, str]) -> None:
        self.catalog.set_meta(LOST + table, orjson.dumps(dict(lost)).decode())

    def bound(self, refs: Iterable[FrameRef], after: int, upto: int) -> int:
        """The end of a step over (after, upto]: no commit in it but the first tells that a table was altered."""
        later = {commit for commit, *_ in told(self.reader, refs, after, upto) if commit > self._first(after)}
        return min(later, default=upto + 1) - 1

    def take(self, after: int, upto: int) -> bool:
        """Take what the first commit of a step tells, if it does."""
        first = self._first(after)
        found = told(self.reader, self.reader.refs(after, min(first, upto)), after, first)
        with self.catalog.transaction():
            for _, table, column, statement in found:
                self.put(table, {**self.columns(table), column: statement} if column else {})
        return bool(found)

    def _first(self, after: int) -> int:
        """The commit that comes after that one; at the log's beginning its base is one."""
        return max(after + 1, self.reader.base.commit) if after == 0 else after + 1


def told(reader: LogReader, refs: Iterable[FrameRef], after: int, upto: int) -> list[tuple[int, str, str, str]]:
    """(commit, table, column, statement) of what these commits tell of altered tables."""
    some = [ref for ref in refs if ALTERED.name in ref.rows]
    names = [COMMIT, *ALTERED.names]
    return [
        tuple(row[name] for name in names)
        for batch in reader.read(some, ALTERED.name, after, upto)
        for row in batch.select(names).to_pylist()
    ]


def altered(before: Mapping[str, Relation], now: Mapping[str, Relation]) -> set[str]:
    """The tables of ``now`` that were otherwise before."""
    return {name for name, relation in now.items() if name in before and before[name] != relation}


def rekeyed(
    before: Mapping[str, Relation], now: Mapping[str, Relation], views: Mapping[str, Compiled]
) -> set[str]:  # fmt: skip
    """The views over a table that has another key: what they keep may be arranged by the one before."""
    other = {name for name in altered(before, now) if before[name].key != now[name].key}
    return {name for name, compiled in views.items() if feeds_of(compiled.root) & other}


@contextmanager
def made_anew(kept: Kept, tables: Iterable[str]) -> Iterator[None]:
    """Inside, nothing is kept of these tables, so that they are made from the log; on an error, what was there is."""
    runs = kept.taken(TABLE + name for name in tables)
    try:
        yield
    except BaseException:
        kept.runs.update(runs)
        raise


def cannot_go_on(maintainer: Maintainer, names: Iterable[str], compilation: Compilation, *, running: bool) -> None:
    """Views that cannot go on in their old form either, as what they read is gone: refused; at a start, failed."""
    for name in names:
        error, record = compilation.refused[name], maintainer.catalog.views()[name]
        if record.state == "failed":  # it stays so; what it was compiled to reads tables as they were
            maintainer.failures.shelve(name)
            continue
        if running:
            raise HeadraceError(
                error.code, f"view {name} could not go on: {error.what}", where=error.where, why=error.why,
                next=f"put back what it reads, or `headrace drop {name}` first",
            )  # fmt: skip
        maintainer.catalog.set_view_state(name, record.schema.version, "failed", error.what)
        maintainer.failures.records[name] = record


def check_types(sources: Mapping[str, Source], before: Mapping[str, Relation], tables: Tables) -> None:
    """Refuse another type for a column whose rows the log holds, and no source will bring again.

    Raises ``HeadraceError`` config.invalid unless every value it can have had is one of the new type too.
    """
    for name, (owner, relation) in tables.items():
        types = {} if sources[owner].copies or name not in before else {c.name: c.type for c in before[name].columns}
        for column in relation.columns:
            was = types.get(column.name, column.type)
            if was != column.type and not widened(was, column.type):
                raise HeadraceError(
                    "config.invalid", f"table {name}: column {column.name} was {was} and cannot become {column.type}",
                    where=f"sources/{owner}.yaml",
                    why="the log holds its rows as they came, and they are not brought again",
                    next=f"give the column as {column.type} another name",
                )  # fmt: skip


def widened(was: str, now: str) -> bool:
    """Whether every value of one type is the same value of the other."""
    if was in _INTEGERS and now in _INTEGERS:
        return _INTEGERS.index(was) <= _INTEGERS.index(now)
    one, other = _DECIMAL.fullmatch(was), _DECIMAL.fullmatch(now)
    if one and other:
        scale, new_scale = int(one[2]), int(other[2])
        return new_scale >= scale and int(other[1]) - new_scale >= int(one[1]) - scale
    return (was, now) == ("float", "double")
