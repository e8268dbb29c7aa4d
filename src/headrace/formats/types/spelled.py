"""One value as JSON carries it without loss: the same text wherever rows are shown."""

from __future__ import annotations

import base64
import datetime
import decimal
import math
from typing import Any

from headrace.formats.types import intervals
from headrace.formats.types.arrow import MONTHS


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
        return intervals.of_microseconds(cell // datetime.timedelta(microseconds=1))
    if isinstance(cell, bytes):
        return base64.b64encode(cell).decode()
    if isinstance(cell, dict) and MONTHS in cell:
        return intervals.of_months(*cell.values())
    if isinstance(cell, dict):
        return {str(name): value(inner) for name, inner in cell.items()}
    if isinstance(cell, list | tuple):
        return [value(inner) for inner in cell]
    return str(cell)
