"""The newest transactions of a feed, as somebody looks through them: from the end back, a page at a time."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.catalog.store import Catalog, StepRecord, ViewRecord
from headrace.log.read import LogReader
from headrace.log.sealed import newest_first
from headrace.model.bounds import NEVER, Deadline
from headrace.model.errors import HeadraceError
from headrace.serve import history, snapshot
from headrace.serve.feed import weighted
from headrace.serve.fitting import Room
from headrace.serve.parts import Delta, Keep, taken

CHANGES_MAX = 1_000  # of one transaction that are told, of all as many as find room; `more` says that there are others
_WIDTH = 1_024  # commits that are looked through at first


def of_table(
    project_path: Path, table: str, after: int, before: int | None, limit: int, deadline: Deadline = NEVER
) -> list[dict[str, Any]]:
    """``{"commit", "source", "position", "committed_at", "changes", "more"}`` of the last ``limit`` transactions of
    commits between ``after`` and ``before`` (both left out) that change a table, newest first.

    Changes as ``history.spelled`` gives them. Work: the log from the first of them on, up to ``before``, but for those
    of its segments that are known to have none (``log.sealed``).
    """
    reader, width, commits = history.reader_of(project_path), _WIDTH, list[int]()
    end, first = reader.end if before is None else before - 1, max(after, reader.base.commit)
    for bottom, top, sealed in newest_first(reader):
        deadline.check()
        if top <= first or len(commits) >= limit:
            break
        if sealed is not None and table not in sealed.tables:
            continue
        begin = min(top, end)
        while begin > max(bottom, first) and len(commits) < limit:
            deadline.check()
            begin, upto = max(bottom, first, begin - width), begin
            commits = [each.commit for each in history.transactions(reader, begin, upto, (table,))] + commits
            width *= 4
    return of_commits(reader, table, reversed(commits[-limit:]))


def of_commits(reader: LogReader, table: str, commits: Iterable[int]) -> list[dict[str, Any]]:
    """What is told of these transactions of a table; the first of them has room before the others."""
    room = Room()
    return [
        _of_transaction(transaction, room)
        for commit in commits
        for transaction in history.transactions(reader, commit - 1, commit, (table,))
    ]


def of_view(
    project_path: Path, view: str, after: int, before: int | None, limit: int, version: int | None = None,
    keep: Keep | None = None, deadline: Deadline = NEVER,
) -> list[dict[str, Any]]:  # fmt: skip
    """The same of a view, or of the part of it that ``keep`` wants, of the published steps that are kept.

    ``changes`` are ``{"weight", "row"}``.

    ``version``: the one whose contents at commit ``after`` the reader has; where another came at that very commit, and
    none is named, the reader may have those of the one before.
    Raises ``view.not_at`` for an ``after``, but for 0, since which not all changes are kept, or not of this version.
    """
    catalog = Catalog(snapshot.catalog_path(project_path), read_only=True)
    try:
        record = snapshot.known(catalog, view)
        found, room, steps = list[dict[str, Any]](), Room(), catalog.steps()
        first = max(steps[0].after if steps else 0, record.created_commit)
        if 0 < after < first:
            raise HeadraceError(
                "view.not_at", f"the changes of {view} after commit {after:,} are not kept any more",
                why=f"those after commit {first:,} are", next=f"after={first}, and the contents at commit {first:,}",
            )  # fmt: skip
        now, came = record.schema.version, record.created_commit
        if after > 0 and (now != version if version is not None else after == came and now > 1):
            raise HeadraceError(
                "view.not_at", f"what version {now} of {view} changed as it came is not kept",
                why=f"it came at commit {came:,}, and contents of the version before may be those at commit {after:,}",
                next=f"read the contents anew, and go on with version={now}",
            )  # fmt: skip
        for step in reversed(steps):
            deadline.check()
            if step.upto <= after or len(found) >= limit:
                break
            if step.published_us is not None and (before is None or step.after + 1 < before):
                deltas = wanted(record, keep, snapshot.of_step(catalog, record, step, after))
                found += [
                    of_delta(step, commit, delta, room)
                    for commit, delta in reversed(deltas)
                    if before is None or commit < before
                ]
        return found[:limit]
    finally:
        catalog.close()


def wanted(record: ViewRecord, keep: Keep | None, deltas: Iterable[Delta]) -> list[Delta]:
    """Of the deltas what is wanted, as far as that is anything. Raises what is wrong with ``keep``."""
    if keep is None:
        return list(deltas)
    parts = ((commit, taken(keep, record.schema, delta)) for commit, delta in deltas)
    return [(commit, part) for commit, part in parts if part.num_rows]


def _of_transaction(transaction: history.Transaction, room: Room) -> dict[str, Any]:
    """What is told of a transaction of the log, as far as there is room."""
    changes, more = list[dict[str, Any]](), False
    for table, part in transaction.changes:
        taken = room.take(part, CHANGES_MAX - len(changes))
        changes += history.spelled(table, taken)
        if more := taken.num_rows < part.num_rows:
            break
    origin = transaction.origin
    return {
        "commit": transaction.commit, "source": origin.source, "position": origin.position,
        "committed_at": history.time_text(origin.committed_us), "changes": changes, "more": more,
    }  # fmt: skip


def of_delta(step: StepRecord, commit: int, delta: pa.Table, room: Room) -> dict[str, Any]:
    """What is told of a view's delta (columns and ``_w``) in a step, as far as there is room."""
    taken = room.take(delta, CHANGES_MAX)
    return {
        "commit": commit, "committed_at": history.time_text(step.committed_us),
        "changes": weighted(taken), "more": taken.num_rows < delta.num_rows,
    }  # fmt: skip
