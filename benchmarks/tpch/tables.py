"""The tables of TPC-H at any scale, as the standard's own generator fills them, and its 22 queries."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet

from benchmarks.held import queries, relation
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
QUERIES = queries(Path(__file__).with_name("queries"))


def generate(scale: float, folder: Path) -> dict[str, pa.Table]:
    """Every table's rows."""
    program = Path(sys.executable).with_name("tpchgen-cli")
    subprocess.run([program, "parquet", "-s", str(scale), "-o", folder], check=True, capture_output=True)
    return {name: _distinct(_plain(parquet.read_table(folder / f"{name}.parquet")), KEYS[name]) for name in KEYS}


def _plain(rows: pa.Table) -> pa.Table:
    views = pa.string_view()
    return rows.cast(pa.schema([(f.name, pa.string() if f.type == views else f.type) for f in rows.schema]))


def _distinct(rows: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """One row of each key: below scale 0.01 the generator gives a part the same supplier twice."""
    places = rows.select(list(key)).append_column("_at", pa.array(np.arange(rows.num_rows)))
    first = places.group_by(list(key)).aggregate([("_at", "min")])["_at_min"]
    return rows.take(first.take(pc.sort_indices(first))) if len(first) < rows.num_rows else rows


def relations(tables: dict[str, pa.Table]) -> dict[str, Relation]:
    return {name: relation(name, KEYS[name], rows.schema) for name, rows in tables.items()}
