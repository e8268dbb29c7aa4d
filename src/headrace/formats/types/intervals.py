"""Intervals as text, in ISO 8601: ``P1Y2M``, ``P3DT0.5S``, ``P-1M3D``; an empty one is ``P0M`` or ``PT0S``."""

from __future__ import annotations

import re

# Parts may have signs of their own, as in Spark; the sign before all turns each.
_TEXT = re.compile(
    r"([+-]?)P(?=.)(?:([+-]?\d+)Y)?(?:([+-]?\d+)M)?(?:([+-]?\d+)W)?(?:([+-]?\d+)D)?"
    r"(?:T(?=.)(?:([+-]?\d+)H)?(?:([+-]?\d+)M)?(?:([+-]?\d+(?:\.\d{1,6})?)S)?)?",
    re.ASCII,
)
_DAY, _HOUR, _MINUTE, _SECOND = 86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000


def of_months(months: int, days: int = 0, microseconds: int = 0) -> str:
    """The text of an interval whose months, days and time stand for themselves."""
    sign = -1 if months < 0 else 1
    years, rest = divmod(abs(months), 12)
    counts = ((sign * years, "Y"), (sign * rest, "M"), (days, "D"))
    text = "".join(f"{count}{unit}" for count, unit in counts if count)
    return "P" + (text + _time(microseconds) or "0M")


def of_microseconds(microseconds: int) -> str:
    """The text of an interval of days to seconds."""
    sign = "-" if microseconds < 0 else ""
    days, rest = divmod(abs(microseconds), _DAY)
    return f"{sign}P" + ((f"{days}D" if days else "") + _time(rest) or "T0S")


def parts(text: str) -> tuple[int, int, int]:
    """(months, days, microseconds) of a text. Raises ``ValueError``."""
    found = _TEXT.fullmatch(text)
    if found is None:
        raise ValueError("must be an interval such as P1Y2M, P3DT4H or PT0.5S")
    sign = -1 if found[1] == "-" else 1
    years, months, weeks, days, hours, minutes = (int(found[i] or 0) for i in range(2, 8))
    seconds, _, fraction = (found[8] or "0").partition(".")
    time = hours * _HOUR + minutes * _MINUTE + int(seconds + fraction.ljust(6, "0"))
    return sign * (years * 12 + months), sign * (weeks * 7 + days), sign * time


def _time(microseconds: int) -> str:
    if not microseconds:
        return ""
    sign, rest = "-" if microseconds < 0 else "", abs(microseconds)
    return f"T{sign}{rest // _SECOND}.{rest % _SECOND:06d}".rstrip("0").rstrip(".") + "S"
