"""The HTTP status of each error, in one table for all servers of a project, and an error as a response."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.responses import Response

from headrace.model.errors import HeadraceError

UNKNOWN = 422  # what the request says is well formed, and cannot be done
STATUS = {
    "source.auth": 401,
    "source.request": 400,
    "source.key": 409,
    "source.busy": 503,
    "log.full": 503,
    "log.failed": 503,
    "log.retained": 410,
    "wait.token": 400,
    "wait.timeout": 504,
    "wait.busy": 503,
    "view.unknown": 404,
    "view.failed": 409,
    "view.not_at": 410,
    "view.has_readers": 409,
    "state.missing": 410,
    "sink.unknown": 404,
    "sink.letter": 404,
    "sink.fenced": 409,
    "quarantine.unknown": 404,
    "group.unknown": 404,
    "group.letter": 404,
    "group.invalid": 400,
    "group.lease": 409,
    "group.position": 410,
    "sql.syntax": 400,
    "sql.refused": 400,
    "query.filter": 400,
    "query.bounds": 400,
    "query.size": 413,
    "query.failed": 400,
    "query.timeout": 504,
    "search.query": 400,
    "search.busy": 503,
    "search.unknown": 404,
    "search.exists": 409,
    "row.unknown": 404,
    "access.token": 401,
    "access.denied": 403,
    "access.unknown": 404,
    "access.exists": 409,
    "access.invalid": 400,
    "audit.failed": 503,
    "api.request": 400,
    "api.route": 404,
    "project.not_running": 503,
    "internal": 500,
}
_HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}


class Refused(Exception):
    """An error with a status of its own."""

    def __init__(self, status: int, error: HeadraceError) -> None:
        super().__init__(str(error))
        self.status, self.error = status, error


def status_of(error: HeadraceError) -> int:
    return STATUS.get(error.code, UNKNOWN)


def answer(status: int, content: Any, headers: Mapping[str, str] | None = None) -> Response:
    """``content`` as JSON, with the headers that the status asks for."""
    known = _HEADERS.get(status, {})
    return Response(orjson.dumps(content), status, {**known, **(headers or {})}, "application/json")


def refusal(error: HeadraceError | Refused) -> Response:
    """An error as it is answered."""
    if isinstance(error, Refused):
        return answer(error.status, error.error.as_dict())
    return answer(status_of(error), error.as_dict())
