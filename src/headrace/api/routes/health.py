"""How the project is: alive, its status, its machine, how far all is, what hangs together."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from headrace.api import answers, reached
from headrace.api.project import Served, served
from headrace.api.shapes import health as shapes
from headrace.api.shapes.lineage import Lineage
from headrace.api.who import Asking, asking
from headrace.control.error_code import explained
from headrace.control.lineage import graph
from headrace.model.errors import HeadraceError
from headrace.web.status import Refused

router = APIRouter(tags=["health"])
Project = Annotated[Served, Depends(served)]
Who = Annotated[Asking, Depends(asking)]
VERSION = version("headrace")


@router.get("/health", responses={200: {"model": shapes.Health}}, summary="Whether it answers; needs no token")
async def health() -> Response:
    return answers.json({"status": "ok", "version": VERSION})


@router.get(
    "/errors/{code}",
    responses={200: {"model": shapes.ErrorCode}},
    summary="What the code of an error means, what brings it about, what mends it; needs no token",
)
def error_code(code: str) -> Response:
    try:
        return answers.json(explained(code))
    except HeadraceError as error:
        raise Refused(404, error) from None


@router.get(
    "/status",
    responses={200: {"model": shapes.Status}},
    summary="How far the log, each view, source and sink are, and what is wrong",
)
def status(who: Who, project: Project) -> Response:
    """A token that is limited to some views is told of those, without sources and sinks."""
    return answers.json(reached.status(who, project.verb("status")))


@router.get("/top", responses={200: {"model": shapes.Top}}, summary="What it takes of its machine")
def top(project: Project) -> Response:
    return answers.json(project.verb("top"))


@router.get(
    "/frontier",
    responses={200: {"model": shapes.Frontier}},
    summary="Which commit each view and sink has reached, and the least of them",
)
def frontier(project: Project) -> Response:
    return answers.json(project.verb("frontier"))


@router.get(
    "/lineage",
    responses={200: {"model": Lineage}},
    summary="Sources, tables, views and sinks, and what flows from which to which",
)
def lineage(
    who: Who,
    project: Project,
    columns: Annotated[bool, Query(description="With the columns that each column is from")] = False,
) -> Response:
    found = graph(project.verb("status"))
    if columns:
        found["columns"] = project.verb("lineage")["columns"]
    return answers.json(reached.graph(who, found))


@router.get(
    "/sources", responses={200: {"model": list[shapes.Source]}}, summary="Every source: its tables, position, state"
)
def sources(project: Project) -> Response:
    return answers.json(project.verb("status")["sources"])
