"""A project as the user wrote it: sources, views and sinks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.model.bounds import SECONDS

_ON_ERROR = re.compile(r"\A(?:\s*--[^\n]*\n)*?\s*--\s*on_error:[ \t]*([^\n]*?)\s*?(?:\n|\Z)")
_RECOMPUTE = re.compile(r"\A(?:\s*--[^\n]*\n)*\s*--\s*on_change:\s*recompute\s*?(?:\n|\Z)")


@dataclass(frozen=True, slots=True)
class SourceDefinition:
    """``sources/NAME.yaml``: the connector's ``type`` and its own options, unchecked until it is made.

    ``when_full``: what it does with changes that come faster than they are taken. ``max_backlog``: how many of its
    changes the log may hold that the views, and the sinks in ``waits_for``, have not taken yet; None: any number.
    """

    name: str
    type: str
    options: Mapping[str, Any] = field(default_factory=dict)
    path: Path | None = None
    when_full: str = "wait"
    max_backlog: int | None = None
    waits_for: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    """``views/NAME.sql``: one SELECT."""

    name: str
    sql: str
    path: Path | None = None

    @property
    def recomputes(self) -> bool:
        """Whether one of the comments it begins with says ``-- on_change: recompute``: a step may then cost as much as
        the whole input."""
        return _RECOMPUTE.match(self.sql) is not None

    @property
    def on_error(self) -> str:
        """What happens when its SQL throws on a row, by a comment that it begins with, ``-- on_error: set_aside``.

        "stop" (the view alone; the default), "set_aside" (it goes on without the row), "stop_source"
        (the row's source too), or what else stands there.
        """
        found = _ON_ERROR.match(self.sql)
        return found[1] if found else "stop"


@dataclass(frozen=True, slots=True)
class FunctionFile:
    """``functions/NAME.py``: Python with functions that views may call. ``declares``: their names."""

    name: str
    text: str
    declares: tuple[str, ...]
    path: Path | None = None


@dataclass(frozen=True, slots=True)
class SinkDefinition:
    """``sinks/NAME.yaml``: the connector's ``type``, its options, and the views it takes (all by default).

    ``searches``: the stored queries whose matches it takes; then it takes no view.
    """

    name: str
    type: str
    views: tuple[str, ...] | None = None
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    path: Path | None = None
    searches: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredQuery:
    """``searches/NAME.yaml``: a query that is matched against the changes of a view."""

    name: str
    view: str
    query: str
    path: Path | None = None


@dataclass(frozen=True, slots=True)
class ExampleStep:
    """One step of an example: transactions (table -> rows), then what views hold (view -> rows)."""

    name: str
    given: tuple[Mapping[str, Any], ...]
    expected: Mapping[str, Any] = field(default_factory=dict)
    failing: tuple[str, ...] = ()  # views whose SQL throws after this step
    restart: bool = False  # whether it begins as after a crash
    now: Any = None  # the time that the clock moves to


@dataclass(frozen=True, slots=True)
class Example:
    """``tests/NAME.yaml``: given rows and expected rows, step by step. ``tables``: columns as DDL, in place of those of
    the sources; ``keys``: their keys."""

    name: str
    steps: tuple[ExampleStep, ...]
    tables: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    now: Any = None  # the time that the clock stands at
    path: Path | None = None


@dataclass(frozen=True, slots=True)
class Retention:
    """How much of the log stays: what is younger than ``keep_s`` seconds, and at most about ``keep_bytes``; None: all.

    ``wait_for``: the sinks that hold it back as long as they lack it; None: every one. One that is left behind gets its
    views anew.
    """

    keep_s: float | None = None
    keep_bytes: int | None = None
    wait_for: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class AuditRetention:
    """How much of the audit log stays, as in ``Retention``; None: all."""

    keep_s: float | None = None
    keep_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """Where `headrace up` serves the API and the page, and to whom. ``port`` None: 7070, or a free one.

    ``auth``: "token", or "none" on the loopback. ``memory``: of the questions that are asked of views.
    ``certificate``, ``key``: PEM files below the project's folder, or absolute, both or neither; ``tls``: it makes a
    certificate of its own instead.
    """

    enabled: bool = True
    host: str = "127.0.0.1"
    port: int | None = None
    auth: str = "token"
    memory: str = "512MB"
    tls: bool = False
    certificate: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class PsqlSettings:
    """Where PostgreSQL's protocol is served, and to whom. ``auth``, and what TLS is by, as in ``ApiSettings``."""

    host: str = "127.0.0.1"
    port: int = 7432
    auth: str = "token"
    connections: int = 64
    memory: str = "512MB"
    tls: bool = False
    certificate: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """``headrace.yaml``. Every setting has a default; most projects only name themselves."""

    name: str = "headrace"
    master: str = "local[2]"
    partitions: int = 2  # tasks of a large step
    driver_memory: str = "1g"
    time_zone: str = "UTC"
    ansi: bool = True
    checkpoint_seconds: float = 30.0
    query_seconds: float = SECONDS  # the most that one query may take, whoever asks it
    clock_seconds: float = 1.0  # how far the clock of views may be behind when they change
    code: bool = False  # whether the files of functions/ may run
    step_seconds: float = 300.0  # beyond this a step over few rows is ended, and the view that it waits for set aside
    step_rows: int = 1_000_000  # a step takes at most about this many changes, never less than one transaction
    transactions: str = "grouped"  # or "each": every one of the log is one of its own in the sinks
    retention: Retention = Retention()
    audit: AuditRetention = AuditRetention()
    api: ApiSettings = ApiSettings()
    psql: PsqlSettings | None = None  # None: it is not served

    @property
    def driver_bytes(self) -> int:
        """``driver_memory`` in bytes."""
        digits = self.driver_memory.lower().removesuffix("b")
        return int(digits[:-1]) << 10 * (1 + "kmgt".index(digits[-1]))


@dataclass(frozen=True, slots=True)
class Project:
    """A project folder, read."""

    path: Path
    settings: Settings = Settings()
    sources: tuple[SourceDefinition, ...] = ()
    views: tuple[ViewDefinition, ...] = ()
    sinks: tuple[SinkDefinition, ...] = ()
    functions: tuple[FunctionFile, ...] = ()
