"""How far the log, each view, source and sink are, how much time that is, and what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.serve import quarantine, snapshot

if TYPE_CHECKING:
    from headrace.engine.pipeline import Pipeline


def status(pipeline: Pipeline) -> dict[str, Any]:
    """``{"commit", "frontier", "step_seconds", "steps", "published_us", "views", "sources", "sinks"}``.

    ``commit`` is the log's end, ``first`` the first one that it still has. Views and sinks have the commit they have
    reached and ``behind_s``, the age in seconds of the first commit that they lack (0: none); sources have the
    ``position`` up to which the log has them, and ``copying``: the tables of which they make the first copy, or read
    large files, each as ``Copying.shown`` gives it. ``reads``: of a view that compiles, the tables and views
    that its text names; ``views``: those that a sink takes; ``tells``: of changes, and it keeps no contents.
    """
    end, frontier = pipeline.log.end, pipeline.maintainer.frontier
    last = pipeline.catalog.last_published()
    clock = pipeline.clock
    records = pipeline.catalog.views()
    reached = {name: snapshot.reached(pipeline.catalog, record, frontier) for name, record in records.items()}
    failed = {name: each.compiled for name, each in list(pipeline.maintainer.failures.known.items())}
    compiled = {**failed, **pipeline.maintainer.views}
    positions, aside = pipeline.log.positions, quarantine.counts(pipeline.catalog)
    return {
        "commit": end,
        "first": pipeline.maintainer.reader.base.commit + 1,
        "frontier": frontier,
        "step_seconds": round(pipeline.latest["step_seconds"], 4),
        "steps": pipeline.latest["steps"],
        "published_us": last.published_us if last else None,
        "views": [
            {
                "name": n, "version": r.schema.version, "state": r.state, "reason": r.reason,
                "commit": reached[n], "behind_s": clock.behind_s(reached[n], end),
                "failing": snapshot.failing(pipeline.catalog.error_rows(n, r.schema.version)),
                "quarantined": {n: aside[n]} if n in aside else {},
                "reads": list(compiled[n].reads) if n in compiled else [],
            }
            for n, r in records.items()
        ]
        + [
            {"name": n, "version": 0, "state": "refused", "reason": str(e), "commit": 0, "failing": []}
            for n, e in pipeline.refused.items()
        ],
        "sources": [
            {
                "name": n, "tables": sorted(i.tables), "rows": i.rows, "position": positions.get(n),
                "state": "failed" if i.error else "running" if i.ready.is_set() else "starting",
                "error": i.error.as_dict() if i.error else None, **i.source.endpoint(),
                "warnings": list(i.source.notices),
                "copying": [one.shown() for one in i.source.copying()],
                **i.source.pressure(), **(i.backlog.shown() if i.backlog else {}),
                "quarantined": {t: rows for t, rows in aside.items() if t in i.tables},
            }
            for n, i in list(pipeline.ingests.items())
        ],
        "sinks": _sinks(pipeline, end, frontier, sorted(records)),
    }  # fmt: skip


def _sinks(pipeline: Pipeline, end: int, frontier: int, views: list[str]) -> list[dict[str, Any]]:
    known = pipeline.catalog.sinks()
    found = []
    for name, deliver in list(pipeline.delivers.items()):
        reached = known.get(name, (0, "", 0))[0]
        found.append({
            "name": name, "frontier": reached, "rows": deliver.rows, "lag": frontier - reached,
            "behind_s": pipeline.clock.behind_s(reached, end),
            "state": deliver.state, "attempts": deliver.sink.attempts,
            "error": deliver.error.as_dict() if deliver.error else None, "quarantined": deliver.quarantined,
            "quarantine": dict(zip(("what", "where"), deliver.sink.quarantine, strict=True)),
            "tells": deliver.sink.tells, "views": deliver.taken(views),
        })  # fmt: skip
    return found
