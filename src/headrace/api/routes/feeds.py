"""Feeds: the changes of each table and view, and of what each stored query matches, newest first."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from headrace.api import answers
from headrace.api import feed as fed
from headrace.api.project import Served, served
from headrace.api.shapes import feeds as shapes
from headrace.api.who import Asking, asking
from headrace.model.moment import HINT

router = APIRouter(tags=["feeds"])
Project = Annotated[Served, Depends(served)]
Who = Annotated[Asking, Depends(asking)]


@router.get(
    "/feeds", responses={200: {"model": list[shapes.Feed]}}, summary="Every table and view, and every stored query"
)
def feeds(who: Who, project: Project) -> Response:
    """A stored query of a relation's name is not here: the name means the relation, for those who may know of it."""
    relations = [relation for relation in project.questions.relations() if who.reaches(relation.name)]
    names = {relation.name.lower() for relation in relations}
    others = [query for query in project.stored.read()[0].values() if query.name.lower() not in names]
    return answers.json(
        [{"name": r.name, "kind": r.kind, "view": None} for r in relations]
        + [{"name": q.name, "kind": "query", "view": q.view} for q in others if who.reaches(q.view)]
    )


@router.get(
    "/feeds/{feed}/transactions",
    responses={200: {"model": list[shapes.Transaction]}},
    summary="Its transactions, newest first",
)
def transactions(
    who: Who,
    project: Project,
    feed: str,
    before: Annotated[int | None, Query(ge=0, description="Of commits before this one")] = None,
    after: Annotated[int, Query(ge=0, description="Of commits after this one")] = 0,
    at: Annotated[str | None, Query(description=f"Of commits up to {HINT}")] = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 50,
    version: Annotated[
        int | None,
        Query(ge=1, description="Of a view or a query of it: the version whose contents at `after` the reader has"),
    ] = None,
) -> Response:
    return fed.transactions(who, project, fed.named(who, project, feed), fed.Asked(before, at, limit, after, version))


@router.get(
    "/feeds/{feed}/search",
    responses={200: {"model": shapes.LookedThrough}},
    summary="Its transactions that have a text in a value, newest first",
)
def search(
    who: Who,
    project: Project,
    feed: str,
    q: Annotated[str, Query(min_length=1, description="The text; upper and lower case are the same")],
    before: Annotated[int | None, Query(ge=0, description="Of commits before this one")] = None,
    at: Annotated[str | None, Query(description=f"Of commits up to {HINT}")] = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 50,
) -> Response:
    """At most a second or so is looked for: go on with `before` of the answer as the next one's, until it is null."""
    return fed.holding(who, project, fed.named(who, project, feed), q, fed.Asked(before, at, limit))
