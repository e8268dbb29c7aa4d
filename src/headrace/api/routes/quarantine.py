"""What tables and views could not take: the entries, sending them again, correcting and dropping them."""

from __future__ import annotations

from typing import Annotated, Literal

import orjson
from fastapi import APIRouter, Depends, Query, Response
from pydantic import BaseModel, Field

from headrace.api import answers
from headrace.api.asked import Shallow
from headrace.api.project import Served, served
from headrace.api.shapes import quarantine as shapes
from headrace.api.shapes.shape import Dropped
from headrace.api.who import Asking, asking
from headrace.model.errors import HeadraceError
from headrace.serve.fitting import BYTES_MAX
from headrace.serve.quarantine import Chosen, chosen, entries, opened

router = APIRouter(tags=["quarantine"])
Project = Annotated[Served, Depends(served)]
Who = Annotated[Asking, Depends(asking)]
As = Annotated[Literal["replace"] | None, Field(alias="as", description="replace: whatever the table holds by now")]


@router.get(
    "/quarantine",
    responses={200: {"model": list[shapes.SetAside | shapes.Unread | shapes.Without]}},
    summary="The entries, oldest first",
)
def quarantine(
    who: Who, project: Project, table: str | None = None, limit: Annotated[int, Query(ge=1, le=10_000)] = 1_000
) -> Response:
    if table is not None:
        who.require(table)
    found, total = entries(project.path, table, limit, BYTES_MAX, who.reaches)
    response = answers.json(found)
    response.headers[answers.MORE] = "true" if len(found) < total else "false"
    return response


class Replay(BaseModel, extra="forbid"):
    """How it is sent again."""

    as_: As = None


@router.post(
    "/quarantine/{id}/replay", responses={200: {"model": shapes.Sent}}, summary="Send one again, in a new transaction"
)
def replay(who: Who, project: Project, id: str, how: Replay | None = None) -> Response:
    with who.doing(_relation(who, project, id), {"id": id}):
        return answers.json(project.verb("quarantine_replay", {"ids": [id], "as": how.as_ if how else None}))


class Fix(BaseModel, extra="forbid"):
    """The whole row in its place, or the text of some of its cells."""

    row: dict[str, Shallow] | None = None
    cells: dict[str, str] | None = None
    as_: As = None


@router.post("/quarantine/{id}/fix", responses={200: {"model": shapes.Sent}}, summary="Send one again, corrected")
def fix(who: Who, project: Project, id: str, corrected: Fix) -> Response:
    row = None if corrected.row is None else orjson.dumps(corrected.row).decode()
    arguments = {"id": id, "row": row, "cells": corrected.cells, "as": corrected.as_}
    with who.doing(_relation(who, project, id), {"id": id}):
        return answers.json(project.verb("quarantine_fix", arguments))


@router.delete("/quarantine/{id}", responses={200: {"model": Dropped}}, summary="Drop one for good")
def drop(who: Who, project: Project, id: str) -> Response:
    with who.doing(_relation(who, project, id), {"id": id}):
        return answers.json(project.verb("quarantine_drop", {"ids": [id]}))


def _relation(who: Asking, project: Served, id: str) -> str:
    """The table of an entry. Raises ``quarantine.unknown``, also for one that tells of what they may not know of."""
    with opened(project.path) as catalog:
        found = chosen(catalog, Chosen((id,)))
        (entry,) = found.shown()
    if not all(map(who.reaches, found.relations)):
        raise HeadraceError("quarantine.unknown", f"{id} is not in the quarantine")
    return str(entry["table"])
