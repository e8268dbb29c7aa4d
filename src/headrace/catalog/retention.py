"""``retention:`` and ``audit:`` in headrace.yaml: how long, and how much of it, the log and the audit log are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.catalog.document import Document, did_you_mean
from headrace.model.definition import AuditRetention, Retention
from headrace.model.quantity import BYTES, SECONDS, quantity

KEY = "retention"
KEYS = ("keep", "keep_size", "wait_for")
AUDIT, AUDIT_KEYS = "audit", ("keep", "keep_size")


def read_retention(document: Document, sinks: Sequence[str]) -> Retention:
    """What it says of a project with these sinks; raises ``config.invalid`` and ``config.unknown_key``."""
    seconds, size = _kept(document, KEY, KEYS, "7 days")
    return Retention(seconds, size, _sinks(document, sinks))


def read_audit(document: Document) -> AuditRetention:
    """Raises ``config.invalid`` and ``config.unknown_key``."""
    return AuditRetention(*_kept(document, AUDIT, AUDIT_KEYS, "400 days"))


def _kept(document: Document, section: str, keys: Sequence[str], such: str) -> tuple[float | None, int | None]:
    """(seconds, bytes) that are kept."""
    written = document.values[section]
    if not isinstance(written, dict):
        raise document.invalid(f"'{section}' must be a mapping", section, next=f"{section}:\n  keep: {such}")
    for key in written:
        if key not in keys:
            raise document.unknown(key, keys, section, key)
    size = _quantity(document, section, "keep_size", BYTES, "10 GiB")
    return _quantity(document, section, "keep", SECONDS, such), None if size is None else int(size)


def _quantity(document: Document, section: str, key: str, units: Mapping[str, int], such: str) -> float | None:
    if key not in document.values[section]:
        return None
    value: Any = document.values[section][key]
    found = quantity(value, units) if isinstance(value, str) else None
    if found is None:
        raise document.invalid(
            f"'{key}' is {value!r}", section, key, why="it is a number above 0 with a unit", next=f"{key}: {such}"
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
