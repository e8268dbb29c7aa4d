"""The proof at the end: every view against Spark batch, the DuckDB file and what a subscriber kept."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.catalog.store import Catalog
from headrace.control import socket as control
from headrace.demo.followed import Followed, Row, weighted
from headrace.demo.project import SINK, DemoProject
from headrace.model.delivery import WEIGHT
from headrace.model.errors import HeadraceError
from headrace.serve import snapshot

REACH_S = 120.0
LOOK_S = 0.05


class Frontiers:
    """How far views and sink are, from the catalogue."""

    def __init__(self, path: Path) -> None:
        self._catalog = Catalog(path / ".headrace" / "catalog.db", read_only=True)

    def views(self) -> int:
        step = self._catalog.last_published()
        return step.upto if step is not None else 0

    def sink(self) -> tuple[int | None, str]:
        """(the commit that the sink has reached, its last error)."""
        found = self._catalog.sinks().get(SINK)
        return (None, "") if found is None else (found[0], found[1])

    def close(self) -> None:
        self._catalog.close()


def wait_reached(frontiers: Frontiers, commit: int, check: Callable[[], None]) -> None:
    """Wait until views and sink have reached ``commit``; raises ``HeadraceError`` when they do not."""
    end = time.monotonic() + REACH_S
    while time.monotonic() < end:
        check()
        views, (sink, error) = frontiers.views(), frontiers.sink()
        if views >= commit and sink is not None and sink >= commit:
            return
        time.sleep(LOOK_S)
    raise HeadraceError(
        "internal",
        f"commit {commit} is not everywhere after {REACH_S:.0f} s",
        where=f"views at {views}, the sink '{SINK}' at {sink}",
        why=error,
    )


def verify(project: DemoProject, on_progress: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """`headrace verify`, carried out by the running product."""
    return control.request(project.path, "verify", {"views": []}, on_progress)


def compare(project: DemoProject, views: Sequence[Followed]) -> list[dict[str, Any]]:
    """Row by row: the published contents against the DuckDB file and against what the screen's subscribers hold.

    ``[{"view", "rows", "duckdb_differences", "followed_differences"}]``. The product must have stopped.
    """
    import duckdb

    found = []
    with duckdb.connect(str(project.duckdb_file), read_only=True) as file:
        file.execute("SET TimeZone = 'UTC'")
        for view in views:
            _, schema, table = snapshot.contents(project.path, view.view)
            published = weighted(table, schema.names)
            kept = _duckdb_rows(file, view.view, table.select(schema.names).schema)
            found.append(
                {
                    "view": view.view,
                    "rows": published.total(),
                    "duckdb_differences": _differences(published, kept),
                    "followed_differences": _differences(published, view.contents()),
                }
            )
    return found


def _duckdb_rows(file: Any, view: str, schema: pa.Schema) -> Counter[Row]:
    """The table's rows, in the types of the view."""
    columns = ", ".join(f'"{name}"' for name in schema.names)
    table = file.sql(f'SELECT {columns} FROM main."{view}"').to_arrow_table().cast(schema)  # noqa: S608 (our own names)
    ones = pa.array([1] * table.num_rows, pa.int64())
    return weighted(table.append_column(WEIGHT, ones), schema.names)


def _differences(expected: Counter[Row], found: Counter[Row]) -> int:
    """Rows too many on either side."""
    return (expected - found).total() + (found - expected).total()
