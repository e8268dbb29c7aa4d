"""What the commands share that follow something over HTTP."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli import display

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Sequence

    from headrace.model.view_step import ViewStep
    from headrace.web.event_source import Kind

UrlOption = Annotated[
    str, typer.Option("--url", metavar="URL", help="Follow it over HTTP, from anywhere; the token is $HEADRACE_TOKEN.")
]
CaOption = Annotated[
    str, typer.Option("--ca", metavar="FILE", help="With --url: the authority that the server is checked by, PEM.")
]


def steps(
    url: str, name: str, ca: str, stop: threading.Event, after: int | None = None,
    where: Sequence[tuple[str, str]] = (), kind: Kind = "views", snapshot: bool = True,
) -> Iterator[ViewStep]:  # fmt: skip
    """As of ``EventSource``; that a connection has ended is said."""
    from headrace.web.event_source import EventSource

    def lost(why: str) -> None:
        display.say(f"the connection has ended ({display.plain(why)}); it is made again", error=True)

    token = os.environ.get("HEADRACE_TOKEN", "")
    yield from EventSource(url, name, token, after, lost, ca, where, kind, snapshot).steps(stop)


def forgotten(step: ViewStep, json: bool) -> None:
    """Says that what was told before is to be forgotten."""
    if json:
        display.emit({"commit": step.commit, "behind": step.reason, "changes": []}, line=True)
        return
    display.say(f"behind: {display.plain(step.reason)}; the contents come anew", error=True)
