"""Random tables: two to four, keyed or not, of all types, with so few values that joins and groups meet."""

from __future__ import annotations

import datetime
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from histories import INF, NAN, Table

# Spark type -> the values its columns draw from. Sums stay far from overflow, whatever is nested.
VALUES: Mapping[str, Sequence[Any]] = {
    "int": (0, 1, 2, 3, -1, 7),
    "bigint": (0, 1, 2, 5, -3, 2**40, -(2**40)),
    "string": ("", "a", "b", "B", "é", "a b", "10"),
    "decimal(12,2)": tuple(map(Decimal, ("0.00", "1.50", "-2.00", "1.00", "999999.99"))),
    "decimal(9,3)": tuple(map(Decimal, ("0.000", "1.500", "-2.001", "1.000"))),
    "double": (0.0, -0.0, NAN, INF, -INF, 0.1, 1.5, 1e16, -1e16, 5e-324),
    "date": tuple(map(datetime.date.fromisoformat, ("2024-01-31", "2024-02-29", "2023-12-31", "1970-01-01"))),
    "timestamp": tuple(
        datetime.datetime.fromisoformat(f"{text}+00:00")
        for text in ("2024-01-31T00:00:00", "2024-01-31T23:59:59.999999", "2024-02-01T00:30:00", "1969-07-20T20:00:00")
    ),
    "boolean": (True, False),
    "array<int>": ([], [1], [1, 2], [2, 1, 1], [0]),
}
KEYS = {"int": range(12), "bigint": tuple(range(8)), "string": tuple("abcdefgh")}


@dataclass(frozen=True, slots=True)
class Field:
    """A column that a query can read: how it is written there, its type (``decimal`` for all of them)."""

    text: str
    type: str


def kind(type_text: str) -> str:
    """The type as the grammar knows it."""
    return type_text.split("(", maxsplit=1)[0]


def tables(rng: random.Random) -> list[Table]:
    return [_table(rng, f"t{n}") for n in range(1, rng.choice((2, 3, 3, 4)) + 1)]


def _table(rng: random.Random, name: str) -> Table:
    columns: dict[str, str] = {}
    values: dict[str, Sequence[Any]] = {}
    key = [f"k{n}" for n in range(rng.choice((0, 1, 1, 1, 2)))]
    for column in key:
        columns[column] = rng.choice(("int", "int", "bigint", "string"))
        values[column] = KEYS[columns[column]]
    types = ["int", *rng.choices(list(VALUES), k=rng.randint(2, 4))]
    rng.shuffle(types)
    for n, type_text in enumerate(types):
        column = f"{'abcde'[n]}"
        columns[column] = type_text
        chosen = rng.sample(VALUES[type_text], min(len(VALUES[type_text]), rng.randint(2, 5)))
        values[column] = [None, *chosen] if rng.random() < 0.8 else chosen
    return Table(name, columns, values, tuple(key), cased=False)


def fields(table: Table) -> list[Field]:
    return [Field(name, kind(t)) for name, t in table.columns.items()]
