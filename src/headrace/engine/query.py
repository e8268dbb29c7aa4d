"""One SELECT over tables and views, run by Spark batch at the present frontier."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.engine.batch import Batch, kept_rows, table_contents
from headrace.engine.bounded import bounded
from headrace.engine.functions import functions_of
from headrace.model.bounds import timeout, within
from headrace.model.errors import HeadraceError
from headrace.sql.admit import admit
from headrace.sql.errors import analysis_error

if TYPE_CHECKING:
    from headrace.engine.pipeline import Pipeline


LIMIT_MAX = 1 << 30  # of Spark's, where an offset is still to be added


@dataclass(frozen=True, slots=True)
class Found:
    """``more``: whether there are rows beyond; ``stale``: why a view that was read stays behind the commit, by its
    name."""

    commit: int
    rows: pa.Table
    more: bool
    stale: Mapping[str, str]


def query(
    pipeline: Pipeline, text: str, seconds: float | None = None, still_wanted: Callable[[], bool] = lambda: True,
    limit: int | None = None,
) -> Found:  # fmt: skip
    """What it gives, all of one commit, at most ``limit`` rows. One runs at once. See ``bounds.within`` and
    ``bounded``.

    Raises what is wrong with it: sql.syntax, sql.refused, sql.unknown_relation, query.bounds, query.timeout, ...
    """
    allowed = within(seconds, pipeline.project.settings.query_seconds, "seconds")
    end = time.monotonic() + allowed
    names = [*pipeline.catalog.relations(), *pipeline.catalog.views()]
    batch = Batch(pipeline.spark, functions=functions_of(pipeline.project))
    admitted = admit(batch.catalyst, text, names)
    with pipeline.log.held():  # where rows of tables lie that are pinned
        (ticket, commit, files), tables, views = pipeline.on_engine(
            lambda: (
                pipeline.maintainer.pin(list(admitted.relations)),
                pipeline.catalog.relations(),
                pipeline.catalog.views(),
            )
        )
        try:
            offered = {name: tables[name][1] for name in admitted.relations if name in tables}
            for name in admitted.relations:
                if name not in offered and name not in views:
                    raise HeadraceError(
                        "sql.unknown_relation", f"the view or table '{name}' was dropped", next="ask again"
                    )
            read = {name: views[name] for name in admitted.relations if name not in offered}
            stale = {name: view.reason for name, view in read.items() if view.state != "live"}
            with (
                _turn(pipeline.batch_lock, allowed, end),
                bounded(batch.spark, allowed, end, still_wanted),
            ):
                for name in admitted.relations:
                    columns = offered[name].columns if name in offered else read[name].schema.columns
                    if name in offered and not files[name]:
                        frame = table_contents(batch.spark, pipeline.folder / "log", offered[name], commit)
                    else:
                        frame = kept_rows(batch.spark, files[name], columns)
                    batch.register(name, frame, columns)
                rows = batch.run(text, limit + 1 if limit is not None and limit < LIMIT_MAX else None)
                return Found(commit, rows.slice(0, limit), limit is not None and rows.num_rows > limit, stale)
        except HeadraceError:
            raise
        except Exception as error:
            raise analysis_error(error, "") from error
        finally:
            pipeline.maintainer.unpin(ticket)


@contextmanager
def _turn(lock: threading.Lock, seconds: float, end: float) -> Iterator[None]:
    """Raises ``query.timeout`` when others take all of its time."""
    if not lock.acquire(timeout=max(end - time.monotonic(), 0)):
        raise timeout(seconds)
    try:
        yield
    finally:
        lock.release()
