"""What the forms of several groups are made of."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Shape(BaseModel):
    """An answer has no other fields than those of its form."""

    model_config = ConfigDict(extra="forbid")


class Column(Shape):
    name: str
    type: str = Field(description="As Spark SQL names it")


class Problem(Shape):
    """An error: what is wrong, where, why, and what helps."""

    code: str
    what: str
    where: str
    why: str
    next: str


class Dropped(Shape):
    dropped: int
