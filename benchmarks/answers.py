"""What a view holds beside what DuckDB has of the same query, and beside what computing it anew takes."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb

from headrace.serve import snapshot

ROUNDS = 3  # of a computation anew
COMPARING = "4GB"  # of memory, for contents of any size; the rest is on disk


def differing(project: Path, view: str, answer: str) -> int:
    """How many rows of a project's view are missing or too many; ``answer``: what DuckDB selects the right ones of."""
    _, schema, held = snapshot.contents(project, view)
    with comparing() as connection:
        connection.register("held", held)
        return sum(apart(connection, "held", schema.names, answer))


def apart(connection: duckdb.DuckDBPyConnection, held: str, columns: Sequence[str], answer: str) -> tuple[int, int]:
    """(rows of ``answer`` that ``held`` lacks, rows that it has too many): both are what DuckDB can select from, with
    these columns, and ``held`` has weights ``_w``. Values are compared by their texts, times in UTC."""
    names = ", ".join(f'CAST("{column}" AS VARCHAR) AS c{place}' for place, column in enumerate(columns))
    both = f"SELECT {names}, _w AS w FROM {held} UNION ALL SELECT {names}, -1 FROM {answer}"
    rows = f"SELECT sum(w) AS w FROM ({both}) GROUP BY {', '.join(f'c{place}' for place in range(len(columns)))}"
    found = connection.execute(
        f"SELECT coalesce(sum(greatest(-w, 0)), 0), coalesce(sum(greatest(w, 0)), 0) FROM ({rows})"
    ).fetchone()
    assert found is not None
    return int(found[0]), int(found[1])


@contextmanager
def comparing() -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB in UTC, in bounded memory."""
    with tempfile.TemporaryDirectory() as folder:
        bounds = {"memory_limit": COMPARING, "temp_directory": folder, "preserve_insertion_order": False}
        with duckdb.connect(config=bounds) as connection:
            connection.execute("SET TimeZone='UTC'")
            yield connection


def anew(sql: str) -> float:
    """Seconds of DuckDB, as it comes, for the rows of a query, which are brought into this process: the best of a few
    rounds."""
    took = []
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone='UTC'")
        for _ in range(ROUNDS):
            began = time.perf_counter()
            connection.sql(sql).to_arrow_table()
            took.append(time.perf_counter() - began)
    return min(took)


def beside(recomputed: float, step_ms: float) -> dict[str, float]:
    """Figures of a computation anew that took so many seconds, beside a step."""
    return {"duckdb_ms": round(recomputed * 1000, 1), "duckdb_to_step": round(recomputed * 1000 / step_ms, 2)}
