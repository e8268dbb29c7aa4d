"""A sink's store against the views at the commit that it has reached: compared, and put right. Needs no Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from headrace.catalog.document import did_you_mean
from headrace.catalog.store import Catalog, ViewRecord
from headrace.engine.connectors import make_sink
from headrace.engine.deliver import Deliver
from headrace.model.definition import Project, SinkDefinition
from headrace.model.errors import HeadraceError
from headrace.serve import snapshot
from headrace.sinks.comparison import Comparison, Wanted

Progress = Callable[[dict[str, Any]], None]


def verify(
    project: Project, catalog: Catalog, sink: str, views: Collection[str], on_progress: Progress
) -> dict[str, Any]:
    """What the store of ``sink`` holds against what it should hold; nothing is changed, and nobody waits for it.

    ``{"sink", "commit", "views": [{"view", "rows", "quarantined", "differences", "diverged", "additions", "first",
    "seconds"}], "left_out": [{"view", "why"}], "differences", "same"}``; ``views`` names some, else all are compared.
    ``left_out`` are views that the store does not hold as they are now, since their delivery is still to come.
    Raises ``sink.unknown``, ``view.unknown``, ``sink.diverged`` and the sink's own errors.
    """
    definition = known(project, sink)
    contents = Contents(catalog, definition, views, on_progress)
    store = make_sink(definition, project)
    try:
        return contents.answer(store.compare(contents))
    finally:
        store.close()


def repair(
    project: Project,
    catalog: Catalog,
    sink: str,
    views: Collection[str],
    on_progress: Progress,
    deliver: Deliver | None = None,
) -> dict[str, Any]:
    """Brings the store of ``sink`` to what it should hold at its commit: only rows that differ are written.

    The answer is that of ``verify``: what was wrong. With ``deliver`` it is done by the sink's own thread between two
    deliveries; without, the sink is taken over as at a start. Raises as ``verify``, and ``sink.fenced``.
    """
    definition = known(project, sink)
    contents = Contents(catalog, definition, views, on_progress)
    if deliver is not None:
        answer = contents.answer(deliver.between(lambda store: store.repair(contents)))
        deliver.tell({"event": "sink.repaired", "sink": sink, "rows": answer["differences"]})
        return answer
    store = make_sink(definition, project)
    try:
        store.open()
        return contents.answer(store.repair(contents))
    finally:
        store.close()


def known(project: Project, name: str) -> SinkDefinition:
    """The sink of that name, or ``sink.unknown`` with the nearest one."""
    names = [definition.name for definition in project.sinks]
    if name not in names:
        raise HeadraceError(
            "sink.unknown",
            f"there is no sink '{name}'",
            where="sinks",
            next=did_you_mean(name, names) or (f"sinks: {', '.join(names)}" if names else "the project has no sinks"),
        )
    return project.sinks[names.index(name)]


class Contents:
    """What one sink should hold, read at the commit that it says it has reached; ``Expected`` of its connector."""

    def __init__(
        self, catalog: Catalog, definition: SinkDefinition, views: Collection[str], on_progress: Progress
    ) -> None:
        self._catalog, self._definition, self._tell = catalog, definition, on_progress
        self._recorded = catalog.sinks().get(definition.name, (0, "", 0))[0]
        self._views = {n: r for n, r in catalog.views().items() if definition.views is None or n in definition.views}
        self._asked = sorted(_named(view, self._views, definition.name) for view in views)
        self._commit: int | None = None
        self._left_out: dict[str, str] = {}
        self._seconds: dict[str, float] = {}

    def __call__(self, commit: int | None, held: Mapping[str, int]) -> Iterator[Wanted]:
        self._commit = commit
        self._check(commit)
        records = self._chosen(held)
        # Mapped before the first is compared, which may take long: what is looked at may not be forgotten meanwhile.
        parts = {name: snapshot.as_of(self._catalog, record, commit or 0) for name, record in records.items()}
        for done, (name, record) in enumerate(records.items()):
            self._tell({"text": f"comparing {name}", "done": done, "total": len(records)})
            began = time.monotonic()
            yield Wanted(record.schema, snapshot.added(record, parts.pop(name)))
            self._seconds[name] = round(time.monotonic() - began, 3)

    def answer(self, found: list[Comparison]) -> dict[str, Any]:
        """As ``verify`` tells it."""
        return {
            "sink": self._definition.name,
            "commit": self._commit,
            "views": [
                {
                    "view": one.view,
                    "rows": one.rows,
                    "quarantined": one.quarantined,
                    "differences": one.differences,
                    "diverged": one.diverged,
                    "additions": list(one.additions),
                    "first": [{"row": dict(r.row), "expected": r.expected, "found": r.found} for r in one.first],
                    "seconds": self._seconds[one.view],
                }
                for one in found
            ],
            "left_out": [{"view": view, "why": why} for view, why in sorted(self._left_out.items())],
            "differences": sum(one.differences for one in found),
            "same": all(one.same for one in found),
        }

    def _check(self, commit: int | None) -> None:
        """The store has what was delivered to it, and no more than the views hold."""
        last = self._catalog.last_published()
        end = last.upto if last else 0
        if (commit or 0) >= self._recorded and (commit or 0) <= end:
            return
        older = (commit or 0) < self._recorded
        raise HeadraceError(
            "sink.diverged",
            f"the sink '{self._definition.name}' stands at commit {commit}, "
            + (f"but commit {self._recorded} was delivered to it" if older else f"but the views at commit {end}"),
            why="the store was restored from a backup, or its progress row was changed"
            if older
            else "the project's folder .headrace is older than what the store holds",
            next="restart `headrace up`: it goes on from the commit that the store holds"
            if older
            else "start from the project folder that the store was written from",
        )

    def _chosen(self, held: Mapping[str, int]) -> dict[str, ViewRecord]:
        """The views that can be compared; why the others cannot goes to ``left_out``."""
        chosen = {}
        for name in self._asked or sorted({*self._views, *held}):
            record = self._views.get(name)
            if record is None:
                self._left_out[name] = "it is not delivered any more; its table goes with the next delivery"
            elif name not in held:
                self._left_out[name] = "it has not been delivered yet"
            elif held[name] != record.schema.version:
                here, now = held[name], record.schema.version
                self._left_out[name] = f"the store holds version {here}; version {now} comes with the next delivery"
            else:
                chosen[name] = record
        return chosen


def _named(view: str, views: Collection[str], sink: str) -> str:
    for name in views:
        if name.lower() == view.lower():
            return name
    raise HeadraceError(
        "view.unknown",
        f"the sink '{sink}' takes no view '{view}'",
        next=did_you_mean(view, list(views)) or f"views of the sink: {', '.join(sorted(views)) or 'none yet'}",
    )
