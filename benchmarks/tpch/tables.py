"""The tables of TPC-H at any scale, as the standard's own generator fills them, and its 22 queries."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet

from benchmarks.held import PART, mapped, queries, relation
from headrace.model.schema import Relation

KEYS = {
    "region": ("r_regionkey",),
    "nation": ("n_nationkey",),
    "supplier": ("s_suppkey",),
    "part": ("p_partkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "customer": ("c_custkey",),
    "orders": ("o_orderkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
}
ODD = 0.01  # below this scale the generator gives a part the same supplier twice
QUERIES = queries(Path(__file__).with_name("queries"))


def generate(scale: float, folder: Path, *, kept: Path | None = None) -> dict[str, pa.Table]:
    """Every table's rows, which a Parquet file each in ``folder`` has.

    ``kept``: the folder of mapped files that holds them in place of memory.
    """
    program = Path(sys.executable).with_name("tpchgen-cli")
    subprocess.run([program, "parquet", "-s", str(scale), "-o", folder], check=True, capture_output=True)
    if scale < ODD:
        for name, key in KEYS.items():
            rows = _distinct(pa.concat_tables(parts(folder, name)), key)
            parquet.write_table(rows, folder / f"{name}.parquet")
    return {n: mapped(kept, n, parts(folder, n)) if kept else pa.concat_tables(parts(folder, n)) for n in KEYS}


def parts(folder: Path, name: str) -> Iterator[pa.Table]:
    """A table's rows of a folder that ``generate`` filled, some at a time."""
    for batch in parquet.ParquetFile(folder / f"{name}.parquet").iter_batches(PART):
        yield _plain(pa.table(batch))


def _plain(rows: pa.Table) -> pa.Table:
    views = pa.string_view()
    return rows.cast(pa.schema([(f.name, pa.string() if f.type == views else f.type) for f in rows.schema]))


def _distinct(rows: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """One row of each key."""
    places = rows.select(list(key)).append_column("_at", pa.array(np.arange(rows.num_rows)))
    first = places.group_by(list(key)).aggregate([("_at", "min")])["_at_min"]
    return rows.take(first.take(pc.sort_indices(first))) if len(first) < rows.num_rows else rows


def relations(tables: dict[str, pa.Table]) -> dict[str, Relation]:
    return {name: relation(name, KEYS[name], rows.schema) for name, rows in tables.items()}
