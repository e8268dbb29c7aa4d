"""doctor: what a project lacks, in its files, at its sources and sinks, on this machine. Changes nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from headrace.catalog import groups, place, searches
from headrace.catalog.api import is_loopback
from headrace.catalog.examples import read_examples
from headrace.catalog.project import ADDRESS, FILE, STATE, at, files, survey
from headrace.catalog.searches import StoredQueries, unknown
from headrace.catalog.store import Catalog
from headrace.control import machine, socket
from headrace.control.running import Progress
from headrace.control.verbs import call
from headrace.engine import connectors
from headrace.engine.disk import telling
from headrace.model.definition import ApiSettings, Project, PsqlSettings, SinkDefinition, SourceDefinition
from headrace.model.errors import HeadraceError
from headrace.model.finding import MISSING, OK, WARNING, Finding
from headrace.model.group import QUERY, TABLE, VIEW
from headrace.serve.search.stored import problems
from headrace.serve.snapshot import catalog_path
from headrace.web import tls
from headrace.web.addresses import api_listener, psql_listener

_FEEDS = {  # kind of feed -> what it is called, and what brings it back
    VIEW: ("view", "views/{}.sql"), TABLE: ("table", "the source of {}, and a view that reads it"),
    QUERY: ("stored query", "searches/{}.yaml"),
}  # fmt: skip


def run(path: Path, *, quick: bool = False, progress: Progress = lambda event: None) -> dict[str, Any]:
    """``{"missing", "warnings", "examined": [{"kind", "name", "findings": [...]}]}``, a finding with the fields of
    ``Finding``; kinds are machine, project, server, source, sink and view.

    ``quick``: views are left out: what their SQL means is Spark's to say, which takes seconds to start where no
    `headrace up` runs. Raises ``HeadraceError`` where there is no project.
    """
    path = at(path)
    project, wrong = survey(path)
    progress({"text": "examining the machine"})
    examined = [("machine", "", list(machine.examine(path, project.settings)))]
    examined.append(("project", project.settings.name, list(_project(project, wrong))))
    examined += _servers(project)
    endpoints = _endpoints(path)
    for source in project.sources:
        progress({"text": f"examining source {source.name}"})
        examined.append(("source", source.name, list(_told(_source(source, project, endpoints), source, path))))
    for sink in project.sinks:
        progress({"text": f"examining sink {sink.name}"})
        examined.append(("sink", sink.name, list(_told(_sink(sink, project), sink, path))))
    if not quick:
        examined += _views(project, _hindrance(examined), progress)
    states = [finding.state for _, _, findings in examined for finding in findings]
    return {
        "missing": states.count(MISSING),
        "warnings": states.count(WARNING),
        "examined": [
            {"kind": kind, "name": name, "findings": [asdict(finding) for finding in findings]}
            for kind, name, findings in examined
        ],
    }


def _project(project: Project, wrong: list[HeadraceError]) -> Iterator[Finding]:
    """Its files, and whether its state is its own."""
    yield from map(Finding.of, wrong)
    for look in (lambda: read_examples(project), lambda: place.check(project.path)):
        try:
            look()
        except HeadraceError as error:
            yield Finding.of(error)
    yield from _queries(project.path)
    yield from _groups(project.path)
    yield from _serving(project.path)
    if not project.sources and not wrong:
        yield Finding(WARNING, "no source is defined", "write sources/NAME.yaml; `headrace init --list` shows examples")
    if not project.views and not wrong:
        yield Finding(WARNING, "no view is defined", "write views/NAME.sql with one SELECT")
    if not wrong:
        yield Finding(OK, f"its files can be read: {_counted(project)}")


def _serving(path: Path) -> Iterator[Finding]:
    """Whether what answers for a running project has failed since it began."""
    try:
        told = json.loads((path / ADDRESS).read_text())
    except (OSError, ValueError):
        return
    if (failures := told.get("failures")) and socket.running(path):
        yield Finding(
            WARNING, f"what serves the page, the API and psql has begun anew, {failures} in all",
            "look at what `headrace up` says of it, and at the memory and the load of this machine",
            why=f"{told['failed_at']}: {told['failure']}",
        )  # fmt: skip


def _queries(path: Path) -> Iterator[Finding]:
    """What is wrong with stored queries; those of views that are not built yet are looked at when they are."""
    try:
        with telling(path / STATE):
            queries, wrong = StoredQueries(path).read()
            wrong |= problems(path, queries.values())
    except HeadraceError as error:
        yield Finding.of(error)
        return
    yield from map(Finding.of, wrong.values())
    if queries and not wrong:
        yield Finding(OK, f"{len(queries)} stored {'query' if len(queries) == 1 else 'queries'}")


def _groups(path: Path) -> Iterator[Finding]:
    """Consumer groups whose feed is gone: they deliver nothing until it is back."""
    try:
        if not (followed := groups.followed(path / STATE / groups.FILE)):
            return
        with closing(Catalog(catalog_path(path), read_only=True)) as catalog:
            defined = {name for name, _ in files(path, "views", ".sql", [])}
            there = {
                VIEW: defined | catalog.views().keys(), TABLE: catalog.relations().keys(), QUERY: searches.names(path),
            }  # fmt: skip
    except HeadraceError as error:
        yield Finding.of(error)
        return
    for group, kind, feed in followed:
        if feed not in there[kind]:
            of, back = _FEEDS[kind]
            yield Finding(
                MISSING, f"the group '{group}' follows the {of} '{feed}', which is not there",
                f"headrace groups drop {group}, or bring back {back.format(feed)}", code="group.position",
            )  # fmt: skip


def _servers(project: Project) -> list[tuple[str, str, list[Finding]]]:
    """What `up` would listen at, both at a time, as it does; the ports of the running one are its own."""
    api, psql = project.settings.api, project.settings.psql
    running, examined = socket.running(project.path), []
    with ExitStack() as held:
        if api.enabled:
            listening = None if running else lambda: held.enter_context(api_listener(api, f"{FILE}: api"))
            examined.append(("server", "api", list(_server("api", api, project.path, listening))))
        if psql is not None:
            listening = None if running else lambda: held.enter_context(psql_listener(psql, f"{FILE}: psql"))
            examined.append(("server", "psql", list(_server("psql", psql, project.path, listening))))
    return examined


def _server(
    section: str, settings: ApiSettings | PsqlSettings, folder: Path, listening: Callable[[], object] | None
) -> Iterator[Finding]:
    """``listening`` raises what is in its way; None for one that listens already."""
    where, wrong = f"{FILE}: {section}", False
    for look in (lambda: tls.check(folder, settings, where), listening):
        try:
            if look is not None:
                look()
        except HeadraceError as error:
            wrong = True
            yield Finding.of(error)
    if not (is_loopback(settings.host) or settings.tls or settings.certificate):
        yield Finding(
            WARNING, f"it is without TLS, and other machines reach {settings.host}",
            f"{section}: {{tls: true}}, or a proxy before it that speaks TLS, and no 'host'", f"{where}.host",
            why="tokens and rows go in clear" if section == "api" else "a token is taken over TLS alone, or from here",
        )  # fmt: skip
    if not wrong:
        yield Finding(OK, "the running `headrace up` has it" if listening is None else "it can be served")


def _counted(project: Project) -> str:
    kinds = {"source": project.sources, "view": project.views, "sink": project.sinks}
    return ", ".join(f"{len(them)} {kind}{'' if len(them) == 1 else 's'}" for kind, them in kinds.items())


def _told(
    findings: Iterator[Finding], definition: SourceDefinition | SinkDefinition, folder: Path
) -> Iterator[Finding]:
    """With what ends them as the last one; each says where."""
    file = definition.path.relative_to(folder).as_posix() if definition.path else ""
    try:
        for finding in findings:
            yield finding if finding.state == OK or finding.where else replace(finding, where=file)
    except HeadraceError as error:
        yield Finding.of(error)


def _source(definition: SourceDefinition, project: Project, endpoints: Mapping[str, str]) -> Iterator[Finding]:
    source = connectors.make_source(definition, project)
    try:
        yield from source.examine(lambda table: _mentioned(table, (view.sql for view in project.views)))
    except HeadraceError as error:
        if error.code != "source.port" or definition.name not in endpoints:
            raise
        yield Finding(OK, f"the running `headrace up` listens at {endpoints[definition.name]}")


def _endpoints(path: Path) -> dict[str, str]:
    """Where the sources of the running `up` listen; nothing where none runs."""
    if not socket.running(path):
        return {}
    status = socket.request(path, "status")
    return {source["name"]: source["endpoint"] for source in status["sources"] if source.get("endpoint")}


def _sink(definition: SinkDefinition, project: Project) -> Iterator[Finding]:
    if definition.searches:
        queries, wrong = StoredQueries(project.path).read()
        absent = [name for name in definition.searches if name not in queries | wrong]
        yield from (replace(Finding.of(unknown(name, list(queries))), where="") for name in absent)
    yield from connectors.make_sink(definition, project).examine()


def _mentioned(table: str, texts: Iterable[str]) -> bool:
    """Whether a query may read the table: who does must name it."""
    word = re.compile(rf"(?<!\w){re.escape(table)}(?!\w)", re.IGNORECASE)
    return any(word.search(text) for text in texts)


# --- views ----------------------------------------------------------------------------------------------------------


def _hindrance(examined: Iterable[tuple[str, str, list[Finding]]]) -> str:
    """What must be mended before a plan can be made, empty when nothing is in the way; a source that cannot be
    reached is not, nor is what is served."""
    for kind, name, findings in examined:
        for finding in findings:
            needed = kind == "machine" or (kind != "server" and finding.code.startswith(("config.", "project.")))
            if finding.state == MISSING and needed:
                return f"{kind} {name}".strip()
    return ""


def _views(project: Project, hindrance: str, progress: Progress) -> list[tuple[str, str, list[Finding]]]:
    if not project.views:
        return []
    if hindrance:
        skipped = Finding(WARNING, f"not examined: what is missing at {hindrance} comes first", "headrace doctor")
        return [("view", "", [skipped])]
    try:
        answer = call(project.path, "plan", {}, progress)
    except HeadraceError as error:
        return [("view", "", [Finding.of(error)])]
    return [("view", view["name"], list(_view(view))) for view in answer["views"]]


def _view(view: Mapping[str, Any]) -> Iterator[Finding]:
    refused, where = view.get("refused"), f"views/{view['name']}.sql"
    if refused:
        yield Finding(MISSING, refused["what"], refused["next"], refused["where"], refused["why"], refused["code"])
        return
    for warning in view.get("warnings", []):
        yield Finding(WARNING, warning, where=where)
    how = "kept up to date change by change" if view.get("incremental") else "recomputed when it changes"
    yield Finding(OK, how)
