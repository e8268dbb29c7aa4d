"""Headrace keeps SQL views up to date, incrementally and transactionally, on Apache Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.model.function import function

if TYPE_CHECKING:
    from headrace.engine.pipeline import Pipeline

__version__ = "0.1.0"
__all__ = ["function", "open"]


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
