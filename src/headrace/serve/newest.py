"""The newest transactions of a feed, as somebody looks through them: from the end back, a page at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.catalog.store import Catalog, StepRecord
from headrace.serve import history, snapshot
from headrace.serve.feed import weighted

CHANGES_MAX = 1_000  # of one transaction that are told; `more` says that there are others
_WIDTH = 1_024  # commits that are looked through at first


def of_table(project_path: Path, table: str, after: int, before: int | None, limit: int) -> list[dict[str, Any]]:
    """``{"commit", "source", "position", "committed_at", "changes", "more"}`` of the last ``limit`` transactions of
    commits between ``after`` and ``before`` (both left out) that change a table, newest first.

    Changes as ``history.spelled`` gives them. Work: the log from the first of them on, up to ``before``.
    """
    reader = history.reader_of(project_path)
    upto, first = reader.end if before is None else min(reader.end, before - 1), max(after, reader.base.commit)
    width, begin, commits = _WIDTH, upto, list[int]()
    while begin > first and len(commits) < limit:
        begin, end = max(first, begin - width), begin
        commits = [each.commit for each in history.transactions(reader, begin, end, (table,))] + commits
        width *= 4
    if not commits:
        return []
    told = history.transactions(reader, commits[-limit:][0] - 1, upto, (table,))
    return [of_transaction(transaction) for transaction in told][::-1]


def of_view(project_path: Path, view: str, after: int, before: int | None, limit: int) -> list[dict[str, Any]]:
    """The same of a view, of the published steps that are kept; ``changes`` are ``{"weight", "row"}``."""
    catalog = Catalog(snapshot.catalog_path(project_path), read_only=True)
    try:
        record = snapshot.known(catalog, view)
        found = list[dict[str, Any]]()
        for step in reversed(catalog.steps()):
            if step.upto <= after or len(found) >= limit:
                break
            if step.published_us is not None and (before is None or step.after + 1 < before):
                deltas = list(snapshot.of_step(catalog, record, step, after))
                found += [of_delta(step, *each) for each in reversed(deltas) if before is None or each[0] < before]
        return found[:limit]
    finally:
        catalog.close()


def of_transaction(transaction: history.Transaction) -> dict[str, Any]:
    """What is told of a transaction of the log."""
    changes = list(itertools.islice(_changes(transaction), CHANGES_MAX + 1))
    origin = transaction.origin
    return {
        "commit": transaction.commit, "source": origin.source, "position": origin.position,
        "committed_at": history.time_text(origin.committed_us), "changes": changes[:CHANGES_MAX],
        "more": len(changes) > CHANGES_MAX,
    }  # fmt: skip


def of_delta(step: StepRecord, commit: int, delta: pa.Table) -> dict[str, Any]:
    """What is told of a view's delta (columns and ``_w``) in a step."""
    return {
        "commit": commit, "committed_at": history.time_text(step.committed_us),
        "changes": weighted(delta.slice(0, CHANGES_MAX)), "more": delta.num_rows > CHANGES_MAX,
    }  # fmt: skip


def _changes(transaction: history.Transaction) -> Iterator[dict[str, Any]]:
    for table, part in transaction.changes:
        yield from history.spelled(table, part)
