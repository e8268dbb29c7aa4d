"""The feed of one table, view, or part of a view, transaction by transaction, as its outside readers get it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from headrace.catalog.store import Catalog, StepRecord, ViewRecord
from headrace.formats.json_tables import rows
from headrace.model.delivery import WEIGHT
from headrace.model.errors import HeadraceError
from headrace.serve import history, snapshot
from headrace.serve.parts import Keep, taken
from headrace.serve.sound import sound

Change = dict[str, Any]
T = TypeVar("T")
_READ_COMMITS = 65_536  # of a log are looked through at a time


@dataclass(frozen=True, slots=True)
class Entry:
    """A transaction of a feed; ``changes`` as ``model.group.GroupDelivery`` has them."""

    commit: int
    changes: list[Change]
    committed_us: int | None = None
    source: str | None = None
    snapshot: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """Neighbouring transactions of a feed: all there are up to commit ``upto``."""

    entries: list[Entry]
    upto: int


class NotKept(Exception):
    """What was asked for is not kept any more, or the view is another version now."""


class Feed(Protocol):
    """Of the table or view ``relation``, or made from it. Raises ``NotKept``."""

    relation: str

    @property
    def version(self) -> int:
        """Another one for what is no continuation of what was read; 0 for a table."""

    @property
    def end(self) -> int:
        """The last commit up to which the feed is known."""

    @property
    def first(self) -> int:
        """The commit after which the feed is kept."""

    def after(self, commit: int, most: int, most_rows: int) -> Part:
        """The next transactions: at most so many, and once they have ``most_rows`` rows no more."""

    def at(self, commit: int, is_snapshot: bool) -> Entry:
        """The transaction of that commit, or the contents as of it."""


@dataclass
class TableFeed:
    """The changes of a table in the log."""

    path: Path
    relation: str
    version: int = 0

    def __post_init__(self) -> None:
        self._log = history.reader_of(self.path)

    @property
    def end(self) -> int:
        return self._log.end

    @property
    def first(self) -> int:
        return self._log.base.commit

    def after(self, commit: int, most: int, most_rows: int) -> Part:
        end, entries, count = self.end, list[Entry](), 0
        if commit == end:
            return Part([], commit)
        if not self.first <= commit < end:
            raise NotKept
        upto = min(end, commit + _READ_COMMITS)
        for transaction in history.transactions(self._log, commit, upto, (self.relation,)):
            entries.append(_of_table(transaction))
            count += len(entries[-1].changes)
            if len(entries) >= most or count >= most_rows:
                return Part(entries, entries[-1].commit)
        return Part(entries, upto)

    def at(self, commit: int, is_snapshot: bool) -> Entry:
        if not self.first < commit <= self.end:
            raise NotKept
        for transaction in history.transactions(self._log, commit - 1, commit, (self.relation,)):
            return _of_table(transaction)
        raise NotKept


def _of_table(transaction: history.Transaction) -> Entry:
    changes = [change for table, part in transaction.changes for change in history.spelled(table, part)]
    origin = transaction.origin
    return Entry(transaction.commit, changes, origin.committed_us, origin.source)


@dataclass
class ViewFeed:
    """The published deltas of a view, or of the rows of it that ``keep`` wants, a step each; with `transactions: each`,
    those of each transaction. Raises what is wrong with ``keep``."""

    catalog: Catalog
    relation: str
    keep: Keep | None = None
    _before: tuple[int, int] = field(default=(-1, 0))  # (step, commit): later commits are of later steps

    @property
    def record(self) -> ViewRecord:
        return snapshot.known(self.catalog, self.relation)

    @property
    def version(self) -> int:
        record = self.record
        if self.keep is None:
            return record.schema.version
        of = f"{record.feed} {record.fingerprint} {record.created_commit} {self.keep!r}"
        return int.from_bytes(hashlib.sha256(of.encode()).digest()[:7])  # is never one of those

    @property
    def end(self) -> int:
        last = self.catalog.last_published()
        return last.upto if last else 0

    @property
    def first(self) -> int:
        steps = self.catalog.steps()
        return max(steps[0].after if steps else 0, self.record.created_commit)

    def after(self, commit: int, most: int, most_rows: int) -> Part:
        if commit == self.end:
            return Part([], commit)
        record, entries, count, upto = self.record, list[Entry](), 0, commit
        steps = self._steps(commit)
        for step in steps:
            for entry in self._entries(record, step, commit):
                entries.append(entry)
                count += len(entry.changes)
                if len(entries) >= most or count >= most_rows:
                    return self._kept(steps[0], commit, Part(entries, entry.commit))
            upto = step.upto
        return self._kept(steps[0], commit, Part(entries, upto))

    def at(self, commit: int, is_snapshot: bool) -> Entry:
        record = self.record
        if commit < (record.created_commit if is_snapshot else record.created_commit + 1):
            raise NotKept
        if is_snapshot:
            return self._contents(record, commit)
        step = self._steps(commit - 1)[0]
        found = [entry for entry in self._entries(record, step, commit - 1) if entry.commit == commit]
        if not found:
            raise NotKept
        return self._kept(step, commit - 1, found[0])

    def _steps(self, after: int) -> list[StepRecord]:
        """The published steps with commits after that one, without a gap before them."""
        hint = self._before[0] if self._before[1] <= after else -1
        published = [step for step in self.catalog.steps(hint) if step.published_us is not None]
        later = [step for step in published if step.upto > after]
        if not later or later[0].after > after:
            raise NotKept
        self._before = (later[0].number - 1, later[0].after)
        return later

    def _entries(self, record: ViewRecord, step: StepRecord, after: int) -> Iterator[Entry]:
        outputs = [(o.path, o.sums) for o in self.catalog.outputs(step.number - 1, step.number, record.feed)]
        if not outputs:
            return
        paths = _readable(lambda: sound(outputs))
        if not step.shape.each:
            table = self._wanted(record, snapshot.delta(record, paths))
            if table.num_rows:
                yield Entry(step.upto, weighted(table), step.committed_us)
            return
        for commit, delta in snapshot.each(record, ((path, step.after) for path in paths), after):
            if (table := self._wanted(record, delta)).num_rows:
                yield Entry(commit, weighted(table), step.committed_us)

    def _contents(self, record: ViewRecord, commit: int) -> Entry:
        tables = _readable(lambda: snapshot.as_of(self.catalog, record, commit))
        return Entry(commit, weighted(self._wanted(record, snapshot.added(record, tables))), snapshot=True)

    def _wanted(self, record: ViewRecord, rows: pa.Table) -> pa.Table:
        return rows if self.keep is None else taken(self.keep, record.schema, rows)

    def _kept(self, first: StepRecord, after: int, read: T) -> T:
        """What was read after that commit, if the first step of it is there still: then nothing of it was missing. A
        view that was dropped and made again has the version of the one before, and its contents came by no step."""
        there = any(step.number == first.number for step in self.catalog.steps(first.number - 1)[:1])
        if not there or after < self.record.created_commit:
            raise NotKept
        return read


def weighted(table: pa.Table) -> list[Change]:
    """Each row of a delta (columns and ``_w``) as ``{"weight", "row"}``; rows that go before rows that come."""
    names = [name for name in table.column_names if name != WEIGHT]
    pairs = zip(table[WEIGHT].to_pylist(), rows(table.select(names)), strict=True)
    return [
        {"weight": weight, "row": dict(zip(names, row, strict=True))}
        for weight, row in sorted(pairs, key=lambda pair: pair[0] > 0)
    ]


def _readable(read: Callable[[], T]) -> T:
    try:
        return read()
    except HeadraceError as error:
        if error.code != "state.missing":
            raise
        raise NotKept from error
