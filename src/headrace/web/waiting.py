"""A request whose answer takes long, as long as somebody is there to read it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from headrace.model.errors import HeadraceError

LEFT = 499  # the status of an answer that nobody reads: a log, or who measures, tells it apart
GONE_S = 0.25  # between two looks whether a client that waits is still there
Found = TypeVar("Found")


class _Gone(Exception):
    """The client of a request has left, or the server is stopping."""


async def attended(
    request: Request,
    work: Callable[[Callable[[dict[str, Any]], None]], Found],
    goes_on: Callable[[], None] = lambda: None,
) -> Found | None:
    """What ``work`` answers, from a thread; None: nobody is there any more. ``goes_on`` raises what ends it earlier.

    The function that ``work`` is given, and tells its progress, ends it then.
    """
    over = threading.Event()

    def progress(event: dict[str, Any]) -> None:
        if over.is_set():
            raise _Gone

    def heard() -> Found | None:
        try:
            return work(progress)
        except (_Gone, HeadraceError):
            if over.is_set():
                return None
            raise

    waiting = asyncio.ensure_future(run_in_threadpool(heard))
    try:
        while not (await asyncio.wait({waiting}, timeout=GONE_S))[0]:
            goes_on()
            if await request.is_disconnected():
                return None
        return await waiting
    finally:
        over.set()
