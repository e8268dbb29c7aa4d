"""What is proved at the end: source and sink row by row, and how long a transaction took to become visible."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from examples.pgbench.checker import Sight
from examples.pgbench.project import VIEWS


@dataclass(frozen=True, slots=True)
class Comparison:
    """A view: its rows in the source's own answer, those of them the sink lacks, those it has beyond them."""

    view: str
    rows: int
    missing: int
    surplus: int

    @property
    def differences(self) -> int:
        return self.missing + self.surplus


def compare(source_dsn: str, sink_dsn: str) -> list[Comparison]:
    """Every view as PostgreSQL answers it on the source, against the sink's table, as multisets of rows."""
    with psycopg.connect(source_dsn) as source, psycopg.connect(sink_dsn) as sink:
        source.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        sink.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        return [_compare(source, sink, view, query) for view, (_, query) in VIEWS.items()]


def _compare(source: psycopg.Connection[Any], sink: psycopg.Connection[Any], view: str, query: str) -> Comparison:
    """The source's answer goes into a temporary table of the sink, so that the sink's types and equality decide."""
    expected, found = sql.Identifier(f"expected_{view}"), sql.Identifier("public", view)
    sink.execute(sql.SQL("CREATE TEMPORARY TABLE {} (LIKE {})").format(expected, found))
    with (
        source.cursor().copy(sql.SQL("COPY ({}) TO STDOUT").format(sql.SQL(query))) as rows,
        sink.cursor().copy(sql.SQL("COPY {} FROM STDIN").format(expected)) as into,
    ):
        for block in rows:
            into.write(block)
    counts = []
    for left, right in ((expected, None), (expected, found), (found, expected)):
        beyond = sql.SQL("EXCEPT ALL TABLE {}").format(right) if right else sql.SQL("")
        row = sink.execute(sql.SQL("SELECT count(*) FROM (TABLE {} {}) t").format(left, beyond)).fetchone()
        assert row is not None
        counts.append(int(row[0]))
    return Comparison(view, *counts)


def commit_times(source_dsn: str) -> list[float]:
    """When each booking of pgbench was committed, in order; seconds since the epoch. Needs track_commit_timestamp."""
    query = "SELECT extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8 FROM pgbench_history ORDER BY 1"
    with psycopg.connect(source_dsn) as source:
        return [at for (at,) in source.execute(query).fetchall()]


def latencies(
    commits: Sequence[float], sights: Sequence[Sight], excluded: Sequence[tuple[float, float]]
) -> list[float]:
    """Seconds from each source commit to the end of the first read that showed it, sorted.

    Left out: what was committed before the first sight or after the last, and within the ``excluded`` spans.
    """
    shown = [sight.committed for sight in sights]
    found = []
    for at in commits:
        place = bisect_left(shown, at)
        if 0 < place < len(shown) and not any(begin <= at <= end for begin, end in excluded):
            found.append(sights[place].seen - at)
    return sorted(found)


def percentile(values: Sequence[float], percent: float) -> float | None:
    """The smallest value that so many percent of all sorted ``values`` do not exceed."""
    if not values:
        return None
    return values[max(0, math.ceil(len(values) * percent / 100) - 1)]
