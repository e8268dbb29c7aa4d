"""Rows in which words are found."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from headrace.api.shapes.shape import Shape


class Snippet(Shape):
    column: str
    text: str
    marks: list[tuple[int, int]] = Field(description="What was found: begin and end in characters of the text")


class Hit(Shape):
    score: float
    copies: int
    row: dict[str, Any]
    snippets: list[Snippet]


class Hits(Shape):
    view: str = Field(default="", description="Told of a view, as is the version")
    version: int = 0
    table: str = Field(default="", description="Told of a table")
    commit: int
    query: str
    total: int
    hits: list[Hit]
    state: str = Field(default="live", description="Told of a view that has failed, as is the reason")
    reason: str = ""
