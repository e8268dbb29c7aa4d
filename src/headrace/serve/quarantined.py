"""One change of the quarantine: all that is known of it, from files; `headrace up` may run or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.catalog.store import Catalog
from headrace.serve import quarantine
from headrace.serve.history import reader_of, time_text
from headrace.serve.snapshot import catalog_path


def entry(project_path: Path, id: str) -> dict[str, Any]:
    """What ``quarantine.shown`` gives, with ``key``, and of its commit ``source``, ``position``, ``committed_at``.

    ``key``: the columns of the table's key now. Raises ``HeadraceError``: quarantine.unknown.
    """
    catalog = Catalog(catalog_path(project_path), read_only=True)
    try:
        ((table, changes),) = quarantine.chosen(catalog, quarantine.Chosen(ids=(id,)))
        relation = catalog.relations().get(table)
        key = list(relation[1].key) if relation else []
    finally:
        catalog.close()
    (found,) = quarantine.shown(table, changes)
    ((_, origin),) = reader_of(project_path).origins(found["commit"] - 1, found["commit"])
    of = {"source": origin.source, "position": origin.position, "committed_at": time_text(origin.committed_us)}
    return {**found, "key": key, **of}
