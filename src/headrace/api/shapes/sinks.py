"""Sinks: how far each is, pausing and resuming one."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from headrace.api.shapes.shape import Problem, Shape


class SetAsideAt(Shape):
    what: str = Field(description="What is said of its rows that are set aside")
    where: str


class Sink(Shape):
    name: str
    state: Literal["running", "failed", "paused"]
    frontier: int = Field(description="The commit that it has reached")
    rows: int = Field(description="That it was given since the start")
    lag: int = Field(description="The commits that it lacks")
    behind_s: float = Field(description="Age of the first commit that it lacks, in seconds")
    attempts: int = Field(description="In vain, one after the other, of a sink that tells of changes")
    error: Problem | None
    quarantined: dict[str, int] = Field(description="View: rows of it that are set aside")
    quarantine: SetAsideAt
    tells: bool = Field(description="It tells of changes, and keeps no contents")
    views: list[str] = Field(description="That it takes")


class Switched(Shape):
    sink: str
    state: Literal["running", "failed", "paused"]
    commit: int = Field(description="Its frontier")
