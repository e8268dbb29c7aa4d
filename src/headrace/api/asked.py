"""What a request for rows asks: ``column=op.value``, ``order=a.desc,b``, ``select=a,b``, ``limit``, ``offset``; and how
deep the values of a request may be."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.routing import APIRoute
from pydantic import AfterValidator

from headrace.api import few
from headrace.formats.types.json import nearest
from headrace.model import moment
from headrace.model.bounds import Deadline
from headrace.model.errors import HeadraceError
from headrace.serve import written
from headrace.serve.history import reader_of
from headrace.serve.questions import Questions, Rows
from headrace.serve.relation import Filter
from headrace.serve.replay import commit_at

CHANGES = ("after", "snapshot")
SERIES = ("time", "every", "value", "by", "fill", "compare", "zone", "from", "to", "limit", "at", "format")
RESERVED = ("order", "select", "limit", "offset", "at", "format")
ROWS = 100  # unless it says how many
DEPTH_MAX = 32  # of lists and objects inside each other: what writes JSON has an end to its stack


def shallow(value: Any) -> Any:
    """The value of a request. Raises ``ValueError`` for one that is too deep."""
    level, depth = [value], 0
    while level := [inner for each in level for inner in _inside(each)]:
        depth += 1
        if depth > DEPTH_MAX:
            raise ValueError(f"lists and objects stand more than {DEPTH_MAX} deep inside each other")
    return value


Shallow = Annotated[Any, AfterValidator(shallow)]


def _inside(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def pairs(request: Request) -> list[tuple[str, str]]:
    """All parameters of a query string. A route that depends on this takes more than those that it names."""
    return request.query_params.multi_items()


Pairs = Annotated[list[tuple[str, str]], Depends(pairs)]


def check_known(request: Request) -> None:
    """Raises ``HeadraceError``: api.request, for a parameter that the route does not know."""
    route = request.scope.get("route")
    if not isinstance(route, APIRoute) or not request.query_params:
        return
    if any(each.call is pairs for each in route.dependant.dependencies):
        return
    known = [field.alias for field in route.dependant.query_params]
    for name in request.query_params:
        if name not in known:
            raise HeadraceError(
                "api.request", f"there is no parameter '{name}'", where=name,
                next=nearest(name, known) if known else "leave it out: there are none",
            )  # fmt: skip


def rows(pairs: Iterable[tuple[str, str]], limit: int, offset: int) -> Rows:
    """The question of a query string's pairs. Raises ``HeadraceError``: api.request."""
    pairs = list(pairs)
    order, select = list[tuple[str, bool]](), list[str]()
    for name, value in pairs:
        if name == "order":
            order += [_ordered(part) for part in written.words(name, value)]
        elif name == "select":
            select += written.words(name, value)
    return Rows(filters(pairs, RESERVED), tuple(order), tuple(select), limit, offset)


def filters(pairs: Iterable[tuple[str, str]], reserved: Collection[str]) -> tuple[Filter, ...]:
    """Those of a query string's pairs whose names are not of the question's own."""
    return tuple(written.filter_of(name, value) for name, value in pairs if name not in reserved)


def at(questions: Questions, text: str | int | None) -> int | None:
    """The commit that a request names, or the last one with contents of its own by the time that it names.

    Raises ``HeadraceError``: api.request, log.retained, query.timeout.
    """
    return None if text is None else _named(text, questions, questions.mirror.commit_by)


def before(questions: Questions, project: Path, text: str | None, before: int | None) -> int | None:
    """The commit before which transactions are asked for, ``before`` or what lies after the moment ``text``, a commit
    or a time. Raises as ``at``."""
    if text is None:
        return before
    after = _named(text, questions, lambda time_us, deadline: commit_at(reader_of(project), time_us, deadline)) + 1
    return after if before is None else min(before, after)


def _named(text: str | int, questions: Questions, by: Callable[[int, Deadline], int]) -> int:
    try:
        commit, time_us = moment.parse(str(text))
    except ValueError as error:
        raise HeadraceError("api.request", str(error), where="at") from None
    if time_us is None:
        return commit or 0
    return by(time_us, Deadline.after(few.seconds(questions)))


def _ordered(part: str) -> tuple[str, bool]:
    """(column, descending)."""
    column, dot, way = part.rpartition(".")
    if dot and way in ("asc", "desc"):
        return column, way == "desc"
    return part, False
