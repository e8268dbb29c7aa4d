"""A project whose views are published by hand, and a server of PostgreSQL's protocol over it."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa

from headrace.api.postgres.defining import Call, Defining
from headrace.api.postgres.server import PostgresServer
from headrace.api.postgres.startup import Authenticate
from headrace.catalog.store import Catalog, Output, StepShape, ViewRecord
from headrace.formats.types.arrow import to_arrow
from headrace.governance.access import Access
from headrace.model.bounds import SECONDS
from headrace.model.definition import PsqlSettings
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column, Relation, ViewSchema
from headrace.serve.asking import Asking
from headrace.serve.mirror import Mirror
from headrace.serve.questions import Questions
from headrace.state.run import write_run

Rows = Sequence[tuple[Any, ...]]


class Views:
    """A project of which each step is published with ``step``."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state = folder, folder / ".headrace"
        (folder / "views").mkdir(parents=True)
        (folder / "headrace.yaml").write_text("")
        self.state.mkdir()
        self.catalog = Catalog(self.state / "catalog.db")
        self.schemas: dict[str, ViewSchema] = {}
        self.number = self.commit = 0

    def view(
        self, name: str, columns: Mapping[str, str], key: Sequence[str] = (), sql: str = "SELECT 1", version: int = 1
    ) -> None:
        schema = ViewSchema(name, version, tuple(Column(n, t) for n, t in columns.items()), tuple(key))
        (self.folder / f"views/{name}.sql").write_text(sql)
        self.catalog.put_view(ViewRecord(schema, sql, "f", "live", "", self.commit if version > 1 else 0))
        self.schemas[name] = schema

    def relation(self, name: str, columns: Mapping[str, str], key: Sequence[str] = ()) -> None:
        """A table of a source, without rows."""
        found = tuple(Column(n, t, n not in key) for n, t in columns.items())
        self.catalog.put_relation("raw", Relation(name, found, tuple(key)))

    def fail(self, name: str, reason: str) -> None:
        self.catalog.put_view(ViewRecord(self.schemas[name], "SELECT 1", "f", "failed", reason, 0))

    def step(self, **changes: Rows) -> int:
        """Publish rows of views, each with its weight at the end; the commit."""
        self.number, before = self.number + 1, self.commit
        self.commit += 1
        outputs = []
        for name, rows in changes.items():
            path = self.state / f"{name}{self.number}.arrow"
            write_run(path, self._run(name, rows))
            outputs.append(Output(self.number, self.catalog.views()[name].feed, str(path), len(rows), ""))
        self.catalog.record_step(self.number, before, self.commit, StepShape(each=False), 0)
        self.catalog.publish(self.number, outputs, 1)
        return self.commit

    def table(self, name: str, **columns: pa.Array) -> None:
        """Publish a view's rows, given as columns, once each."""
        self.number, before = self.number + 1, self.commit
        self.commit += 1
        path = self.state / f"{name}{self.number}.arrow"
        count = len(next(iter(columns.values())))
        arrays = {f"c{i}": columns[n] for i, n in enumerate(self.schemas[name].names)}
        write_run(path, pa.table({**arrays, "_i": pa.array([1] * count, pa.int32()), "_w": pa.array([1] * count)}))
        self.catalog.record_step(self.number, before, self.commit, StepShape(each=False), 0)
        self.catalog.publish(self.number, [Output(self.number, f"{name}@1", str(path), count, "")], 1)

    def _run(self, name: str, rows: Rows) -> pa.Table:
        columns = {
            f"c{i}": pa.array([row[i] for row in rows], to_arrow(column.type))
            for i, column in enumerate(self.schemas[name].columns)
        }
        weights = pa.array([row[-1] for row in rows], pa.int64())
        return pa.table({**columns, "_i": pa.array([1] * len(rows), pa.int32()), "_w": weights})


def nothing_runs(verb: str, arguments: dict[str, Any], progress: object) -> dict[str, Any]:
    raise HeadraceError("project.not_running", f"{verb}: nothing runs here")


@contextmanager
def serving(
    views: Views,
    authenticate: Authenticate | None = None,
    *,
    call: Call = nothing_runs,
    seconds: float = SECONDS,
    project: str = "shop",
    **options: Any,
) -> Iterator[PostgresServer]:
    """``call`` carries out the verbs of statements about definitions."""
    questions = Questions(Mirror(views.folder), seconds=seconds, asking=Asking(views.folder))
    server = PostgresServer(questions, project, views.folder, PsqlSettings(**options), authenticate)
    access = Access(views.state)
    server.start(socket.create_server(("127.0.0.1", 0), backlog=64), Defining(call, access, views.folder))
    try:
        yield server
    finally:
        server.stop()
        access.close()
        questions.close()


def connect(server: PostgresServer, **options: Any) -> psycopg.Connection[Any]:
    host, port = server.address
    settings = {"host": host, "port": port, "user": "ada", "dbname": "shop", "connect_timeout": 10}
    return psycopg.connect(**settings | options)
