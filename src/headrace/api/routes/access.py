"""Tokens: those that there are, new ones, and an end to them; and what was done, by whom."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from pydantic import BaseModel, Field

from headrace.api import answers
from headrace.api.shapes import access as shapes
from headrace.api.who import Asking, asking
from headrace.governance.audit import Wanted
from headrace.governance.roles import Role
from headrace.governance.tokens import Token, grant

router = APIRouter(tags=["access"])
Who = Annotated[Asking, Depends(asking)]


class New(BaseModel, extra="forbid"):
    """A token to be made."""

    name: str = Field(examples=["reports"])
    role: Role = Role.VIEWER
    only: list[str] = Field(default=[], description="Patterns of the views and tables it reaches; none: all")
    grants: list[str] = Field(
        default=[], description="ROLE:PATTERN: views and tables it reaches too, and may do more to",
        examples=[["editor:sales_*"]],
    )  # fmt: skip
    seconds: float | None = Field(default=None, description="How long it lives; without it until it is revoked")


@router.get(
    "/tokens", responses={200: {"model": list[shapes.Token]}}, summary="Every token there ever was, without itself"
)
def tokens(who: Who) -> Response:
    return answers.json([_shown(token) for token in who.access.tokens.all()])


@router.post("/tokens", responses={200: {"model": shapes.NewToken}}, summary="A new token, told this once")
def create(who: Who, new: New) -> Response:
    raised = [grant(text) for text in new.grants]
    made, token = who.access.create_token(
        who.principal, new.name, new.role, new.only, new.seconds, raised, address=who.address
    )
    return answers.json({**_shown(made), "token": token})


@router.delete("/tokens/{id}", responses={200: {"model": shapes.Token}}, summary="It opens nothing any more")
def revoke(who: Who, id: str) -> Response:
    return answers.json(_shown(who.access.revoke_token(who.principal, id, address=who.address)))


@router.get(
    "/audit",
    responses={200: {"model": list[shapes.AuditEntry]}},
    summary="What was done and by whom, and what was refused: the last entries, oldest first",
)
def audit(
    who: Who,
    name: Annotated[str | None, Query(alias="who")] = None,
    action: str | None = None,
    relation: str | None = None,
    outcome: str | None = None,
    before: Annotated[int | None, Query(ge=1, description="Of entries before this one")] = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
) -> Response:
    wanted = Wanted(name, action, relation, outcome, before=before)
    found, _ = who.access.audit(who.principal, wanted, limit, address=who.address)
    return answers.json(list(found))


@router.get(
    "/audit/verdict",
    responses={200: {"model": shapes.Verdict}},
    summary="Whether every entry is as it was written, none removed or moved",
)
def verdict(
    who: Who, head: Annotated[str, Query(description="One noted before, which must still be there")] = ""
) -> Response:
    return answers.json(who.access.verdict(who.principal, head, address=who.address).as_dict())


def _shown(token: Token) -> dict[str, Any]:
    return token.as_dict(time.time_ns() // 1000)
