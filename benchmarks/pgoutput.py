"""Changes a second from PostgreSQL's replication protocol to Arrow: recorded bytes alone, and from a live server.

python -m benchmarks.pgoutput [--changes 500000] [--rounds 5] [--recorded]

A table of six columns (int8, int4, text, numeric, timestamptz, bool) in transactions of 100 rows, each round a JSON
line. Everything of ours runs in one thread; ``per_processor_second`` is what one core does, however busy the machine.
What comes out is compared with sums of what went in. ``--recorded`` leaves out the server.
"""

from __future__ import annotations

import argparse
import struct
import time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.log import show
from headrace.model.schema import Column, Relation
from headrace.sources.connectors.postgres import changes
from headrace.sources.connectors.postgres.connector import PostgresSource
from headrace.testing.postgres import PostgresServer

ROWS = 100  # of a transaction
ORDERS = Relation(
    "orders",
    (
        Column("id", "bigint", False), Column("customer", "int"), Column("note", "string"),
        Column("amount", "decimal(12,2)"), Column("at", "timestamp"), Column("open", "boolean"),
    ),
    ("id",),
)  # fmt: skip
TABLE = """create table orders
(id int8 primary key, customer int4, note text, amount numeric(12, 2), at timestamptz, open bool)"""
INSERTS = """do $$ begin for t in 0..{transactions} - 1 loop
  insert into orders select n, n % 1000, 'order ' || n || ' of today', n * 0.25, '2026-03-01'::timestamptz
    + n * interval '1.000001 s', n % 2 = 0 from generate_series(t * {rows}, t * {rows} + {rows} - 1) n;
  commit;
end loop; end $$"""
UPDATES = """do $$ begin for t in 0..{transactions} - 1 loop
  update orders set amount = amount + 1, open = not open where id between t * {rows} and t * {rows} + {rows} - 1;
  commit;
end loop; end $$"""
OID = 7


def message(kind: bytes, mark: bytes, values: list[str | None]) -> bytes:
    """A row message as it comes off the wire, transport included."""
    parts = [bytes(changes.HEADER), kind, struct.pack(">I", OID), mark, struct.pack(">H", len(values))]
    for value in values:
        raw = (value or "").encode()
        parts.append(b"n" if value is None else b"t" + struct.pack(">I", len(raw)) + raw)
    return b"".join(parts)


def order(n: int) -> list[str | None]:
    at = f"2026-03-{1 + n % 28:02d} {n % 24:02d}:{n % 60:02d}:{n * 7 % 60:02d}.{n % 1_000_000:06d}+00"
    return [str(n), str(n % 1000), f"order {n} of today", f"{n // 4}.{n % 4 * 25:02d}", at, "tf"[n % 2]]


def recorded(count: int, *, mixed: bool) -> list[bytes]:
    """``count`` inserts; ``mixed``: of 20 changes 14 inserts, 5 updates, a delete."""
    made = []
    for n in range(count):
        if not mixed or n % 20 < 14:
            made.append(message(b"I", b"N", order(n)))
        elif n % 20 < 19:
            made.append(message(b"U", b"N", order(n)))
        else:
            made.append(message(b"D", b"K", [str(n), *[None] * 5]))
    return made


def decoding(messages: list[bytes], name: str) -> None:
    """All of them to Arrow, in reads of 2,000 transactions as the source takes them."""
    per_read = 2000 * ROWS
    busy, began, ids, rows = time.process_time(), time.perf_counter(), 0, 0
    for at in range(0, len(messages), per_read):
        read = messages[at : at + per_read]
        table = changes.decode(read, np.arange(len(read)) // ROWS, {OID: ORDERS}, str)["orders"]
        ids, rows = ids + pc.sum(table["id"]).as_py(), rows + table.num_rows
    told(f"pgoutput decoded, {name}", rows, began, busy)
    assert (rows, ids) == (len(messages), len(messages) * (len(messages) - 1) // 2)


def followed(source: PostgresSource, count: int, name: str) -> Decimal:
    """``count`` changes that wait at the server, polled, confirmed and counted; the sum of their amounts."""
    busy, began, rows, amount = time.process_time(), time.perf_counter(), 0, Decimal(0)
    while rows < count:
        batch = source.poll(1.0)
        if batch is not None:
            table: pa.Table = batch.changes["orders"]
            rows, amount = rows + table.num_rows, amount + pc.sum(table["amount"]).as_py()
            source.confirm(batch, 1)
    told(f"pgoutput from a server, {name}", rows, began, busy)
    return amount


def told(name: str, rows: int, began: float, busy: float) -> None:
    wall, busy = time.perf_counter() - began, time.process_time() - busy
    show(name=name, changes=rows, per_second=round(rows / wall), per_processor_second=round(rows / busy))


def live(count: int, rounds: int) -> None:
    with PostgresServer() as server:
        url = server.create_database("shop")

        def run(text: str) -> list[tuple[Any, ...]]:
            return server.psql(text.format(transactions=count // ROWS, rows=ROWS), "shop")

        run(TABLE)
        source = PostgresSource("shop", {"dsn": url})
        source.start(frozenset({"orders"}), None)
        first = source.poll(30.0)  # the copy of the table, which is empty
        if first is not None:
            source.confirm(first, 1)
        for _ in range(rounds):
            for text, name in ((INSERTS, "inserts"), (UPDATES, "updates")):
                run(text)
                expected = run("select sum(amount) from orders")
                assert [(followed(source, count, name),)] == expected, name
            run("truncate orders")
            while (batch := source.poll(1.0)) is not None:
                source.confirm(batch, 1)
        source.drop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--recorded", action="store_true")
    chosen = parser.parse_args()
    for mixed in (False, True):
        messages = recorded(chosen.changes, mixed=mixed)
        for _ in range(chosen.rounds):
            decoding(messages, "mixed" if mixed else "inserts")
        del messages
    if not chosen.recorded:
        live(chosen.changes, chosen.rounds)


if __name__ == "__main__":
    main()
