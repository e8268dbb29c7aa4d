"""Taking other definitions: new versions of views are built beside the old, and all swapped in by one commit."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from headrace.catalog.store import StepShape, ViewRecord
from headrace.engine import maintain
from headrace.engine.altered import altered, made_anew, rekeyed
from headrace.engine.backfill import base_sums
from headrace.engine.clock import with_clock
from headrace.engine.compile import Compiled, columns
from headrace.engine.first import first_contents
from headrace.engine.maintain import Maintainer
from headrace.engine.program import assemble
from headrace.model.clock import CLOCK
from headrace.model.errors import HeadraceError
from headrace.model.schema import Relation


def swap(
    maintainer: Maintainer, tables: Mapping[str, Relation], views: Mapping[str, Compiled], dropped: set[str]
) -> None:
    """Make ``views`` the program: new versions are built beside the old and all swapped in by one commit.

    A version that has failed is not built again here, but when its error delta lets it.
    """
    catalog, failures = maintainer.catalog, maintainer.failures
    tables = with_clock(tables, [c.root for c in views.values()])
    if CLOCK.name in tables:
        maintainer.ticks.begin()
    commit = maintainer.mark("definitions")
    while maintainer.step(commit - 1):
        pass
    records = catalog.views()
    known = {n: r.schema.version for n, r in records.items() if r.state == "live"}
    held = {n for n, c in views.items() if failures.holds(c)}
    other = altered(maintainer.tables, tables)
    again = rekeyed(maintainer.tables, tables, views)
    fresh = [c for n, c in views.items() if (known.get(n) != c.schema.version or n in again) and n not in held]
    tables = {**{n: maintainer.tables[n] for n in failures.reads() & maintainer.tables.keys()}, **tables}
    program = assemble(tables, {c.feed: c.root for c in views.values()})
    number = maintainer.number + 1
    with made_anew(maintainer.kept, other), as_it_was(maintainer, number):
        names = columns(tables, views.values())
        bases, broken = first_contents(maintainer, program, fresh, held, commit, names, maintain.WIDE_ROWS)
        edited = next((n for n in broken if n in known and not broken[n].lost), None)
        if edited is not None:
            raise HeadraceError(
                "view.failed", f"the new version of view {edited} fails on the rows there are",
                why=failures.reason(edited, broken),
                next="edit the view, then `headrace apply`; the version before goes on",
            )  # fmt: skip
        durable, now_us = maintainer.durable.now(), time.time_ns() // 1000
        with catalog.transaction():
            catalog.record_step(number, maintainer.frontier, commit, StepShape(), now_us)
            for name in dropped:
                catalog.drop_view(name, commit, now_us)
            for name in other:
                catalog.put_relation(catalog.relations()[name][0], tables[name])
            caught_up = []
            for compiled in fresh:
                name = compiled.schema.name
                reason = failures.reason(name, {**failures.known, **broken}) if name in broken else ""
                state = "failed" if reason else "live"
                sql = compiled.definition.sql
                record = ViewRecord(compiled.schema, sql, compiled.fingerprint, state, reason, commit)
                if compiled.feed in bases:
                    paths, rows = bases[compiled.feed]
                    if name in records and records[name].feed == compiled.feed:
                        caught_up.append(maintainer.backfill.caught_up(record, number, paths))
                    catalog.put_base(compiled.feed, number, commit, paths, rows, base_sums(paths))
                catalog.put_view(record, now_us)
                if name in broken:
                    catalog.put_error_rows(name, compiled.schema.version, broken[name].rows)
            catalog.publish(number, caught_up, time.time_ns() // 1000)
            maintainer.quarantine.save()
            maintainer.aside.save()
            # In the same transaction: the steps before would not fill what the new program keeps.
            catalog.put_checkpoint(number, durable)
    with maintainer.lock:
        maintainer.number, maintainer.frontier = number, commit
    with maintainer.moving():
        failures.settle(views, dropped, {c.schema.name for c in fresh}, broken)
        maintainer.load(tables, {n: c for n, c in views.items() if n not in failures.records})
    maintainer.checkpoint()
    failures.tell_all()


@contextmanager
def as_it_was(maintainer: Maintainer, number: int) -> Iterator[None]:
    """What fails inside leaves the program and its state as they were: what was built for step ``number`` goes."""
    try:
        yield
    except BaseException:
        with maintainer.moving():
            maintainer.load(maintainer.tables, maintainer.views)
            maintainer.quarantine.begun.clear()
            maintainer.aside.reread(number)
        raise
