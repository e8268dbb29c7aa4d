"""The views that are published: which there are, and the one that was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.control.names import known_view
from headrace.model.errors import HeadraceError


def views(path: Path) -> list[dict[str, Any]]:
    """Every published view of the project; none before its first `up`."""
    from headrace.serve import snapshot

    try:
        return snapshot.views(path)
    except HeadraceError as error:
        if error.code == "project.not_running":  # there is no catalogue yet
            return []
        raise


def find(path: Path, view: str) -> str:
    """The name of the published view that ``view`` means; ``view.unknown`` says if it is misspelt or not built yet."""
    names = [str(item["name"]) for item in views(path)]
    if view.lower() in {name.lower() for name in names}:
        return known_view(view, names)
    waiting = defined(path)
    if view.lower() in {name.lower() for name in waiting}:
        raise HeadraceError(
            "view.unknown",
            f"the view '{view}' is defined, but not built yet",
            where=f"views/{known_view(view, waiting)}.sql",
            next="`headrace up` builds it; `headrace apply` when `up` runs already",
        )
    return known_view(view, {*names, *waiting})


def defined(path: Path) -> list[str]:
    """Names of the view files; their text is not looked at, so that a broken file does not hide the others."""
    return sorted(file.stem for file in (path / "views").glob("*.sql") if not file.name.startswith("."))
