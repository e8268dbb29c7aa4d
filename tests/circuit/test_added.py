"""Goal: what ordered runs add up of their rows is what the rows add up to. Oracle: Python's fractions."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.circuit import added
from headrace.circuit.slots import Part, Slot
from headrace.state.order import Order, SortColumn
from headrace.state.ordered import OrderedArrangement, merge_runs
from headrace.state.ordered_run import Layout, arrange
from headrace.state.run import open_run, write_run

DOUBLES = [None, 0.1, -0.1, 1e16, -1e16, 5e-324, 1e-300, 0.0, 2.5]
NUMBERS = [None, 0, -1, 2**63 - 1, -(2**63), 7]
PRICES = [None, Decimal(10**36), Decimal(-(10**36)), Decimal(3)]
ORDER = Order((SortColumn(pa.int64(), nullable=False),))
CONTENT = pa.schema([("o", pa.int64()), ("x", pa.float64()), ("n", pa.int64()), ("d", pa.decimal128(38, 0))])
LAYOUT = Layout(CONTENT, ORDER)
SLOTS = (
    Slot("sum", ("x",), ("double",)),
    Slot("sum", ("n",), ("bigint",)),
    Slot("sum", ("d",), ("decimal(38,0)",)),
    Slot("moments2", ("x",), ("double",)),
    Slot("count", (), ()),
)
PARTS = (
    Part("sum", 0, "double"),
    Part("sum", 2, "decimal(38,0)"),
    Part("var_pop", 3, "double"),
    Part("count", 4, "bigint"),
)
Row = tuple[int, Any, Any, Any]


def table_of(rows: list[tuple[Row, int]]) -> pa.Table:
    columns = [pa.array([row[i] for row, _ in rows], field.type) for i, field in enumerate(CONTENT)]
    table = pa.table(columns, schema=CONTENT)
    own = {
        "_w": pa.array([w for _, w in rows], pa.int64()),
        "_h": pa.array(np.full(len(rows), 7)),
        "_o": ORDER.encode([table["o"]]),
    }
    for name, values in own.items():
        table = table.append_column(name, values)
    return added.columns(SLOTS, table)


def test_sums_up_to_a_cut_are_those_of_the_rows_before_it(tmp_path: Path) -> None:
    chooser = random.Random(11)
    live: list[Row] = []
    paths: list[str] = []
    for step in range(30):
        changes: list[tuple[Row, int]] = []
        for _ in range(chooser.randrange(1, 8)):
            if live and chooser.random() < 0.4:
                changes.append((live.pop(chooser.randrange(len(live))), -1))
            else:
                row = (chooser.randrange(6), chooser.choice(DOUBLES), chooser.choice(NUMBERS), chooser.choice(PRICES))
                copies = chooser.choice([1, 1, 3])
                live += [row] * copies
                changes.append((row, copies))
        paths.append(str(tmp_path / f"{step}.arrow"))
        write_run(Path(paths[-1]), arrange(table_of(changes), LAYOUT))
        if chooser.random() < 0.3:
            merged = merge_runs([open_run(path) for path in paths])
            paths = [str(tmp_path / f"{step}m.arrow")]
            write_run(Path(paths[0]), merged)
        cuts = pa.array([0, 2, 3, 9], pa.int64())
        contents = OrderedArrangement(paths, LAYOUT, "").groups(np.full(4, 7))
        found = added.groups(SLOTS, contents.totals(high=ORDER.bounds([cuts])), contents.rank(ORDER.bounds([cuts])))
        before = [[row for row in live if row[0] < cut] for cut in cuts.to_pylist()]
        check(found, before)


def check(found: Any, before: list[list[Row]]) -> None:
    every = np.ones(len(before), bool)
    totals, prices, variances, counts = (part.of(SLOTS, found, every).to_pylist() for part in PARTS)
    assert counts == [len(rows) for rows in before]
    for rows, total, price, variance, n in zip(
        before, totals, prices, variances, found.counts[1].tolist(), strict=True
    ):
        doubles = [row[1] for row in rows if row[1] is not None]
        assert total == (math.fsum(doubles) + 0.0 if doubles else None)
        decimals = [row[3] for row in rows if row[3] is not None]
        exact = sum(map(int, decimals))
        assert price == (Decimal(exact) if decimals else None)
        assert n == sum(row[2] is not None for row in rows)
        if doubles:
            mean = sum(map(Fraction, doubles), Fraction(0)) / len(doubles)
            assert variance == float(sum(((Fraction(v) - mean) ** 2 for v in doubles), Fraction(0)) / len(doubles))


def test_what_is_not_finite_is_counted() -> None:
    rows = [((0, value, None, None), 1) for value in (math.inf, -math.inf, math.nan, 1.0)]
    names = [name for name in table_of(rows).column_names if name.startswith("_s0_0_s")]
    assert names == ["_s0_0_s0", "_s0_0_s1", "_s0_0_s2"]
