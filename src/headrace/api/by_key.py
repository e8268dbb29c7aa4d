"""Reads of one row by its key, answered before routing and threads: less work, and no other thread to wait for.

Only what is plain is answered here: a token that may, a row that is there, a view in memory that lacks little. All else
passes on to the route, which says why; so both answer the same.
"""

from __future__ import annotations

import re

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.api import answers
from headrace.api.project import Served
from headrace.api.routes import reads
from headrace.governance.roles import Action
from headrace.model.errors import HeadraceError


class ByKey:
    """Stands before ``app``. ``prefix``: of the routes."""

    def __init__(self, app: ASGIApp, project: Served, prefix: str) -> None:
        self._app, self._project = app, project
        self._route = next(route for route in reads.router.routes if getattr(route, "name", "") == reads.row.__name__)
        self._path = re.compile(re.escape(prefix) + "/views/([^/]+)/row")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "GET" and (path := self._path.fullmatch(scope["path"])):
            answer = self._answer(Request(scope), path[1])
            if answer is not None:
                scope["route"] = self._route  # for who measures
                return await answers.json(answer)(scope, receive, send)
        return await self._app(scope, receive, send)

    def _answer(self, request: Request, view: str) -> dict[str, object] | None:
        if not self._project.gate.passes(request, Action.READ, view):
            return None
        try:
            found = self._project.questions.row_at_hand(view, dict(request.query_params))
        except HeadraceError:
            return None
        return answers.row(found) if found is not None and found.table.num_rows == 1 else None
