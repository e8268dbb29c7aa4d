"""Sinks: the list, pausing and resuming one."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from headrace.api import answers
from headrace.api.project import Served, served
from headrace.api.shapes import sinks as shapes
from headrace.api.who import Asking, asking

router = APIRouter(tags=["sinks"])
Project = Annotated[Served, Depends(served)]
Who = Annotated[Asking, Depends(asking)]


@router.get("/sinks", responses={200: {"model": list[shapes.Sink]}}, summary="Every sink: its frontier, lag, state")
def sinks(project: Project) -> Response:
    return answers.json(project.verb("status")["sinks"])


@router.post(
    "/sinks/{sink}/pause", responses={200: {"model": shapes.Switched}}, summary="Give it nothing until it is resumed"
)
def pause(who: Who, project: Project, sink: str) -> Response:
    with who.doing(detail={"sink": sink}):
        return answers.json(project.verb("sink_pause", {"sink": sink}))


@router.post(
    "/sinks/{sink}/resume", responses={200: {"model": shapes.Switched}}, summary="Let it go on, from its frontier"
)
def resume(who: Who, project: Project, sink: str) -> Response:
    with who.doing(detail={"sink": sink}):
        return answers.json(project.verb("sink_resume", {"sink": sink}))
