"""The columns of all tables and views, each with those that it comes from directly: kept with the plan of each view."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from headrace.circuit.lineage import Origins
from headrace.model.clock import CLOCK

if TYPE_CHECKING:
    from headrace.engine.pipeline import Pipeline


def lineage(pipeline: Pipeline) -> dict[str, Any]:
    """``{"columns", "rows", "reads"}``; ``columns`` in order, upstream first: ``{"relation", "column", "type", "value",
    "rows"}``. ``rows``: view -> the columns that decide which rows it has; ``reads``: view -> relations.

    Work: no job of Spark's.
    """
    maintainer = pipeline.maintainer
    views = [*maintainer.views.values(), *(failed.compiled for failed in list(maintainer.failures.known.values()))]
    columns: list[dict[str, Any]] = [
        {"relation": table.name, "column": column.name, "type": column.type, "value": [], "rows": []}
        for table in maintainer.tables.values() if table.name != CLOCK.name
        for column in table.columns
    ]  # fmt: skip
    for view in views:
        for place, column in enumerate(view.schema.columns):
            of = view.lineage.told(place)
            found = {"value": _told(of.value), "rows": _told(of.rows)}
            columns.append({"relation": view.schema.name, "column": column.name, "type": column.type, **found})
    return {
        "columns": columns,
        "rows": {view.schema.name: _told(view.lineage.rows) for view in views},
        "reads": {view.schema.name: list(view.reads) for view in views},
    }


def _told(origins: Iterable[tuple[str, str]] | Origins) -> list[dict[str, str]]:
    return [{"relation": relation, "column": column} for relation, column in sorted(origins)]
