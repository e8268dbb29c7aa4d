"""One entry of the quarantine: all that is known of it, from files; `headrace up` may run or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.log.read import LogReader
from headrace.model.errors import HeadraceError
from headrace.serve import quarantine
from headrace.serve.history import reader_of, time_text


def entry(project_path: Path, id: str) -> dict[str, Any]:
    """What ``quarantine.shown`` gives, with ``key``, and of its commit ``source``, ``position``, ``committed_at``.

    ``key``: the columns of the table's key now. Of a row that a source could not read what ``shown_refused`` gives,
    with ``form`` and ``kept_at``. Raises ``HeadraceError``: quarantine.unknown.
    """
    with quarantine.opened(project_path) as catalog:
        whole = quarantine.chosen(catalog, quarantine.Chosen(ids=(id,)))
        if whole.aside:
            return quarantine.shown_aside(whole.aside[0])
        if whole.refused:
            (refused,) = whole.refused
            kept = {"form": refused.row.form, "kept_at": time_text(refused.at_us)}
            return {**quarantine.shown_refused(refused), **kept}
        ((table, changes),) = whole.changes
        relation = catalog.relations().get(table)
        key = list(relation[1].key) if relation else []
    (found,) = quarantine.shown(table, changes)
    return {**found, "key": key, **_origin(reader_of(project_path), found["commit"])}


def _origin(reader: LogReader, commit: int) -> dict[str, Any]:
    """Of a commit that retention has removed nothing is known any more but its number."""
    try:
        ((_, origin),) = reader.origins(commit - 1, commit)
    except HeadraceError as error:
        if error.code != "log.retained":
            raise
        return {"source": None, "position": None, "committed_at": None}
    return {"source": origin.source, "position": origin.position, "committed_at": time_text(origin.committed_us)}
