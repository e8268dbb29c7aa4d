"""Goal: rows that are only picked yet are those that a copy at each stage would have.

Oracle: Arrow's own filter and select over whole tables, side by side.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headrace.circuit.flow import Chain
from headrace.circuit.local import Call, Conjunction, Constant, Reference
from headrace.circuit.picked import Picked, Select, Where
from headrace.circuit.work import Passed


def less(name: str, than: int) -> Call:
    return Call("less", (Reference(name), Constant(than, "bigint")))


@pytest.mark.parametrize("seed", range(20))
def test_stages_over_picked_rows_give_what_copies_give(seed: int) -> None:
    rng, rows = np.random.default_rng(seed), 300
    sides = []
    for letter in "lr":
        numbers = pa.array(rng.integers(0, 100, 50), mask=rng.random(50) < 0.1)
        texts = pa.array([str(n) for n in rng.integers(0, 9, 50)])
        chunks = pa.concat_tables([pa.table({f"{letter}0": numbers, f"{letter}1": texts})] * (1 + seed % 2))
        sides.append((chunks, rng.integers(0, chunks.num_rows, rows)))
    sides.append((pa.table({"_w": rng.integers(1, 3, rows)}), None))
    names = {name: (side, name) for side, (table, _) in enumerate(sides) for name in table.column_names}
    picked = Picked(rows, tuple(sides), names)
    whole = pa.concat_tables([t if at is None else t.take(pa.array(at)) for t, at in sides[:1]])
    for table, at in sides[1:]:
        for name in table.column_names:
            whole = whole.append_column(name, (table if at is None else table.take(pa.array(at)))[name])
    assert picked.copied() == whole.select(picked.copied().column_names)
    first, second, third = (int(n) for n in rng.integers(-5, 110, 3))
    chain = Chain(
        Where(Conjunction((less("l0", first), less("r0", second)))),
        Passed("x"),
        Select(("a", "b", "c", "_w"), (Reference("r1"), Reference("l0"), Reference("l0"), Reference("_w"))),
        Where(less("c", third)),
    )
    mask = pc.and_(pc.less(whole["l0"], first), pc.less(whole["r0"], second))
    left = whole.filter(pc.and_(mask, pc.less(whole["l0"], third)))
    wanted = pa.table({"a": left["r1"], "b": left["l0"], "c": left["l0"], "_w": left["_w"]})
    found = list(chain([picked]))
    assert pa.Table.from_batches(found, wanted.schema) == wanted
    assert all(isinstance(batch, pa.RecordBatch) for batch in found)
    assert pa.Table.from_batches(list(chain(whole.to_batches())), wanted.schema) == wanted
