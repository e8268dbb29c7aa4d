"""The application: its routes, who passes, what goes around every answer. Wiring only."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse

from headrace.api import asked, metrics, page
from headrace.api.actions import ACTIONS
from headrace.api.around import Around
from headrace.api.by_key import ByKey
from headrace.api.project import Served
from headrace.api.routes import (
    access,
    alerts,
    changes,
    definitions,
    feeds,
    health,
    quarantine,
    queries,
    reads,
    search,
    session,
    sinks,
)
from headrace.api.who import Asking
from headrace.model.errors import HeadraceError
from headrace.web.status import Refused, answer, refusal

PREFIX = "/api"
ROUTERS: tuple[APIRouter, ...] = (
    health.router, session.router, reads.router, search.router, changes.router, feeds.router, definitions.router,
    quarantine.router, queries.router, sinks.router, alerts.router, access.router,
)  # fmt: skip


def make_app(project: Served) -> FastAPI:
    """The API over a project. Raises ``KeyError`` for a route that ``ACTIONS`` does not know."""
    app = FastAPI(
        title="Headrace", version=health.VERSION, description="Views kept up to date: read, asked, followed.",
        openapi_url=f"{PREFIX}/openapi.json", docs_url=None, redoc_url=None,
    )  # fmt: skip
    app.state.served = project
    requests = metrics.Requests()
    # The bearer is for the contract alone. Who may not ask learns nothing of what is wrong with it.
    gate = [Depends(project.gate), Depends(HTTPBearer(auto_error=False)), Depends(asked.check_known)]
    for router in ROUTERS:
        for route in routes(router):
            ACTIONS[route]  # a route without an action would let nobody, or everybody, pass
        app.include_router(router, prefix=PREFIX, dependencies=gate, responses=_ERRORS)
    app.include_router(_measured(requests), dependencies=gate)
    app.include_router(page.router)  # the last: every path that is none of theirs
    for kind in (HeadraceError, Refused):
        app.add_exception_handler(kind, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_middleware(ByKey, project=project, prefix=PREFIX)
    app.add_middleware(Around, requests=requests)
    return app


def routes(router: APIRouter) -> list[str]:
    """``METHOD PATH`` of each route, as ``ACTIONS`` names it."""
    return [f"{method} {route.path_format}" for route in router.routes for method in sorted(route.methods)]  # type: ignore[attr-defined]


def _measured(requests: metrics.Requests) -> APIRouter:
    router = APIRouter()

    @router.get(
        "/metrics", response_class=PlainTextResponse, summary="What is measured, for Prometheus", tags=["health"]
    )
    def measured(request: Request) -> Response:
        project: Served = request.app.state.served
        page = metrics.text(project.verb("status"), project.verb("top"), requests, project.live.readers)
        return Response(page, 200, None, metrics.CONTENT_TYPE)

    return router


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HeadraceError | Refused)
    who: Asking | None = getattr(request.state, "asking", None)  # None: refused before it was known
    return refusal(who.told(error) if who is not None and isinstance(error, HeadraceError) else error)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first: Any = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:])
    return refusal(HeadraceError("api.request", f"the request is not as it should be: {first['msg']}", where=where))


async def _of_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code in (404, 405):
        what = f"there is no {request.method} {request.url.path}"
        return answer(error.status_code, HeadraceError("api.route", what, next="GET /api/openapi.json").as_dict())
    return answer(error.status_code, HeadraceError("api.request", str(error.detail)).as_dict(), error.headers)


_ERRORS: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "An error: its code, what is wrong, where, why, and what helps",
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {part: {"type": "string"} for part in ("code", "what", "where", "why", "next")},
                }
            }
        },
    }
}
