"""The changes of tables and views, and of what stored queries match."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from headrace.api.shapes.shape import Shape


class Feed(Shape):
    name: str
    kind: Literal["view", "table", "query"]
    view: str | None = Field(description="Of a stored query: the view that it is of")


class Transaction(Shape):
    """Changes of a table are ``{"table", "op", "row"}``, of a view or query ``{"weight", "row"}``, without a
    source."""

    commit: int
    committed_at: str | None
    source: str | None = None
    position: str | None = None
    changes: list[dict[str, Any]]
    more: bool = Field(description="There are more changes than are told")


class LookedThrough(Shape):
    transactions: list[Transaction]
    before: int | None = Field(description="Commits from this one on were looked through; null: all that are kept")
