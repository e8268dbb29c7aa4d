"""Who asks: a token in, a session in a cookie out, and what it may do."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, Field

from headrace.api import answers
from headrace.api.project import Served, served
from headrace.api.shapes import session as shapes
from headrace.api.who import Asking, address_of, asking
from headrace.governance.principal import Principal

router = APIRouter(tags=["session"])
Project = Annotated[Served, Depends(served)]


class LogIn(BaseModel, extra="forbid"):
    token: str = Field(max_length=200)


@router.post(
    "/session", responses={200: {"model": shapes.Me}}, summary="A token in, a cookie out; needs no token before"
)
async def log_in(request: Request, project: Project, given: LogIn) -> Response:
    gate, sessions = project.gate, project.gate.access.sessions
    principal = gate.known(given.token.strip(), address_of(request))
    sessions.end(request.cookies.get(gate.cookie, ""))  # the cookie is about to name another
    response = answers.json(_shown(principal))
    if principal.token:  # where no token is asked for there is nothing to remember
        # It is gone with the browser. Strict: no page of another site makes a browser send it.
        origin = request.headers.get("origin", "")  # of a browser that a proxy answers by TLS
        secure, name = request.url.scheme == "https" or origin.startswith("https:"), sessions.begin(principal.token)
        response.set_cookie(gate.cookie, name, httponly=True, samesite="strict", secure=secure, path="/")
    return response


@router.get(
    "/session",
    responses={200: {"model": shapes.Session}},
    summary="Who has logged in by this browser, if anybody; needs no token",
)
async def session(request: Request, project: Project) -> Response:
    principal = project.gate.logged_in(request)
    return answers.json({"me": None if principal is None else _shown(principal)})


@router.delete(
    "/session", responses={200: {"model": shapes.LoggedOut}}, summary="End the session, and forget the cookie"
)
async def log_out(request: Request, project: Project) -> Response:
    project.gate.access.sessions.end(request.cookies.get(project.gate.cookie, ""))
    response = answers.json({})
    response.delete_cookie(project.gate.cookie, httponly=True, samesite="strict", path="/")
    return response


@router.get("/me", responses={200: {"model": shapes.Me}}, summary="Whose token it is, its role and its limits")
async def me(who: Annotated[Asking, Depends(asking)]) -> Response:
    return answers.json(_shown(who.principal))


def _shown(principal: Principal) -> dict[str, object]:
    grants = [f"{role}:{pattern}" for role, pattern in principal.raised]
    return {"name": principal.name, "role": principal.role, "only": list(principal.grants), "grants": grants}
