"""Pushed transactions: their JSON form read, and many of them merged into one columnar batch."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.formats.json_changes import OPERATIONS, change_table
from headrace.formats.json_rows import RowsRefused
from headrace.formats.types.json import nearest, shown
from headrace.model.errors import HeadraceError
from headrace.model.schema import Relation
from headrace.model.transaction import STRICT

# The order in which the compact form's lists of one table happen.
COMPACT_ORDER = ("truncate", "delete", "insert", "upsert", "update")
_CHANGE_KEYS = frozenset({"table", "op", "row"})


@dataclass(slots=True)
class Run:
    """Consecutive rows of one table with one operation; ``first``: the first change's number, 0 in the compact form."""

    table: str
    verb: str
    rows: list[dict[str, Any]]
    first: int = 0

    def place(self, offset: int) -> str:
        """Where a row stands in what the client sent, counted from 1."""
        return f"change {self.first + offset}" if self.first else f"{self.table}.{self.verb} row {offset + 1}"


Transaction = list[Run]
_Fault = tuple[int, Run, str, str]  # the transaction, its run, the place in that, and why it is not taken


@dataclass(slots=True, eq=False)
class Submission:
    """Transactions that are taken or refused together; ``future`` gives the commit of the first one."""

    transactions: list[Transaction]
    size: int = 0  # bytes that it counts for in the queue
    body: bytes = b""  # as it came, where a refused one is to be kept
    key: str | None = None
    single: bool = False  # the client sent one transaction, not a list
    skipped: int = 0  # transactions of the request that the log already had, before a restart
    arrived_us: int = field(default_factory=lambda: time.time_ns() // 1000)
    future: Future[int] = field(default_factory=Future)

    def __post_init__(self) -> None:
        self.future.set_running_or_notify_cancel()  # from here on no one can cancel it

    @property
    def rows(self) -> int:
        return sum(len(run.rows) for transaction in self.transactions for run in transaction)


class SubmissionsRefused(Exception):
    """Some submissions of a merge hold rows that do not fit: index in the merge -> error, and the row's table."""

    def __init__(self, errors: dict[int, HeadraceError], tables: dict[int, str]) -> None:
        super().__init__(f"{len(errors)} submissions are refused")
        self.errors, self.tables = errors, tables


class Kept(Exception):
    """What a submission's future fails with that is refused for ``error``, and kept in the quarantine as ``id``."""

    def __init__(self, id: str, error: HeadraceError) -> None:
        super().__init__(str(error))
        self.id, self.error = id, error


def read_transaction(document: Any, keys: Mapping[str, Sequence[str]], place: str = "") -> Transaction:
    """The runs of one transaction in JSON form; ``keys`` holds each known table's key. Rows are not typed yet.

    Raises ``HeadraceError``: source.request (form), source.no_table, source.no_identity.
    """
    if not isinstance(document, dict):
        raise _request(f"a transaction must be an object, not {shown(document)}", place)
    if document.keys() == {"changes"}:
        runs = list(_changes(document["changes"], place))
    elif document.keys() == {"tables"}:
        runs = list(_compact(document["tables"], place))
    else:
        raise _request("a transaction must have either 'changes' or 'tables', and nothing else", place)
    if not runs:
        raise _request("the transaction is empty", place)
    for run in runs:
        _check_table(run, keys, place)
    return runs


def _changes(changes: Any, place: str) -> Iterator[Run]:
    """``[{"table": ..., "op": ..., "row": {...}}, ...]``; neighbours of the same table and operation share a run."""
    if not isinstance(changes, list):
        raise _request(f"'changes' must be an array, not {shown(changes)}", place)
    run: Run | None = None
    for number, change in enumerate(changes, 1):
        if type(change) is not dict or not _CHANGE_KEYS.issuperset(change) or "table" not in change:
            known = "a change must be an object with 'table', 'op' (insert when left out) and 'row'"
            raise _request(f"{known}, not {shown(change)}", _at(place, f"change {number}"))
        table, verb, row = change["table"], change.get("op", "insert"), change.get("row")
        if verb == "truncate" and not row:
            row = {}
        if type(row) is not dict:
            raise _request(f"'row' must be an object, not {shown(row)}", _at(place, f"change {number}"))
        if run is not None and run.table == table and run.verb == verb:
            run.rows.append(row)
            continue
        if run is not None:
            yield run
        _check_verb(verb, _at(place, f"change {number}"))
        run = Run(table, verb, [row], number)
    if run is not None:
        yield run


def _compact(tables: Any, place: str) -> Iterator[Run]:
    """``{"orders": {"insert": [rows], "delete": [rows]}, ...}``; per table in ``COMPACT_ORDER``."""
    if not isinstance(tables, dict) or not all(isinstance(lists, dict) for lists in tables.values()):
        raise _request("'tables' must map each table to an object such as {\"insert\": [rows]}", place)
    for table, lists in tables.items():
        for verb in lists:
            _check_verb(verb, _at(place, f"tables.{table}"))
        for verb in COMPACT_ORDER:
            rows = lists.get(verb)
            if verb == "truncate" and isinstance(rows, bool):
                rows = [{}] if rows else None
            if rows is None:
                continue
            if not isinstance(rows, list) or not set(map(type, rows)) <= {dict}:
                raise _request("the rows must be an array of objects", _at(place, f"tables.{table}.{verb}"))
            if rows:
                yield Run(table, verb, rows)


def _check_verb(verb: Any, place: str) -> None:
    if not isinstance(verb, str) or verb not in OPERATIONS:
        hint = nearest(verb, list(OPERATIONS)) if isinstance(verb, str) else f"one of {', '.join(OPERATIONS)}"
        raise _request(f"there is no operation {shown(verb)}", place, hint)


def _check_table(run: Run, keys: Mapping[str, Sequence[str]], place: str) -> None:
    at = _at(place, run.place(0))
    if not isinstance(run.table, str) or run.table not in keys:
        hint = nearest(str(run.table), list(keys))
        raise HeadraceError("source.no_table", f"there is no table {shown(run.table)}", where=at, next=hint)
    if run.verb in ("update", "upsert") and not keys[run.table]:
        raise HeadraceError(
            "source.no_identity",
            f"'{run.verb}' needs a key, and the table '{run.table}' has none",
            where=at,
            next="declare the table's key, or push a delete of the old row and an insert of the new one",
        )


def merge(
    submissions: Sequence[Submission], relations: Mapping[str, Relation], strict: Collection[str] = ()
) -> dict[str, pa.Table]:
    """The change table of every relation touched, as ``TransactionBatch.changes`` wants them.

    Transactions are numbered through all submissions. Changes of the tables in ``strict`` that have a key, upserts
    apart, are strict. Raises ``SubmissionsRefused``.
    """
    runs: dict[str, list[tuple[int, Run]]] = {}
    owners: list[int] = []  # transaction -> submission
    for index, submission in enumerate(submissions):
        for transaction in submission.transactions:
            for run in transaction:
                runs.setdefault(run.table, []).append((len(owners), run))
            owners.append(index)
    errors: dict[int, HeadraceError] = {}
    tables: dict[int, str] = {}
    changes = {}
    for table, table_runs in runs.items():
        faults: Iterable[_Fault] = ()
        try:
            changes[table] = _change_table(table_runs, relations[table], table in strict)
        except RowsRefused as refused:
            faults = _misfits(table_runs, refused)
        except Exception:  # which no rule foresees: who is not at fault is not to suffer from it
            faults = list(_unforeseen(table_runs, owners, relations[table]))
            if not faults:
                raise
        for ordinal, run, place, why in faults:
            owner = owners[ordinal]
            if owner not in errors:
                number = ordinal - owners.index(owner) + 1
                tables[owner] = run.table
                errors[owner] = _row_error(submissions[owner], number, run.table, place, why)
    if errors:
        raise SubmissionsRefused(errors, tables)
    return changes


def _change_table(runs: list[tuple[int, Run]], relation: Relation, strict: bool) -> pa.Table:
    lengths = [len(run.rows) for _, run in runs]
    ordinals = np.repeat(np.array([ordinal for ordinal, _ in runs], np.int32), lengths)
    codes = [
        OPERATIONS[run.verb] | (STRICT if strict and run.verb not in ("upsert", "truncate") else 0) for _, run in runs
    ]
    rows = runs[0][1].rows if len(runs) == 1 else [row for _, run in runs for row in run.rows]
    return change_table(rows, ordinals, np.repeat(np.array(codes, np.int8), lengths), relation)


def _misfits(runs: list[tuple[int, Run]], refused: RowsRefused) -> Iterator[_Fault]:
    ends = np.cumsum([len(run.rows) for _, run in runs])
    for value in refused.bad:
        at = int(np.searchsorted(ends, value.row, side="right"))
        ordinal, run = runs[at]
        yield ordinal, run, run.place(value.row - int(ends[at]) + len(run.rows)), value.why


def _unforeseen(runs: list[tuple[int, Run]], owners: Sequence[int], relation: Relation) -> Iterator[_Fault]:
    """The submissions of which no table can be made, each tried alone."""
    for _, some in groupby(runs, key=lambda each: owners[each[0]]):
        alone = list(some)
        try:
            _change_table(alone, relation, False)
        except Exception as error:
            ordinal, run = alone[0]
            yield ordinal, run, run.place(0), f"the rows from here on cannot be taken: {error}"


def _row_error(submission: Submission, number: int, table: str, place: str, what: str) -> HeadraceError:
    place = f"table '{table}', {place}"
    if not submission.single:
        place = f"transaction {number + submission.skipped}, {place}"
    return HeadraceError(
        "source.row",
        what,
        where=place,
        why="the row does not fit its table; the whole request was refused, nothing of it was kept",
        next="correct the row and push the request again",
    )


def _at(place: str, inner: str) -> str:
    return f"{place}, {inner}" if place else inner


def _request(what: str, place: str, hint: str = "") -> HeadraceError:
    return HeadraceError(
        "source.request", what, where=place, next=hint or '{"changes": [{"table": "t", "op": "insert", "row": {}}]}'
    )
