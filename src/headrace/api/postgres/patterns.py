"""``to_char``, ``to_timestamp`` and ``to_date`` with PostgreSQL's patterns, which DuckDB has not.

DuckDB calls them a value at a time, with values as their texts. A pattern that is not known is refused, never passed
over: ``NotImplementedError``; a text that does not fit its pattern is a ``ValueError``.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache

from headrace.api.postgres import number_patterns

_NUMBERS = re.compile(r"(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL.*|NUMERIC.*)$")
_MOMENTS = {"DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE"}
_ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII")
_MONTHS = [dt.date(2000, month, 1).strftime("%B") for month in range(1, 13)]
_DAYS = [dt.date(2000, 1, 3 + day).strftime("%A") for day in range(7)]
_JULIAN = 1_721_425  # days of the Julian count before those of the year 1


@dataclass(frozen=True, slots=True)
class _Part:
    """Text as it is (``word`` ""), or a word of the pattern as it is written; ``fill`` False: no blanks or zeros."""

    text: str
    word: str = ""
    fill: bool = True
    ordinal: str = ""


def to_char(kind: str, value: str, pattern: str) -> str:
    """``value``: the text of a number or of a moment; ``kind``: what DuckDB calls its type."""
    if _NUMBERS.match(kind):
        try:
            return number_patterns.shown(Decimal(value), pattern)
        except InvalidOperation:
            raise ValueError(f"to_char of {value}") from None
    if kind not in _MOMENTS:
        raise NotImplementedError(
            f"to_char of {kind.lower()}: only numbers, dates and timestamps are shown by a pattern"
        )
    moment = dt.datetime.fromisoformat(value)
    zoned = kind in ("DATE", "TIMESTAMP WITH TIME ZONE")  # PostgreSQL takes a date for an instant
    return "".join(_shown(part, moment, zoned) if part.word else part.text for part in _parts(pattern))


def to_timestamp(text: str, pattern: str) -> str:
    """The moment that a text names, in UTC, as ISO 8601."""
    expression, words = _reading(pattern)
    found = expression.match(text)
    if found is None:
        raise ValueError(f"'{text}' does not fit the pattern '{pattern}'")
    return _moment(list(zip(words, found.groups(), strict=True))).isoformat(" ")


@lru_cache(maxsize=256)
def _parts(pattern: str) -> tuple[_Part, ...]:
    return tuple(_split(pattern))


def _split(pattern: str) -> Iterator[_Part]:
    for found in _TOKEN.finditer(pattern):
        if found["word"]:
            yield _Part(found[0], found["word"], not found["fill"], found["ordinal"] or "")
        elif not found["exact"]:
            quoted = re.sub(r"\\(.)", r"\1", found["quoted"] or "")
            yield _Part(quoted + (found["escaped"] or "") + (found["plain"] or ""))


def _shown(part: _Part, moment: dt.datetime, zoned: bool) -> str:
    word = part.word.upper()
    if word in _NUMBERED:
        number, width = _NUMBERED[word](moment)
        text = f"{number:0{width if part.fill else 0}d}"
        return text + number_patterns.ordinal(number, part.ordinal) if part.ordinal else text
    if word in _NAMED:
        text, width = _NAMED[word](moment)
        return _cased(text, part.word).ljust(width if part.fill else 0)
    return _cased("UTC" if zoned else "", part.word) if word == "TZ" else _UTC[word]


def _cased(text: str, word: str) -> str:
    return text.upper() if word.isupper() else text.lower() if word.islower() else text


def _fraction(digits: int) -> Callable[[dt.datetime], tuple[int, int]]:
    return lambda moment: (moment.microsecond // 10 ** (6 - digits), digits)


# (the number, the digits that it takes when filled) of each word.
_NUMBERED: dict[str, Callable[[dt.datetime], tuple[int, int]]] = {
    "HH24": lambda t: (t.hour, 2), "HH12": lambda t: (t.hour % 12 or 12, 2), "HH": lambda t: (t.hour % 12 or 12, 2),
    "MI": lambda t: (t.minute, 2), "SS": lambda t: (t.second, 2), "MS": _fraction(3), "US": _fraction(6),
    **{f"FF{digits}": _fraction(digits) for digits in range(1, 7)},
    "SSSS": lambda t: (t.hour * 3600 + t.minute * 60 + t.second, 0),
    "SSSSS": lambda t: (t.hour * 3600 + t.minute * 60 + t.second, 0),
    "YYYY": lambda t: (t.year, 4), "YYY": lambda t: (t.year % 1000, 3), "YY": lambda t: (t.year % 100, 2),
    "Y": lambda t: (t.year % 10, 1), "IYYY": lambda t: (t.isocalendar().year, 4),
    "IYY": lambda t: (t.isocalendar().year % 1000, 3), "IY": lambda t: (t.isocalendar().year % 100, 2),
    "I": lambda t: (t.isocalendar().year % 10, 1), "MM": lambda t: (t.month, 2), "DD": lambda t: (t.day, 2),
    "DDD": lambda t: (t.timetuple().tm_yday, 3), "D": lambda t: (t.isoweekday() % 7 + 1, 1),
    "ID": lambda t: (t.isoweekday(), 1),
    "IDDD": lambda t: ((t.isocalendar().week - 1) * 7 + t.isoweekday(), 3),
    "W": lambda t: ((t.day - 1) // 7 + 1, 1), "WW": lambda t: ((t.timetuple().tm_yday - 1) // 7 + 1, 2),
    "IW": lambda t: (t.isocalendar().week, 2), "CC": lambda t: ((t.year - 1) // 100 + 1, 2),
    "J": lambda t: (t.toordinal() + _JULIAN, 0), "Q": lambda t: ((t.month - 1) // 3 + 1, 1),
}  # fmt: skip
# (the text, the width to which blanks fill it up) of each word.
_NAMED: dict[str, Callable[[dt.datetime], tuple[str, int]]] = {
    **dict.fromkeys(("AM", "PM"), lambda t: ("PM" if t.hour >= 12 else "AM", 0)),
    **dict.fromkeys(("A.M.", "P.M."), lambda t: ("P.M." if t.hour >= 12 else "A.M.", 0)),
    **dict.fromkeys(("BC", "AD"), lambda t: ("AD", 0)), **dict.fromkeys(("B.C.", "A.D."), lambda t: ("A.D.", 0)),
    "Y,YYY": lambda t: (f"{t.year // 1000},{t.year % 1000:03d}", 0),
    "MONTH": lambda t: (_MONTHS[t.month - 1], 9), "MON": lambda t: (_MONTHS[t.month - 1][:3], 0),
    "DAY": lambda t: (_DAYS[t.weekday()], 9), "DY": lambda t: (_DAYS[t.weekday()][:3], 0),
    "RM": lambda t: (_ROMAN[t.month - 1], 4),
}  # fmt: skip

_UTC = {"TZ": "UTC", "TZH": "+00", "TZM": "00", "OF": "+00"}


def _spellings() -> Iterator[str]:
    """Each word of a pattern as it may be written, longer ones first."""
    for word in sorted((*_NUMBERED, *_NAMED, *_UTC), key=len, reverse=True):
        yield from (word, word.lower(), *([word.capitalize()] if word in ("MONTH", "MON", "DAY", "DY") else []))


_TOKEN = re.compile(
    r'"(?P<quoted>(?:[^"\\]|\\.)*)"?|\\(?P<escaped>.)|(?P<exact>FX|fx)|(?P<fill>(?:FM|fm|TM|tm)*)(?P<word>'
    + "|".join(map(re.escape, _spellings()))
    + r")(?P<ordinal>TH|th)?|(?P<plain>.)",
    re.DOTALL,
)

# Possessive throughout: a text is read in the time of its length, whatever the pattern is.
_MONTH = r"\s*+(" + "|".join(month[:3] for month in _MONTHS) + ")"
_DIGITS = {"YYYY": 4, "YYY": 3, "YY": 2, "Y": 1, "MM": 2, "DD": 2, "DDD": 3, "HH24": 2, "HH12": 2, "HH": 2, "MI": 2,
           "SS": 2, "MS": 3, "US": 6, "SSSS": 5, "SSSSS": 5,
           **{f"FF{digits}": digits for digits in range(1, 7)}}  # fmt: skip
_NAMES = {
    "MON": _MONTH, "MONTH": r"\s*+(" + "|".join(_MONTHS) + ")", "DAY": r"\s*+(" + "|".join(_DAYS) + ")",
    "DY": r"\s*+(" + "|".join(day[:3] for day in _DAYS) + ")", "TZH": r"\s*+([+-]?+\d{1,2}+)", "TZM": r"\s*+(\d{1,2}+)",
    **dict.fromkeys(("AM", "PM"), r"\s*+(AM|PM)"), **dict.fromkeys(("A.M.", "P.M."), r"\s*+([AP]\.M\.)"),
}  # fmt: skip


@lru_cache(maxsize=256)
def _reading(pattern: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """What takes the parts of a text that a pattern names, and their words."""
    parts, found, words = _parts(pattern), list[str](), list[str]()
    for place, part in enumerate(parts):
        word, follows = part.word.upper(), parts[place + 1].word.upper() if place + 1 < len(parts) else ""
        if not word:
            separator = r"[^\w+-]*+" if follows == "TZH" else r"[\W_]*+"
            found.append(".?+" * len(part.text) if part.text.isalnum() else separator)
            continue
        if word in _DIGITS:
            most = _DIGITS[word] if follows in _DIGITS or word != "YYYY" else 6
            found.append(rf"\s*+(\d{{1,{most}}}+)")
        elif word in _NAMES:
            found.append(_NAMES[word])
        else:
            raise NotImplementedError(f"'{part.text}' in a pattern by which a text is read")
        if part.ordinal:
            found.append("(?:st|nd|rd|th)")
        words.append(word)
    return re.compile("".join(found), re.IGNORECASE), tuple(words)


def _moment(found: list[tuple[str, str]]) -> dt.datetime:
    year, month, day, hour, minute, second, fraction = 1, 1, 1, 0, 0, 0, 0
    after, offset, of_year, half = dt.timedelta(), dt.timedelta(), 0, ""
    for word, text in found:
        if word in ("YYYY", "YYY", "YY", "Y"):
            year = int(text)
            if word != "YYYY":
                year += 2000 if year < 70 or len(word) == 1 else 1900 if year < 100 else 1000
        elif word in ("MON", "MONTH"):
            month = next(n for n, name in enumerate(_MONTHS, 1) if name[:3].lower() == text[:3].lower())
        elif word == "MM":
            month = int(text)
        elif word == "DD":
            day = int(text)
        elif word == "DDD":
            of_year = int(text)
        elif word in ("HH24", "HH12", "HH"):
            hour = int(text)
        elif word == "MI":
            minute = int(text)
        elif word == "SS":
            second = int(text)
        elif word in ("MS", "US") or word.startswith("FF"):
            fraction += int(text.ljust(6, "0"))
        elif word.startswith("SSSS"):
            after += dt.timedelta(seconds=int(text))
        elif word in ("AM", "PM", "A.M.", "P.M."):
            half = text[0].upper()
        elif word == "TZH":
            offset += dt.timedelta(hours=int(text))
        elif word == "TZM":
            offset += dt.timedelta(minutes=int(text))
    if half:
        if not 1 <= hour <= 12:
            raise ValueError(f"hour {hour} is invalid for the 12-hour clock")
        hour = hour % 12 + 12 * (half == "P")
    moment = dt.datetime(year, month, day, hour, minute, second, fraction, dt.UTC) + after - offset
    return moment.replace(month=1, day=1) + dt.timedelta(days=of_year - 1) if of_year else moment
