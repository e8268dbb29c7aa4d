"""The stores that the conformance suite writes to, each read through its normal client."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psycopg
from psycopg.types.json import set_json_loads
from sink_histories import Row, View, as_json, is_json, plain_row

from headrace.sinks.base import Sink
from headrace.sinks.connectors.duckdb.connector import DuckdbSink
from headrace.sinks.connectors.postgres.connector import PostgresSink

MONTHS = "interval year to month"


def _in_months(row: Row, types: Sequence[str]) -> Row:
    """The row with such intervals as numbers of months."""
    return tuple(v["_months"] if t == MONTHS and v is not None else v for v, t in zip(row, types, strict=True))


class Store(ABC):
    """An empty place to write to."""

    kind: str
    place: str  # where it is, for another process
    holds_nul: bool

    def __init__(self) -> None:
        self._sinks: list[Sink] = []

    def sink(
        self, keys: Mapping[str, tuple[str, ...]] | None = None, name: str = "warehouse", log: str = "", **options: Any
    ) -> Sink:
        """A sink object that writes here; every call is another instance, closed after the test."""
        self._sinks.append(self._make(name, keys or {}, log, options))
        return self._sinks[-1]

    def close(self) -> None:
        for sink in self._sinks:
            sink.close()

    @abstractmethod
    def _make(self, name: str, keys: Mapping[str, tuple[str, ...]], log: str, options: dict[str, Any]) -> Sink: ...

    @abstractmethod
    def query(self, statement: str) -> list[Row]:
        """Rows of a statement, as the store's own client reads them; changes are committed."""

    def shown(self, row: Row, types: tuple[str, ...]) -> Row:
        """A row that was sent, as the client reads it."""
        del types
        return plain_row(row)

    def holds(self, view: View) -> bool:
        """Whether the store's contents are the view's, as multisets of whole rows; prints what differs."""
        types = tuple(column.type for column in view.schema.columns)
        expected = Counter(self.shown(_in_months(row, types), types) for row in view.rows)
        found = self.rows(view)
        if found != expected:
            print(f"{view.schema.name}: missing {expected - found}, too many {found - expected}")
        return found == expected

    def rows(self, view: View) -> Counter[Row]:
        """What the store holds of the view's columns, intervals of months as numbers."""
        types = tuple(column.type for column in view.schema.columns)
        # As numbers of months, which the drivers' own values do not tell from days.
        shown = [
            f"CAST(extract(year FROM {name}) * 12 + extract(month FROM {name}) AS bigint)" if t == MONTHS else name
            for name, t in zip(map(quoted, view.schema.names), types, strict=True)
        ]
        return Counter(
            plain_row(row) for row in self.query(f"SELECT {', '.join(shown)} FROM {quoted(view.schema.name)}")
        )

    def contents(self, name: str) -> Counter[Row]:
        return Counter(plain_row(row) for row in self.query(f"SELECT * FROM {quoted(name)}"))

    def tables(self) -> set[str]:
        """Everything that can be read by name."""
        rows = self.query("SELECT table_name FROM information_schema.tables WHERE table_schema IN ('public', 'main')")
        return {name for (name,) in rows}

    def frontier(self) -> int | None:
        rows = self.query('SELECT "commit" FROM headrace_progress')
        return rows[0][0] if rows else None

    def states(self) -> dict[str, tuple[int, str, int | None, str | None]]:
        rows = self.query('SELECT view, version, state, "commit", reason FROM headrace_views')
        return {row[0]: row[1:] for row in rows}

    def snapshot(self) -> dict[str, Counter[Row]]:
        """All that is there, but for the clock."""
        found = {name: self.contents(name) for name in self.tables() - {"headrace_progress"}}
        columns = "project, sink, commit, generation, committed_at"
        found["headrace_progress"] = Counter(
            plain_row(r) for r in self.query(f"SELECT {columns} FROM headrace_progress")
        )
        return found


class PostgresStore(Store):
    kind = "postgres"
    holds_nul = False

    def __init__(self, dsn: str) -> None:
        super().__init__()
        self.dsn = self.place = dsn

    def _make(self, name: str, keys: Mapping[str, tuple[str, ...]], log: str, options: dict[str, Any]) -> Sink:
        return PostgresSink(name, {"dsn": self.dsn, **options}, keys, "sinks/warehouse.yaml", log=log)

    def query(self, statement: str) -> list[Row]:
        with psycopg.connect(self.dsn, options="-c timezone=UTC") as connection:
            set_json_loads(_exact, connection)
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def shown(self, row: Row, types: tuple[str, ...]) -> Row:
        """What is nested deeper than an array is JSON; a ``real`` arrives as its shortest decimal digits."""
        return plain_row(
            as_json(value) if is_json(kind) else _real(value) if kind == "float" and value is not None else value
            for value, kind in zip(row, types, strict=True)
        )


class DuckdbStore(Store):
    kind = "duckdb"
    holds_nul = True

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.place = path, str(path)

    def _make(self, name: str, keys: Mapping[str, tuple[str, ...]], log: str, options: dict[str, Any]) -> Sink:
        return DuckdbSink(name, {"path": str(self.path), **options}, keys, "sinks/warehouse.yaml", log=log)

    def query(self, statement: str) -> list[Row]:
        with duckdb.connect(str(self.path)) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            return connection.execute(statement).fetchall()


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _exact(text: str | bytes) -> Any:
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


def _real(value: float) -> float:
    return float(str(np.float32(value)))
