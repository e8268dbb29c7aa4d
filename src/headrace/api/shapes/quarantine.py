"""What tables and views could not take, and sending it again."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from headrace.api.shapes.shape import Shape


class SetAside(Shape):
    """A change that a table could not take; ``row`` without the columns that it left out."""

    id: str
    table: str
    commit: int
    operation: str
    reason: str
    row: dict[str, Any]


class Unread(Shape):
    """A row, or a request, that a source could not read."""

    id: str
    table: str
    commit: int | None = Field(description="Of the rest of its transaction; null: all of it was refused")
    source: str
    place: str
    reason: str
    payload: str


class Without(Shape):
    """A row of ``table`` that a view goes on without."""

    id: str
    view: str
    table: str
    commit: int
    weight: int
    reason: str
    row: dict[str, Any]


class Sent(Shape):
    commit: int
    changes: int
    again: list[str] | None = Field(description="What was set aside again; null: not known yet")
