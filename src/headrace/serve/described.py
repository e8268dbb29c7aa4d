"""One view as the catalogue has it: what it is made of, how much it holds, and what it was before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.catalog.store import Catalog
from headrace.serve import snapshot
from headrace.serve.history import time_text


def view(project_path: Path, name: str) -> dict[str, Any]:
    """``{"name", "version", "sql", "columns", "key", "state", "reason", "commit", "created_commit", "rows",
    "failing"}``. ``name`` in any case. Raises ``view.unknown``."""
    catalog = Catalog(snapshot.catalog_path(project_path), read_only=True)
    try:
        spelled = {known.lower(): known for known in catalog.views()}.get(name.lower(), name)
        record, last = snapshot.known(catalog, spelled), catalog.last_published()
        schema = record.schema
        return {
            "name": schema.name, "version": schema.version, "sql": record.sql,
            "columns": [{"name": column.name, "type": column.type} for column in schema.columns],
            "key": list(schema.key), "state": record.state, "reason": record.reason,
            "commit": snapshot.reached(catalog, record, last.upto if last else 0),
            "created_commit": record.created_commit, "rows": snapshot.count(catalog, record),
            "failing": snapshot.failing(catalog.error_rows(schema.name, schema.version)),
        }  # fmt: skip
    finally:
        catalog.close()


def versions(project_path: Path, name: str) -> dict[str, Any]:
    """``{"view", "versions"}``, newest first, each ``{"version", "state", "sql", "columns", "key", "came_commit",
    "came_at", "gone_commit", "gone_at"}``; those of a dropped view too. Raises ``view.unknown``."""
    catalog = Catalog(snapshot.catalog_path(project_path), read_only=True)
    try:
        name = {known.lower(): known for known in catalog.views()}.get(name.lower(), name)
        found = catalog.history(name)
        if not found:
            snapshot.known(catalog, name)
        return {
            "view": name,
            "versions": [
                {
                    "version": each.schema.version, "state": each.state, "sql": each.sql,
                    "columns": [{"name": column.name, "type": column.type} for column in each.schema.columns],
                    "key": list(each.schema.key),
                    "came_commit": each.came_commit, "came_at": time_text(each.came_us),
                    "gone_commit": each.gone_commit, "gone_at": time_text(each.gone_us),
                }
                for each in found
            ],
        }  # fmt: skip
    finally:
        catalog.close()
