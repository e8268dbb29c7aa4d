"""Random rows and queries; what a query means is told beside its text by a predicate of plain Python.

Nothing here knows the product's reader of queries, its words or its index: words are letters and digits by a regular
expression over ASCII, numbers and times are compared as Python does.
"""

from __future__ import annotations

import datetime
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

COLUMNS = {
    "id": "bigint", "Title": "string", "note": "string", "total": "decimal(9,2)", "rate": "double", "open": "boolean",
    "due": "date", "seen": "timestamp", "tags": "array<string>",
}  # fmt: skip
NAMES = list(COLUMNS)
TEXTS = ("Title", "note", "tags")
VOCABULARY = ["red", "blue", "late", "early", "parcel", "refund", "order", "paid", "pay", "payment", "x1", "42", "7"]
Row = tuple[Any, ...]
Meaning = Callable[[dict[str, Any]], bool]


@dataclass(frozen=True)
class Asked:
    text: str
    means: Meaning

    def found(self, row: Row) -> bool:
        return self.means(dict(zip(NAMES, row, strict=True)))


def words(value: Any) -> list[str]:
    joined = " ".join(value) if isinstance(value, list) else value or ""
    return re.findall(r"[0-9a-z]+", joined.lower())


def random_row(draw: random.Random) -> Row:
    def text() -> str | None:
        if draw.random() < 0.1:
            return None
        picked = [draw.choice(VOCABULARY) for _ in range(draw.randrange(6))]
        return draw.choice([" ", "-", ", "]).join(draw.choice([w, w.upper(), w.title()]) for w in picked)

    day = datetime.date(2026, 1, 1) + datetime.timedelta(draw.randrange(90))
    seen = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(
        microseconds=draw.randrange(8 * 10**12)
    )
    return (
        draw.randrange(50), text(), text(), draw.choice([None, Decimal(draw.randrange(-500, 5_000)) / 100]),
        draw.choice([None, draw.randrange(10) / 4]), draw.choice([None, True, False]), draw.choice([None, day]),
        draw.choice([None, seen]), draw.choice([None, [draw.choice(VOCABULARY) for _ in range(draw.randrange(3))]]),
    )  # fmt: skip


def random_query(draw: random.Random, depth: int = 2) -> Asked:
    if depth and draw.random() < 0.5:
        return _joined(draw, depth)
    return draw.choice(
        [_word, _word, _word, _in_column, _phrase, _prefix, _number, _total, _day, _flag, _present, _set]
    )(draw)


def _joined(draw: random.Random, depth: int) -> Asked:
    a, b = random_query(draw, depth - 1), random_query(draw, depth - 1)
    kind = draw.randrange(4)
    if kind == 0:
        return Asked(f"({a.text}) ({b.text})", lambda row: a.means(row) and b.means(row))
    if kind == 1:
        return Asked(f"({a.text}) AND ({b.text})", lambda row: a.means(row) and b.means(row))
    if kind == 2:
        return Asked(f"({a.text}) OR ({b.text})", lambda row: a.means(row) or b.means(row))
    return Asked(f"({a.text}) AND NOT ({b.text})", lambda row: a.means(row) and not b.means(row))


def _word(draw: random.Random) -> Asked:
    word = draw.choice(VOCABULARY)
    number = Decimal(word) if word.isdigit() else None

    def means(row: dict[str, Any]) -> bool:
        counted = number is not None and number in [row["id"], row["total"], row["rate"]]
        return counted or any(word in words(row[name]) for name in TEXTS)

    return Asked(draw.choice([word, word.upper()]), means)


def _in_column(draw: random.Random) -> Asked:
    word, name = draw.choice(VOCABULARY), draw.choice(TEXTS)
    return Asked(f"{draw.choice([name, name.upper()])}:{word}", lambda row: word in words(row[name]))


def _phrase(draw: random.Random) -> Asked:
    picked, name = [draw.choice(VOCABULARY) for _ in range(draw.choice([2, 2, 3]))], draw.choice(["Title", "note"])

    def means(row: dict[str, Any]) -> bool:
        there = words(row[name])
        return any(there[at : at + len(picked)] == picked for at in range(len(there)))

    return Asked(f'{name}:"{" ".join(picked)}"', means)


def _prefix(draw: random.Random) -> Asked:
    begin, name = draw.choice(["pa", "re", "pay", "x", "zz"]), draw.choice(TEXTS)
    return Asked(f"{name}:{begin}*", lambda row: any(word.startswith(begin) for word in words(row[name])))


def _number(draw: random.Random) -> Asked:
    name, low, high = draw.choice(["id", "rate"]), draw.randrange(30), draw.randrange(50)
    begin, end = draw.choice("[{"), draw.choice("]}")

    def means(row: dict[str, Any]) -> bool:
        value = row[name]
        if value is None:
            return False
        return (value >= low if begin == "[" else value > low) and (value <= high if end == "]" else value < high)

    return Asked(f"{name}:{begin}{low} TO {high}{end}", means)


def _total(draw: random.Random) -> Asked:
    bound = Decimal(draw.randrange(-5_000, 50_000)) / 1_000  # finer than the column
    sign, means = draw.choice(
        [
            (">", lambda v: v > bound),
            (">=", lambda v: v >= bound),
            ("<", lambda v: v < bound),
            ("<=", lambda v: v <= bound),
        ]
    )
    return Asked(f"total:{sign}{bound}", lambda row: row["total"] is not None and means(row["total"]))


def _day(draw: random.Random) -> Asked:
    name = draw.choice(["due", "seen"])
    month, day = draw.randrange(1, 4), draw.randrange(1, 29)
    form = draw.randrange(3)
    start = datetime.date(2026, month, day)

    def date(row: dict[str, Any]) -> datetime.date | None:
        value = row[name]
        return value.date() if isinstance(value, datetime.datetime) else value

    if form == 0:
        return Asked(f"{name}:2026-0{month}", lambda row: (d := date(row)) is not None and d.month == month)
    if form == 1:
        return Asked(f"{name}:{start}", lambda row: date(row) == start)
    return Asked(f"{name}:>{start}", lambda row: (d := date(row)) is not None and d > start)


def _flag(draw: random.Random) -> Asked:
    wanted = draw.choice([True, False])
    return Asked(f"open:{str(wanted).lower()}", lambda row: row["open"] is wanted)


def _present(draw: random.Random) -> Asked:
    name = draw.choice(NAMES)
    return Asked(f"{name}:*", lambda row: row[name] is not None)


def _set(draw: random.Random) -> Asked:
    picked = [draw.randrange(50) for _ in range(3)]
    return Asked(f"id: IN [{' '.join(map(str, picked))}]", lambda row: row["id"] in picked)
