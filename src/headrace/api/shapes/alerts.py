"""What sinks tell, and what they could not tell."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from headrace.api.shapes.shape import Shape


class DeadLetter(Shape):
    sink: str
    number: int
    view: str
    commit: int
    rows: int
    given_up_at: str
    recipients: list[str] = Field(description="Who of a mail's lack it; none: all do")
    reason: str


class Alerts(Shape):
    waiting: dict[str, int] = Field(description="Sink: messages still to be sent")
    letters: dict[str, int] = Field(description="Sink: its dead letters, of which some may not be told")
    dead: list[DeadLetter]


class WholeDeadLetter(DeadLetter):
    messages: list[Any]


class Replayed(Shape):
    replayed: int


class Notice(Shape):
    number: int = Field(description="Its place in their order")
    view: str
    query: str | None = Field(description="The stored query whose matches these are")
    commit: int
    at: str
    entered: int
    left: int
    changed: int
    rows: dict[str, list[Any]] = Field(description="The first rows that entered and left, and before and after changes")


class Notices(Shape):
    made: str = Field(description="Another one where the numbers begin anew")
    notices: list[Notice]
