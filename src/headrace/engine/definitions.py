"""The definitions that are at work: what taking others would change, and how they are taken. On the engine's thread."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.catalog.store import ANEW, HELD
from headrace.circuit.explain import operators
from headrace.engine import attach, stopping
from headrace.engine.altered import altered, cannot_go_on, check_types
from headrace.engine.backlog import backlog_of
from headrace.engine.compile import Compilation
from headrace.engine.connectors import check
from headrace.engine.door import Door
from headrace.engine.functions import functions_of
from headrace.engine.ingest import Ingest
from headrace.engine.plan import called, changes, waits, without_tables
from headrace.engine.replan import hold_back
from headrace.engine.stored import StoredRows
from headrace.engine.swap import swap
from headrace.model.definition import Project, ViewDefinition
from headrace.model.errors import HeadraceError
from headrace.sources.base import Source

if TYPE_CHECKING:
    from headrace.engine.pipeline import Pipeline

DISCOVER_S = 1.0  # between two looks for tables that views wait for


class Definitions:
    """Those of a pipeline, as ``Pipeline.definitions``."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._discovered: tuple[float, str] = (0.0, "")  # when it was last looked, and what was wrong then

    def offered(self, project: Project) -> dict[str, Source]:
        """The sources as the project defines them, checked like its sinks; nothing is connected."""
        check(project)
        return attach.offered(project, self._pipeline.project, self._pipeline.sources)

    def tables(self, sources: dict[str, Source], unread: attach.Unread | None = None) -> attach.Tables:
        """What they offer; see ``attach.tables``. Raises what one does not say its tables for, unless ``unread``."""
        made = self._pipeline.ingests.values()
        at_work = {i.source.name: i.error for i in made if sources.get(i.source.name) is i.source}
        known = self._pipeline.catalog.relations()
        return attach.tables(sources, known, at_work, unread or attach.Unread(raising=True))

    def compiled(self, project: Project, tables: attach.Tables) -> Compilation:
        pipeline = self._pipeline
        relations = {name: relation for name, (_, relation) in tables.items()}
        pipeline.compiler.use(functions_of(project))
        return pipeline.compiler.compile(relations, project.views, pipeline.catalog.views())

    def plan(self, wanted: Project) -> dict[str, Any]:
        """See ``Pipeline.plan``."""
        sources, unread = self.offered(wanted), attach.Unread()
        tables = self.tables(sources, unread)
        compilation = without_tables(self.compiled(wanted, tables), sources, {**unread.kept, **unread.unknown})
        asked = {name: source for name, source in sources.items() if name not in unread.unknown}
        told = self._described(wanted, asked, tables, compilation, unread)
        return {**told, "unread": {name: error.as_dict() for name, error in unread.unknown.items()}}

    def _described(
        self, project: Project, sources: dict[str, Source], tables: attach.Tables, compilation: Compilation,
        unread: attach.Unread,
    ) -> dict[str, Any]:  # fmt: skip
        pipeline = self._pipeline
        used: dict[str, list[str]] = {name: [] for name in (*sources, *(o for o, _ in tables.values()))}
        for table in sorted(compilation.tables):
            used[tables[table][0]].append(table)
        warnings = attach.warnings(sources, used, unread.kept)
        views = [
            {
                "name": d.name,
                "incremental": d.name in compilation.views,
                "operators": operators(compilation.views[d.name].root) if d.name in compilation.views else [],
                "refused": compilation.refused[d.name].as_dict() if d.name in compilation.refused else None,
                "warnings": [],
            }
            for d in project.views
        ]
        sinks, catalog = set(pipeline.catalog.sinks()) | pipeline.sinks.keys(), pipeline.catalog
        before = pipeline.project if pipeline.runs else project
        return {
            "changes": changes(project, before, compilation, catalog.views(), catalog.relations(), sinks),
            "tables": used,
            "functions": called(project, compilation),
            "views": views,
            "warnings": warnings,
        }

    def apply(self, project: Project) -> dict[str, Any]:
        """See ``Pipeline.apply``."""
        pipeline, before = self._pipeline, self._pipeline.project
        failed = dict(pipeline.maintainer.failures.known)
        try:
            answer = self.carry_out(project)
        except Exception:
            # It failed half-way: what is raised is why.
            if pipeline.project is not before and pipeline.maintainer.torn is None:
                with contextlib.suppress(Exception):
                    self.carry_out(before)
            raise
        pipeline.maintainer.retry(failed)
        return answer

    def carry_out(self, project: Project, held_back: Collection[str] = ()) -> dict[str, Any]:
        """``held_back``: failed views that stay as they are."""
        pipeline = self._pipeline
        sources, unread = self.offered(project), attach.Unread(raising=True)
        tables = self.tables(sources, unread)
        check_types(sources, pipeline.maintainer.tables, tables)
        compilation = without_tables(self.compiled(project, tables), sources, unread.kept)
        answer = self._described(project, sources, tables, compilation, unread)
        records = pipeline.catalog.views()
        blocked = {n for n in compilation.refused if n in records}
        # A view whose new text is refused stays as it was, so its old definition is compiled in its place.
        if blocked:
            kept = [ViewDefinition(n, records[n].sql) for n in blocked]
            rest = [d for d in project.views if d.name not in blocked]
            first = compilation.refused
            compilation = pipeline.compiler.compile({n: r for n, (_, r) in tables.items()}, [*rest, *kept], records)
            compilation.refused.update(first)
            lost = sorted(blocked - compilation.views.keys())
            cannot_go_on(pipeline.maintainer, lost, compilation, running=pipeline.runs)
            records = pipeline.catalog.views()
        if held_back:
            left = hold_back(compilation, held_back)
            cannot_go_on(pipeline.maintainer, sorted(left), compilation, running=True)
            blocked |= left
        attach.take_sources(pipeline.ingests, sources)
        pipeline.sources = sources
        for name, error in compilation.refused.items():
            if str(pipeline.refused.get(name)) != str(error):
                pipeline.tell({"event": "view.refused", "view": name, "error": error.as_dict()})
        pipeline.refused = dict(compilation.refused)
        pipeline.project = project
        known = pipeline.catalog.relations()
        held = frozenset(t for t in compilation.tables if t in known or pipeline.catalog.meta(HELD + t))
        attach.inform(sources, held, pipeline.tell)
        followed = {t: tables[t][1] for t in compilation.tables}
        maintainer = pipeline.maintainer
        other = altered(maintainer.tables, followed)  # taken together with the views that read them
        for table in compilation.tables - other:
            pipeline.catalog.put_relation(*tables[table])
        maintainer.lost.await_copies(sources, maintainer.tables, {t: tables[t] for t in other})
        self._follow(tables, compilation)
        dropped = set(records) - set(compilation.views) - blocked
        live = {n: r.schema.version for n, r in records.items() if r.state == "live"}
        holds = maintainer.failures.holds  # what has failed comes back by itself
        new = {n: c.schema.version for n, c in compilation.views.items() if not holds(c)}
        if dropped or other or new != live:
            swap(maintainer, followed, compilation.views, dropped)
            pipeline.recovered = True
            for deliver in pipeline.delivers.values():
                deliver.wake()
        for name, (owner, _) in pipeline.catalog.relations().items():
            if owner not in sources:
                with pipeline.catalog.transaction():
                    pipeline.catalog.drop_relation(name)
                    pipeline.catalog.set_meta(HELD + name, owner)  # the log still has its rows
        attach.take_sinks(
            project, pipeline.delivers, pipeline.sinks, pipeline.catalog, maintainer.reader, pipeline.tell
        )
        return answer

    def _follow(self, tables: attach.Tables, compilation: Compilation) -> None:
        """Each source follows the tables that views use, and no other."""
        pipeline = self._pipeline
        stored = StoredRows(pipeline.log, pipeline.maintainer.reader)
        for name, source in pipeline.sources.items():
            source.answers, source.groups, source.stored = pipeline, pipeline.groups, stored
            source.keeper = door = Door(name, pipeline.catalog, pipeline.log, pipeline.doors, pipeline.tell)
            wanted = frozenset(t for t in compilation.tables if tables[t][0] == name)
            if name in pipeline.ingests:
                pipeline.ingests[name].follow(wanted)
            elif pipeline.runs or not pipeline.stopping:
                anew = pipeline.catalog.meta(ANEW + name)
                begun = partial(pipeline.catalog.set_meta, ANEW + name, "") if anew else None
                backlog = backlog_of(pipeline, next(d for d in pipeline.project.sources if d.name == name))
                ingest = Ingest(source, pipeline.log, wanted, pipeline.tell, begun, door.append, backlog)
                pipeline.ingests[name] = ingest
                stopping.hold(pipeline)
                ingest.start()

    def discover(self) -> None:
        """Tables whose columns became known with their first rows: views that waited for them are taken."""
        (when, before), wrong = self._discovered, ""
        pipeline = self._pipeline
        waiting = any(waits(error) for error in pipeline.refused.values())
        if not waiting or time.monotonic() - when < DISCOVER_S:
            return
        try:
            known = pipeline.catalog.relations()
            if any(t not in known for t in self.tables(pipeline.sources)):
                self.carry_out(pipeline.project)
        except HeadraceError as error:  # nobody asked for it: what runs goes on
            wrong = str(error)
            if wrong != before:
                pipeline.tell({"event": "discover.failed", "error": error.as_dict()})
        self._discovered = (time.monotonic(), wrong)
