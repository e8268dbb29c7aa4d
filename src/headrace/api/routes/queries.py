"""Stored queries: the list, what one matches, adding, changing and removing one."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from headrace.api import answers, asked, feed, few
from headrace.api.project import Served, served
from headrace.api.routes import changes
from headrace.api.shapes import queries as shapes
from headrace.api.shapes.feeds import Transaction
from headrace.api.who import Asking, asking
from headrace.catalog import searches
from headrace.model.bounds import Deadline
from headrace.model.definition import StoredQuery
from headrace.model.errors import HeadraceError
from headrace.model.moment import HINT
from headrace.serve.fitting import Room
from headrace.serve.live import Event, Reader, behind, nothing

router = APIRouter(tags=["queries"])
Project = Annotated[Served, Depends(served)]
Who = Annotated[Asking, Depends(asking)]


class Words(BaseModel, extra="forbid"):
    """What is looked for, and in which view."""

    view: str
    query: str = Field(max_length=10_000, examples=["late OR lost"])


class New(Words):
    """A query to be stored."""

    name: str = Field(examples=["late"])


@router.get("/queries", responses={200: {"model": list[shapes.StoredQuery]}}, summary="Every stored query, by name")
def queries(who: Who, project: Project) -> Response:
    from headrace.serve.search.stored import listed  # loads tantivy, if it is installed

    found = [each for each in listed(project.path) if who.reaches(each["view"])]
    for each in found:
        if each["problem"] is not None:
            each["problem"] = who.told(HeadraceError(**each["problem"])).as_dict()
    return answers.json(found)


@router.post("/queries", responses={200: {"model": shapes.StoredQuery}}, summary="Store a query")
def add(who: Who, project: Project, new: New) -> Response:
    from headrace.serve.search.stored import checked  # loads tantivy, if it is installed

    who.require(new.view)
    query = checked(project.path, StoredQuery(new.name, new.view, new.query))
    with who.doing(query.view, {"query": query.name}):
        searches.add(project.path, query)
    return answers.json(_shown(query))


@router.put("/queries/{query}", responses={200: {"model": shapes.StoredQuery}}, summary="Change one")
def change(who: Who, project: Project, query: str, words: Words) -> Response:
    from headrace.serve.search.stored import checked  # loads tantivy, if it is installed

    before = feed.known(who, project, query)
    who.require(words.view)
    changed = checked(project.path, StoredQuery(before.name, words.view, words.query))
    with who.doing(changed.view, {"query": changed.name}):
        searches.change(project.path, changed)
    return answers.json(_shown(changed))


@router.delete("/queries/{query}", responses={200: {"model": shapes.Removed}}, summary="Remove one")
def remove(who: Who, project: Project, query: str) -> Response:
    gone = feed.known(who, project, query)
    with who.doing(gone.view or None, {"query": gone.name}):
        searches.remove(project.path, gone.name)
    return answers.json({"removed": gone.name})


@router.get("/queries/{query}/matches", responses={200: {"model": shapes.Matches}}, summary="The rows that one matches")
def matches(
    who: Who,
    project: Project,
    query: str,
    at: Annotated[str | None, Query(description=f"As of {HINT}; without it now")] = None,
    limit: Annotated[int, Query(ge=0, le=answers.ROWS_MAX["json"])] = asked.ROWS,
) -> Response:
    from headrace.serve.search import watched

    feed.known(who, project, query)
    stored = searches.find(project.path, query)
    relation = project.questions.described(stored.view)
    deadline = Deadline.after(few.seconds(project.questions))
    with few.of_few(who.token):
        as_of = asked.at(project.questions, at)
        commit, schema, found = watched.matched(project.path, relation.name, stored, as_of, deadline)
        told = watched.changes(Room().take(found, limit))
        return answers.json({
            "query": stored.name, "view": schema.name, "version": schema.version, "commit": commit,
            "columns": [{"name": column.name, "type": column.type} for column in schema.columns],
            "total": sum(found["_w"].to_pylist()),
            "matches": [{"copies": each["weight"], "row": each["row"]} for each in told],
        })  # fmt: skip


@router.get(
    "/queries/{query}/transactions",
    responses={200: {"model": list[Transaction]}},
    summary="What began and ceased to match, transaction by transaction, newest first",
)
def transactions(
    who: Who,
    project: Project,
    query: str,
    before: Annotated[int | None, Query(ge=0, description="Of commits before this one")] = None,
    after: Annotated[int, Query(ge=0, description="Of commits after this one")] = 0,
    at: Annotated[str | None, Query(description=f"Of commits up to {HINT}")] = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 50,
) -> Response:
    """By the query as it is now, of the view's steps that are kept."""
    found = feed.of_query(project.path, feed.known(who, project, query))
    return feed.transactions(who, project, found, feed.Asked(before, at, limit, after))


@router.get(
    "/queries/{query}/changes",
    summary="The rows that one matches, then every change of them: server-sent events",
    response_class=StreamingResponse,
    responses=changes.EVENTS,
)
def follow(
    who: Who,
    project: Project,
    query: str,
    last_event_id: Annotated[str | None, Header(description="Of an event of this query: go on after it")] = None,
    after: Annotated[str | None, Query(description="The same, of a client that cannot set a header")] = None,
    snapshot: Annotated[bool, Query(description="false: what it matches now does not come")] = True,
) -> changes.Stream:
    """Events as of a view's changes. An event's `id` is its commit and a mark of the query's text: who comes back to
    the same text gets what it has missed. Once the query is another there is `behind`, then all that it matches. Of one
    that is removed nothing is left: `behind`, an empty snapshot, and the end."""
    from headrace.serve.search.matching import Matched
    from headrace.serve.search.stored import checked  # loads tantivy, if it is installed

    stored = feed.known(who, project, query)
    found = checked(project.path, stored)
    commit, _, mark = (last_event_id or after or "").partition("-")
    had = changes.place(commit) if commit or mark else None
    since, had = (had, None) if mark == _mark(found) else (None, had)
    reader = project.live.subscribe(found.view, since, Matched(found.query), who.token, snapshot)
    return changes.Stream(_followed(who, project, stored, found, reader, had, snapshot), reader)


async def _followed(
    who: Asking, project: Served, written: StoredQuery | None, stored: StoredQuery, reader: Reader, had: int | None,
    contents: bool,
) -> AsyncGenerator[bytes]:  # fmt: skip
    """Until the client leaves, may not any more, the view is gone, or the query is. ``had``: the commit of what it has
    and is to forget; ``contents``: whether what is matched comes, see ``Live.subscribe``.

    ``written``: the query as its file has it, ``stored``: as it was checked.
    """
    from headrace.serve.search.matching import Matched

    def now() -> StoredQuery | None:
        return project.stored.read()[0].get(stored.name)

    def is_over() -> bool:
        return now() != written or not who.still(stored.view)

    def told(*events: Event) -> list[bytes]:
        return changes.pieces(list(events))

    reason, mark = "what you have is not known to be of this query", _mark(stored)
    while True:
        with reader:
            for piece in told(behind(had, reason)) if had is not None else ():
                yield piece
            async for piece in changes.followed(reader, project.bells, stored.view, is_over, mark):
                yield piece
        before, written = written, await run_in_threadpool(now)
        if before == written or not await run_in_threadpool(who.still, stored.view):
            return
        had, reason = reader.commit or 0, "the query is another now"
        if written is None or written.view.lower() != stored.view.lower():
            # Without a mark: the same query may be there again when they come back, who then have nothing.
            for piece in told(behind(had, "the query is not there any more"), nothing(had)):
                yield piece
            return
        keep, mark = Matched(written.query), _mark(replace(stored, query=written.query))
        reader = await run_in_threadpool(project.live.subscribe, stored.view, None, keep, who.token, contents)


def _mark(query: StoredQuery) -> str:
    """Another one for each text over a view: what is had of one is no beginning of another."""
    return hashlib.sha256(f"{query.view.lower()}\0{query.query}".encode()).hexdigest()[:16]


def _shown(query: StoredQuery) -> dict[str, object]:
    return {"name": query.name, "view": query.view, "query": query.query, "problem": None}
