"""A view as it changes: server-sent events."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Annotated, Any

import orjson
from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Depends, Header, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from headrace.api import asked
from headrace.api.around import FAULT
from headrace.api.bells import Bells
from headrace.api.project import Served, served
from headrace.api.who import Asking, asking
from headrace.model.errors import HeadraceError
from headrace.serve.live import Event, Reader

router = APIRouter(tags=["views"])
Project = Annotated[Served, Depends(served)]
Who = Annotated[Asking, Depends(asking)]
PROGRESS_S = 1.0  # between two looks whether the view has reached a later commit without a change
PING_S = 15.0  # at most so long nothing is sent: who is in between, or has left, is found out
PIECE_BYTES = 64 << 10  # sent at a time: what a slow reader has not taken is not copied for it
EVENT_STREAM = "text/event-stream"
EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {EVENT_STREAM: {"schema": {"type": "string"}}},
        "description": "snapshot, change, progress, behind, error",
    }
}
BEGINNING = 16  # streams that read what they begin with at once: other requests find threads of their own

_beginning = CapacityLimiter(BEGINNING)
_log = logging.getLogger(__name__)


@router.get(
    "/views/{name}/changes",
    summary="The contents, then every change as it is published: server-sent events",
    response_class=StreamingResponse,
    responses=EVENTS,
)
async def changes(
    who: Who,
    project: Project,
    name: str,
    pairs: asked.Pairs,
    last_event_id: Annotated[str | None, Header(description="A commit: go on after it")] = None,
    after: Annotated[int | None, Query(ge=0, description="The same, of a client that cannot set a header")] = None,
    snapshot: Annotated[bool, Query(description="false: the contents are read elsewhere, and do not come here")] = True,
) -> StreamingResponse:
    """An event's `id` is its commit. A reader that is too slow gets `behind`, then the contents anew; with
    `snapshot=false` in their place `progress`, to the commit after which the changes go on.

    Any other parameter is a filter, as of rows: `column=op.value`. A row that begins to pass, or ceases to, comes or
    goes.
    """
    since = place(last_event_id) if last_event_id else after
    relation = await run_in_threadpool(project.questions.described, name)
    if relation.kind == "table":
        raise HeadraceError(
            "view.unknown", f"{relation.name} is a table, and views are followed",
            next=f"GET /api/feeds/{relation.name}/transactions, or make a view of it",
        )  # fmt: skip
    filters = asked.filters(pairs, asked.CHANGES)
    keep = await run_in_threadpool(project.questions.keeping, relation.name, filters) if filters else None
    reader = await run_in_threadpool(project.live.subscribe, relation.name, since, keep, who.token, snapshot)
    return Stream(followed(reader, project.bells, relation.name, lambda: not who.still(relation.name)), reader)


class Stream(StreamingResponse):
    """Server-sent events. ``reader`` is given back however it ends: a client may leave before the first of them, when
    ``events`` has not begun.
    """

    def __init__(self, events: AsyncGenerator[bytes], reader: Reader) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # proxies pass it on as it comes
        self._events, self._reader = _told(events), reader
        super().__init__(self._events, 200, headers, EVENT_STREAM)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._reader:
            async with aclosing(self._events):
                await super().__call__(scope, receive, send)


async def _told(events: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """The events; of a fault within an ``error`` as the last of them, as its status has been sent."""
    async with aclosing(events):
        try:
            async for piece in events:
                yield piece
        except HeadraceError:
            return  # who connects again is told
        except Exception as error:
            # Its text may hold rows: it is for the log of who runs the project.
            _log.error("a stream of changes failed", exc_info=error)
            yield b"event: error\ndata: %b\n\n" % orjson.dumps(FAULT.as_dict())


async def followed(
    reader: Reader, bells: Bells, view: str, over: Callable[[], bool], mark: str = ""
) -> AsyncGenerator[bytes]:
    """Until the client leaves, the view is gone, or ``over`` says so, which is asked once a second, also while contents
    are sent that take longer. ``mark``: see ``pieces``.
    """
    asked_at = time.monotonic()

    async def ended() -> bool:
        nonlocal asked_at
        if time.monotonic() - asked_at < PROGRESS_S:
            return False
        asked_at = time.monotonic()
        return await run_in_threadpool(over)

    with reader:
        idle_s = 0.0
        while not await ended():
            bell = bells.bell(view)
            try:
                news = reader.next()
                if news is None:
                    async for event in _begun(reader):
                        for piece in pieces([event], mark):
                            if await ended():
                                return
                            yield piece
                    continue
            except HeadraceError:
                return  # who connects again is told
            if not news:
                try:
                    async with asyncio.timeout(PROGRESS_S):
                        await bell.wait()
                    continue
                except TimeoutError:
                    idle_s += PROGRESS_S
                progress = reader.progress()
                news = [progress] if progress is not None else []
            if news:
                idle_s = 0.0
                for piece in pieces(news, mark):
                    yield piece
            elif idle_s >= PING_S:
                idle_s = 0.0
                yield b": \n\n"


async def _begun(reader: Reader) -> AsyncGenerator[Event]:
    events = reader.begin()
    while (event := await to_thread.run_sync(next, events, None, limiter=_beginning)) is not None:
        yield event


def pieces(events: list[Event], mark: str = "") -> list[bytes]:
    """Small events together, large ones in pieces. ``mark``: what is said beside the commit in their ids."""
    sent = b"".join(
        b"event: %b\n%bdata: %b\n\n" % (event.kind.encode(), _id(event, mark), event.data) for event in events
    )
    return [sent[at : at + PIECE_BYTES] for at in range(0, len(sent), PIECE_BYTES)]


def _id(event: Event, mark: str) -> bytes:
    """Who comes back with it has all of that commit; so a part has none, and what is to be forgotten an empty one."""
    if event.whole:
        return b"id: %d%b\n" % (event.commit, f"-{mark}".encode() if mark else b"")
    return b"id\n" if event.kind == "behind" else b""


def place(text: str) -> int:
    """The commit that a Last-Event-ID names. Raises ``api.request``."""
    if not text.isdecimal() or len(text) > 18:
        raise HeadraceError("api.request", f"Last-Event-ID, or 'after', is a commit, not '{text[:40]}'")
    return int(text)
