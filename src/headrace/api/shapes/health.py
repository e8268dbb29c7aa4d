"""How the project is, its machine, how far all is."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from headrace.api.shapes.reads import ViewStatus
from headrace.api.shapes.shape import Problem, Shape
from headrace.api.shapes.sinks import Sink


class Health(Shape):
    status: Literal["ok"]
    version: str


class ErrorCode(Shape):
    code: str
    meaning: str
    cause: str = Field(description="What brings it about most often, in Markdown, as is the repair")
    repair: str


class Copied(Shape):
    """The first copy of a table, or that of large files; null: not known yet."""

    table: str
    unit: Literal["rows", "bytes"] = Field(default="rows", description="Of what is counted")
    done: int
    total: int | None
    per_s: float | None
    left_s: float | None


class Source(Shape):
    name: str
    tables: list[str]
    rows: int = Field(description="That it brought since the start")
    position: str | None = Field(description="Up to which the log has it")
    state: Literal["starting", "running", "failed"]
    error: Problem | None
    warnings: list[str]
    copying: list[Copied]
    quarantined: dict[str, int] = Field(description="Table: its entries in the quarantine")
    endpoint: str = Field(default="", description="Of a source that clients push to, as are the next eight")
    token_file: str = ""
    read_token_file: str = ""
    when_full: str = ""
    queued_bytes: int = 0
    max_queue: int = Field(default=0, description="Bytes")
    refused: int = 0
    dropped: int = 0
    dropped_bytes: int = 0
    backlog: int = Field(default=0, description="Changes, of a source with `max_backlog`, as are the next three")
    max_backlog: int = 0
    waits: bool = False
    waited_s: float = 0.0


class Status(Shape):
    """To a token that is limited to some views ``state``, ``commit``, ``frontier`` and those views are told."""

    pid: int = 0
    state: Literal["running"]
    commit: int = Field(description="The end of the log")
    first: int = Field(default=0, description="The first commit that the log still has")
    frontier: int = Field(description="The commit that live views have reached")
    step_seconds: float = Field(default=0.0, description="How long the last step took")
    steps: int = Field(default=0, description="Since the start")
    published_us: int | None = Field(
        default=None, description="When the last step was, in microseconds since the epoch"
    )
    views: list[ViewStatus]
    sources: list[Source]
    sinks: list[Sink]


class Machine(Shape):
    cores: int
    load: float
    memory: int
    available: int
    driver_memory: str


class Process(Shape):
    name: str
    pid: int
    cpu_s: float
    own: int = Field(description="Memory that is no file's")
    mapped: int = Field(description="Memory of the files that it has mapped")


class Jvm(Shape):
    heap: int
    heap_now: int
    heap_max: int
    arrow: int
    buffers: int
    code: int
    gc_s: float


class Files(Shape):
    name: str
    files: int
    bytes: int
    cached: int = Field(description="Bytes of them that the page cache has")


class Top(Shape):
    """Counters since the start: two answers make a rate. All sizes are bytes."""

    pid: int
    at_s: float = Field(description="Of a clock that never goes back")
    commit: int
    frontier: int
    steps: int
    step_seconds: float
    rows: int = Field(description="That the sources brought")
    machine: Machine
    processes: list[Process]
    jvm: Jvm
    files: list[Files]


class PartReached(Shape):
    """``lag``: the commits that it lacks; ``behind_s``: the age of the first of them, in seconds."""

    name: str
    commit: int
    lag: int
    behind_s: float
    in_least: bool = Field(description="It counts for the least: it is live")


class ViewReached(PartReached):
    state: Literal["live", "failed"]
    reason: str


class SinkReached(PartReached):
    state: Literal["running", "failed", "paused"]
    error: Problem | None


class Frontier(Shape):
    state: Literal["running"]
    commit: int = Field(description="The end of the log")
    least: int = Field(description="What every live view and every sink has reached")
    lag: int = Field(description="The commits that the least lacks")
    behind_s: float
    views: list[ViewReached]
    sinks: list[SinkReached]
