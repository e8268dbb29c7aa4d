"""What keeping the 22 queries of TPC-H costs beside computing them anew.

python -m benchmarks.tpch.cost [--scale 1] [--shares 0.0001 0.001 0.01] [--steps 5] [--seed 1] [--memory 2g]
                               [--rounds 3 3] [--mapped]

All views are one pipeline, defined over filled tables; each step then takes one refresh transaction that changes such
a share of all rows. Spark and DuckDB compute the queries over Parquet files of the same rows, each in a process of its
own, as they come and warm: the best of some rounds counts. A view's first contents are timed beside those of another
one, a query alone. At the end every view is held to Spark batch; the exit
status is 1 when one differs. One JSON line for the load, one for each share, one for the state.

Transactions are drawn before the engine starts, so that the rows they are drawn from are out of its memory;
``--mapped`` keeps those rows in files meanwhile, for scales at which memory does not hold them.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bench import Memory, processor_seconds, report, size_of
from benchmarks.held import Changes, Contents, Held
from benchmarks.tpch.refresh import Refresh
from benchmarks.tpch.tables import QUERIES, generate, parts, relations
from headrace.engine.session import open_session
from headrace.model.definition import Settings
from headrace.model.transaction import INSERT

WARM = 2  # steps of a share that do not count
ENGINES = ("spark", "duckdb")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.0001, 0.001, 0.01])
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--memory", default="2g", help="of each JVM")
    parser.add_argument("--rounds", type=int, nargs=2, default=[3, 3], help="of Spark, of DuckDB")
    parser.add_argument("--mapped", action="store_true", help="keep the tables' plain rows in files, not in memory")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows, after, kept = folder / "rows", folder / "after", folder / "kept"
        for made in (after, kept):
            made.mkdir()
        tables = generate(chosen.scale, rows, kept=kept if chosen.mapped else None)
        filled, kinds = sum(table.num_rows for table in tables.values()), relations(tables)
        before = {engine: batch(rows, engine, chosen) for engine in ENGINES}
        drawn = draw(Contents(kinds, kept if chosen.mapped else None, tables), chosen, after)
        del tables
        settings = Settings(driver_memory=chosen.memory)
        spark = open_session(settings)
        held = Held(spark, folder / "held", kinds, QUERIES, settings)
        with Memory() as memory:
            began = time.perf_counter()
            for table in kinds:
                for part in parts(rows, table):
                    held.record({table: [(INSERT, part)]})
            appended = time.perf_counter() - began
            shutil.rmtree(rows)  # the log has them
            busy = processor_seconds()
            built = held.define()
            busy = processor_seconds() - busy
            loaded = {e["view"]: e["seconds"] for e in held.events if e["event"] == "view.built"}
            spark_cold_s, spark_busy = before["spark"].rounds[0]
            to_spark = {view: round(seconds / before["spark"].cold[view], 2) for view, seconds in loaded.items()}
            slowest = max(to_spark, key=lambda view: to_spark[view])
            report(
                benchmark="tpch load", scale=chosen.scale, rows=filled,
                append_s=round(appended, 1), define_s=round(built, 1), define_processor_s=round(busy, 1),
                spark_cold_s=spark_cold_s, spark_cold_processor_s=spark_busy,
                **({"spark_warm_s": min(before["spark"].rounds)[0]} if chosen.rounds[0] > 1 else {}),
                duckdb_s=min(before["duckdb"].rounds)[0],
                define_to_spark_cold=round(built / spark_cold_s, 2), view_s=loaded, view_to_spark_cold=to_spark,
                median_view_to_spark_cold=statistics.median(to_spark.values()),
                most_view_to_spark_cold=to_spark[slowest], slowest_view=slowest,
            )  # fmt: skip
            steps = [(share, *refreshed(held, changes)) for share, changes in drawn.items()]
            held.maintainer.checkpoint()
        different = held.compare(after)
        held.close()  # what nobody needs is deleted then, not only about to be
        spark.stop()
        state, log = size_of(folder / "held/state"), size_of(folder / "held/log")
        anew = {engine: batch(after, engine, chosen) for engine in ENGINES}
        ended = sum(file.stat().st_size for file in after.glob("*.parquet"))
    best = {engine: min(found.rounds) for engine, found in anew.items()}
    for share, changes, seconds, busy in steps:
        report(
            benchmark="tpch refresh", scale=chosen.scale, share=share, steps=chosen.steps, changes=changes,
            seconds=round(seconds, 3), processor_seconds=round(busy, 2), spark_s=best["spark"][0],
            spark_processor_s=best["spark"][1], duckdb_s=best["duckdb"][0],
            spark_to_step=round(best["spark"][0] / seconds, 1), duckdb_to_step=round(best["duckdb"][0] / seconds, 2),
            processor_spark_to_step=round(best["spark"][1] / busy, 1),
        )  # fmt: skip
    report(
        benchmark="tpch state", scale=chosen.scale, state_bytes=state, log_bytes=log, parquet_bytes=ended,
        state_to_parquet=round(state / ended, 2), peak_mib=round(memory.peak), wrong=len(different),
        different=different,
    )  # fmt: skip
    return 1 if different else 0


def draw(contents: Contents, chosen: argparse.Namespace, after: Path) -> dict[float, list[Changes]]:
    """Transactions of each share of the rows, each drawn from what the one before leaves; ``after``: what all leave."""
    drawn: dict[float, list[Changes]] = {}
    for share in chosen.shares:
        refresh = Refresh(contents, chosen.seed)
        for _ in range(WARM + chosen.steps):
            every = sum(rows.num_rows for rows in contents.rows.values())
            drawn.setdefault(share, []).append(changes := refresh.transaction(max(1, round(share * every))))
            contents.apply(changes)
    contents.write(after)
    return drawn


def refreshed(held: Held, transactions: Sequence[Changes]) -> tuple[int, float, float]:
    """Medians of such steps: (changes, seconds, seconds of a processor)."""
    found = []
    for step, transaction in enumerate(transactions):
        changes = held.record(transaction)
        busy = processor_seconds()
        seconds = held.step()
        if step >= WARM:
            found.append((changes, seconds, processor_seconds() - busy))
    changes, seconds, busy = (statistics.median(values) for values in zip(*found, strict=True))
    return round(changes), seconds, busy


@dataclass(frozen=True, slots=True)
class Anew:
    """``rounds``: the seconds of each, of the clock and of a processor; ``cold``: each query in the first of them."""

    rounds: list[tuple[float, float]]
    cold: dict[str, float]


def batch(folder: Path, engine: str, chosen: argparse.Namespace) -> Anew:
    """The queries over the tables of a folder, by a process of its own."""
    command = [sys.executable, "-m", "benchmarks.tpch.batch", "--data", str(folder), "--engine", engine]
    command += ["--rounds", str(chosen.rounds[ENGINES.index(engine)]), "--memory", chosen.memory]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    said = json.loads(done.stdout.splitlines()[-1])
    return Anew([(seconds, busy) for seconds, busy in said["rounds"]], said["cold"])


if __name__ == "__main__":
    sys.exit(main())
