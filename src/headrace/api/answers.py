"""Answers as they are sent: JSON by default; CSV and Arrow for what takes them."""

from __future__ import annotations

import io
import itertools
from typing import Any, Literal

import orjson
import pyarrow as pa
from fastapi import Response
from pyarrow import csv

from headrace.formats.json_tables import rows
from headrace.formats.types.arrow import from_arrow
from headrace.model.errors import HeadraceError
from headrace.serve.questions import Answer
from headrace.web.status import answer

Format = Literal["json", "csv", "arrow"]
ROWS_MAX: dict[Format, int] = {"json": 10_000, "csv": 100_000, "arrow": 1_000_000}  # of one answer
BYTES_MAX: dict[Format, int] = {"json": 16 << 20, "csv": 64 << 20, "arrow": 256 << 20}  # of its columns
MORE = "X-Headrace-More"  # whether there is more than was sent, of what is no JSON object
ARROW_TYPE = "application/vnd.apache.arrow.stream"


def json(content: Any) -> Response:
    return answer(200, content)


def table(found: Answer, format: Format) -> Response:
    """Rows as they were asked for. Of CSV and Arrow the commit is in the header ``X-Headrace-Commit``."""
    if format == "json":
        return json(shown(found))
    headers = {"X-Headrace-Commit": str(found.commit), MORE: "true" if found.more else "false"}
    if format == "csv":
        return Response(_csv(found.table), 200, headers, "text/csv; charset=utf-8; header=present")
    return Response(_arrow(found.table), 200, headers, ARROW_TYPE)


def shown(found: Answer) -> dict[str, Any]:
    """``{"commit", "columns", "rows", "more", "stale"}``; a row is an object, its names told apart."""
    names = distinct(found.table.column_names)
    columns = [{"name": n, "type": type_text(f.type)} for n, f in zip(names, found.table.schema, strict=True)]
    return {
        "commit": found.commit,
        "columns": columns,
        "rows": [dict(zip(names, row, strict=True)) for row in rows(found.table)],
        "more": found.more,
        "stale": dict(found.stale),
    }


def row(found: Answer) -> dict[str, Any]:
    """``{"commit", "row"}`` of an answer of one row."""
    (cells,) = rows(found.table)
    return {"commit": found.commit, "row": dict(zip(found.table.column_names, cells, strict=True))}


def distinct(names: list[str]) -> list[str]:
    """Names of which none occurs twice: ``n``, ``n_2``."""
    seen: dict[str, None] = {}
    for name in names:
        others = (f"{name}_{count}" for count in itertools.count(2))
        seen[next(other for other in itertools.chain([name], others) if other not in seen)] = None
    return list(seen)


def type_text(arrow: pa.DataType) -> str:
    """A type as Spark SQL names it; one that it has not, as Arrow does."""
    try:
        return from_arrow(arrow)
    except HeadraceError:
        return str(arrow)


def _csv(found: pa.Table) -> bytes:
    """Text is quoted, NULL is an empty cell without quotes."""
    names = distinct(found.column_names)
    cells: list[pa.Array | pa.ChunkedArray] = []
    for column in found.columns:
        plain = pa.types.is_integer(column.type) or pa.types.is_boolean(column.type) or pa.types.is_string(column.type)
        cells.append(column if plain else _texts(column))
    out = io.BytesIO()
    csv.write_csv(pa.Table.from_arrays(cells, names=names), out)
    return out.getvalue()


def _texts(column: pa.ChunkedArray) -> pa.Array:
    spelled = [cell for (cell,) in rows(pa.table({"c": column}))]
    return pa.array([c if c is None or isinstance(c, str) else orjson.dumps(c).decode() for c in spelled], pa.string())


def _arrow(found: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, found.schema) as writer:
        writer.write_table(found)
    return bytes(out.getvalue())
