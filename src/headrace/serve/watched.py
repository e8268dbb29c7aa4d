"""A view followed in the project's folder, for who reads rows as JSON has them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.formats.json_tables import rows
from headrace.model.delivery import WEIGHT
from headrace.model.view_step import ViewStep
from headrace.serve.snapshot import follow


def steps(project: Path, view: str, after: int | None, stop: threading.Event) -> Iterator[ViewStep]:
    """The contents, then each published step that changes the view; with ``after`` what came after that commit."""
    first = after is None
    for commit, delta in follow(project, view, after, stop):
        yield ViewStep("snapshot" if first else "change", commit, changes(delta))
        first = False


def changes(delta: pa.Table) -> list[dict[str, Any]]:
    """Rows with ``_w``, those that go before those that come."""
    names = [name for name in delta.column_names if name not in (WEIGHT, "_i")]
    pairs = zip(delta[WEIGHT].to_pylist(), rows(delta.select(names)), strict=True)
    told = [{"weight": weight, "row": dict(zip(names, row, strict=True))} for weight, row in pairs]
    return sorted(told, key=lambda change: change["weight"] > 0)
