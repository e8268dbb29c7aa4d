"""Tokens: those that there are, new ones, and an end to them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response
from pydantic import BaseModel, Field

from headrace.api import answers
from headrace.api.project import Served, served
from headrace.governance.roles import Role
from headrace.governance.tokens import Token
from headrace.serve.history import time_text

router = APIRouter(tags=["access"])
Project = Annotated[Served, Depends(served)]


class New(BaseModel, extra="forbid"):
    """A token to be made."""

    name: str = Field(examples=["reports"])
    role: Role = Role.VIEWER
    grants: list[str] = Field(default=[], description="Patterns of the views and tables it reaches; none: all")
    seconds: float | None = Field(default=None, description="How long it lives; without it until it is revoked")


@router.get("/tokens", summary="Every token there ever was, without itself")
def tokens(project: Project) -> Response:
    return answers.json([_shown(token) for token in project.tokens.all()])


@router.post("/tokens", summary="A new token, told this once")
def create(project: Project, new: New) -> Response:
    made, token = project.tokens.create(new.name, new.role, new.grants, new.seconds)
    return answers.json({**_shown(made), "token": token})


@router.delete("/tokens/{id}", summary="It opens nothing any more")
def revoke(project: Project, id: str) -> Response:
    return answers.json(_shown(project.tokens.revoke(id)))


def _shown(token: Token) -> dict[str, Any]:
    return {
        "id": token.id, "name": token.name, "role": token.role, "grants": list(token.grants),
        "created_at": time_text(token.created_us), "expires_at": time_text(token.expires_us),
        "used_at": time_text(token.used_us), "revoked_at": time_text(token.revoked_us),
    }  # fmt: skip
