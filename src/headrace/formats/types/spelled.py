"""One value as JSON carries it without loss: the same text wherever rows are shown."""

from __future__ import annotations

import base64
import datetime
import decimal
import math
from typing import Any


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
