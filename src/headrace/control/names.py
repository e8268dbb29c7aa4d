"""Names that a caller gave, against those that exist."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.catalog.document import did_you_mean
from headrace.model.errors import HeadraceError


def known_view(name: str, known: Iterable[str]) -> str:
    """``name`` as it is spelled in the project (SQL does not tell case apart), or ``view.unknown``."""
    views = sorted(known)
    for view in views:
        if view.lower() == name.lower():
            return view
    hint = did_you_mean(name, views) or (f"views: {', '.join(views)}" if views else "")
    raise HeadraceError(
        "view.unknown",
        f"there is no view '{name}'",
        why="" if views else "the project has no views yet",
        next=hint or "a view is a file views/NAME.sql with one SELECT",
    )
