"""The 22 queries of TPC-H as one pipeline under refresh streams, held to Spark batch after every step.

python -m benchmarks.tpch [--scale 0.1] [--steps 10] [--changes 1000] [--seed 1]

The views are built over the filled tables all at once; each step takes one or two refresh transactions. One JSON line
a step; the exit status is 1 when a view ever differed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.held import Held, run
from benchmarks.tpch.refresh import Refresh
from benchmarks.tpch.tables import QUERIES, generate, relations
from headrace.engine.session import open_session
from headrace.model.definition import Settings
from headrace.model.transaction import INSERT


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--changes", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--queries", nargs="*", default=list(QUERIES), help="only these")
    chosen = parser.parse_args()
    settings = Settings(driver_memory="2g")
    spark = open_session(settings)
    with tempfile.TemporaryDirectory() as folder:
        tables = generate(chosen.scale, Path(folder) / "rows")
        views = {name: QUERIES[name] for name in chosen.queries}
        held = Held(spark, Path(folder) / "held", relations(tables), views, settings)
        refresh = Refresh(held.contents, chosen.seed)
        held.append({name: [(INSERT, rows)] for name, rows in tables.items()})
        wrong = run(held, "tpch", chosen.steps, lambda: refresh.transaction(chosen.changes))
        held.close()
    spark.stop()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
