"""Reading what tables could not take, from the files that the catalogue names; `headrace up` may run or not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from headrace.catalog.store import Catalog
from headrace.formats.json_tables import rows
from headrace.formats.types.json import nearest
from headrace.model.errors import HeadraceError
from headrace.serve.snapshot import catalog_path
from headrace.state.run import open_run

FOLDER = "quarantine"
# First columns of a file: commit (int64), operation and reason (string), and as in the log which columns were left
# out (binary, null: none). The table's columns follow under their names.
HEAD = ("_commit", "_operation", "_reason", "_unchanged")
TEXT_MAX = 200


def counts(catalog: Catalog) -> dict[str, int]:
    """Table -> changes set aside; tables without any are left out."""
    found: dict[str, int] = {}
    for entry in catalog.set_aside():
        found[entry.relation] = found.get(entry.relation, 0) + entry.rows
    return found


def entries(project_path: Path, table: str | None, limit: int | None) -> tuple[list[dict[str, Any]], int]:
    """(what ``shown`` gives, with ``table``, oldest first; how many there are in all); with None of every table."""
    catalog = Catalog(catalog_path(project_path), read_only=True)
    try:
        files = [e for e in catalog.set_aside() if table is None or e.relation == table]
        known = sorted({*catalog.relations(), *(e.relation for e in files)})
        if table is not None and table not in known:
            raise HeadraceError("source.no_table", f"there is no table '{table}'", next=nearest(table, known))
        found: list[dict[str, Any]] = []
        for entry in files:
            left = entry.rows if limit is None else limit - len(found)
            if left > 0:
                found += [{"table": entry.relation, **row} for row in shown(open_run(entry.path).slice(0, left))]
        return found, sum(entry.rows for entry in files)
    finally:
        catalog.close()


def shown(changes: pa.Table) -> list[dict[str, Any]]:
    """``{"commit", "operation", "reason", "row"}`` of each; the row without what the change left out."""
    heads = zip(*(changes.column(i).to_pylist() for i in range(len(HEAD))), strict=True)
    names = changes.column_names[len(HEAD) :]
    cells = rows(changes.select(range(len(HEAD), changes.num_columns)))
    return [
        {
            "commit": commit, "operation": operation, "reason": reason,
            "row": {n: v for i, (n, v) in enumerate(zip(names, row, strict=True)) if not left_out(unchanged, i)},
        }
        for (commit, operation, reason, unchanged), row in zip(heads, cells, strict=True)
    ]  # fmt: skip


def text(row: Mapping[str, Any]) -> str:
    """A row for a line of text."""
    whole = "{" + ", ".join(f"{name}: {orjson.dumps(v).decode()}" for name, v in row.items()) + "}"
    return whole if len(whole) <= TEXT_MAX else whole[: TEXT_MAX - 1] + "…"


def left_out(marks: bytes | None, ordinal: int) -> bool:
    """Whether a change left that column out, by its ``_unchanged``."""
    return marks is not None and len(marks) > ordinal // 8 and bool(marks[ordinal // 8] >> ordinal % 8 & 1)
