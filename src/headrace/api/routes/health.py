"""How the project is: alive, its status, its machine, how far all is, what hangs together."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response

from headrace.api import answers
from headrace.api.project import Served, served
from headrace.control.lineage import graph

router = APIRouter(tags=["health"])
Project = Annotated[Served, Depends(served)]
VERSION = version("headrace")


@router.get("/health", summary="Whether it answers; needs no token")
async def health() -> Response:
    return answers.json({"status": "ok", "version": VERSION})


@router.get("/status", summary="How far the log, each view, source and sink are, and what is wrong")
def status(request: Request, project: Project) -> Response:
    return answers.json(_seen(request, project, project.verb("status")))


@router.get("/top", summary="What it takes of its machine")
def top(project: Project) -> Response:
    return answers.json(project.verb("top"))


@router.get("/frontier", summary="Which commit each view and sink has reached, and the least of them")
def frontier(request: Request, project: Project) -> Response:
    return answers.json(_seen(request, project, project.verb("frontier")))


@router.get("/lineage", summary="Sources, tables, views and sinks, and what flows from which to which")
def lineage(request: Request, project: Project) -> Response:
    return answers.json(graph(_seen(request, project, project.verb("status"))))


@router.get("/sources", summary="Every source: its tables, position, state")
def sources(request: Request, project: Project) -> Response:
    return answers.json(_seen(request, project, project.verb("status"))["sources"])


@router.get("/sinks", summary="Every sink: its frontier, lag, state")
def sinks(request: Request, project: Project) -> Response:
    return answers.json(_seen(request, project, project.verb("status"))["sinks"])


def _seen(request: Request, project: Served, told: dict[str, Any]) -> dict[str, Any]:
    """Without the views and tables that who asks may not know of."""

    def may(name: str) -> bool:
        return project.gate.may_read(request, name)

    def only(part: dict[str, Any]) -> dict[str, Any]:
        lists: dict[str, Any] = {
            key: [name for name in part[key] if may(name)] for key in ("tables", "reads", "views") if key in part
        }
        aside = part.get("quarantined")
        return {**part, **lists, **({"quarantined": {n: aside[n] for n in aside if may(n)}} if aside else {})}

    views = [only(view) for view in told["views"] if may(view["name"])]
    rest: dict[str, Any] = {kind: [only(part) for part in told[kind]] for kind in ("sources", "sinks") if kind in told}
    return {**told, "views": views, **rest}
