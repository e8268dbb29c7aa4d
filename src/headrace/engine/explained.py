"""How a view is maintained, or how one would be that is not defined."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.circuit.explain import explain
from headrace.engine import attach
from headrace.engine.compile import columns
from headrace.model.definition import ViewDefinition

if TYPE_CHECKING:
    from headrace.engine.pipeline import Pipeline


def explained(pipeline: Pipeline, view: str, sql: str | None) -> dict[str, Any]:
    """Operators: what each does, its rule, what it keeps, what bounds that, and its cost.

    With ``sql`` those of that SELECT, under a name that no view has; raises what refuses such a view.
    """
    if sql is None:
        compiled = pipeline.view(view)
        named = columns(pipeline.maintainer.tables, pipeline.maintainer.views.values())
        return explain(view, compiled.definition.sql, compiled.root, pipeline.maintainer.kept.size, named)

    def work() -> dict[str, Any]:
        project = pipeline.project
        wanted = replace(project, views=(*project.views, ViewDefinition(view, sql)))
        tables = attach.tables(pipeline.offered(project), pipeline.catalog.relations())
        compilation = pipeline.compiled(wanted, tables)
        if view in compilation.refused:
            raise compilation.refused[view]
        named = columns({name: relation for name, (_, relation) in tables.items()}, compilation.views.values())
        return explain(view, sql, compilation.views[view].root, pipeline.maintainer.kept.size, named)

    return pipeline.on_engine(work)
