"""A view as of a commit that it has passed, from its base and the deltas that it has published: no lock, no JVM.

It is exact or refused: within a step that took several commits at once, before the view was made, while it had failed,
and before the steps that are kept, nothing that was published tells what it held. But for a view that had failed, its
query over the log up to there does (``NotPublished``).
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from headrace.catalog.store import Catalog, StepRecord, ViewRecord
from headrace.model.bounds import NEVER, Deadline
from headrace.model.errors import HeadraceError
from headrace.model.schema import ViewSchema
from headrace.serve import snapshot
from headrace.serve.history import reader_of
from headrace.serve.replay import commit_at


class NotPublished(HeadraceError):
    """The error of a ``commit`` at which nothing published tells what a view (``schema``) held; its query may."""

    def __init__(self, error: HeadraceError, schema: ViewSchema, commit: int) -> None:
        super().__init__(error.code, error.what, where=error.where, why=error.why, next=error.next)
        self.schema, self.commit = schema, commit


def contents(
    project_path: Path, view: str, commit: int | None, time_us: int | None
) -> tuple[int, ViewSchema, pa.Table]:
    """(commit, schema, rows with ``_w``) of a view after ``commit``, or as it was at a time.

    At a time (microseconds since the epoch) it is the last commit with contents of its own that sources had committed
    by then. Raises ``view.not_at`` where the view had none, ``state.missing`` where they are not kept any more, both as
    ``NotPublished`` where its query over the log may tell them; ``view.unknown``, ``log.retained``.
    """
    wanted = commit_by(project_path, time_us) if time_us is not None else commit or 0
    catalog = Catalog(snapshot.catalog_path(project_path), read_only=True)
    try:
        record = snapshot.known(catalog, view)
        _check(catalog, record, wanted, snapshot.inside(catalog, wanted))
        rows = snapshot.added(record, snapshot.as_of(catalog, record, wanted))
        return wanted, record.schema, rows
    finally:
        catalog.close()


def commit_by(project_path: Path, time_us: int, deadline: Deadline = NEVER) -> int:
    """The last commit with contents of its own that sources had committed by a time, in microseconds since the epoch.

    Raises ``log.retained``, ``query.timeout``.
    """
    wanted = commit_at(reader_of(project_path), time_us, deadline)
    catalog = Catalog(snapshot.catalog_path(project_path), read_only=True)
    try:
        inside = snapshot.inside(catalog, wanted)
    finally:
        catalog.close()
    return wanted if inside is None else inside.after


def _check(catalog: Catalog, record: ViewRecord, commit: int, inside: StepRecord | None) -> None:
    """Raises ``view.not_at`` where nothing tells what the view held."""
    name, last = record.schema.name, catalog.last_published()
    reached = snapshot.reached(catalog, record, last.upto if last else 0)
    if commit > reached:
        raise not_at(
            f"view {name}", commit, f"it has reached commit {reached:,}", f"ask as of commit {reached:,}, or for now"
        )
    if commit < record.created_commit:
        made = record.created_commit
        why = f"it was made, as it is defined now, at commit {made:,}"
        raise NotPublished(not_at(f"view {name}", commit, why, f"ask as of commit {made:,}"), record.schema, commit)
    if inside is not None:
        why = f"one step took it from commit {inside.after:,} to {inside.upto:,}"
        next = f"ask as of commit {inside.after:,} or {inside.upto:,}; `transactions: each` keeps every one apart"
        raise NotPublished(not_at(f"view {name}", commit, why, next), record.schema, commit)
    try:
        step = snapshot.step_at(catalog, commit)
    except HeadraceError as error:
        raise NotPublished(error, record.schema, commit) from error
    back = snapshot.came_back(catalog, record.feed, step)
    if back is not None:
        at = _upto(catalog, back)
        raise not_at(
            f"view {name}", commit, f"it had failed, and came back at commit {at:,}", f"ask as of commit {at:,}"
        )


def _upto(catalog: Catalog, number: int) -> int:
    """The commit up to which a step went."""
    return next(step.upto for step in catalog.steps() if step.number == number)


def not_at(relation: str, commit: int, why: str, next: str) -> HeadraceError:
    """The error of a view or table, ``view sums``, that is asked for as of such a commit."""
    return HeadraceError("view.not_at", f"{relation} has no contents as of commit {commit:,}", why=why, next=next)
