"""The contents of a published view as rows to show: copies written out, in order, as CSV."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import typer

from headrace.catalog.document import did_you_mean
from headrace.formats.types.spelled import value
from headrace.model.delivery import WEIGHT

if TYPE_CHECKING:
    from headrace.model.schema import ViewSchema

# A column of a view's own order, as its schema has it.
_OWN = re.compile(r"(.+) (asc|desc) nulls (first|last)", re.DOTALL)
Way = tuple[str, str]  # as Arrow has it: the direction, and where NULLs stand
_ASCENDING: Way = ("ascending", "at_start")
_DESCENDING: Way = ("descending", "at_end")


def copies(table: pa.Table) -> int:
    """How many rows the weights stand for."""
    return int(pc.sum(table[WEIGHT]).as_py() or 0)


def ordered(
    table: pa.Table, schema: ViewSchema, order_by: Sequence[str], limit: int | None, *, copies: bool = True
) -> tuple[pa.Table, int]:
    """(rows in order, at most ``limit``; how many there are in all).

    In the order asked for (``column`` or ``column:desc``), else the view's own, else by its key, else by its
    columns; with the other columns as tie-breakers, so that the same contents always look the same. With
    ``copies`` a row of weight 3 comes three times and ``_w`` is left out.
    """
    weights = table[WEIGHT].to_numpy()
    total = int(weights.sum())
    keys = [_sort_key(text, schema) for text in order_by] or _own_order(schema)
    keys += [(name, _ASCENDING) for name in (*schema.key, *schema.names) if name not in {key for key, _ in keys}]
    places = _places(table, dict(keys))
    if copies:
        counts = weights[places]
        if limit is not None:  # before they are written out: there may be very many
            counts = np.diff(np.minimum(np.cumsum(counts), limit), prepend=0)
        places = np.repeat(places, counts)
    elif limit is not None:
        places = places[:limit]
    rows = table.take(pa.array(places))
    return (rows.select(list(schema.names)) if copies else rows), total


def _places(table: pa.Table, keys: dict[str, Way]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The rows' places in Spark's order: NaN after all values, before them when descending."""
    columns: list[Any] = []
    order: list[tuple[str, str, str]] = []
    for name, (way, nulls) in keys.items():
        column = table[name]
        if pa.types.is_nested(column.type):
            continue  # Arrow does not order them
        parts = [pc.is_nan(column), column] if pa.types.is_floating(column.type) else [column]
        for part in parts:
            order.append((str(len(columns)), way, nulls))
            columns.append(part)
    if not columns:
        return np.arange(table.num_rows)
    sorting = pa.Table.from_arrays(columns, names=[name for name, _, _ in order])
    places: np.ndarray[tuple[int], np.dtype[np.int64]] = pc.sort_indices(sorting, sort_keys=order).to_numpy()
    return places


def _own_order(schema: ViewSchema) -> list[tuple[str, Way]]:
    """The order that the view's query ends in; none where it names what a star was only taken to have."""
    named = {name.lower(): name for name in schema.names}
    keys = []
    for text in schema.order:
        known = _OWN.fullmatch(text)
        if known is None or known[1].lower() not in named:
            return []
        direction = "ascending" if known[2] == "asc" else "descending"
        nulls = "at_start" if known[3] == "first" else "at_end"
        keys.append((named[known[1].lower()], (direction, nulls)))
    return keys


def _sort_key(text: str, schema: ViewSchema) -> tuple[str, Way]:
    name, _, direction = text.partition(":")
    found = next((column for column in schema.names if column.lower() == name.lower()), None)
    if found is None:
        hint = did_you_mean(name, schema.names) or f"columns: {', '.join(schema.names)}"
        raise typer.BadParameter(f"'{name}' is no column of {schema.name}; {hint}")
    if direction.lower() not in ("", "asc", "desc"):
        raise typer.BadParameter(f"'{text}': write COLUMN, COLUMN:asc or COLUMN:desc")
    return found, _DESCENDING if direction.lower() == "desc" else _ASCENDING


class _Lines:
    """Takes rows of CSV that end in CRLF, and writes them out ending in LF."""

    def write(self, row: str) -> None:
        sys.stdout.write(row.removesuffix("\r\n") + "\n")


def write_csv(table: pa.Table) -> None:
    """The rows as CSV on stdout, with the same text for a value as JSON has; NULL is an empty field."""
    import csv
    import json

    # Python before 3.12.3 quotes a bare carriage return only where that is in the line's end.
    writer = csv.writer(_Lines(), lineterminator="\r\n")
    writer.writerow(table.column_names)
    for batch in table.to_batches(max_chunksize=10_000):
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            cells = (value(cell) for cell in row)
            writer.writerow(
                "true" if c is True else "false" if c is False else json.dumps(c) if isinstance(c, list | dict) else c
                for c in cells
            )
