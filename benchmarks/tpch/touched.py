"""What one changed row costs the 22 queries of TPC-H: rows that each operator is given, and reads of what is kept.

python -m benchmarks.tpch.touched [--scale 0.17] [--rounds 10] [--limit 100] [--seed 1] [--queries q01 q02]

At scale 0.17 lineitem has a million rows. Each step changes one row of one table, to values that queries ask for. An
operator is within the limit when it reads at most so many times the rows that it is given and passes on, one at least:
those are the rows whose comparison or output may change. One JSON line a table, with the worst operator and those
beyond the limit; the exit status is 1 when there are any.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.bench import report
from benchmarks.held import Contents
from benchmarks.tpch.refresh import Refresh
from benchmarks.tpch.tables import QUERIES, generate, relations
from headrace.engine.session import open_session
from headrace.model.definition import Settings, ViewDefinition
from headrace.model.transaction import INSERT
from headrace.testing import Pipeline

CHANGED = ("lineitem", "orders", "customer", "part", "partsupp", "supplier")
Work = Mapping[str, Mapping[str, Mapping[str, int]]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.17)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--queries", nargs="*", default=list(QUERIES), help="only these")
    chosen = parser.parse_args()
    settings = Settings(driver_memory="2g", step_rows=1 << 40)
    spark = open_session(settings)
    definitions = [ViewDefinition(name, QUERIES[name]) for name in chosen.queries]
    beyond = 0
    with tempfile.TemporaryDirectory() as folder:
        tables = generate(chosen.scale, Path(folder))
        contents = Contents(relations(tables))
        contents.apply({name: [(INSERT, rows)] for name, rows in tables.items()})
        refresh = Refresh(contents, chosen.seed)
        with Pipeline.over(contents.relations, definitions, settings, spark) as pipeline:
            pipeline.step(tables)
            for table in CHANGED:
                beyond += touched(pipeline, refresh, table, chosen.rounds, chosen.limit)
    spark.stop()
    return 1 if beyond else 0


def touched(pipeline: Pipeline, refresh: Refresh, table: str, rounds: int, limit: int) -> int:
    """Change single rows of a table; how many operators were beyond the limit."""
    views: dict[str, int] = {}
    found: list[tuple[float, str, Mapping[str, int]]] = []
    for _ in range(rounds):
        delta = pipeline.step({table: refresh.changed(refresh.sample(table, 1))})
        for view, rows in delta.items():
            views[view] = views.get(view, 0) + (rows.num_rows > 0)
        found += shares(pipeline.work())
    beyond = {name: done for share, name, done in found if share > limit}
    share, name, done = max(found, key=lambda entry: entry[0])
    report(
        benchmark="tpch touched", table=table, rows=refresh.rows(table).num_rows, rounds=rounds,
        changed={view: count for view, count in views.items() if count}, worst={"share": share, name: done},
        beyond=beyond,
    )  # fmt: skip
    return len(beyond)


def shares(work: Work) -> Iterator[tuple[float, str, Mapping[str, int]]]:
    """Of each operator what it read of kept state, for each row that it was given or passed on; and its work."""
    for view, operators in work.items():
        for name, done in operators.items():
            yield done["rows_probed"] / max(1, done["rows_in"] + done["rows_out"]), f"{view}: {name}", done


if __name__ == "__main__":
    sys.exit(main())
