"""The feed that a request names, and what of it is told: of a view, a table, or of what a stored query matches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from fastapi import Response

from headrace.api import answers, asked, few
from headrace.api.project import Served
from headrace.api.who import Asking
from headrace.catalog import searches
from headrace.formats.types.json import nearest
from headrace.model.bounds import Deadline
from headrace.model.definition import StoredQuery
from headrace.model.errors import HeadraceError
from headrace.serve import newest
from headrace.serve.parts import Keep
from headrace.serve.search import looked_through

SECONDS = 1.0  # that a feed is looked through for one answer


@dataclass(frozen=True, slots=True)
class Feed:
    """Of the table or view ``relation``, or of the rows of the view that ``keep`` wants."""

    relation: str
    kind: str
    keep: Keep | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """Which transactions are asked for: at most ``limit`` of commits after ``after`` and before ``before``, and up to
    the moment ``at``. ``version``: of a view, whose contents at ``after`` the reader has."""

    before: int | None
    at: str | None
    limit: int
    after: int = 0
    version: int | None = None


def named(who: Asking, project: Served, name: str) -> Feed:
    """That of a view, else of a table, else of a stored query; what they may not know of is none. Raises
    ``view.unknown``, and what is wrong with the query."""
    relations = [relation for relation in project.questions.relations() if who.reaches(relation.name)]
    for relation in relations:
        if relation.name.lower() == name.lower():
            return Feed(relation.name, relation.kind)
    try:
        query = known(who, project, name)
    except HeadraceError:
        who.require(name)  # of a name that they do not reach they hear the same, whether or not it is there
        names = {relation.name for relation in relations}
        names |= {query.name for query in project.stored.read()[0].values() if who.reaches(query.view)}
        raise HeadraceError(
            "view.unknown", f"there is no view, table or stored query '{name}'",
            next=nearest(name, sorted(names)),
        ) from None  # fmt: skip
    return of_query(project.path, query)


def of_query(project: Path, query: StoredQuery) -> Feed:
    """Raises what is wrong with the query."""
    from headrace.serve.search.matching import Matched
    from headrace.serve.search.stored import checked  # loads tantivy, if it is installed

    found = checked(project, query)
    return Feed(found.view, "query", Matched(found.query))


def known(who: Asking, project: Served, name: str) -> StoredQuery:
    """The query of that name; of one whose file is wrong only that. Raises ``search.unknown``, also for a query of a
    view that they may not know of."""
    queries, wrong = project.stored.read()
    names = {each.lower(): each for each in (*queries, *wrong)}
    found = names.get(name.lower())
    query = queries.get(found, StoredQuery(found, "", "")) if found is not None else None
    if query is None or not who.reaches(query.view):
        raise searches.unknown(name, [each.name for each in queries.values() if who.reaches(each.view)])
    return query


def transactions(who: Asking, project: Served, feed: Feed, wanted: Asked) -> Response:
    """Those that are asked for, newest first."""
    before = asked.before(project.questions, project.path, wanted.at, wanted.before)
    deadline = Deadline.after(few.seconds(project.questions))
    path, name, after, limit = project.path, feed.relation, wanted.after, wanted.limit
    if feed.kind == "table":
        return answers.json(newest.of_table(path, name, after, before, limit, deadline))
    with _in_turn(who, feed):
        return answers.json(newest.of_view(path, name, after, before, limit, wanted.version, feed.keep, deadline))


def holding(who: Asking, project: Served, feed: Feed, text: str, wanted: Asked) -> Response:
    """Those that have the text in a value."""
    before = asked.before(project.questions, project.path, wanted.at, wanted.before)
    path, name, limit = project.path, feed.relation, wanted.limit
    if feed.kind == "table":
        return answers.json(asdict(looked_through.of_table(path, name, text, before, limit, SECONDS)))
    with _in_turn(who, feed):
        return answers.json(asdict(looked_through.of_view(path, name, text, before, limit, SECONDS, feed.keep)))


@contextmanager
def _in_turn(who: Asking, feed: Feed) -> Iterator[None]:
    """Matching takes longer than reading: it is one of the few."""
    if feed.keep is None:
        yield
        return
    with few.of_few(who.token):
        yield
