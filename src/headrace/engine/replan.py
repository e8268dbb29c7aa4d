"""Views that stopped as a table was altered, and whose SQL means the same over it as it is now: planned again."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from headrace.circuit.node import Feed
from headrace.engine.altered import widened
from headrace.engine.compile import Compilation, Compiled
from headrace.model.errors import HeadraceError
from headrace.model.schema import Relation

if TYPE_CHECKING:
    from headrace.engine.pipeline import Pipeline

# What tells an integer from a wider one, or a decimal from one with more digits, of the same value.
_TELLING = re.compile(
    r"\b(typeof|hash|xxhash64|murmur\w*|hex|bin|to_binary|encode|bit_\w+|shift\w+|schema_of_\w+|java_method|reflect)\s*\(",
    re.IGNORECASE,
)
_DECIMAL = re.compile(r"decimal\(\d+,(\d+)\)")


def replan(pipeline: Pipeline, tried: dict[str, str]) -> None:
    """Take sources as they are now, if a stopped view means the same over them; the others stay as they are.

    ``tried``: for what each view has stopped that was looked at before. On the engine's thread.
    """
    known = pipeline.maintainer.failures.known
    stopped = {name: failed for name, failed in known.items() if failed.lost}
    if all(tried.get(name) == failed.lost for name, failed in stopped.items()):
        return
    if not any(source.altered() for source in pipeline.sources.values()):
        return
    tried.update({name: failed.lost for name, failed in stopped.items()})
    try:
        tables = pipeline.definitions.tables(pipeline.definitions.offered(pipeline.project))
        compilation = pipeline.definitions.compiled(pipeline.project, tables)
        relations = {name: relation for name, (_, relation) in tables.items()}
        same = {
            name for name, failed in stopped.items()
            if means_same(failed.compiled, compilation.views.get(name), pipeline.maintainer.tables, relations)
        }  # fmt: skip
        if same:
            pipeline.definitions.carry_out(pipeline.project, stopped.keys() - same)
    except HeadraceError as error:  # nobody asked for it: what runs goes on
        pipeline.tell({"event": "replan.failed", "error": error.as_dict()})


def means_same(
    was: Compiled, now: Compiled | None, before: Mapping[str, Relation], after: Mapping[str, Relation]
) -> bool:  # fmt: skip
    """Whether the same text gives the same columns, over tables of which it uses nothing but columns that are wider."""
    if now is None or was.definition.sql != now.definition.sql or _TELLING.search(was.definition.sql):
        return False
    if [(c.name, c.type) for c in was.schema.columns] != [(c.name, c.type) for c in now.schema.columns]:
        return False
    for leaf in was.root.walk():
        if isinstance(leaf, Feed) and leaf.relation in before:
            types = {c.name: c.type for c in after[leaf.relation].columns} if leaf.relation in after else {}
            then = {c.name: c.type for c in before[leaf.relation].columns}
            if not all(_wider(then[name], types.get(name, "")) for name in leaf.columns):
                return False
    return True


def _wider(was: str, now: str) -> bool:
    """Whether a value shows as the same text in both types, and adds up alike."""
    one, other = _DECIMAL.fullmatch(was), _DECIMAL.fullmatch(now)
    scales = (one[1], other[1]) if one and other else ("", "")
    return was == now or (widened(was, now) and scales[0] == scales[1] and now != "double")


def hold_back(compilation: Compilation, names: Collection[str]) -> set[str]:
    """Leave these views, and those that read them, out of a compilation, as refused; which they are."""
    left = set(names) & (compilation.views.keys() | compilation.refused.keys())
    while more := {n for n, c in compilation.views.items() if left & set(c.reads)} - left:
        left |= more
    for name in left:
        compilation.views.pop(name, None)
        compilation.refused.setdefault(
            name,
            HeadraceError(
                "source.schema",
                f"view {name} means something else over its tables as they are now",
                why="they were altered",
                next=f"edit views/{name}.sql, or `headrace apply` takes it as it is",
            ),
        )
    return left
