"""A random log with its own history: what was appended, as plain Python values, to judge what is read by."""

from __future__ import annotations

import base64
import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.log.append import LogWriter
from headrace.model.schema import Column, Relation
from headrace.model.transaction import (
    DELETE,
    INSERT,
    STRICT,
    TRUNCATE,
    UPDATE,
    UPSERT,
    TransactionBatch,
    TransactionOrigin,
)

BEGIN = datetime(2026, 3, 1, 8, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ORDERS = pa.schema(
    [
        ("id", pa.int64()),
        ("part", pa.string()),
        ("name", pa.string()),
        ("amount", pa.decimal128(12, 2)),
        ("at", pa.timestamp("us", tz="UTC")),
        ("day", pa.date32()),
        ("raw", pa.binary()),
        ("ratio", pa.float64()),
        ("paid", pa.bool_()),
        ("tags", pa.list_(pa.string())),
    ]
)
CLICKS = pa.schema([("page", pa.string()), ("n", pa.int32())])
SCHEMAS = {"orders": ORDERS, "clicks": CLICKS}
KEY = ("id", "part")
TYPES = [
    "bigint",
    "string",
    "string",
    "decimal(12,2)",
    "timestamp",
    "date",
    "binary",
    "double",
    "boolean",
    "array<string>",
]
RELATIONS = {
    "orders": Relation("orders", tuple(Column(n, t) for n, t in zip(ORDERS.names, TYPES, strict=True)), KEY),
    "clicks": Relation("clicks", (Column("page", "string"), Column("n", "int"))),
}
SOURCE = {"orders": "shop", "clicks": "web"}
Row = dict[str, Any]


@dataclass(frozen=True)
class Made:
    """A change as the test made it; ``row`` without the columns that the update leaves as they are."""

    table: str
    operation: int
    row: Row
    strict: bool = False

    @property
    def upsert(self) -> bool:
        """Whether its source does not know that the key is new."""
        return self.table == "orders" and self.operation == INSERT and not self.strict and self.row["id"] % 3 == 0

    def spelled(self) -> dict[str, Any]:
        """As `headrace log cat --json` has to print it."""
        names = {INSERT: "insert", UPDATE: "update", DELETE: "delete", TRUNCATE: "truncate"}
        shown = {n: spelled(v) for n, v in self.row.items() if self.operation != DELETE or v is not None}
        return {"table": self.table, "op": "upsert" if self.upsert else names[self.operation], "row": shown}


@dataclass
class RandomLog:
    """Transactions of two sources, each of one table: ``orders`` with a key of two columns, ``clicks`` without one."""

    seed: int
    strict: bool = False
    made: list[tuple[TransactionOrigin, list[Made]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def grow(self, log: Path, transactions: int, *, segment_bytes: int = 1 << 16, most: int = 6) -> None:
        """Append so many more transactions, up to five at once."""
        with LogWriter(log, segment_bytes=segment_bytes) as writer:
            while transactions > 0:
                count = min(transactions, self.random.randint(1, 5))
                table = self.random.choice(["orders", "orders", "clicks"])
                group = [(self.origin(SOURCE[table], n), self.changes(table, most)) for n in range(count)]
                first = writer.append(TransactionBatch(tuple(o for o, _ in group), changes_of(table, group)))
                assert first == len(self.made) + 1
                self.made += group
                transactions -= count

    def origin(self, source: str, ahead: int) -> TransactionOrigin:
        number = len(self.made) + ahead
        behind = 20 if source == "web" else 0  # its clock: times do not rise with the commits
        at = BEGIN + timedelta(seconds=number - behind, microseconds=self.random.randrange(1_000_000))
        return TransactionOrigin(source, f'{{"n":{number}}}', (at - EPOCH) // timedelta(microseconds=1))

    def changes(self, table: str, most: int) -> list[Made]:
        return [self.change(table) for _ in range(self.random.randint(0, most))]

    def change(self, table: str) -> Made:
        choice, strict = self.random.random(), self.strict and self.random.random() < 0.5
        if choice < 0.01:
            return Made(table, TRUNCATE, {})
        if table == "clicks":
            row = {"page": self.random.choice([None, "a", "b", "ü\n"]), "n": self.random.randrange(3)}
            return Made(table, DELETE if choice < 0.4 else INSERT, row, strict and choice < 0.4)
        row = {name: self.value(name) for name in ORDERS.names}
        if choice < 0.25:
            return Made(table, DELETE, {name: row[name] for name in KEY}, strict)
        if choice < 0.6:
            left = {name for name in ORDERS.names if name not in KEY and self.random.random() < 0.4}
            return Made(table, UPDATE, {name: v for name, v in row.items() if name not in left}, strict)
        return Made(table, INSERT, row, strict)

    def value(self, name: str) -> Any:
        draw = self.random.randrange
        if name == "id":
            return draw(12)
        if name == "part":
            return self.random.choice(["x", "y"])
        if draw(5) == 0:
            return None
        values: Mapping[str, Any] = {
            "name": "né\t\"\\'" * draw(3),
            "amount": Decimal(draw(-(10**9), 10**9)) / 100,
            "at": BEGIN + timedelta(microseconds=draw(10**12)),
            "day": date(1, 1, 1) + timedelta(days=draw(3_000_000)),
            "raw": bytes(draw(256) for _ in range(draw(4))),
            "ratio": self.random.choice([0.1, -0.0, 1e300, math.nan, math.inf, -math.inf, 1.0]),
            "paid": bool(draw(2)),
            "tags": [None, "a", ""][: draw(4)],
        }
        return values[name]


def changes_of(table: str, group: list[tuple[TransactionOrigin, list[Made]]]) -> dict[str, pa.Table]:
    """The columnar form, with ``_unchanged`` where an update leaves columns out."""
    flat = [(ordinal, made) for ordinal, (_, changes) in enumerate(group) for made in changes]
    if not flat:
        return {}
    schema = SCHEMAS[table]
    columns = {
        "_t": pa.array([ordinal for ordinal, _ in flat], pa.int32()),
        "_op": pa.array(
            [made.operation | (STRICT if made.strict else 0) | (UPSERT if made.upsert else 0) for _, made in flat],
            pa.int8(),
        ),
    }
    marks = [
        sum(1 << i for i, n in enumerate(schema.names) if n not in made.row) if made.operation == UPDATE else 0
        for _, made in flat
    ]
    if any(marks):
        columns["_unchanged"] = pa.array([mark.to_bytes(2, "little") if mark else None for mark in marks], pa.binary())
    for column in schema:
        columns[column.name] = pa.array([made.row.get(column.name) for _, made in flat], column.type)
    return {table: pa.table(columns)}


def spelled(value: Any) -> Any:
    """A value as JSON has it, written down once more."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Decimal):
        return f"{value:.2f}"
    if isinstance(value, datetime):
        micros = f".{value.microsecond:06d}" if value.microsecond else ""
        return f"{value:%Y-%m-%dT%H:%M:%S}{micros}Z"
    if isinstance(value, date):
        return f"{value.year:04d}-{value.month:02d}-{value.day:02d}"
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


@dataclass
class Contents:
    """What the tables hold after some changes, as JSON values: the rules of the tables in plain Python."""

    orders: dict[tuple[Any, ...], Row] = field(default_factory=dict)
    clicks: Counter[tuple[Any, ...]] = field(default_factory=Counter)

    def take(self, change: Mapping[str, Any], strict: bool = False) -> None:
        """One change as `log cat` prints it."""
        operation, row = change["op"], change["row"]
        if change["table"] == "clicks":
            image = (row.get("page"), row.get("n"))
            if operation == "truncate":
                self.clicks.clear()
            elif operation == "insert" or self.clicks[image] > 0:
                self.clicks[image] += 1 if operation == "insert" else -1
            return
        if operation == "truncate":
            self.orders.clear()
            return
        key = tuple(row[name] for name in KEY)
        if strict and (key in self.orders) == (operation == "insert"):
            return
        if operation == "delete":
            self.orders.pop(key, None)
        elif operation == "update" and key in self.orders:
            self.orders[key] = {**self.orders[key], **row}
        else:
            self.orders[key] = {name: row.get(name) for name in ORDERS.names}

    def rows(self, table: str) -> list[list[Any]]:
        """The rows, sorted by their text."""
        found = [list(row.values()) for row in self.orders.values()]
        found = found if table == "orders" else [list(row) for row in self.clicks.elements()]
        return sorted(found, key=repr)


def history(log: RandomLog, upto: int | None = None) -> Contents:
    """The tables after the first ``upto`` transactions, from what the test has made."""
    contents = Contents()
    for change in all_changes(log, upto):
        contents.take(change.spelled(), change.strict)
    return contents


def all_changes(log: RandomLog, upto: int | None = None) -> Iterator[Made]:
    for _, changes in log.made[:upto]:
        yield from changes
