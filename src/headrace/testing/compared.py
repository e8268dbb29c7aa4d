"""Rows that there are against rows that should be: what is missing, what is unexpected, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.formats.types.spelled import value
from headrace.model.delivery import WEIGHT

SHOWN_MAX = 20  # rows of each kind that a text shows


@dataclass(frozen=True, slots=True)
class Unequal:
    """A row that is there too often (``times`` > 0) or not often enough."""

    row: dict[str, Any]
    times: int


def compared(found: pa.Table, expected: pa.Table) -> list[Unequal]:
    """The differences of contents from what is expected (columns and ``_w``), as multisets of whole rows."""
    from headrace.state.rows import difference

    there = found.append_column(WEIGHT, pa.array(np.ones(found.num_rows, np.int64)))
    differing = difference(there.select(expected.column_names).cast(expected.schema), expected)
    return [Unequal(row, row.pop(WEIGHT)) for row in differing.to_pylist()]


def told(view: str, unequal: list[Unequal]) -> str:
    """A text: ``-`` before a row that is missing, ``+`` before one that is unexpected."""
    missing = [u for u in unequal if u.times < 0]
    unexpected = [u for u in unequal if u.times > 0]
    lines = [f"view {view} is not as expected: {_count(missing)} missing, {_count(unexpected)} unexpected"]
    for sign, rows in (("-", missing), ("+", unexpected)):
        lines += [f"  {sign} {spelled(u)}" for u in rows[:SHOWN_MAX]]
        if len(rows) > SHOWN_MAX:
            lines.append(f"  {sign} and {len(rows) - SHOWN_MAX} more")
    return "\n".join(lines)


def spelled(unequal: Unequal) -> str:
    """``region: north, orders: 2`` and, where it is not once, how many times."""
    row = ", ".join(f"{name}: {_cell(cell)}" for name, cell in unequal.row.items())
    return row if abs(unequal.times) == 1 else f"{row}  ({abs(unequal.times)} times)"


def _count(rows: list[Unequal]) -> int:
    return sum(abs(u.times) for u in rows)


def _cell(cell: Any) -> str:
    plain = value(cell)
    return "NULL" if plain is None else str(plain)
