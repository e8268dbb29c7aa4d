"""Feeds: the changes of each table and view, transaction by transaction, newest first."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from headrace.api import answers, asked, few
from headrace.api.project import Served, served
from headrace.api.shapes import feeds as shapes
from headrace.api.who import Asking, asking
from headrace.model.bounds import Deadline
from headrace.model.moment import HINT
from headrace.serve import newest
from headrace.serve.search import looked_through

SECONDS = 1.0  # that a feed is looked through for one answer
router = APIRouter(tags=["feeds"])
Project = Annotated[Served, Depends(served)]
Who = Annotated[Asking, Depends(asking)]


@router.get("/feeds", responses={200: {"model": list[shapes.Feed]}}, summary="Every table and view")
def feeds(who: Who, project: Project) -> Response:
    known = [{"name": r.name, "kind": r.kind} for r in project.questions.relations()]
    return answers.json([each for each in known if who.reaches(each["name"])])


@router.get(
    "/feeds/{name}/transactions",
    responses={200: {"model": list[shapes.Transaction]}},
    summary="Its transactions, newest first",
)
def transactions(
    project: Project,
    name: str,
    before: Annotated[int | None, Query(ge=0, description="Of commits before this one")] = None,
    after: Annotated[int, Query(ge=0, description="Of commits after this one")] = 0,
    at: Annotated[str | None, Query(description=f"Of commits up to {HINT}")] = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 50,
    version: Annotated[
        int | None, Query(ge=1, description="Of a view: the version whose contents at `after` the reader has")
    ] = None,
) -> Response:
    relation, before = project.questions.described(name), asked.before(project.questions, project.path, at, before)
    deadline = Deadline.after(few.seconds(project.questions))
    if relation.kind == "table":
        return answers.json(newest.of_table(project.path, relation.name, after, before, limit, deadline))
    return answers.json(newest.of_view(project.path, relation.name, after, before, limit, version, deadline=deadline))


@router.get(
    "/feeds/{name}/search",
    responses={200: {"model": shapes.LookedThrough}},
    summary="Its transactions that have a text in a value, newest first",
)
def search(
    project: Project,
    name: str,
    q: Annotated[str, Query(min_length=1, description="The text; upper and lower case are the same")],
    before: Annotated[int | None, Query(ge=0, description="Of commits before this one")] = None,
    at: Annotated[str | None, Query(description=f"Of commits up to {HINT}")] = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 50,
) -> Response:
    """At most a second or so is looked for: go on with `before` of the answer as the next one's, until it is null."""
    relation, before = project.questions.described(name), asked.before(project.questions, project.path, at, before)
    look = looked_through.of_view if relation.kind == "view" else looked_through.of_table
    return answers.json(asdict(look(project.path, relation.name, q, before, limit, SECONDS)))
