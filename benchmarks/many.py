"""What a view costs beside many others: a step of 100 changes under 10 and under 100 views over the same five tables.

python -m benchmarks.many [--views 10 100] [--steps 20] [--changes 100] [--orders 20000] [--seed 1]

The views are ten kinds in turn, each with another number in its text: filters, aggregates, joins, top rows, distinct
rows, and sub-queries that several views have in common. The same transactions go to each number of views, one after
the other, so that both see the same machine. At the end every view is held to Spark batch; the exit status is 1 when
one differs. One JSON line a number of views; the last line tells how much the largest costs of the smallest.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.bench import Memory, percentiles, processor_seconds, report, size_of
from benchmarks.held import Changes, Held, relation
from headrace.engine.session import open_session
from headrace.model.definition import Settings
from headrace.model.transaction import DELETE, INSERT, UPDATE

WARM = 3  # steps that do not count
BIG, TEXT = pa.int64(), pa.string()
TABLES = {
    "customers": pa.schema({"id": BIG, "region": TEXT, "segment": BIG}),
    "products": pa.schema({"id": BIG, "category": BIG, "price": BIG}),
    "orders": pa.schema({"id": BIG, "customer": BIG, "state": TEXT, "amount": BIG}),
    "lines": pa.schema({"id": BIG, "ordered": BIG, "product": BIG, "quantity": BIG}),
    "payments": pa.schema({"id": BIG, "ordered": BIG, "paid": BIG}),
}
SHARE = {"customers": 0.1, "products": 0.05, "orders": 1.0, "lines": 2.0, "payments": 1.0}  # rows, of those of orders
CHANGED = {"customers": 2, "products": 1, "orders": 40, "lines": 40, "payments": 17}  # of a hundred changes
STATES = ("new", "paid", "sent", "returned")
SPENT = "with spent as (select customer, sum(amount) as total from orders where state <> 'returned' group by customer)"
KINDS = (
    "select id, customer, amount from orders where state = 'paid' and amount >= {n} * 90",
    "select state, count(*) as orders, sum(amount) as amount from orders where customer % 10 = {n} group by state",
    "select o.id, c.region, o.amount from orders o join customers c on o.customer = c.id where c.segment = {n}",
    """select c.region, count(*) as orders, sum(o.amount) as amount from orders o join customers c on o.customer = c.id
    where o.state <> 'returned' group by c.region having count(*) > {n} * 10""",
    "select id, amount from orders where customer % 10 = {n} order by amount desc, id limit 50",
    "select distinct customer, state from orders where amount % 10 = {n}",
    """select p.category, sum(l.quantity * p.price) as amount from lines l join products p on l.product = p.id
    where p.category % 10 = {n} group by p.category""",
    """select o.id, o.amount, p.paid from orders o left join payments p on p.ordered = o.id
    where o.state = 'sent' and o.amount % 10 = {n}""",
    SPENT
    + """ select c.id, c.region, s.total from customers c join spent s on s.customer = c.id
    where s.total > {n} * 1000""",
    """select customer, id, amount from (select customer, id, amount, row_number()
      over (partition by customer order by amount desc, id) as place from orders where state <> 'returned')
    where place <= {n} + 1""",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--views", type=int, nargs="+", default=[10, 100], help="at most 100 each")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--changes", type=int, default=100)
    parser.add_argument("--orders", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    settings = Settings(driver_memory="2g")
    spark = open_session(settings)
    draw = Draw(chosen.orders, chosen.seed)
    relations = {name: relation(name, ["id"], rows) for name, rows in TABLES.items()}
    with tempfile.TemporaryDirectory() as folder, Memory() as memory:
        held = {n: Held(spark, Path(folder) / str(n), relations, texts(n), settings) for n in chosen.views}
        first = draw.filling()
        built = {}
        for count, views in held.items():
            views.append(first)
            built[count] = views.define()
        took: dict[int, list[float]] = {count: [] for count in held}
        busy: dict[int, list[float]] = {count: [] for count in held}
        for step in range(WARM + chosen.steps):
            changes = draw.transaction(chosen.changes)
            for count in sorted(held, reverse=bool(step % 2)):
                held[count].append(changes)
                before = processor_seconds()
                seconds = held[count].step()
                if step >= WARM:
                    took[count].append(seconds)
                    busy[count].append(processor_seconds() - before)
        wrong = 0
        for count, views in held.items():
            different = views.compare()
            wrong += len(different)
            report(
                benchmark="many", views=count, steps=chosen.steps, changes=chosen.changes, orders=chosen.orders,
                built_s=round(built[count], 1), median_ms=milliseconds(took[count]),
                p90_ms=round(float(np.percentile(took[count], 90)) * 1000, 1),
                p99_ms=percentiles(took[count])["p99_ms"], processor_ms=milliseconds(busy[count]),
                state_bytes=size_of(Path(folder) / str(count) / "state"), different=different,
            )  # fmt: skip
        for views in held.values():
            views.close()
    spark.stop()
    least, most = min(held), max(held)
    ratio = statistics.median(took[most]) / statistics.median(took[least])
    report(benchmark="many ratio", views=[least, most], ratio=round(ratio, 2), peak_mib=round(memory.peak), wrong=wrong)
    return 1 if wrong else 0


def texts(count: int) -> dict[str, str]:
    """The first so many views."""
    return {f"v{n:03d}": KINDS[n % len(KINDS)].format(n=n // len(KINDS)) for n in range(count)}


def milliseconds(seconds: Sequence[float]) -> float:
    return round(statistics.median(seconds) * 1000, 1)


class Draw:
    """Transactions over the five tables; the same seed, the same transactions."""

    def __init__(self, orders: int, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.ids = {name: np.arange(int(orders * share)) for name, share in SHARE.items()}

    def filling(self) -> Changes:
        return {name: [(INSERT, self.rows(name, ids))] for name, ids in self.ids.items()}

    def transaction(self, changes: int) -> Changes:
        """Half of a table's changes update rows; the others delete rows and bring as many new ones."""
        return {name: self.changed(name, max(1, changes * share // 100)) for name, share in CHANGED.items()}

    def changed(self, name: str, count: int) -> list[tuple[int, pa.Table]]:
        known, renewed = self.ids[name], count // 4
        at = self.random.choice(len(known), count - renewed, replace=False)
        gone, updated = known[at[:renewed]], known[at[renewed:]]
        fresh = known.max() + 1 + np.arange(renewed)
        self.ids[name] = np.concatenate([np.delete(known, at[:renewed]), fresh])
        parts = ((DELETE, gone), (UPDATE, updated), (INSERT, fresh))
        return [(operation, self.rows(name, ids)) for operation, ids in parts if len(ids)]

    def rows(self, name: str, ids: np.ndarray) -> pa.Table:
        def drawn(bound: int) -> np.ndarray:
            return self.random.integers(0, bound, len(ids))

        customers, products, orders = (len(self.ids[table]) for table in ("customers", "products", "orders"))
        columns: dict[str, Callable[[], dict[str, Any]]] = {
            "customers": lambda: {"region": [f"region {n}" for n in drawn(20)], "segment": drawn(10)},
            "products": lambda: {"category": drawn(50), "price": drawn(1000)},
            "orders": lambda: {
                "customer": drawn(customers), "state": np.array(STATES)[drawn(4)], "amount": drawn(1000),
            },
            "lines": lambda: {"ordered": drawn(orders), "product": drawn(products), "quantity": drawn(20)},
            "payments": lambda: {"ordered": drawn(orders), "paid": drawn(1000)},
        }  # fmt: skip
        return pa.table({"id": ids, **columns[name]()}, TABLES[name])


if __name__ == "__main__":
    sys.exit(main())
