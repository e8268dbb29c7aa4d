"""Headrace keeps SQL views up to date, incrementally and transactionally, on Apache Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.model.function import function
from headrace.model.version import VERSION

if TYPE_CHECKING:
    from headrace.engine.pipeline import Pipeline
    from headrace.serve.subscription import Subscription

__version__ = VERSION
__all__ = ["function", "open", "subscribe"]


@contextmanager
def open(path: str | Path = ".") -> Iterator[Pipeline]:
    """Run the project in a folder inside this process, as ``headrace up`` does, until the block ends.

    Raises ``HeadraceError``: ``project.not_found``, ``project.locked``, or what is wrong with a definition.
    """
    from headrace.catalog.project import read
    from headrace.control import lock
    from headrace.engine.pipeline import Pipeline

    project = read(Path(path))
    with lock.hold(project.path, "python"):
        pipeline = Pipeline(project)
        try:
            pipeline.start()
            yield pipeline
        finally:
            pipeline.stop()


@contextmanager
def subscribe(
    group: str, relation: str | None = None, *, project: str | Path = ".", consumer: str | None = None, **options: Any
) -> Iterator[Subscription]:
    """Read a consumer group of the project in a folder: beside a running ``headrace up`` or without it, no Spark.

    With ``relation``, a table or a view, the group is made where there is none; ``options``: see ``Groups.create``.
    Raises ``HeadraceError``: group.unknown, group.relation, ``project.not_found``.
    """
    from headrace.catalog.project import at
    from headrace.serve.groups import Groups

    groups = Groups(at(Path(project)))
    try:
        with groups.subscribe(group, relation, consumer, **options) as reader:
            yield reader
    finally:
        groups.close()
