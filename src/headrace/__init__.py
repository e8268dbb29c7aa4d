"""Headrace keeps SQL views up to date, incrementally and transactionally, on Apache Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.model.function import function
from headrace.model.version import VERSION

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.engine.pipeline import Pipeline
    from headrace.model.view_step import ViewStep
    from headrace.serve.series import Fill
    from headrace.serve.subscription import Subscription

__version__ = VERSION
_ROWS_MAX, _SECONDS = 1 << 31, 60.0  # of an answer
__all__ = ["function", "open", "series", "subscribe", "watch", "watch_query"]


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


def watch(
    view: str,
    *,
    project: str | Path = ".",
    url: str = "",
    token: str = "",
    after: int | None = None,
    ca: str = "",
    where: Mapping[str, str] | None = None,
) -> Iterator[ViewStep]:
    """Follow a view: what it holds, then each published step that changes it, for as long as the caller iterates.

    In the project's folder, beside a running ``headrace up`` or without it; or from anywhere by the server's ``url``
    with a ``token``, over connections that are made again where they end, checked by the authorities in the file ``ca``
    or the system's. With ``after``, a commit up to which the caller has all, what has come since. By a ``url`` also a
    part of the view: ``where``, column -> ``eq.north``. No Spark. Raises ``HeadraceError``: ``view.unknown``,
    ``project.not_found``, ``api.unreachable``, ``access.token``; for ``where`` ``query.filter`` and ``api.request``.
    """
    import threading

    if url:
        from headrace.web.event_source import EventSource

        yield from EventSource(url, view, token, after, ca=ca, where=tuple((where or {}).items())).steps(
            threading.Event()
        )
        return
    if where:
        from headrace.model.errors import HeadraceError

        raise HeadraceError("api.request", "'where' is of a view that is followed by its 'url'", next="give a url too")
    from headrace.catalog.project import at
    from headrace.serve.watched import steps

    yield from steps(at(Path(project)), view, after, threading.Event())


def watch_query(query: str, *, url: str, token: str = "", ca: str = "") -> Iterator[ViewStep]:
    """Follow what a stored query matches, by the server's ``url``: as ``watch`` does a view.

    Once the query is another a step ``behind`` comes, then all that it matches; after one that was removed nothing.
    Raises ``HeadraceError``: ``search.unknown``, ``api.unreachable``, ``access.token``.
    """
    import threading

    from headrace.web.event_source import EventSource

    yield from EventSource(url, query, token, ca=ca, kind="queries").steps(threading.Event())


def series(
    relation: str,
    time: str,
    every: str,
    value: str = "count(*)",
    *,
    by: Sequence[str] = (),
    fill: Fill = "null",
    compare: str | None = None,
    zone: str = "UTC",
    begin: str | None = None,
    end: str | None = None,
    where: Mapping[str, str] | None = None,
    at: int | None = None,
    project: str | Path = ".",
) -> pa.Table:
    """A view or table by time, as ``headrace series``: beside a running ``headrace up`` or without it, no Spark.

    ``every``, ``compare``: lengths, 1h, 1d, 1mo; ``value``: sum(amount); ``where``: column -> ``eq.north``; ``at``: a
    commit. Columns: ``time``, those of ``by``, ``value``, and ``before`` where it is compared.
    Raises ``HeadraceError``: api.request, query.filter, query.timeout, view.unknown, view.not_at, project.not_found.
    """
    from headrace.catalog import project as projects
    from headrace.serve import written
    from headrace.serve.database import Limits
    from headrace.serve.questions import questions_of

    asked = written.series(time, every, value, by, fill, compare, zone, begin, end)
    filters = [written.filter_of(column, text) for column, text in (where or {}).items()]
    with questions_of(projects.at(Path(project))) as questions:
        return questions.series(relation, asked, filters, at, Limits(_ROWS_MAX, _SECONDS)).table
