"""A verb whose work is the pipeline's own: what that says of its progress goes to the caller."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from headrace.control.running import Progress, Running
from headrace.control.socket import ClientGone


@contextlib.contextmanager
def followed(running: Running, progress: Progress) -> Iterator[None]:
    """Inside the block, as long as the caller is there: the work goes on to its end when the caller leaves."""

    def told(event: dict[str, Any]) -> None:
        if event["event"] == "progress":
            with contextlib.suppress(ClientGone):
                progress(event)

    with running.pipeline.tell.also(told):
        yield
