"""Sources and sinks as the definitions say: what is the same goes on undisturbed, the rest is made anew or goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.catalog.document import did_you_mean
from headrace.catalog.store import PAUSED, Catalog
from headrace.engine.connectors import make_sink, make_source
from headrace.engine.deliver import Deliver
from headrace.engine.ingest import Ingest
from headrace.engine.matched import Searches
from headrace.log.read import LogReader
from headrace.model.definition import Project, SinkDefinition
from headrace.model.errors import HeadraceError
from headrace.model.schema import Relation
from headrace.sources.base import Source

Tables = dict[str, tuple[str, Relation]]


def offered(project: Project, before: Project, made: Mapping[str, Source]) -> dict[str, Source]:
    """The project's sources: those ``made`` for an equal definition ``before``, else new ones; nothing is connected.

    One whose tables were altered is made anew, for the tables as they are now.
    """
    kept = {d.name for d in project.sources if d.name in made and d in before.sources and not made[d.name].altered()}
    return {d.name: made[d.name] if d.name in kept else make_source(d, project) for d in project.sources}


@dataclass
class Unread:
    """Sources that do not say their tables, each with why: ``kept`` offer those that are known of them, ``unknown``
    none. With ``raising`` none is ``unknown``: it is an error."""

    raising: bool = False
    kept: dict[str, HeadraceError] = field(default_factory=dict)
    unknown: dict[str, HeadraceError] = field(default_factory=dict)


def tables(
    sources: Mapping[str, Source], known: Tables, at_work: Mapping[str, HeadraceError | None], unread: Unread
) -> Tables:
    """Every table that a source offers now: name -> (source, relation). Two sources may not share a name.

    A source that does not say its tables holds up nobody: it offers those ``known`` of it when it is ``at_work`` as it
    is defined, or cannot be reached and there are any. One that is at work and down, with that error, is not asked.
    """
    found: Tables = {}
    for name, source in sources.items():
        remembered = tuple(relation for owner, relation in known.values() if owner == name)
        try:
            if (down := at_work.get(name)) is not None and down.code == "source.connect":
                raise down
            relations = source.relations()
        except HeadraceError as error:
            if name in at_work or (error.code == "source.connect" and remembered):
                unread.kept[name] = error
            elif unread.raising:
                raise
            else:
                unread.unknown[name] = error
            relations = remembered
        for relation in relations:
            if relation.name in found:
                other = found[relation.name][0]
                raise HeadraceError(
                    "config.invalid", f"sources {other} and {name} both have a table {relation.name}",
                    where=f"sources/{name}.yaml", why="in SQL a table has one name",
                    next="give one of them another name under `tables:` of its source",
                )  # fmt: skip
            found[relation.name] = (name, relation)
    return found


def inform(sources: Mapping[str, Source], held: frozenset[str], tell: Callable[[dict[str, Any]], None]) -> None:
    """Tell the sources what the log holds of them, and whom to tell what they meet."""
    for source in sources.values():
        source.held, source.tell = source.held | held, tell


def warnings(
    sources: Mapping[str, Source], used: Mapping[str, list[str]], kept: Mapping[str, HeadraceError]
) -> list[str]:
    """What the user should know before these tables are followed; of those ``kept`` that they do not say their own."""
    found, down = [], dict(kept)
    for name, source in sources.items():
        try:
            found += [] if name in down else [f"{name}: {text}" for text in source.warnings(frozenset(used[name]))]
        except HeadraceError as error:
            if error.code != "source.connect":
                raise
            down[name] = error
    seen = "its tables are planned as they were last seen"
    return [*found, *(f"{name}: {error.what}: {error.why}; {seen}" for name, error in down.items())]


def take_sources(ingests: dict[str, Ingest], sources: Mapping[str, Source]) -> None:
    """End the threads of sources that went or were made anew."""
    for name, ingest in list(ingests.items()):
        if sources.get(name) is not ingest.source:
            ingest.close()
            del ingests[name]


def take_sinks(
    project: Project,
    delivers: dict[str, Deliver],
    taken: dict[str, SinkDefinition],
    catalog: Catalog,
    log: LogReader,
    tell: Callable[[dict[str, Any]], None],
) -> None:
    """A thread for each sink as it is defined now. What a sink that went has written stays in its store."""
    names = {d.name for d in project.sinks}
    for name in [n for n, d in taken.items() if d not in project.sinks]:
        delivers.pop(name).close()
        del taken[name]
    for name in catalog.sinks().keys() - names:
        catalog.drop_sink(name)  # else it would hold back what may be forgotten for ever
        catalog.set_meta(PAUSED + name, "")
    for definition in project.sinks:
        if definition.name not in delivers:
            searches = Searches(project.path, definition.searches) if definition.searches else None
            sink = Deliver(make_sink(definition, project), definition.views, catalog, log, tell, searches)
            delivers[definition.name], taken[definition.name] = sink, definition
            sink.start()


def pause(delivers: Mapping[str, Deliver], sink: str, paused: bool) -> dict[str, Any]:
    """``{"sink", "state", "commit"}`` of a sink that is paused, or goes on. Raises ``sink.unknown``."""
    deliver = delivers.get(sink)
    if deliver is None:
        raise HeadraceError(
            "sink.unknown", f"there is no sink '{sink}'",
            next=did_you_mean(sink, delivers) or f"sinks: {', '.join(sorted(delivers)) or 'none'}",
        )  # fmt: skip
    deliver.pause(paused)
    return {"sink": sink, "state": deliver.state, "commit": deliver.reached}
