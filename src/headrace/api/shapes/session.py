"""Who asks."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from headrace.api.shapes.shape import Shape


class Me(Shape):
    name: str
    role: Literal["viewer", "editor", "operator", "admin"]
    only: list[str]
    grants: list[str] = Field(description="ROLE:PATTERN: where it may do more")


class Session(Shape):
    me: Me | None = Field(description="None: nobody has logged in")


class LoggedOut(Shape):
    """Nothing is said of it."""
