"""Questions as they are written: ``column=op.value``, a list of words, a moment, a series in the words of a request."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from headrace.model.errors import HeadraceError
from headrace.serve import buckets
from headrace.serve.relation import OPERATORS, Filter
from headrace.serve.series import Fill, Series, aggregate

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def series(
    time: str,
    every: str,
    value: str = "count(*)",
    by: Sequence[str] = (),
    fill: Fill = "null",
    compare: str | None = None,
    zone: str = "UTC",
    begin: str | None = None,
    end: str | None = None,
) -> Series:
    """``every`` and ``compare``: lengths, 1h; ``value``: sum(amount). Raises ``HeadraceError``: api.request."""
    return Series(
        time, buckets.bucket(every), aggregate(value), tuple(by), fill,
        buckets.length(compare, where="compare") if compare else None, buckets.zone(zone),
        moment_us("from", begin), moment_us("to", end),
    )  # fmt: skip


def moment_us(where: str, text: str | None) -> int | None:
    """A moment in microseconds since the epoch; one without a zone is of UTC. Raises ``HeadraceError``: api.request."""
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise HeadraceError(
            "api.request", f"'{text}' is no time", where=where, next=f"{where}=2026-03-01T08:00:00Z"
        ) from None
    return (time.replace(tzinfo=time.tzinfo or UTC) - EPOCH) // timedelta(microseconds=1)


def filter_of(column: str, text: str) -> Filter:
    """Of ``eq.north``. Raises ``HeadraceError``: api.request."""
    operator, dot, value = text.partition(".")
    if not dot or operator not in OPERATORS:
        raise HeadraceError(
            "api.request", f"'{column}={text}' is no filter",
            why=f"a filter is COLUMN=OPERATOR.VALUE; operators: {', '.join(OPERATORS)}", next=f"{column}=eq.{text}",
        )  # fmt: skip
    if operator == "in":
        return Filter(column, operator, tuple(words(column, value.removeprefix("(").removesuffix(")"))))
    return Filter(column, operator, value)


def words(name: str, text: str) -> list[str]:
    """Parts of a list; one with a comma in it stands in double quotes."""
    try:
        found = next(csv.reader([text], strict=True), []) if text else []
    except csv.Error as error:
        raise HeadraceError(
            "api.request", f"'{name}={text}' is no list", why=str(error), next=f'{name}=COLUMN,"COLUMN, WITH A COMMA"'
        ) from None
    if not all(found) and name in ("order", "select"):
        raise HeadraceError("api.request", f"'{name}={text}' has an empty part", next=f"{name}=COLUMN,COLUMN")
    return found
