"""One view as the catalogue has it: what it is made of, and how much it holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.catalog.store import Catalog
from headrace.serve import snapshot


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
