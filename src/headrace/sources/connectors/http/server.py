"""The HTTP side of the source: routes and the token."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, Protocol

from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool

from headrace.model.errors import HeadraceError
from headrace.sources.base import DROP, WAIT, Answers, GroupReading
from headrace.sources.connectors.http import groups
from headrace.sources.connectors.http.queue import SubmissionQueue, stopped
from headrace.sources.connectors.http.transactions import Kept, Submission
from headrace.web.status import Refused, answer, refusal
from headrace.web.waiting import LEFT, attended

INLINE_BYTES = 64 << 10  # bodies up to this size are parsed on the event loop, larger ones beside it
_LINES = ("application/x-ndjson", "application/jsonl", "application/x-jsonlines")
WAIT_S, WAIT_MAX_S = 60.0, 600.0  # how long a client waits for a write, unless it says so
HELD_LOOK_S = (0.005, 0.1)  # between two looks for room in the queue
STALLED_S = 30.0  # a client that sends nothing of its body for so long is not waited for

Handler = Callable[[Request], Awaitable[Response]]


class Receiver(Protocol):
    """What the routes need of the source."""

    name: str
    queue: SubmissionQueue
    when_full: str
    wait_s: float
    answers: Answers | None
    groups: GroupReading | None

    def read(self, body: bytes, lines: bool, key: str | None) -> Submission: ...
    def enqueue(self, submission: Submission) -> Submission: ...
    def describe(self) -> dict[str, Any]: ...


def make_app(
    source: Receiver, token: str | None, read_token: str | None, max_body: int, hosts: frozenset[str]
) -> FastAPI:
    """The routes over ``source``. ``token`` None: no authentication, so only for ``hosts``, and not for web pages.

    ``read_token``: of who reads consumer groups.
    """
    app = FastAPI(title="Headrace", openapi_url=None)
    allowed = hosts if token is None else None

    async def transactions(request: Request) -> Response:
        _authorise(request, token, allowed)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if token is None and kind not in ("application/json", *_LINES):
            # Any web page may make a browser send other types here; these two it may not.
            raise Refused(415, _bad(f"the content type must be application/json, not '{kind}'"))
        key = request.headers.get("idempotency-key")
        if key is not None and not 0 < len(key) <= 200:
            raise _bad("an Idempotency-Key has 1 to 200 characters")
        body = await _body(request, source, max_body)
        try:
            if len(body) > INLINE_BYTES:
                submission = await run_in_threadpool(source.read, body, kind in _LINES, key)
            else:
                submission = source.read(body, kind in _LINES, key)
            accepted = source.enqueue(submission)
        except BaseException:
            source.queue.release(len(body))
            raise
        first = await asyncio.wrap_future(accepted.future)
        return answer(200, _receipt(first, submission, accepted is not submission))

    async def tables(request: Request) -> Response:
        _authorise(request, token, allowed)
        return answer(200, {"tables": source.describe()})

    async def frontier(request: Request) -> Response:
        _authorise(request, token, allowed)
        return answer(200, _without_rows(await run_in_threadpool(_answers(source).frontier)))

    async def wait(request: Request) -> Response:
        _authorise(request, token, allowed)
        asked, timeout_s = _asked(request)
        whose = f"source {source.name}" if token is not None else None
        write = (asked["token"], timeout_s, asked.get("view"), asked.get("sink"))
        work = partial(_answers(source).wait_for, *write, whose=whose)
        return await _waited(request, source.queue, work)

    async def health(request: Request) -> Response:
        return answer(200, {"status": "ok", "source": source.name, "waiting": len(source.queue)})

    # Plain routes: FastAPI's parameter machinery costs more than a small push.
    app.add_route("/transactions", _guarded(transactions), methods=["POST"])
    app.add_route("/tables", _guarded(tables), methods=["GET"])
    app.add_route("/frontier", _guarded(frontier), methods=["GET"])
    app.add_route("/wait", _guarded(wait), methods=["GET"])
    app.add_route("/health", _guarded(health), methods=["GET"])
    for method, path, handler in groups.routes(source, lambda request: _authorise(request, read_token, allowed)):
        app.add_route(path, _guarded(handler), methods=[method])
    return app


def _guarded(handler: Handler) -> Handler:
    async def guarded(request: Request) -> Response:
        try:
            return await handler(request)
        except Refused as refused:
            return refusal(refused)
        except Kept as kept:
            return answer(202, {"quarantined": kept.id, "error": kept.error.as_dict()})
        except HeadraceError as error:
            if error.code == "source.dropped":
                return answer(202, {"dropped": True, "error": error.as_dict()})
            return refusal(error)

    return guarded


def _authorise(request: Request, token: str | None, hosts: frozenset[str] | None) -> None:
    if token is not None:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), token.encode()):
            what = "the token is wrong" if given else "the request has no token"
            raise HeadraceError("source.auth", what, next="send the header 'Authorization: Bearer TOKEN'")
    elif hosts is not None and request.url.hostname not in hosts:
        raise HeadraceError("source.auth", f"requests for the host '{request.url.hostname}' are not answered")


async def _body(request: Request, source: Receiver, limit: int) -> bytes:
    """The body, its room reserved in the queue; given back when the body is refused.

    A request that waits for room has reserved nothing: with `when_full: wait` all of it is, before it is read.
    """
    given = request.headers.get("content-length", "")
    length = int(given) if given.isdecimal() else 0
    chunks, size, reserved = [], 0, 0
    try:
        if length > limit:
            raise _too_large(limit)
        if length and source.when_full == WAIT:
            await _room(source, length, 0, length)
            reserved = length
        async for chunk in _chunks(request):
            if size + len(chunk) > limit:
                raise _too_large(limit)
            size += len(chunk)
            if size > reserved:
                await _room(source, size - reserved, reserved, length)
                reserved = size
            chunks.append(chunk)
    except BaseException:
        source.queue.release(reserved)
        raise
    return b"".join(chunks)


async def _room(source: Receiver, size: int, already: int, length: int) -> None:
    """Reserves ``size`` bytes in the queue for a request that holds ``already``; or it is held, refused or dropped."""
    queue, pause, end = source.queue, HELD_LOOK_S[0], time.monotonic() + source.wait_s
    while True:
        try:
            return queue.reserve(size, already)
        except HeadraceError as busy:
            waits = source.when_full == WAIT and not already and not queue.closed
            if not waits or time.monotonic() >= end:
                raise queue.turned_away(length or size + already, busy, drop=source.when_full == DROP) from None
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, HELD_LOOK_S[1])


async def _chunks(request: Request) -> AsyncIterator[bytes]:
    """The pieces of the body; a client that stops in between may not keep its room."""
    stream = aiter(request.stream())
    while True:
        try:
            async with asyncio.timeout(STALLED_S):
                chunk = await anext(stream)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise Refused(408, _bad(f"nothing of the body came for {STALLED_S:g} s")) from None
        yield chunk


def _answers(source: Receiver) -> Answers:
    if source.answers is None:
        raise HeadraceError("project.not_running", "there is nothing to wait for: no views are kept here")
    return source.answers


def _without_rows(frontier: dict[str, Any]) -> dict[str, Any]:
    """The frontier for who may push: why a view has failed would show rows of other tables."""
    views = [{name: value for name, value in view.items() if name != "reason"} for view in frontier["views"]]
    sinks = [{**sink, "error": sink["error"]["code"] if sink["error"] else None} for sink in frontier["sinks"]]
    return {**frontier, "views": views, "sinks": sinks}


def _asked(request: Request) -> tuple[dict[str, str], float]:
    """(token, and view or sink; seconds) of the query of a wait. Raises ``HeadraceError``: source.request."""
    pairs = request.query_params.multi_items()
    asked = dict(pairs)
    for name in asked:
        if name not in ("token", "view", "sink", "timeout") or len(asked) < len(pairs):
            raise _bad(
                f"a wait has no parameter '{name}', or has one twice", "GET /wait?token=7&view=revenue&timeout=5"
            )
    if "token" not in asked:
        raise _bad("a wait needs the parameter 'token'", "GET /wait?token=7")
    try:
        timeout_s = float(asked.get("timeout", WAIT_S))
    except ValueError:
        timeout_s = -1.0
    if not 0 <= timeout_s <= WAIT_MAX_S:
        raise _bad(f"'timeout' is a number of seconds from 0 to {WAIT_MAX_S:g}, not '{asked['timeout']}'")
    return asked, timeout_s


async def _waited(
    request: Request, queue: SubmissionQueue, work: Callable[[Callable[[dict[str, Any]], None]], dict[str, Any]]
) -> Response:
    def goes_on() -> None:
        if queue.closed:
            raise stopped()

    try:
        found = await attended(request, work, goes_on)
    except HeadraceError as error:
        if error.code == "view.failed":  # see _without_rows
            raise HeadraceError(error.code, error.what, where=error.where, next=error.next) from error
        raise
    return answer(200, found) if found is not None else Response(status_code=LEFT)


def _receipt(first: int, submission: Submission, repeated: bool) -> dict[str, Any]:
    """``first`` 0: the log had the request before a restart, its commit number is not known any more."""
    count = len(submission.transactions)
    known: dict[str, Any] = {"commits": [first, first + count - 1] if first else None}
    if submission.single:
        known = {"commit": first or None}
    return {**known, "repeated": True} if repeated or submission.skipped or not first else known


def _bad(what: str, example: str = "") -> HeadraceError:
    return HeadraceError("source.request", what, next=example)


def _too_large(limit: int) -> Refused:
    error = HeadraceError(
        "source.request",
        f"the request is larger than {limit} bytes",
        next="push smaller requests, or raise max_body in the source's options",
    )
    return Refused(413, error)
