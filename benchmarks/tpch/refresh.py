"""Refresh streams over TPC-H: transactions that insert, update and delete rows of every table but nation and region.

A changed row takes each value from another row of its table, so that values stay spread as the generator spread them;
or it is made one that a query asks for (``WANTED``), so that every query has an answer at a small scale too, and one
that changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.held import Contents
from headrace.model.transaction import DELETE, INSERT, UPDATE

# Rows that queries ask for, by table: column -> values of which one is drawn.
Wanted = Mapping[str, tuple[Any, ...]]
WANTED: Mapping[str, tuple[Wanted, ...]] = {
    "supplier": (
        {"s_nationkey": (2, 2, 3, 3, 7, 20)},  # q8, q11, q20, q21
        {"s_comment": ("furiously Customer even Complaints", "careful accounts")},  # q16
    ),
    "part": (
        {"p_size": (15,), "p_type": ("SMALL PLATED BRASS", "LARGE BRUSHED BRASS")},  # q2
        {"p_type": ("ECONOMY ANODIZED STEEL",)},  # q8
        {"p_type": ("PROMO PLATED TIN", "MEDIUM POLISHED TIN")},  # q14, q16
        {"p_name": ("forest green puff cream lace", "ghost green drab peach deep", "forest coral")},  # q9, q20
        {"p_brand": ("Brand#12",), "p_container": ("SM BOX",), "p_size": (3,)},  # q19
        {"p_brand": ("Brand#23",), "p_container": ("MED BOX",), "p_size": (8,)},  # q17, q19
        {"p_brand": ("Brand#34",), "p_container": ("LG PKG",), "p_size": (14,)},  # q19
        {"p_size": (49, 14, 23, 45), "p_brand": ("Brand#45", "Brand#12")},  # q16
    ),
    "partsupp": ({"ps_availqty": (1, 5000, 9999), "ps_supplycost": (Decimal("1.00"), Decimal("999.00"))},),
    "customer": (
        {"c_mktsegment": ("BUILDING",)},  # q3
        {"c_nationkey": (6, 7, 8, 2, 24)},  # q5, q7, q8
        {"c_phone": ("13-100-200-3000", "31-100-200-3000"), "c_acctbal": (Decimal("9999.99"), Decimal("-1.00"))},  # q22
    ),
    "orders": (
        {"o_orderdate": (date(1993, 7, 1), date(1993, 8, 15), date(1993, 9, 30), date(1993, 10, 1))},  # q4, q10
        {"o_orderdate": (date(1994, 1, 1), date(1994, 12, 31))},  # q5
        {"o_orderdate": (date(1995, 3, 14), date(1995, 3, 15))},  # q3
        {"o_orderdate": (date(1995, 1, 1), date(1996, 12, 31))},  # q7, q8
        {"o_orderstatus": ("F", "O"), "o_orderpriority": ("1-URGENT", "5-LOW")},  # q12, q21
        {"o_comment": ("the special deposits and requests wake",)},  # q13
    ),
    "lineitem": (
        {"l_shipdate": (date(1994, 6, 1),), "l_discount": (Decimal("0.06"),), "l_quantity": (Decimal(10),)},  # q6
        {"l_shipdate": (date(1995, 3, 16), date(1998, 9, 2), date(1998, 9, 3))},  # q1, q3
        {"l_shipdate": (date(1995, 9, 1), date(1995, 9, 30), date(1995, 10, 1))},  # q14
        {"l_shipdate": (date(1996, 1, 1), date(1996, 3, 31))},  # q15
        {"l_returnflag": ("R", "A")},  # q10
        {
            "l_shipmode": ("MAIL", "SHIP"),
            "l_shipdate": (date(1994, 1, 1),),
            "l_commitdate": (date(1994, 1, 2),),
            "l_receiptdate": (date(1994, 1, 3), date(1994, 1, 2)),
        },  # q4, q12, q21
        {"l_quantity": (Decimal(1), Decimal(2))},  # q17
        {
            "l_shipmode": ("AIR",),
            "l_shipinstruct": ("DELIVER IN PERSON",),
            "l_quantity": (Decimal(10), Decimal(15), Decimal(25)),
        },  # q19
        {"l_quantity": (Decimal(50),)},  # q18
    ),
}
KEY_AT = {"supplier": "s_suppkey", "part": "p_partkey", "customer": "c_custkey", "orders": "o_orderkey"}
LINES = 7  # lines of an order at most


class Refresh:
    """Draws transactions over the tables as they are; the same seed, the same transactions."""

    def __init__(self, contents: Contents, seed: int) -> None:
        self.contents, self.random = contents, np.random.default_rng(seed)

    def transaction(self, changes: int) -> dict[str, list[tuple[int, pa.Table]]]:
        """About so many changes over several tables, half of them in new and deleted orders with their lines."""
        orders = max(1, changes // 20)
        few = max(1, changes // 40)
        made: dict[str, list[tuple[int, pa.Table]]] = {}
        for table in ("supplier", "part", "partsupp", "customer"):
            most = max(1, self.rows(table).num_rows // 20)  # few enough to leave a small table what it was
            gone = self.sample(table, min(most, max(1, few // 2)))
            made[table] = [(UPDATE, self.changed(self.sample(table, min(most, few)))), (DELETE, gone)]
            if table in KEY_AT:
                made[table].append((INSERT, self.renamed(table, self.changed(gone))))
        new, lines = self.ordered(orders)
        gone = self.sample("orders", orders)
        their = self.rows("lineitem").filter(pc.is_in(self.rows("lineitem")["l_orderkey"], gone["o_orderkey"]))
        made["orders"] = [(DELETE, gone), (UPDATE, self.changed(self.sample("orders", 2 * few))), (INSERT, new)]
        made["lineitem"] = [
            (DELETE, their),
            (UPDATE, self.changed(self.supplied(self.sample("lineitem", changes // 4)))),
            (INSERT, lines),
        ]
        return {table: _last_of_each(parts, self.contents.relations[table].key) for table, parts in made.items()}

    def rows(self, table: str) -> pa.Table:
        return self.contents.rows[table]

    def sample(self, table: str, count: int) -> pa.Table:
        rows = self.rows(table)
        return rows.take(pa.array(self.random.choice(rows.num_rows, min(count, rows.num_rows), replace=False)))

    def changed(self, rows: pa.Table) -> pa.Table:
        """Half of the values from other rows, then the most rows such that a query asks for them. Keys stay."""
        table = next(name for name, r in self.contents.relations.items() if list(r.names) == rows.column_names)
        every, key = self.rows(table), {*self.contents.relations[table].key, "l_partkey", "l_suppkey"}
        for name in [n for n in rows.column_names if n not in key]:
            other = every[name].take(pa.array(self.random.integers(0, every.num_rows, rows.num_rows)))
            rows = _replaced(rows, name, self.random.random(rows.num_rows) < 0.5, other)
        drawn = self.random.integers(0, len(WANTED[table]) + 1, rows.num_rows)
        for number, wanted in enumerate(WANTED[table]):
            for name, values in wanted.items():
                value = pa.array(values, rows.schema.field(name).type)
                other = value.take(pa.array(self.random.integers(0, len(values), rows.num_rows)))
                rows = _replaced(rows, name, drawn == number, other)
        return rows

    def renamed(self, table: str, rows: pa.Table) -> pa.Table:
        """The rows under keys that the table never had; every second one under a key that it has just lost."""
        key = KEY_AT[table]
        fresh = pc.max(self.rows(table)[key]).as_py() + 1 + np.arange(rows.num_rows)
        return _replaced(rows, key, self.random.random(rows.num_rows) < 0.5, pa.array(fresh))

    def ordered(self, count: int) -> tuple[pa.Table, pa.Table]:
        """New orders of customers that there are, and their lines."""
        rows = self.changed(self.sample("orders", count))
        count = rows.num_rows
        keys = pc.max(self.rows("orders")["o_orderkey"]).as_py() + 1 + np.arange(count)
        rows = _replaced(rows, "o_orderkey", np.ones(count, bool), pa.array(keys))
        each = self.random.integers(1, LINES + 1, count)
        large = self.random.random(count) < 0.2  # q18
        each[large] = LINES
        of = np.repeat(np.arange(count), each)
        drawn = self.random.integers(0, self.rows("lineitem").num_rows, len(of))
        lines = self.changed(self.supplied(self.rows("lineitem").take(pa.array(drawn))))
        every = np.ones(len(of), bool)
        lines = _replaced(lines, "l_orderkey", every, pa.array(keys[of]))
        numbers = np.arange(len(of)) - np.repeat(np.cumsum(each) - each, each) + 1
        lines = _replaced(lines, "l_linenumber", every, pa.array(numbers.astype(np.int32)))
        most = pa.array([Decimal(50)] * len(of), lines.schema.field("l_quantity").type)
        return rows, _replaced(lines, "l_quantity", large[of], most)

    def supplied(self, lines: pa.Table) -> pa.Table:
        """The lines, every second one of another part by one of its suppliers."""
        pairs = self.rows("partsupp").take(
            pa.array(self.random.integers(0, self.rows("partsupp").num_rows, lines.num_rows))
        )
        moved = self.random.random(lines.num_rows) < 0.5
        lines = _replaced(lines, "l_partkey", moved, pairs["ps_partkey"])
        return _replaced(lines, "l_suppkey", moved, pairs["ps_suppkey"])


def _replaced(rows: pa.Table, name: str, where: np.ndarray, other: pa.Array) -> pa.Table:
    at = rows.column_names.index(name)
    chosen = pc.if_else(pa.array(where), other, rows[name]).cast(rows.schema.field(name).type)
    return rows.set_column(at, rows.schema.field(name), chosen)


def _last_of_each(parts: list[tuple[int, pa.Table]], key: tuple[str, ...]) -> list[tuple[int, pa.Table]]:
    """The parts without updates of rows that another part deletes: an update says that its row is there."""
    gone = [rows.select(list(key)) for operation, rows in parts if operation == DELETE]
    return [
        (operation, rows.join(pa.concat_tables(gone), list(key), join_type="left anti", use_threads=False))
        if operation == UPDATE and gone
        else (operation, rows)
        for operation, rows in parts
    ]
