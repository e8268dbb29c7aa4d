"""``retention:`` in headrace.yaml: how long, and how much of it, the log is kept."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from headrace.catalog.document import Document, did_you_mean
from headrace.model.definition import Retention

KEY = "retention"
KEYS = ("keep", "keep_size", "wait_for")
_SECONDS = {"s": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86_400, "day": 86_400,
            "week": 604_800}  # fmt: skip
_BYTES = {"b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
          "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}  # fmt: skip
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)")


def read_retention(document: Document, sinks: Sequence[str]) -> Retention:
    """What it says of a project with these sinks; raises ``config.invalid`` and ``config.unknown_key``."""
    written = document.values[KEY]
    if not isinstance(written, dict):
        raise document.invalid("'retention' must be a mapping", KEY, next="retention:\n  keep: 7 days")
    for key in written:
        if key not in KEYS:
            raise document.unknown(key, KEYS, KEY, key)
    seconds = _quantity(document, "keep", _SECONDS, "7 days")
    size = _quantity(document, "keep_size", _BYTES, "10 GiB")
    return Retention(seconds, None if size is None else int(size), _sinks(document, sinks))


def _quantity(document: Document, key: str, units: dict[str, int], such: str) -> float | None:
    if key not in document.values[KEY]:
        return None
    value: Any = document.values[KEY][key]
    found = _QUANTITY.fullmatch(value.strip()) if isinstance(value, str) else None
    unit = found[2].lower() if found else ""
    unit = unit if unit in units else unit.removesuffix("s")
    if found is None or unit not in units or float(found[1]) == 0:
        raise document.invalid(
            f"'{key}' is {value!r}", KEY, key, why="it is a number above 0 with a unit", next=f"{key}: {such}"
        )
    return float(found[1]) * units[unit]


def _sinks(document: Document, known: Sequence[str]) -> tuple[str, ...] | None:
    if "wait_for" not in document.values[KEY]:
        return None
    names = document.values[KEY]["wait_for"]
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise document.invalid("'wait_for' must be a list of sinks", KEY, "wait_for", next="wait_for: [warehouse]")
    for name in names:
        if name not in known:
            near = did_you_mean(name, known) or f"sinks: {', '.join(known) or 'none'}"
            raise document.invalid(
                f"'wait_for' names the sink '{name}', which is not there", KEY, "wait_for", next=near
            )
    return tuple(names)
