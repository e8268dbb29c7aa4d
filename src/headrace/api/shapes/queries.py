"""Stored queries, and the rows that they match."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from headrace.api.shapes.shape import Column, Problem, Shape


class StoredQuery(Shape):
    name: str
    view: str
    query: str
    problem: Problem | None = Field(description="What is wrong with it: it matches nothing until corrected")


class Match(Shape):
    copies: int
    row: dict[str, Any]


class Matches(Shape):
    query: str
    view: str
    version: int
    commit: int
    columns: list[Column]
    total: int = Field(description="Rows, of which some may not be told")
    matches: list[Match]


class Removed(Shape):
    removed: str
