"""Definitions: what the files in the folder would change, and taking them; waiting for a write."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, Field

from headrace.api import answers
from headrace.api.project import Served, served
from headrace.api.shapes import definitions as shapes
from headrace.api.who import Asking, asking
from headrace.web.waiting import LEFT, attended

router = APIRouter(tags=["definitions"])
Project = Annotated[Served, Depends(served)]
Who = Annotated[Asking, Depends(asking)]


@router.post(
    "/plan",
    responses={200: {"model": shapes.Plan}},
    summary="What the files in the project's folder would change; changes nothing",
)
def plan(project: Project) -> Response:
    return answers.json(project.verb("plan"))


@router.post(
    "/apply", responses={200: {"model": shapes.Applied}}, summary="Take the definitions as they are in the folder now"
)
def apply(who: Who, project: Project) -> Response:
    with who.doing():
        return answers.json(project.verb("apply"))


class Awaited(BaseModel, extra="forbid"):
    """A write, and who is to have reached it: one view, one sink, or all of them."""

    token: int | str = Field(description="A commit, or SOURCE:POINT", examples=[42, "shop:0/16B3748"])
    view: str | None = None
    sink: str | None = None
    timeout: float = Field(default=30.0, ge=0, le=60, description="Seconds")


@router.post("/wait", responses={200: {"model": shapes.Reached}}, summary="Until views and sinks have reached a write")
async def wait(request: Request, who: Who, project: Project, awaited: Awaited) -> Response:
    who.require(awaited.view)  # a sink tells of more than one
    arguments = {**awaited.model_dump(exclude_none=True), "whose": who.token}
    found = await attended(request, partial(project.call, "wait", arguments))
    return answers.json(found) if found is not None else Response(status_code=LEFT)
