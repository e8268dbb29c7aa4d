"""Random histories of tables: what happened, transaction by transaction, and what the tables hold after each commit.

A history is one *case*. Many cases run together in one log: every table has ``case_id`` first in its key, so that
hundreds of them cost the steps of one. TRUNCATE takes all of a table, so it belongs to the schedule that they share.
The contents after each commit are found here by replaying into plain Python values: no code of the product.
"""

from __future__ import annotations

import datetime
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headrace.formats.types.arrow import schema as arrow_schema
from headrace.model.schema import Column, Relation
from headrace.model.transaction import (
    DELETE,
    INSERT,
    OPERATION,
    ORDINAL,
    STRICT,
    TRUNCATE,
    UNCHANGED,
    UPDATE,
    TransactionBatch,
    TransactionOrigin,
)

CASE = "case_id"
INF, NAN = float("inf"), float("nan")
Row = tuple[Any, ...]  # the values of a row without its case


@dataclass(frozen=True)
class Table:
    """A table for histories: its columns without ``case_id``, and from which values each is drawn.

    ``key`` names columns beside ``case_id``; a table without is a multiset. One that is not ``cased`` has no
    ``case_id``, and one history only. ``strict``: the share of changes that are set aside when the key is there
    already, or is not there. ``append_only``: nothing is ever updated, deleted or emptied.
    """

    name: str
    columns: Mapping[str, str]
    values: Mapping[str, Sequence[Any]]
    key: tuple[str, ...] = ()
    cased: bool = True
    strict: float = 0.0
    append_only: bool = False

    @property
    def relation(self) -> Relation:
        columns = [Column(n, t, n not in self.key) for n, t in self.columns.items()]
        if not self.cased:
            return Relation(self.name, tuple(columns), self.key)
        made = Relation(self.name, (Column(CASE, "int", False), *columns), (CASE, *self.key) if self.key else ())
        return replace(made, updates=False, append_only=True) if self.append_only else made

    @property
    def key_ordinals(self) -> tuple[int, ...]:
        return tuple(list(self.columns).index(k) for k in self.key)

    def key_of(self, row: Row) -> Row:
        return tuple(row[i] for i in self.key_ordinals)

    def stored(self, case: int, row: Row) -> Row:
        """A row of a case as the relation has it."""
        return (case, *row) if self.cased else row

    def in_order(self, row: Row) -> Row:
        """The row with the entries of its maps in the order of their keys, as a table holds it."""
        types = self.columns.values()
        return tuple(sorted(v) if t.startswith("map<") and v else v for t, v in zip(types, row, strict=True))


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a case. ``left_out``: ordinals (without the case's column) that an update keeps as they were."""

    table: str
    operation: int
    row: Row
    left_out: frozenset[int] = frozenset()


Transaction = tuple[Change, ...]
History = tuple[tuple[Transaction, ...], ...]  # steps of transactions of changes


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What all cases share of a step: shape, instants, and for each transaction the tables truncated in it.

    ``truncates[k]`` = (tables emptied before the changes of transaction k, tables emptied after them).
    """

    wide: bool
    instants: str
    truncates: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]


Schedule = tuple[StepPlan, ...]


def schedule(rng: random.Random, truncated: Sequence[str], steps: int) -> Schedule:
    """So many steps, at least four, of both shapes and both kinds of instants; ``truncated``: tables that are emptied."""
    modes = [(wide, instants) for wide in (False, True) for instants in ("one", "each")]
    modes += rng.sample(modes, steps - len(modes))
    rng.shuffle(modes)
    plans = []
    for number, (wide, instants) in enumerate(modes):
        count = rng.choice((2, 3)) if instants == "each" else rng.choice((1, 2))
        truncates = []
        for _ in range(count):
            emptied = [t for t in truncated if number > 0 and rng.random() < 0.2]
            before = tuple(t for t in emptied if rng.random() < 0.5)
            truncates.append((before, tuple(t for t in emptied if t not in before)))
        plans.append(StepPlan(wide, instants, tuple(truncates)))
    return tuple(plans)


def history(
    rng: random.Random,
    tables: Sequence[Table],
    plan: Schedule,
    drawn: Callable[[random.Random, int], Sequence[Table]] | None = None,
) -> History:
    """A random history of one case; transactions and whole steps may be empty.

    ``drawn(rng, n)``: which table each change of a transaction of step n is of; without it, few of any.
    """
    live: dict[str, Any] = {t.name: _Contents(t) for t in tables}
    steps = []
    for number, step in enumerate(plan):
        idle = drawn is None and rng.random() < 0.15
        transactions = []
        for before, after in step.truncates:
            _truncate(live, before)
            changes = []
            for table in drawn(rng, number) if drawn else _few(rng, tables, idle):
                change = _change(rng, table, live[table.name])
                if table.strict and rng.random() < table.strict:
                    change = replace(change, operation=change.operation | STRICT)
                live[table.name].apply(change)
                changes.append(change)
            _truncate(live, after)
            transactions.append(tuple(changes))
        steps.append(tuple(transactions))
    return tuple(steps)


def _few(rng: random.Random, tables: Sequence[Table], idle: bool) -> Iterator[Table]:
    for _ in range(0 if idle else rng.choice((0, 1, 1, 2, 2, 3, 5))):
        yield rng.choice(tables)


def _change(rng: random.Random, table: Table, contents: _Contents) -> Change:
    row = tuple(rng.choice(table.values[c]) for c in table.columns)
    chance, there = rng.random(), list(contents.rows)
    if table.append_only:
        return Change(table.name, INSERT, row)
    if not table.key:
        if chance < 0.4 and there:
            return Change(table.name, DELETE, contents.rows[rng.choice(there)])
        return Change(table.name, DELETE if chance > 0.95 else INSERT, row)
    if chance < 0.3 and there:
        old = contents.rows[rng.choice(there)]
        return Change(table.name, DELETE, old if rng.random() < 0.5 else _key_alone(table, old))
    if chance < 0.34:
        return Change(table.name, DELETE, _key_alone(table, row))
    if table.strict and chance < 0.42:
        return Change(table.name, UPDATE, row)  # of any key
    if chance < 0.55 and there:
        old = contents.rows[rng.choice(there)]
        new = tuple(o if i in table.key_ordinals else v for i, (o, v) in enumerate(zip(old, row, strict=True)))
        others = [i for i in range(len(new)) if i not in table.key_ordinals]
        left_out = frozenset(i for i in others if rng.random() < 0.4) if rng.random() < 0.6 else frozenset()
        return Change(table.name, UPDATE, tuple(None if i in left_out else v for i, v in enumerate(new)), left_out)
    return Change(table.name, INSERT, row)


def _key_alone(table: Table, row: Row) -> Row:
    return tuple(v if i in table.key_ordinals else None for i, v in enumerate(row))


class _Contents:
    """What one case holds of a table: rows by key, or by their bits with a number of copies."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.rows: dict[Any, Any] = {}
        self.copies: Counter[Any] = Counter()
        self.refused: list[Row] = []

    def apply(self, change: Change) -> None:
        if not self.table.key:
            self._count(change)
            return
        key = self.table.key_of(change.row)
        operation = change.operation % STRICT
        if change.operation != operation and (key in self.rows) == (operation == INSERT):
            self.refused.append(change.row)
            return
        if operation == DELETE:
            self.rows.pop(key, None)
            return
        old = self.rows.get(key, (None,) * len(change.row))
        self.rows[key] = tuple(old[i] if i in change.left_out else v for i, v in enumerate(change.row))

    def _count(self, change: Change) -> None:
        row = self.table.in_order(change.row)
        shown = bitwise(row)
        if change.operation == INSERT:
            self.copies[shown] += 1
            self.rows[shown] = row
        elif self.copies[shown] == 0:
            self.refused.append(change.row)
        else:
            self.copies[shown] -= 1
            if self.copies[shown] == 0:
                del self.rows[shown]

    def clear(self) -> None:
        self.rows.clear()
        self.copies.clear()

    def all(self) -> Iterator[Row]:
        """Each row as often as it stands in the table."""
        if self.table.key:
            yield from self.rows.values()
            return
        for shown, row in self.rows.items():
            for _ in range(self.copies[shown]):
                yield row


def bitwise(row: Iterable[Any]) -> tuple[str, ...]:
    """A row told apart by its bits: -0.0 is not 0.0, and NaN is NaN."""
    return tuple(f"{type(v).__name__}:{v!r}" for v in row)


def _truncate(live: Mapping[str, _Contents], tables: Iterable[str]) -> None:
    for name in tables:
        live[name].clear()


@dataclass
class Replay:
    """The rows of every table (with the case before them) at every commit, and the changes that were set aside."""

    contents: list[dict[str, list[Row]]] = field(default_factory=list)
    refused: dict[str, list[Row]] = field(default_factory=dict)


def replay(tables: Sequence[Table], plan: Schedule, cases: Sequence[History]) -> Replay:
    """What each commit of the schedule leaves, all cases together."""
    commits = sum(len(step.truncates) for step in plan)
    result = Replay([{t.name: [] for t in tables} for _ in range(commits)], {t.name: [] for t in tables})
    for case, steps in enumerate(cases):
        live = {t.name: _Contents(t) for t in tables}
        commit = 0
        for step, transactions in zip(plan, steps, strict=True):
            for (before, after), changes in zip(step.truncates, transactions, strict=True):
                _truncate(live, before)
                for change in changes:
                    live[change.table].apply(change)
                _truncate(live, after)
                for name, held in live.items():
                    result.contents[commit][name] += [
                        held.table.stored(case, held.table.in_order(row)) for row in held.all()
                    ]
                commit += 1
        for name, held in live.items():
            result.refused[name] += [held.table.stored(case, row) for row in held.refused]
    return result


def rows_table(relation: Relation, rows: Sequence[Row]) -> pa.Table:
    """Rows as an Arrow table of the relation."""
    wanted = arrow_schema(relation.columns)
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(wanted)
    arrays = [pa.array(values, f.type, from_pandas=False) for values, f in zip(columns, wanted, strict=True)]
    return pa.table(arrays, schema=pa.schema([(f.name, f.type) for f in wanted]))


def batch(tables: Sequence[Table], step: StepPlan, number: int, cases: Sequence[History]) -> TransactionBatch:
    """Step ``number`` of every case as transactions for the log: transaction k holds the k-th of each case."""
    rows: dict[str, list[tuple[int, int, bytes | None, Row]]] = {t.name: [] for t in tables}
    by_name = {t.name: t for t in tables}
    for k, (before, after) in enumerate(step.truncates):
        for name in before:
            rows[name].append((k, TRUNCATE, None, (None,) * len(by_name[name].relation.columns)))
        for case, steps in enumerate(cases):
            for change in steps[number][k]:
                row = by_name[change.table].stored(case, change.row)
                mark = _mark(change.left_out, len(row), len(row) - len(change.row)) if change.left_out else None
                rows[change.table].append((k, change.operation, mark, row))
        for name in after:
            rows[name].append((k, TRUNCATE, None, (None,) * len(by_name[name].relation.columns)))
    changes = {}
    for name, entries in rows.items():
        if entries:
            ordinals, operations, marks, values = zip(*entries, strict=True)
            table = rows_table(by_name[name].relation, values)
            head = {ORDINAL: pa.array(ordinals, pa.int32()), OPERATION: pa.array(operations, pa.int8())}
            if by_name[name].key:
                head[UNCHANGED] = pa.array(marks, pa.binary())
            changes[name] = pa.table([*head.values(), *table.columns], names=[*head, *table.column_names])
    origins = tuple(TransactionOrigin("laws", f"{number}.{k}", number) for k in range(len(step.truncates)))
    return TransactionBatch(origins, changes)


def _mark(left_out: frozenset[int], width: int, before: int) -> bytes:
    """Bit n set: column n keeps its value; ``before``: columns before the row's own."""
    return sum(1 << (i + before) for i in left_out).to_bytes((width + 7) // 8, "little")


def as_document(value: Any) -> Any:
    """A value as JSON holds it; ``from_document`` gives it back by the type of its column."""
    if value is None or isinstance(value, int | str | list):
        return value
    return repr(value) if isinstance(value, float) else str(value)


def from_document(value: Any, type_text: str) -> Any:
    if value is None:
        return None
    if type_text.startswith("decimal"):
        return Decimal(value)
    if type_text in ("double", "float"):
        return float(value)
    if type_text.startswith("timestamp"):
        return datetime.datetime.fromisoformat(value)
    if type_text == "date":
        return datetime.date.fromisoformat(value)
    if type_text.startswith("map<"):
        return [tuple(entry) for entry in value]
    return value


def history_document(steps: History) -> list[Any]:
    return [
        [
            [[c.table, c.operation, [as_document(v) for v in c.row], sorted(c.left_out)] for c in transaction]
            for transaction in transactions
        ]
        for transactions in steps
    ]


def read_history(document: list[Any], tables: Sequence[Table]) -> History:
    types = {t.name: list(t.columns.values()) for t in tables}

    def change(entry: list[Any]) -> Change:
        name, operation, row, left_out = entry
        values = tuple(from_document(v, t) for v, t in zip(row, types[name], strict=True))
        return Change(name, operation, values, frozenset(left_out))

    return tuple(tuple(tuple(change(e) for e in tx) for tx in transactions) for transactions in document)


def without(steps: History) -> Iterator[History]:
    """Smaller histories, largest cuts first: without a step's changes, a transaction's, one change."""
    for s, transactions in enumerate(steps):
        if any(transactions):
            yield (*steps[:s], tuple(() for _ in transactions), *steps[s + 1 :])
    for s, transactions in enumerate(steps):
        for k, changes in enumerate(transactions):
            if changes and sum(bool(t) for t in transactions) > 1:
                yield (*steps[:s], (*transactions[:k], (), *transactions[k + 1 :]), *steps[s + 1 :])
    for s, transactions in enumerate(steps):
        for k, changes in enumerate(transactions):
            for c in range(len(changes)):
                if len(changes) > 1:
                    fewer = (*changes[:c], *changes[c + 1 :])
                    yield (*steps[:s], (*transactions[:k], fewer, *transactions[k + 1 :]), *steps[s + 1 :])
