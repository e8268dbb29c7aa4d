"""Reading views from their published files: no lock, no JVM, beside a running product or without one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from headrace.catalog.store import Catalog, ErrorRow, StepRecord, ViewRecord
from headrace.formats.types.arrow import schema as arrow_schema
from headrace.model.delivery import WEIGHT
from headrace.model.errors import HeadraceError
from headrace.model.schema import ViewSchema
from headrace.serve.contents import Contents, Diverged
from headrace.serve.sound import File, sound
from headrace.state.rows import consolidate
from headrace.state.run import copies, open_run

STATE = ".headrace"
PART = "part:"  # how the name of a base's file begins that changes the rows of those before it
INSTANT = "_i"  # of output files: the ordinal of a transaction in its step
BACK = ".back."  # in the folder's name of a delta that brings a view up to date which had failed
POLL_S = 0.05
Shared = WeakValueDictionary[tuple[str, int], Contents]  # (feed, commit) -> what somebody who follows it holds
ATTEMPTS = 20  # a compaction may take a file away between looking it up and opening it


def catalog_path(project: Path) -> Path:
    return project / STATE / "catalog.db"


def views(project_path: Path) -> list[dict[str, Any]]:
    """Name, version, state, reason, failing rows, commit, rows, columns and key of every view.

    The commit of a failed view is the last one that its contents hold.
    """
    catalog = Catalog(catalog_path(project_path), read_only=True)
    try:
        last = catalog.last_published()
        found = []
        for name, record in catalog.views().items():
            found.append(
                {
                    "name": name,
                    "version": record.schema.version,
                    "state": record.state,
                    "reason": record.reason,
                    "failing": failing(catalog.error_rows(name, record.schema.version)),
                    "commit": reached(catalog, record, last.upto if last else 0),
                    "rows": count(catalog, record),
                    "columns": [{"name": c.name, "type": c.type} for c in record.schema.columns],
                    "key": list(record.schema.key),
                }
            )
        return found
    finally:
        catalog.close()


def failing(rows: Sequence[ErrorRow]) -> list[dict[str, Any]]:
    """An error delta as JSON: ``table`` or ``view``, ``row`` (None: not named), ``weight``, ``together``, ``message``.

    Rows of one ``together`` throw only together.
    """
    return [
        {"row": None, **orjson.loads(r.shown), "weight": r.weight, "together": r.together, "message": r.message}
        for r in rows
    ]


def failure(project_path: Path, view: str) -> dict[str, Any] | None:
    """``commit`` that a failed view's contents hold, ``reason``, ``failing``; None for a view that is well."""
    catalog = Catalog(catalog_path(project_path), read_only=True)
    try:
        record = known(catalog, view)
        if record.state != "failed":
            return None
        rows = catalog.error_rows(view, record.schema.version)
        return {"commit": reached(catalog, record, 0), "reason": record.reason, "failing": failing(rows)}
    finally:
        catalog.close()


def contents(project_path: Path, view: str) -> tuple[int, ViewSchema, pa.Table]:
    """(commit, schema, rows with ``_w``) of a view now. Raises ``view.unknown`` with the nearest name."""
    catalog = Catalog(catalog_path(project_path), read_only=True)
    try:
        record = known(catalog, view)
        commit, rows = read(catalog, record)
        return commit, record.schema, rows
    finally:
        catalog.close()


def follow(
    project_path: Path, view: str, after: int | None, stop: threading.Event, shared: Shared | None = None
) -> Iterator[tuple[int, pa.Table]]:
    """(commit, delta with ``_w``) of every published step after commit ``after`` that changes the view; with
    `transactions: each`, of every transaction.

    With None: the contents first. A version swapped in, or a reader that fell behind what is retained, gets the
    difference as one delta, or as two of the same commit when the columns have changed. Ends when ``stop`` is set.
    Work: as of ``Contents``; the rows stay mapped for that difference, with 16 bytes for each: once for all who follow
    with the same ``shared`` and are at the same commit. ``after`` may lie ahead. Raises ``view.unknown``;
    ``state.missing`` for a commit whose changes are not kept any more, or lie in one step with those up to it.
    """
    shared = Shared() if shared is None else shared
    catalog = Catalog(catalog_path(project_path), read_only=True)
    try:
        record = known(catalog, view)
        commit, rows = read(catalog, record)
        begun = -1 if after is None else after
        if after is None:
            yield commit, rows
        elif after < commit:
            try:
                yield from _between(catalog, record, after, commit)
            except _Gone:
                raise _missing(view, after) from None
        held = _held(shared, record, commit, partial(Contents.of, rows, record.schema.key))
        while not stop.is_set():
            last = catalog.last_published()
            if last is None or last.upto <= commit:
                stop.wait(POLL_S)
                continue
            now = known(catalog, view)
            try:
                if now.feed != record.feed:
                    raise _Gone
                if commit < begun and inside(catalog, begun) is not None:
                    raise _missing(view, begun)
                for upto, delta in _between(catalog, record, commit, last.upto):
                    held, commit = _held(shared, record, upto, partial(held.after, delta)), upto
                    if upto > begun:
                        yield upto, delta
                commit = last.upto
            except (_Gone, Diverged):
                if commit < begun:
                    raise _missing(view, begun) from None
                record, before = now, held.table()
                commit, rows = read(catalog, record)  # it may be ahead of ``last``
                held = _held(shared, record, commit, partial(Contents.of, rows, record.schema.key))
                for delta in _swapped(before.filter(pc.not_equal(before[WEIGHT], 0)), rows):
                    yield commit, delta
    finally:
        catalog.close()


def _held(shared: Shared, record: ViewRecord, commit: int, make: Callable[[], Contents]) -> Contents:
    """What a view version holds at a commit, as another has it, or made."""
    found = shared.get((record.feed, commit))
    if found is None:
        found = shared[record.feed, commit] = make()
    return found


def known(catalog: Catalog, view: str) -> ViewRecord:
    """The view's current version; ``view.unknown`` names the nearest view."""
    import difflib

    records = catalog.views()
    if view not in records:
        near = difflib.get_close_matches(view, records, n=1)
        hint = (
            f"did you mean '{near[0]}'?"
            if near
            else f"views: {', '.join(records) or 'none yet; `headrace up` makes them'}"
        )
        raise HeadraceError("view.unknown", f"there is no view '{view}'", next=hint)
    return records[view]


def read(catalog: Catalog, record: ViewRecord, upto_step: int | None = None) -> tuple[int, pa.Table]:
    """(commit, contents) of a view version at its last published step, or at step ``upto_step``."""
    for attempt in range(ATTEMPTS):
        last = catalog.last_published()
        found, commit = named(
            catalog, record.feed, upto_step if upto_step is not None else (last.number if last else -1)
        )
        try:
            tables = [open_run(path) for path in sound(found, record.schema.name)]
        except HeadraceError as error:
            if attempt == ATTEMPTS - 1 or error.code == "state.corrupt":
                raise
            time.sleep(POLL_S)
            continue
        rows = added(record, tables)
        return max(commit, last.upto if last and upto_step is None else commit), rows
    raise AssertionError("unreachable")


def step_at(catalog: Catalog, commit: int) -> int:
    """The number of the last published step that ends at ``commit`` or before.

    Raises ``state.missing`` when not every step after it is kept any more: then nothing tells what it held.
    """
    published = [step for step in catalog.steps() if step.published_us is not None]
    later = [step for step in published if step.upto > commit]
    if not later:
        return published[-1].number if published else -1
    if later[0].after > commit:
        raise HeadraceError(
            "state.missing",
            f"what the views held at commit {commit} is not kept any more",
            why=f"the oldest step that is kept begins at commit {later[0].after}",
        )
    return later[0].number - 1


def as_of(catalog: Catalog, record: ViewRecord, commit: int) -> list[pa.Table]:
    """Tables for ``added`` that give a view version's contents at a commit, which may lie before its base.

    They stay readable when the files go. Raises ``state.missing`` as ``step_at`` does.
    """
    for attempt in range(ATTEMPTS):
        step, base, name = step_at(catalog, commit), catalog.base(record.feed), record.schema.name
        start = base[0] if base else -1
        paths = catalog.base_files(record.feed)
        between = catalog.outputs(min(start, step), max(start, step), record.feed)
        begun = [s for s in catalog.steps() if s.after < commit < s.upto and s.published_us is not None]
        try:
            kept = [open_run(path) for path in sound(paths, name)]
            moved = [open_run(path) for path in sound(((o.path, o.sums) for o in between), name)]
            kept += [
                _of_instants(open_run(path), 0, commit - of.after)
                for of in begun
                for path in sound(
                    ((o.path, o.sums) for o in catalog.outputs(of.number - 1, of.number, record.feed)), name
                )
            ]
        except HeadraceError as error:
            if attempt == ATTEMPTS - 1 or error.code == "state.corrupt":
                raise
        else:
            if catalog.base(record.feed) == base and step_at(catalog, commit) == step:
                return kept + ([_negated(table) for table in moved] if step < start else moved)
        time.sleep(POLL_S)
    raise HeadraceError("state.missing", f"the files of view {record.schema.name} change faster than they can be read")


def added(record: ViewRecord, tables: Sequence[pa.Table]) -> pa.Table:
    """Stored deltas of a view version, added up: its columns and ``_w``."""
    return consolidate(stored(record, tables))


def stored(record: ViewRecord, tables: Sequence[pa.Table]) -> pa.Table:
    """The same one after the other, as they are stored."""
    names = [f"c{i}" for i in range(len(record.schema.columns))]
    empty = arrow_schema(record.schema.columns).append(pa.field(WEIGHT, pa.int64())).empty_table()
    parts = [t.select([*names, WEIGHT]).rename_columns(empty.column_names).cast(empty.schema) for t in tables]
    return pa.concat_tables([empty, *parts])


def count(catalog: Catalog, record: ViewRecord) -> int:
    """How many rows a view version has now: the sum of what its files say of themselves; no row is read."""
    for attempt in range(ATTEMPTS):
        last = catalog.last_published()
        found, _ = named(catalog, record.feed, last.number if last else -1)
        try:
            return sum(copies(path) for path, _ in found)
        except HeadraceError:
            if attempt == ATTEMPTS - 1:
                raise
            time.sleep(POLL_S)
    raise AssertionError("unreachable")


def reached(catalog: Catalog, record: ViewRecord, frontier: int) -> int:
    """The commit up to which a view version is kept: a live one's is the frontier, a failed one knows where it stood.

    One that failed since it no longer compiles: the commit of its last change.
    """
    if record.state == "live":
        return frontier
    errors = catalog.error_rows(record.schema.name, record.schema.version)
    if errors:
        return errors[0].held
    base = catalog.base(record.feed)
    changed = {output.step for output in catalog.outputs(-1, 1 << 62, record.feed)}
    return max([base[1] if base else 0, *(step.upto for step in catalog.steps() if step.number in changed)])


def came_back(catalog: Catalog, feed: str, step: int) -> int | None:
    """The later step with which a view version came back that had failed by ``step``.

    What is published does not tell a view that has failed from one that nothing changes: it counts as failed from its
    last change on.
    """
    output = catalog.next_output(feed, step)
    return output.step if output is not None and output.step > step and BACK in output.path else None


def files(catalog: Catalog, feed: str, upto_step: int) -> tuple[list[str], int]:
    """The files that add up to a feed's contents after a step (base first), and the base's commit.

    Raises ``state.corrupt``.
    """
    found, commit = named(catalog, feed, upto_step)
    return sound(found, feed.rpartition("@")[0]), commit


def named(catalog: Catalog, feed: str, upto_step: int) -> tuple[list[File], int]:
    """As ``files``, which are not looked at."""
    base = catalog.base(feed)
    start, commit = (base[0], base[1]) if base else (-1, 0)
    return catalog.base_files(feed) + [(o.path, o.sums) for o in catalog.outputs(start, upto_step, feed)], commit


def delta(record: ViewRecord, paths: Sequence[str], after: int = 0, last: int | None = None) -> pa.Table:
    """Some output files of a view version as one consolidated delta: its columns and ``_w``.

    ``after``, ``last``: only what changed at later instants of their step, and up to that one.
    """
    return added(record, [_of_instants(open_run(path), after, last) for path in paths])


def apart(record: ViewRecord, files: Iterable[tuple[str, int]], after: int) -> tuple[pa.Table, pa.Array]:
    """Output files of steps, each of whose transactions is an instant: (columns and ``_w``, the commit of each row).

    ``files``: paths, each with the commit before its step. In the order of the commits, consolidated within each;
    ``after``: of later ones only.
    """
    names = [f"c{i}" for i in range(len(record.schema.columns))]
    head = [pa.field(INSTANT, pa.int64()), *arrow_schema(record.schema.columns), pa.field(WEIGHT, pa.int64())]
    empty = pa.schema(head).empty_table()
    numbered = [f"{place}" for place in range(len(head))]  # no column's name collides with the instant's
    tables = [_of_commits(path, before, after).select([INSTANT, *names, WEIGHT]) for path, before in files]
    parts = [t.rename_columns(numbered).cast(empty.rename_columns(numbered).schema) for t in tables]
    rows = consolidate(pa.concat_tables([empty.rename_columns(numbered), *parts]), numbered[-1])
    return rows.select(numbered[1:]).rename_columns(empty.column_names[1:]), rows[numbered[0]].combine_chunks()


def each(record: ViewRecord, files: Iterable[tuple[str, int]], after: int) -> Iterator[tuple[int, pa.Table]]:
    """As ``apart``, one commit after the other: its number and its rows."""
    table, commits = apart(record, files, after)
    starts = np.flatnonzero(np.diff(commits.to_numpy(), prepend=-1))
    for begin, end in zip(starts, [*starts[1:], table.num_rows][: len(starts)], strict=True):
        yield commits[int(begin)].as_py(), table.slice(begin, end - begin)


def _of_commits(path: str, before: int, after: int) -> pa.Table:
    """What changed after that commit, with commits in the place of the instants."""
    table = _of_instants(open_run(path), after - before, None)
    place = table.column_names.index(INSTANT)
    return table.set_column(place, INSTANT, pc.add(table[INSTANT], before))


def _of_instants(table: pa.Table, after: int, last: int | None) -> pa.Table:
    if after <= 0 and last is None:
        return table
    inside = pc.greater(table[INSTANT], after)
    return table.filter(inside if last is None else pc.and_(inside, pc.less_equal(table[INSTANT], last)))


class _Gone(Exception):
    """Changes that are asked for are not kept any more, or are those of another version."""


def _missing(view: str, after: int) -> HeadraceError:
    return HeadraceError(
        "state.missing", f"the changes of {view} after commit {after:,} are not kept, or not apart from those before",
        next="follow it without a commit: its contents come first",
    )  # fmt: skip


def inside(catalog: Catalog, commit: int) -> StepRecord | None:
    """The step that took this commit together with later ones, and does not tell them apart."""
    for step in catalog.steps():
        if step.after < commit < step.upto and not step.shape.each:
            return step
    return None


def _between(catalog: Catalog, record: ViewRecord, after: int, upto: int) -> Iterator[tuple[int, pa.Table]]:
    """As ``follow``, of one version, up to the end of a step. Raises ``_Gone``."""
    steps = [step for step in catalog.steps() if step.published_us is not None and after < step.upto <= upto]
    if not steps or steps[0].after > after or after < record.created_commit:
        raise _Gone
    if steps[0].after < after and not steps[0].shape.each:
        raise _Gone
    for step in steps:
        try:
            yield from of_step(catalog, record, step, after)
        except HeadraceError as error:
            if error.code != "state.missing":
                raise
            raise _Gone from error


def of_step(catalog: Catalog, record: ViewRecord, step: StepRecord, after: int) -> Iterator[tuple[int, pa.Table]]:
    """(commit, delta with ``_w``) of a view version in a published step, as ``follow`` gives them; none for no change.

    ``after``: only of later commits, where the step has each of them apart.
    """
    outputs = catalog.outputs(step.number - 1, step.number, record.feed)
    paths = sound(((o.path, o.sums) for o in outputs), record.schema.name)
    if paths and step.shape.each:
        yield from each(record, ((path, step.after) for path in paths), after)
    elif paths and (change := delta(record, paths)).num_rows:
        yield step.upto, change


def _swapped(before: pa.Table, after: pa.Table) -> list[pa.Table]:
    """One delta from the one contents to the other; with other columns two: the old rows go, the new ones come."""
    if before.schema != after.schema:
        gone = _negated(before)
        return [table for table in (gone, after) if table.num_rows]
    from headrace.state.rows import difference

    return [difference(after, before)]


def _negated(table: pa.Table) -> pa.Table:
    place = table.column_names.index(WEIGHT)
    return table.set_column(place, table.schema.field(place), pc.negate(table[WEIGHT]))
