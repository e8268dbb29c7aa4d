"""A view explained: its operators, with what each has done since it is counted and what it holds now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.circuit.explain import explain
from headrace.engine.compile import columns
from headrace.engine.counted import counted

if TYPE_CHECKING:
    from headrace.engine.pipeline import Pipeline


def explained(pipeline: Pipeline, view: str) -> dict[str, Any]:
    """See ``headrace.circuit.explain``. Raises view.unknown, view.failed. Work: no job of Spark's."""
    compiled, maintainer = pipeline.view(view), pipeline.maintainer
    stepper, sizes = maintainer.stepper, maintainer.kept.size
    assert stepper is not None
    since, done = counted(compiled.root, compiled.feed, stepper.program, stepper.frames, maintainer.counted, sizes)
    names = columns(maintainer.tables, maintainer.views.values())
    return explain(view, compiled.definition.sql, compiled.root, sizes, names, done, since)
