"""A number with a unit, as people write it: ``7 days``, ``10 GiB``."""

from __future__ import annotations

import re
from collections.abc import Mapping

SECONDS = {"s": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86_400, "day": 86_400,
           "w": 604_800, "week": 604_800}  # fmt: skip
BYTES = {"b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
         "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}  # fmt: skip
_FORM = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)", re.ASCII)


def quantity(text: str, units: Mapping[str, int]) -> float | None:
    """How many of the least unit ``text`` says; None for what is no number above 0 with one of ``units``."""
    found = _FORM.fullmatch(text.strip())
    unit = found[2].lower() if found else ""
    unit = unit if unit in units else unit.removesuffix("s")
    if found is None or unit not in units or float(found[1]) == 0:
        return None
    return float(found[1]) * units[unit]
