"""What sinks tell the page, and what sinks could not tell: the dead letters, sending one again, dropping one."""

from __future__ import annotations

import itertools
from contextlib import closing
from typing import Annotated

import orjson
from fastapi import APIRouter, Depends, Query, Response

from headrace.api import answers
from headrace.api.project import Served, served
from headrace.api.shapes import alerts as shapes
from headrace.api.shapes.shape import Dropped
from headrace.api.who import Asking, asking
from headrace.sinks.alerts.dead import DeadLetters
from headrace.sinks.alerts.notices import KEPT, Notices

router = APIRouter(tags=["sinks"])
Project = Annotated[Served, Depends(served)]
Who = Annotated[Asking, Depends(asking)]


@router.get(
    "/notices",
    responses={200: {"model": shapes.Notices}},
    summary="What sinks of type page told of the views that one may read, newest first",
)
def notices(
    who: Who,
    project: Project,
    after: Annotated[int, Query(ge=0, description="Those after this number")] = 0,
    limit: Annotated[int, Query(ge=1, le=KEPT)] = 100,
) -> Response:
    kept = Notices(project.path)
    with closing(kept.since(after)) as every:
        mine = (each.as_dict() for each in every if who.reaches(each.view))
        return answers.json({"made": kept.made(), "notices": list(itertools.islice(mine, limit))})


@router.get(
    "/alerts",
    responses={200: {"model": shapes.Alerts}},
    summary="Every sink that tells of changes: how much waits in it, and what it could not tell, oldest first",
)
def alerts(
    project: Project,
    sink: Annotated[str | None, Query(description="The dead letters of this one alone")] = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1_000,
) -> Response:
    letters = DeadLetters(project.path)
    sinks = letters.sinks()
    dead, more = letters.first(sinks if sink is None else [sink], limit)
    response = answers.json({
        "waiting": {name: letters.waiting(name) for name in sinks},
        "letters": {name: letters.count(name) for name in sinks},
        "dead": [letter.as_dict() for letter in dead],
    })  # fmt: skip
    response.headers[answers.MORE] = "true" if more else "false"
    return response


@router.get(
    "/alerts/{sink}/{number}",
    responses={200: {"model": shapes.WholeDeadLetter}},
    summary="A dead letter, with all that it tells",
)
def letter(project: Project, sink: str, number: int) -> Response:
    found, messages = DeadLetters(project.path).show(sink, number)
    return answers.json({**found.as_dict(), "messages": [orjson.loads(message) for message in messages]})


@router.post(
    "/alerts/{sink}/{number}/replay",
    responses={200: {"model": shapes.Replayed}},
    summary="Send one again, before what waits",
)
def replay(who: Who, project: Project, sink: str, number: int) -> Response:
    with who.doing(detail={"sink": sink, "number": number}):
        return answers.json({"replayed": DeadLetters(project.path).replay(sink, number)})


@router.delete(
    "/alerts/{sink}/{number}",
    responses={200: {"model": Dropped}},
    summary="Drop one for good: what it tells stays untold",
)
def drop(who: Who, project: Project, sink: str, number: int) -> Response:
    with who.doing(detail={"sink": sink, "number": number}):
        return answers.json({"dropped": DeadLetters(project.path).drop(sink, number)})
