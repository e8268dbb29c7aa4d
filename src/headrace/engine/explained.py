"""How a view is maintained, with what each operator has done since it is counted and what it holds now; or how a view
would be that is not defined."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.circuit.explain import explain
from headrace.engine.compile import columns
from headrace.engine.counted import counted
from headrace.model.definition import ViewDefinition

if TYPE_CHECKING:
    from headrace.engine.pipeline import Pipeline


def explained(pipeline: Pipeline, view: str, sql: str | None) -> dict[str, Any]:
    """Operators: what each does, its rule, what it keeps, what bounds that, and its cost; see
    ``headrace.circuit.explain``. Raises view.unknown, view.failed. Work: no job of Spark's.

    With ``sql`` those of that SELECT, under a name that no view has; raises what refuses such a view.
    """
    return _of_a_view(pipeline, view) if sql is None else pipeline.on_engine(lambda: _of_a_select(pipeline, view, sql))


def _of_a_view(pipeline: Pipeline, view: str) -> dict[str, Any]:
    compiled, maintainer = pipeline.view(view), pipeline.maintainer
    stepper, sizes = maintainer.stepper, maintainer.kept.size
    assert stepper is not None
    since, done = counted(compiled.root, compiled.feed, stepper.program, stepper.frames, maintainer.counted, sizes)
    names = columns(maintainer.tables, maintainer.views.values())
    return explain(view, compiled.definition.sql, compiled.root, sizes, names, done, since)


def _of_a_select(pipeline: Pipeline, view: str, sql: str) -> dict[str, Any]:
    project = pipeline.project
    wanted = replace(project, views=(*project.views, ViewDefinition(view, sql)))
    tables = pipeline.definitions.tables(pipeline.definitions.offered(project))
    compilation = pipeline.definitions.compiled(wanted, tables)
    if view in compilation.refused:
        raise compilation.refused[view]
    named = columns({name: relation for name, (_, relation) in tables.items()}, compilation.views.values())
    return explain(view, sql, compilation.views[view].root, pipeline.maintainer.kept.size, named)
