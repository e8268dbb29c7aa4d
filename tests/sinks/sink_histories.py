"""Random deliveries and the plain-Python model of what a store must hold after them.

A row is a tuple of Python values; ``plain`` turns a value, as it was sent or as a client reads it, into a form that
compares exactly: floats by their bits, decimals by their digits, nested values as nested tuples.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.formats.types import arrow as arrow_types
from headrace.model.delivery import WEIGHT, Delivery
from headrace.model.schema import Column, ViewSchema

Row = tuple[Any, ...]
Draw = Callable[[random.Random], Any]

TEXTS = [
    "",
    " ",
    "a",
    "NULL",
    "\\N",
    "\\.",
    "x\n\\.\ny",
    'quo"te',
    "it's",
    "back\\slash",
    "tab\tcr\rlf\n",
    "ünï ☃ 𝄞",
    ",",
]
TEXTS += ["ünï ☃ 𝄞", ",", "{1,NULL}", '{"a":1}', "\\x61", "e\u0301", "\u0001\u001f", "%s %b $1 {}", "a" * 3000]
NAMES = sorted(set(TEXTS) - {""})
FLOATS = [0.0, -0.0, 1.5, -1e300, 5e-324, math.inf, -math.inf, math.nan, 0.1, 1e16, 123456789.123]


def _moment(rng: random.Random) -> datetime:
    return rng.choice(
        [
            datetime(1, 1, 1),
            datetime(9999, 12, 31, 23, 59, 59, 999999),
            datetime(2024, 2, 29, 12, 0, 0, 1),
            datetime(1970, 1, 1) + timedelta(microseconds=rng.randrange(-(10**15), 10**16)),
        ]
    )


def _decimal(digits: int, scale: int) -> Draw:
    return lambda rng: Decimal(rng.choice([0, 1, -1, rng.randrange(-(10**digits) + 1, 10**digits)])).scaleb(-scale)


def _single(rng: random.Random) -> float:
    return float(np.float32(rng.choice([0.0, -0.0, 0.1, 3.4e38, 1e-45, math.nan, -math.inf, rng.uniform(-9, 9)])))


def _list(draw: Draw) -> Draw:
    return lambda rng: [None if rng.random() < 0.2 else draw(rng) for _ in range(rng.randrange(4))]


def _text(rng: random.Random) -> str:
    return rng.choice(TEXTS)


# One column of every type that a view can have: name, Spark type, how to draw a value.
EVERY_TYPE: tuple[tuple[str, str, Draw], ...] = (
    ("truth", "boolean", lambda rng: rng.random() < 0.5),
    ("tiny", "tinyint", lambda rng: rng.choice([-128, 127, 0])),
    ("small", "smallint", lambda rng: rng.choice([-32768, 32767, 0])),
    ("middle", "int", lambda rng: rng.choice([-(2**31), 2**31 - 1, 0])),
    ("big", "bigint", lambda rng: rng.choice([-(2**63), 2**63 - 1, 0])),
    ("single", "float", _single),
    ("twofold", "double", lambda rng: rng.choice(FLOATS)),
    ("money", "decimal(12,2)", _decimal(12, 2)),
    ("fine", "decimal(38,18)", _decimal(38, 18)),
    ("words", "string", _text),
    ("bytes", "binary", lambda rng: rng.choice([b"", b"\0\xff\\'\"", rng.randbytes(20)])),
    ("day", "date", lambda rng: _moment(rng).date()),
    ("instant", "timestamp", lambda rng: _moment(rng).replace(tzinfo=UTC)),
    ("wall", "timestamp_ntz", _moment),
    ("span", "interval day to second", lambda rng: timedelta(microseconds=rng.randrange(-(10**12), 10**12))),
    ("months", "interval year to month", lambda rng: {"_months": rng.choice([0, 14, -1, 2**31 - 1])}),
    ("mixed", "interval", lambda rng: {"_months": rng.randrange(-2, 3), "_days": 30, "_microseconds": -(10**15)}),
    ("numbers", "array<bigint>", _list(lambda rng: rng.randrange(-5, 5))),
    ("phrases", "array<string>", _list(_text)),
    ("doubles", "array<double>", _list(lambda rng: rng.choice(FLOATS))),
    ("grid", "array<array<int>>", _list(_list(lambda rng: rng.randrange(9)))),
    ("pair", 'struct<a:int,`b "c`:string>', lambda rng: {"a": rng.randrange(9), 'b "c': rng.choice([None, *TEXTS])}),
    (
        "prices",
        "map<string,decimal(10,2)>",
        lambda rng: [(k, _decimal(10, 2)(rng)) for k in rng.sample(NAMES, 2)],
    ),
    (
        "deep",
        "array<struct<x:double,d:date,t:timestamp>>",
        _list(lambda rng: {"x": rng.choice(FLOATS[2:]), "d": _moment(rng).date(), "t": None}),
    ),
    ("nothing", "void", lambda rng: None),
)


@dataclass
class View:
    """A view under random change: its schema, how to draw a row, and its contents as a multiset."""

    schema: ViewSchema
    draws: tuple[Draw, ...]
    null_keys: bool = True
    rows: list[Row] = field(default_factory=list)

    @property
    def contents(self) -> Counter[Row]:
        return Counter(plain_row(row) for row in self.rows)

    def draw(self, rng: random.Random) -> Row:
        key = set(self.schema.key)
        values = [draw(rng) for draw in self.draws]
        return tuple(
            None if rng.random() < 0.15 and (self.null_keys or column.name not in key) else value
            for column, value in zip(self.schema.columns, values, strict=True)
        )

    def key_of(self, row: Row) -> Row:
        plain = zip(self.schema.names, plain_row(row), strict=True)
        return tuple(value for name, value in plain if name in self.schema.key)

    def change(self, rng: random.Random, size: int) -> pa.Table:
        """Applies up to ``size`` random inserts, deletes and updates; the consolidated delta of them."""
        before = list(self.rows)
        taken = {self.key_of(row) for row in self.rows} if self.schema.key else set()
        for _ in range(size):
            choice = rng.random()
            if self.rows and choice < 0.3:
                taken.discard(self.key_of(self.rows.pop(rng.randrange(len(self.rows)))))
            elif self.rows and self.schema.key and choice < 0.6:
                at = rng.randrange(len(self.rows))
                new = self.draw(rng)
                old = dict(zip(self.schema.names, self.rows[at], strict=True))
                pairs = zip(self.schema.names, new, strict=True)
                self.rows[at] = tuple(old[name] if name in self.schema.key else value for name, value in pairs)
            else:
                row = rng.choice(self.rows) if self.rows and choice > 0.85 else self.draw(rng)
                if not self.schema.key or self.key_of(row) not in taken:
                    self.rows.append(row)
                    taken.add(self.key_of(row))
        return weighted(self.schema, difference(before, self.rows))

    def whole(self) -> pa.Table:
        return weighted(self.schema, difference([], self.rows))


def view(name: str, columns: Iterable[tuple[str, str, Draw]], key: tuple[str, ...] = (), version: int = 1) -> View:
    columns = tuple(columns)
    schema = ViewSchema(name, version, tuple(Column(name, kind) for name, kind, _ in columns), key)
    return View(schema, tuple(draw for _, _, draw in columns))


def transfers(seed: int, count: int) -> list[tuple[Delivery, Counter[Row], Counter[Row]]]:
    """Deliveries that move amounts between a view with a key and one without: what both hold together stays 100,000.

    Each with the contents of ``left`` and ``right`` after it; the first brings both views.
    """
    rng = random.Random(seed)
    amount = ("amount", "bigint", lambda rng: rng.randrange(100))
    left = view("left", [("id", "bigint", lambda rng: rng.randrange(100)), amount], ("id",))
    right = view("right", [amount])
    left.rows, right.rows = [(i, 1000) for i in range(100)], []
    first = {"left": left.whole(), "right": right.whole()}
    made = [(delivery(1, (left, right), replacements=first), left.contents, right.contents)]
    for commit in range(2, count + 1):
        before = list(left.rows), list(right.rows)
        for _ in range(rng.randrange(1, 8)):
            at, back = rng.randrange(100), rng.random() < 0.4 and right.rows
            moved = -right.rows.pop(rng.randrange(len(right.rows)))[0] if back else rng.randrange(1, 5)
            left.rows[at] = (at, left.rows[at][1] - moved)
            right.rows += [] if back else [(moved,)]
        deltas = {
            side.schema.name: weighted(side.schema, difference(old, side.rows))
            for side, old in zip((left, right), before, strict=True)
        }
        made.append((delivery(commit, (left, right), deltas=deltas), left.contents, right.contents))
    return made


def difference(before: list[Row], after: list[Row]) -> list[tuple[Row, int]]:
    """(row, weight) of what was added and removed, each distinct row once."""
    weights: Counter[Row] = Counter()
    originals: dict[Row, Row] = {}
    for rows, weight in ((before, -1), (after, 1)):
        for row in rows:
            plain = plain_row(row)
            weights[plain] += weight
            originals[plain] = row
    return [(originals[plain], weight) for plain, weight in weights.items() if weight]


def weighted(schema: ViewSchema, rows: Iterable[tuple[Row, int]]) -> pa.Table:
    """An Arrow table as a delivery carries it: the view's columns and ``_w``."""
    rows = list(rows)
    arrays = [
        pa.array([row[i] for row, _ in rows], arrow_types.to_arrow(column.type))
        for i, column in enumerate(schema.columns)
    ]
    arrays.append(pa.array([weight for _, weight in rows], pa.int64()))
    return pa.table(arrays, names=[*schema.names, WEIGHT])


def delivery(commit: int, views: Iterable[View], **parts: Any) -> Delivery:
    return Delivery(commit, {view.schema.name: view.schema for view in views}, **parts)


def plain_row(row: Iterable[Any]) -> Row:
    return tuple(plain(value) for value in row)


def plain(value: Any) -> Any:
    """A hashable value that is equal exactly when the values are the same to the bit."""
    if isinstance(value, float):
        return ("float", repr(value))
    if isinstance(value, Decimal):
        return ("decimal", str(value.normalize()) if value else "0")
    if isinstance(value, datetime):
        return ("moment", value.astimezone(UTC).isoformat() if value.tzinfo else value.isoformat())
    if isinstance(value, date):
        return ("day", value.isoformat())
    if isinstance(value, bool):
        return ("truth", value)
    if isinstance(value, bytes | bytearray | memoryview):
        return ("bytes", bytes(value))
    if isinstance(value, dict):
        return ("fields", tuple(sorted((key, plain(inner)) for key, inner in value.items())))
    if isinstance(value, list) and value and all(isinstance(inner, tuple) for inner in value):
        return plain(dict(value))  # a map, as Arrow takes it
    if isinstance(value, list):
        return ("list", tuple(plain(inner) for inner in value))
    return value


def as_json(value: Any) -> Any:
    """What a client that reads numbers as Decimal finds in the JSON form of a nested value."""
    if isinstance(value, dict):
        return {str(key): as_json(inner) for key, inner in value.items()}
    if isinstance(value, list) and value and all(isinstance(inner, tuple) for inner in value):
        return as_json(dict(value))
    if isinstance(value, list):
        return [as_json(inner) for inner in value]
    if isinstance(value, float):
        if math.isfinite(value):
            return Decimal(repr(value))
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, int) and not isinstance(value, bool):
        return Decimal(value)
    return value.isoformat() if isinstance(value, date) else value


def is_json(spark_type: str) -> bool:
    return spark_type == "interval" or spark_type.startswith(
        ("struct", "map", "array<array", "array<struct", "array<map")
    )
