"""What is waited for to reach a token, and the errors of names and views that will never do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.catalog.document import did_you_mean
from headrace.engine.token import Token
from headrace.model.errors import HeadraceError


@dataclass(frozen=True, slots=True)
class Awaited:
    """A view, a sink, or with neither every live view and every sink, to reach ``token``."""

    token: Token
    view: str | None
    sink: str | None

    def __str__(self) -> str:
        if self.view is not None:
            return f"view {self.view}"
        return f"sink {self.sink}" if self.sink is not None else "every live view and every sink"


def awaited(token: Token, view: str | None, sink: str | None, views: Iterable[str], sinks: Iterable[str]) -> Awaited:
    """What was asked for, the view as its file spells it. Raises ``HeadraceError``: view.unknown, sink.unknown."""
    if view is not None and sink is not None:
        raise HeadraceError("wait.token", "either a view or a sink is waited for, not both", next="leave one out")
    if view is not None:
        view = _known("view", view, list(views))
    if sink is not None:
        sink = _known("sink", sink, list(sinks))
    return Awaited(token, view, sink)


def failed(view: str, reached: int, reason: str) -> HeadraceError:
    """A view that has failed will not go on to what is waited for."""
    return HeadraceError(
        "view.failed", f"view {view} has failed at commit {reached}", where=f"views/{view}.sql", why=reason,
        next=f"`headrace show {view}` names the rows; put them right, or edit the view",
    )  # fmt: skip


def _known(kind: str, name: str, known: list[str]) -> str:
    for other in known:
        if other.lower() == name.lower():
            return other
    hint = did_you_mean(name, known) or f"{kind}s: {', '.join(known) or 'none'}"
    raise HeadraceError("view.unknown" if kind == "view" else "sink.unknown", f"there is no {kind} '{name}'", next=hint)
