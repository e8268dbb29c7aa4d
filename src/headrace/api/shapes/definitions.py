"""What definitions change, and the commit that was waited for."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from headrace.api.shapes.shape import Problem, Shape


class Planned(Shape):
    action: Literal["create", "replace", "keep", "drop"]
    kind: Literal["source", "view", "sink"]
    name: str
    reason: str
    affects: list[str] = Field(description="Views, and `sink NAME`")


class PlannedFunction(Shape):
    name: str
    file: str
    allowed: bool = Field(description="It may run: `code: true` in headrace.yaml")
    views: list[str] = Field(description="That call it")


class PlannedView(Shape):
    name: str
    incremental: bool
    operators: list[str] = Field(description="In the order in which rows pass them, each once")
    refused: Problem | None
    warnings: list[str]


class Applied(Shape):
    changes: list[Planned] = Field(description="One entry a source, view and sink")
    tables: dict[str, list[str]] = Field(description="Source: its tables that views read")
    functions: list[PlannedFunction]
    views: list[PlannedView]
    warnings: list[str]


class Plan(Applied):
    unread: dict[str, Problem] = Field(description="Sources that do not say their tables, and why")


class Reached(Shape):
    token: str
    commit: int = Field(description="That the token stands for")
    reached: int
    of: str = Field(description="Who was waited for, in words")
