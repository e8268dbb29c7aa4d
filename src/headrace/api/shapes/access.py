"""Tokens, and what was done by whom."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from headrace.api.shapes.shape import Shape


class Token(Shape):
    id: str
    name: str
    role: Literal["viewer", "editor", "operator", "admin"]
    only: list[str]
    grants: list[str] = Field(description="ROLE:PATTERN")
    state: Literal["live", "expired", "revoked"]
    created: str
    expires: str | None
    last_used: str | None


class NewToken(Token):
    token: str = Field(description="Told this once")


class AuditEntry(Shape):
    number: int
    at: str
    who: str
    token: str = Field(description="The id of the one that was used; none: empty")
    action: str
    relation: str | None
    address: str
    outcome: Literal["begun", "done", "failed", "refused"]
    of: int | None = Field(description="The number of the entry that began what ended here")
    detail: dict[str, str | int | None]
    before: str = Field(description="The seal of the entry before")
    seal: str


class Damage(Shape):
    number: int = Field(description="The first entry that is not as it was written")
    file: str
    offset: int
    why: str


class Verdict(Shape):
    entries: int = Field(description="That are as they were written")
    head: str
    removed: int = Field(description="How many were before them, and went as headrace.yaml says")
    damage: Damage | None
