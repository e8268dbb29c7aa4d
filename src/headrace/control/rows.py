"""Arrow tables as JSON: exact, and the same everywhere rows are printed as text."""

from __future__ import annotations

import base64
import datetime
import decimal
import math
from typing import TYPE_CHECKING, Any

from headrace.formats.types.arrow import from_arrow

if TYPE_CHECKING:
    import pyarrow as pa


def table_json(table: pa.Table) -> dict[str, Any]:
    """``{"columns": [{"name", "type"}], "rows": [[...]]}``; a row is a list, as column names may repeat."""
    columns = [{"name": field.name, "type": from_arrow(field.type)} for field in table.schema]
    return {"columns": columns, "rows": rows(table)}


def rows(table: pa.Table) -> list[list[Any]]:
    """The rows of a table as JSON values. For what is shown or sent to one reader: a Python loop over the cells."""
    if not table.num_columns:
        return [[] for _ in range(table.num_rows)]
    cells = [[value(cell) for cell in column.to_pylist()] for column in table.columns]
    return [list(row) for row in zip(*cells, strict=True)]


def value(cell: Any) -> Any:
    """One value as JSON carries it without loss.

    Decimals, dates, timestamps (UTC with ``Z``, or without zone) and intervals (ISO 8601) are strings, NaN and
    infinities the strings ``NaN``, ``Infinity``, ``-Infinity``, binary is base64, a map a list of pairs.
    """
    if cell is None or isinstance(cell, bool | int | str):
        return cell
    if isinstance(cell, float):
        return cell if math.isfinite(cell) else "NaN" if math.isnan(cell) else "Infinity" if cell > 0 else "-Infinity"
    if isinstance(cell, decimal.Decimal):
        return format(cell, "f")
    if isinstance(cell, datetime.datetime):
        return cell.isoformat().replace("+00:00", "Z")
    if isinstance(cell, datetime.date):
        return cell.isoformat()
    if isinstance(cell, datetime.timedelta):
        return _duration(cell)
    if isinstance(cell, bytes):
        return base64.b64encode(cell).decode()
    if isinstance(cell, dict):
        return {str(name): value(inner) for name, inner in cell.items()}
    if isinstance(cell, list | tuple):
        return [value(inner) for inner in cell]
    return str(cell)


def _duration(span: datetime.timedelta) -> str:
    sign = "-" if span < datetime.timedelta(0) else ""
    span = abs(span)
    days = f"{span.days}D" if span.days else ""
    seconds = f"{span.seconds}.{span.microseconds:06d}".rstrip("0").rstrip(".")
    return f"{sign}P{days}T{seconds}S" if seconds != "0" or not days else f"{sign}P{days}"
