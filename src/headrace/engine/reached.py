"""Whether views and sinks have reached a token, as the files of a project tell it that nothing runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.catalog.project import read
from headrace.catalog.store import ANEW, Catalog
from headrace.engine import token as tokens
from headrace.engine.awaited import awaited, failed
from headrace.engine.connectors import make_source
from headrace.engine.token import Token
from headrace.log.find import first_commit
from headrace.log.read import LogReader
from headrace.model.definition import Project
from headrace.serve import frontier, snapshot


def reached(path: Path, token: str, view: str | None, sink: str | None) -> dict[str, Any]:
    """As ``Pipeline.wait_for`` answers; ``reached`` is None where it is not, and ``why`` says how far it is.

    Raises as that does for tokens and names that are not known, and for a view that has failed before.
    """
    project = read(path)
    now = frontier.look(path)
    given = tokens.read(token, [source.name for source in project.sources], now["commit"])
    views, sinks = ({part["name"]: part for part in now[kind]} for kind in ("views", "sinks"))
    asked = awaited(given, view, sink, views, sinks)
    at = views[asked.view]["commit"] if asked.view else sinks[asked.sink]["commit"] if asked.sink else now["least"]
    commit = given.commit if given.commit is not None else _commit(project, given)
    answer = {"token": given.text, "commit": commit, "reached": at, "of": str(asked)}
    if commit is not None and at >= commit:
        return answer
    if commit is not None and asked.view and views[asked.view]["state"] == "failed":
        raise failed(asked.view, at, views[asked.view]["reason"])
    stands = f"the log does not hold {given.text} yet" if commit is None else f"commit {commit} is not reached yet"
    return {**answer, "reached": None, "why": f"{stands}: {asked} is at commit {at}"}


def _commit(project: Project, token: Token) -> int | None:
    """The commit by which the log holds a point of a source; None where it does not."""
    definition = next(source for source in project.sources if source.name == token.source)
    catalog = Catalog(snapshot.catalog_path(project.path), read_only=True)
    try:
        tables = frozenset(name for name, (owner, _) in catalog.relations().items() if owner == token.source)
        anew = catalog.meta(ANEW + token.source)
    finally:
        catalog.close()
    holds = make_source(definition, project).holding(token.point, tables)
    reader = LogReader(project.path / snapshot.STATE / "log")
    return None if anew else first_commit(reader, token.source, holds)
