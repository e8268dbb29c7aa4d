"""The forms that the contract names for the answers of its routes, and whether an answer is of its own."""

from __future__ import annotations

from typing import Any

import httpx
from pydantic import TypeAdapter
from starlette.routing import Match

from headrace.api.app import PREFIX, ROUTERS


def _form(method: str, path: str) -> Any:
    scope = {"type": "http", "method": method, "path": path.removeprefix(PREFIX), "root_path": ""}
    routes: list[Any] = [route for router in ROUTERS for route in router.routes]
    route = next(route for route in routes if route.matches(scope)[0] is Match.FULL)
    return route.responses[200]["model"]


def agreed(answer: httpx.Response) -> httpx.Response:
    """The same answer; of a success in JSON every field is one of the contract, of its type, and none is missing.

    A hook of a client too: then all answers of a test are looked at.
    """
    if answer.status_code == 200 and answer.headers["content-type"] == "application/json":
        answer.read()
        form = _form(answer.request.method, answer.request.url.path)
        TypeAdapter(form).validate_json(answer.content, strict=True)
    return answer
