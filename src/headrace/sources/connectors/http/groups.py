"""Reading consumer groups over HTTP: the routes, with a token of their own, and the wait for what is to come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import orjson
from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from headrace.model.errors import HeadraceError
from headrace.sources.base import GroupReading
from headrace.sources.connectors.http.queue import SubmissionQueue, stopped
from headrace.web.status import answer

BODY_BYTES = 1 << 20  # of a request that names deliveries
WAIT_MAX_S = 60.0
READERS = 64  # that wait at once
LOOK_S = (0.01, 0.25)  # between two looks for something to deliver: at first, and after a while

Handler = Callable[[Request], Awaitable[Response]]


class GroupSource(Protocol):
    """What the routes need of the source."""

    queue: SubmissionQueue
    groups: GroupReading | None


def routes(source: GroupSource, allowed: Callable[[Request], None]) -> tuple[tuple[str, str, Handler], ...]:
    """(method, path, handler) of each; ``allowed`` raises for who has not the right token."""
    waiting = asyncio.Semaphore(READERS)

    async def entries(request: Request) -> Response:
        allowed(request)
        return answer(200, {"groups": await run_in_threadpool(_groups(source).entries)})

    async def read(request: Request) -> Response:
        allowed(request)
        asked = await _asked(request, {"most": int, "wait": float, "consumer": str})
        most, wait_s, consumer = asked.get("most", 1), asked.get("wait", 0.0), asked.get("consumer", "")
        if not 0 <= wait_s <= WAIT_MAX_S or not 1 <= most <= 1000:
            raise _bad(f"'wait' is from 0 to {WAIT_MAX_S:g} seconds, 'most' from 1 to 1000")
        if waiting.locked():
            raise HeadraceError("wait.busy", f"{READERS} readers wait already", next="try again")
        async with waiting:
            name = request.path_params["name"]
            return await _read(request, source, name, consumer, most, time.monotonic() + wait_s)

    async def ack(request: Request) -> Response:
        allowed(request)
        asked, name = await _asked(request, {"ids": list, "upto": str, "consumer": str}), request.path_params["name"]
        groups, ids = _groups(source), _ids(asked)
        if (ids is None) == ("upto" not in asked):
            raise _bad('either "ids" or "upto" is given')

        def work() -> int:
            return groups.ack(name, *ids) if ids else groups.ack_upto(name, asked["upto"], asked.get("consumer", ""))

        return answer(200, {"acknowledged": await run_in_threadpool(work)})

    async def nack(request: Request) -> Response:
        allowed(request)
        asked, name = await _asked(request, {"ids": list, "delay": float, "reason": str}), request.path_params["name"]
        ids = _named(asked)

        def work() -> int:
            delay_s, reason = asked.get("delay", 0.0), asked.get("reason", "")
            return _groups(source).nack(name, *ids, delay_s=delay_s, reason=reason)

        return answer(200, {"given_back": await run_in_threadpool(work)})

    async def extend(request: Request) -> Response:
        allowed(request)
        asked, name = await _asked(request, {"ids": list, "lease": float}), request.path_params["name"]
        ids = _named(asked)

        def work() -> int:
            return _groups(source).extend(name, *ids, lease_s=asked.get("lease"))

        return answer(200, {"extended": await run_in_threadpool(work)})

    return (
        ("GET", "/groups", entries), ("POST", "/groups/{name}/read", read), ("POST", "/groups/{name}/ack", ack),
        ("POST", "/groups/{name}/nack", nack), ("POST", "/groups/{name}/extend", extend),
    )  # fmt: skip


async def _read(request: Request, source: GroupSource, name: str, consumer: str, most: int, end: float) -> Response:
    """As soon as there is something, or with nothing at ``end``."""
    groups, pause = _groups(source), LOOK_S[0]
    while True:
        found = await run_in_threadpool(groups.read_now, name, consumer, most)
        left = end - time.monotonic()
        if found or left <= 0:
            return answer(200, {"deliveries": [delivery.as_dict() for delivery in found]})
        if source.queue.closed:
            raise stopped()
        if await request.is_disconnected():
            return Response(status_code=499)  # read by nobody
        await asyncio.sleep(min(pause, left))
        pause = min(pause * 1.5, LOOK_S[1])


def _groups(source: GroupSource) -> GroupReading:
    if source.groups is None:
        raise HeadraceError("project.not_running", "there are no groups to read: no log is kept here")
    return source.groups


async def _asked(request: Request, known: dict[str, type]) -> dict[str, Any]:
    """The JSON object of the body, its values of these types. Raises ``HeadraceError`` (source.request)."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":  # which no web page may send to another site unasked
        raise _bad(f"the content type must be application/json, not '{kind}'")
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES:
            raise _bad(f"the request is larger than {BODY_BYTES} bytes")
    try:
        asked = orjson.loads(body or b"{}")
    except ValueError as error:
        raise HeadraceError("source.request", "the body is not JSON", why=str(error)) from None
    if not isinstance(asked, dict):
        raise _bad("the body must be an object")
    for name, value in asked.items():
        if name not in known:
            raise _bad(f"there is no parameter '{name}'", f"known: {', '.join(known)}")
        wanted = (int, float) if known[name] is float else known[name]
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise _bad(f"'{name}' has the wrong type")
    return asked


def _ids(asked: dict[str, Any]) -> list[str] | None:
    ids = asked.get("ids")
    if ids is not None and not (ids and all(isinstance(id, str) for id in ids)):
        raise _bad('"ids" must be a list of deliveries', '{"ids": ["1042.1"]}')
    return ids


def _named(asked: dict[str, Any]) -> list[str]:
    """The deliveries that a request must name."""
    ids = _ids(asked)
    if not ids:
        raise _bad('"ids" is missing')
    return ids


def _bad(what: str, example: str = "") -> HeadraceError:
    return HeadraceError("source.request", what, next=example)
