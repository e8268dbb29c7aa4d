"""Goal: rows that are brought together stand for the same multiset. Judge: DuckDB's GROUP BY over the rows as they came."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from headrace.circuit.condensed import FEW, SHARE, condense
from headrace.circuit.flow import INSTANT
from headrace.model.delivery import WEIGHT

ROWS = 200_000
COLUMNS = f'g0, g1, g2, "{INSTANT}", sum("{WEIGHT}")::BIGINT'


def rows(count: int, distinct: int, seed: int) -> pa.Table:
    draw = np.random.default_rng(seed)
    kind = draw.integers(0, distinct, count)
    texts = pa.array([None, "", "a", "ä", "a\0"]).take(pa.array(kind % 5))
    days = pa.array([None, date(1, 1, 1), date(2026, 3, 1)]).take(pa.array(kind % 3))
    numbers = pa.array(kind, mask=kind % 7 == 0)
    weights, instants = pa.array(draw.choice([-1, 1, 3], count)), pa.array(draw.integers(1, 3, count).astype(np.int32))
    return pa.table([weights, instants, numbers, texts, days], names=[WEIGHT, INSTANT, "g0", "g1", "g2"])


def pieces(table: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from table.slice(0, 0).to_batches()
    yield from table.to_batches(max_chunksize=10_000)


def added(given: pa.Table) -> list[tuple[object, ...]]:
    return duckdb.sql(f"SELECT {COLUMNS} FROM given GROUP BY ALL ORDER BY ALL").fetchall()


@pytest.mark.parametrize(
    ("count", "distinct"), [(ROWS, 10), (ROWS, 5_000), (ROWS, ROWS), (FEW - 1, 2), (FEW, 2), (0, 1)]
)
def test_the_same_rows_in_fewer(count: int, distinct: int) -> None:
    given = rows(count, distinct, seed=count + distinct)
    found = [batch for batch in condense(pieces(given)) if batch.num_rows]
    made = pa.Table.from_batches(found, given.schema)
    want, have = added(given), added(made)
    assert have == want
    distinct_rows = len(want)
    brought = count >= FEW and distinct_rows <= SHARE * count
    assert made.num_rows == (distinct_rows if brought else count)
    assert brought == (distinct < ROWS and count >= FEW)
