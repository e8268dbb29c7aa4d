"""A client that pushes transactions over HTTP at their appointed times, and knows what rows the tables then hold.

Each client has its own share of the keys, so that what it knows does not depend on the others.
"""

from __future__ import annotations

import http.client
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as parquet

CLIENTS = 4
REGIONS = 50
FILLING = 5_000  # rows of a transaction that fills the tables
BUSY_S = 0.2  # until a transaction is sent again that had no room


@dataclass(frozen=True)
class Load:
    """``changes`` a transaction, ``orders`` and ``customers`` that there always are."""

    changes: int
    orders: int
    customers: int


class Rows:
    """One client's share of the tables."""

    def __init__(self, load: Load, number: int, folder: Path) -> None:
        self.load, self.number, self.random = load, number, np.random.default_rng(number)
        self.files = {table: folder / f"{table}-{number}.parquet" for table in ("orders", "customers")}
        self.filled = self.files["orders"].exists()
        if self.filled:
            orders, customers = (parquet.read_table(file) for file in self.files.values())
            self.ids, self.customer, self.amount = (orders[name].to_numpy().copy() for name in orders.column_names)
            self.region = customers["region"].to_pylist()
        else:
            self.ids = np.arange(load.orders // CLIENTS) * CLIENTS + number
            self.customer, self.amount = self.drawn(len(self.ids))
            self.region = [f"region {n}" for n in self.random.integers(0, REGIONS, load.customers // CLIENTS)]
        self.next = int(self.ids.max()) + CLIENTS

    def drawn(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        customers = self.load.customers // CLIENTS * CLIENTS
        return self.random.integers(0, customers, count), self.random.integers(1, 100_000, count)

    def filling(self) -> list[dict[str, Any]]:
        """Transactions that bring all rows there are."""
        orders, customers = self.order_rows(np.arange(len(self.ids))), self.customer_rows(range(len(self.region)))
        both = (("customers", customers), ("orders", orders))
        return [
            {"tables": {table: {"upsert": rows[first : first + FILLING]}}}
            for table, rows in both for first in range(0, len(rows), FILLING)
        ]  # fmt: skip

    def transaction(self) -> dict[str, Any]:
        """Of a hundred changes two move customers, a quarter each delete the oldest orders and bring new ones."""
        moved = max(1, self.load.changes // 50)
        renewed = self.load.changes // 4
        oldest = np.argpartition(self.ids, renewed)[:renewed] if renewed else np.empty(0, np.int64)
        deleted = [{"id": id} for id in self.ids[oldest].tolist()]
        self.ids[oldest] = self.next + np.arange(renewed) * CLIENTS
        self.next += renewed * CLIENTS
        updated = self.random.choice(len(self.ids), max(0, self.load.changes - 2 * renewed - moved), replace=False)
        changed = np.union1d(oldest, updated)
        self.customer[changed], self.amount[changed] = self.drawn(len(changed))
        customers = self.random.choice(len(self.region), moved, replace=False)
        for customer, region in zip(customers, self.random.integers(0, REGIONS, moved), strict=True):
            self.region[customer] = f"region {region}"
        return {"tables": {
            "orders": {"delete": deleted, "upsert": self.order_rows(changed)},
            "customers": {"upsert": self.customer_rows(customers)},
        }}  # fmt: skip

    def order_rows(self, at: np.ndarray) -> list[dict[str, Any]]:
        columns = zip(self.ids[at].tolist(), self.customer[at].tolist(), self.amount[at].tolist(), strict=True)
        return [{"id": id, "customer": customer, "amount": amount} for id, customer, amount in columns]

    def customer_rows(self, at: Any) -> list[dict[str, Any]]:
        return [{"id": int(n) * CLIENTS + self.number, "region": self.region[n]} for n in at]

    def save(self) -> None:
        ids = np.arange(len(self.region)) * CLIENTS + self.number
        orders = pa.table({"id": self.ids, "customer": self.customer, "amount": self.amount})
        parquet.write_table(orders, self.files["orders"])
        parquet.write_table(pa.table({"id": ids, "region": self.region}), self.files["customers"])


def client(
    load: Load, number: int, url: str, token: str, folder: Path, began: float, rate: float, seconds: float
) -> None:
    """Push from ``began``, on the monotonic clock, for so many seconds: ``rate`` events a second by all clients, 0 as
    fast as is answered. Then ``times-NUMBER.npy`` holds (due, answered, commit) of each transaction, and the tables'
    files the rows."""
    rows, times = Rows(load, number, folder), list[tuple[float, float, int]]()
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=120)
    try:
        for transaction in () if rows.filled else rows.filling():
            taken(connection, token, transaction)
        turn, gap = number, load.changes / rate if rate else 0.0
        while (due := began + turn * gap if rate else max(began, time.monotonic())) < began + seconds:
            body = rows.transaction()
            time.sleep(max(0.0, due - time.monotonic()))
            commit = taken(connection, token, body)
            times.append((due, time.monotonic(), commit))
            turn += CLIENTS
    finally:
        connection.close()
    rows.save()
    np.save(folder / f"times-{number}.npy", np.array(times).reshape(-1, 3))


def taken(connection: http.client.HTTPConnection, token: str, transaction: dict[str, Any]) -> int:
    """The commit under which the log has it durably."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    body = orjson.dumps(transaction)
    while True:
        connection.request("POST", "/transactions", body, headers)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status == 200:
            commit: int = orjson.loads(text)["commit"]
            return commit
        assert answer.status == 503, text
        time.sleep(BUSY_S)
