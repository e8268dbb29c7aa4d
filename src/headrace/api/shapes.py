"""The forms of answers, for the contract in OpenAPI. Answers are sent as they are: nothing is checked at run time."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Health(Shape):
    status: Literal["ok"]
    version: str


class Me(Shape):
    name: str
    role: Literal["viewer", "editor", "operator", "admin"]
    only: list[str]
    grants: list[str] = Field(description="ROLE:PATTERN: where it may do more")


class Session(Shape):
    me: Me | None = Field(description="None: nobody has logged in")


class ErrorCode(Shape):
    code: str
    meaning: str
    cause: str = Field(description="What brings it about most often, in Markdown, as is the repair")
    repair: str


class Column(Shape):
    name: str
    type: str = Field(description="As Spark SQL names it")


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


class View(Shape):
    """What the status and the catalogue tell of a view."""

    model_config = ConfigDict(extra="allow")
    name: str
    version: int
    state: Literal["live", "failed", "refused"]
    reason: str
    commit: int
    columns: list[Column]
    key: list[str]
    reads: list[str]


class WholeView(View):
    sql: str
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


class Feed(Shape):
    name: str
    kind: Literal["view", "table"]


class Transaction(Shape):
    """Changes of a table are ``{"table", "op", "row"}``, of a view ``{"weight", "row"}``; a view has no source."""

    commit: int
    committed_at: str | None
    source: str | None = None
    position: str | None = None
    changes: list[dict[str, Any]]
    more: bool = Field(description="There are more changes than are told")


class LookedThrough(Shape):
    transactions: list[Transaction]
    before: int | None = Field(description="Commits from this one on were looked through; null: all that are kept")


class Node(Shape):
    id: str
    kind: Literal["source", "table", "view", "sink"]
    name: str
    state: str


class Edge(Shape):
    begin: str = Field(alias="from")
    end: str = Field(alias="to")


class Place(Shape):
    relation: str = Field(description="A view or a table")
    column: str


class Reader(Place):
    by: Literal["value", "rows"]


class From(Shape):
    value: list[Place] = Field(description="What it is computed from")
    rows: list[Place] = Field(description="What only decides which rows go into it")


class TracedColumn(Place, From):
    type: str


class Lineage(Shape):
    nodes: list[Node]
    edges: list[Edge]
    columns: list[TracedColumn] = Field(default=[], description="Told where they are asked for, upstream first")


class OwnColumn(From):
    column: str
    type: str
    into: list[Reader] = Field(description="What comes from it")


class ColumnLineage(Shape):
    relation: str
    kind: Literal["view", "table"]
    columns: list[OwnColumn]
    rows: list[Place] = Field(description="What decides which rows it has")
    sinks: list[str]


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


class Damage(Shape):
    number: int = Field(description="The first entry that is not as it was written")
    file: str
    offset: int
    why: str


class Verdict(Shape):
    entries: int = Field(description="That are as they were written")
    head: str
    damage: Damage | None


class StoredQuery(Shape):
    name: str
    view: str
    query: str
    problem: dict[str, str] | None = Field(description="What is wrong with it: it matches nothing until corrected")


class Match(Shape):
    copies: int
    row: dict[str, Any]


class Matches(Shape):
    query: str
    view: str
    version: int
    commit: int
    columns: list[Column]
    total: int = Field(description="Rows, of which some may not be told")
    matches: list[Match]


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


class Snippet(Shape):
    column: str
    text: str
    marks: list[tuple[int, int]] = Field(description="What was found: begin and end in characters of the text")


class Hit(Shape):
    score: float
    copies: int
    row: dict[str, Any]
    snippets: list[Snippet]


class Hits(Shape):
    view: str = Field(default="", description="Told of a view, as is the version")
    version: int = 0
    table: str = Field(default="", description="Told of a table")
    commit: int
    query: str
    total: int
    hits: list[Hit]
    state: str = Field(default="live", description="Told of a view that has failed, as is the reason")
    reason: str = ""
