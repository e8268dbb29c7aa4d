"""``retention:`` in headrace.yaml: how long, and how much of it, the log is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.catalog.document import Document, did_you_mean
from headrace.model.definition import Retention
from headrace.model.quantity import BYTES, SECONDS, quantity

KEY = "retention"
KEYS = ("keep", "keep_size", "wait_for")


def read_retention(document: Document, sinks: Sequence[str]) -> Retention:
    """What it says of a project with these sinks; raises ``config.invalid`` and ``config.unknown_key``."""
    written = document.values[KEY]
    if not isinstance(written, dict):
        raise document.invalid("'retention' must be a mapping", KEY, next="retention:\n  keep: 7 days")
    for key in written:
        if key not in KEYS:
            raise document.unknown(key, KEYS, KEY, key)
    seconds = _quantity(document, "keep", SECONDS, "7 days")
    size = _quantity(document, "keep_size", BYTES, "10 GiB")
    return Retention(seconds, None if size is None else int(size), _sinks(document, sinks))


def _quantity(document: Document, key: str, units: Mapping[str, int], such: str) -> float | None:
    if key not in document.values[KEY]:
        return None
    value: Any = document.values[KEY][key]
    found = quantity(value, units) if isinstance(value, str) else None
    if found is None:
        raise document.invalid(
            f"'{key}' is {value!r}", KEY, key, why="it is a number above 0 with a unit", next=f"{key}: {such}"
        )
    return found


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
