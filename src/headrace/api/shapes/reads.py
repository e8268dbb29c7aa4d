"""Views and their rows."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from headrace.api.shapes.shape import Column, Shape


class Rows(Shape):
    """Rows of one commit; decimals, times and binary are text."""

    commit: int
    columns: list[Column]
    rows: list[dict[str, Any]]
    more: bool = Field(description="There are more rows than the limit")
    stale: dict[str, str] = Field(description="Views that have failed and stay behind, and why")


class Row(Shape):
    commit: int
    row: dict[str, Any]


class Failing(Shape):
    """What a view's SQL throws on: a row of a table or a view that it reads."""

    table: str = Field(default="", description="Told of a row of a table")
    view: str = Field(default="", description="Told of a row of a view")
    row: dict[str, Any] | None = Field(description="null: it cannot be named")
    weight: int
    together: int = Field(description="Those of one number throw only together")
    message: str


class ViewStatus(Shape):
    name: str
    version: int
    state: Literal["live", "failed", "refused"]
    reason: str
    commit: int = Field(description="That it has reached")
    behind_s: float = Field(
        default=0.0, description="Age of the first commit that it lacks, in seconds; not of a refused one"
    )
    failing: list[Failing]
    quarantined: dict[str, int] = Field(
        default={}, description="The view: rows that it goes on without; not of a refused one"
    )
    reads: list[str] = Field(default=[], description="Tables and views that its text names; not of a refused one")


class View(ViewStatus):
    """What the status and the catalogue tell of a view."""

    columns: list[Column]
    key: list[str]


class WholeView(View):
    sql: str
    created_commit: int
    rows: int
    read_by: list[str]
    sinks: list[str]


class Version(Shape):
    """Times and ``gone_commit`` are null where an earlier Headrace did not write them down."""

    version: int
    state: Literal["live", "failed", "gone"]
    sql: str
    columns: list[Column]
    key: list[str]
    came_commit: int
    came_at: str | None
    gone_commit: int | None
    gone_at: str | None


class Versions(Shape):
    view: str
    versions: list[Version] = Field(description="Newest first, those of a dropped view of this name too")


class Counted(Shape):
    """Rows of the last step that reached the view, and since ``counted_from``; null: not counted."""

    last: int | None
    sum: int | None


class Passed(Shape):
    given: Counted = Field(alias="in")
    out: Counted
    read: Counted = Field(description="Of what is kept")


class Arrangement(Shape):
    name: str
    rows: int
    bytes: int
    runs: int
    of: str = Field(description="Who writes it")


class Operator(Shape):
    id: int
    inputs: list[int] = Field(description="The operators whose rows it takes")
    name: str
    detail: str
    rule: str
    state: str
    bound: str
    cost: str
    rows: Passed
    arrangements: list[Arrangement]


class Kept(Shape):
    rows: int
    bytes: int


class Explained(Shape):
    view: str
    sql: str
    operators: list[Operator] = Field(description="Leaves first")
    state: Kept = Field(description="Of all views together")
    counted_from: int | None = Field(description="A commit; null: nothing was counted yet")
    text: str
