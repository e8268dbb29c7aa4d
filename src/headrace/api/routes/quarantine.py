"""What tables and views could not take: the entries, sending them again, correcting and dropping them."""

from __future__ import annotations

from typing import Annotated, Literal

import orjson
from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, Field

from headrace.api import answers
from headrace.api.asked import Shallow
from headrace.api.project import Served, served
from headrace.serve.quarantine import entries

router = APIRouter(tags=["quarantine"])
Project = Annotated[Served, Depends(served)]
As = Annotated[Literal["replace"] | None, Field(alias="as", description="replace: whatever the table holds by now")]


@router.get("/quarantine", summary="The entries, oldest first")
def quarantine(
    request: Request, project: Project, table: str | None = None, limit: Annotated[int, Query(ge=1, le=10_000)] = 1_000
) -> Response:
    found, _ = entries(project.path, table, limit)
    names = [{entry["table"], entry.get("view", entry["table"])} for entry in found]
    known = [all(project.gate.may_read(request, name) for name in of) for of in names]
    return answers.json([entry for entry, may in zip(found, known, strict=True) if may])


class Replay(BaseModel, extra="forbid"):
    """How it is sent again."""

    as_: As = None


@router.post("/quarantine/{id}/replay", summary="Send one again, in a new transaction")
def replay(project: Project, id: str, how: Replay | None = None) -> Response:
    return answers.json(project.verb("quarantine_replay", {"ids": [id], "as": how.as_ if how else None}))


class Fix(BaseModel, extra="forbid"):
    """The whole row in its place, or the text of some of its cells."""

    row: dict[str, Shallow] | None = None
    cells: dict[str, str] | None = None
    as_: As = None


@router.post("/quarantine/{id}/fix", summary="Send one again, corrected")
def fix(project: Project, id: str, corrected: Fix) -> Response:
    row = None if corrected.row is None else orjson.dumps(corrected.row).decode()
    arguments = {"id": id, "row": row, "cells": corrected.cells, "as": corrected.as_}
    return answers.json(project.verb("quarantine_fix", arguments))


@router.delete("/quarantine/{id}", summary="Drop one for good")
def drop(project: Project, id: str) -> Response:
    return answers.json(project.verb("quarantine_drop", {"ids": [id]}))
