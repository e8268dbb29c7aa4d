"""Click-through rates from files to their last change: clicks joined to impressions, per campaign and minute.

python -m benchmarks.ctr [--events 1000000] [--memory 2g] [--step-rows 1000000] [--seed 1]

One event in twenty is a click, on an impression of the last minute; an impression has one click at most. A project
with a source of files for each, as a user would write it; what is timed, see ``benchmarks.once``. The view is held to
DuckDB over the same files, which is timed: a step of ours is beside computing all of it anew. One JSON line; the exit
status is 1 when a row is wrong.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from benchmarks import once
from benchmarks.answers import anew, beside, differing
from benchmarks.bench import report

VIEW = """select i.campaign, date_trunc('minute', i.shown) as minute, count(*) as impressions,
  count(c.impression) as clicks, count(c.impression) / count(*) as rate
from {impressions} i left join {clicks} c on c.impression = i.id
group by i.campaign, date_trunc('minute', i.shown)"""
TABLES = ("impressions", "clicks")
CLICKS = 20  # one event of so many
CAMPAIGNS = 1000
PER_SECOND = 1000  # impressions, by their own clock
LATEST_S = 60  # a click after its impression
PART = 200_000  # impressions of a file
BEGIN_US = 1_699_920_000_000_000  # 2023-11-14 00:00 UTC


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--memory", default="2g", help="of the JVM")
    parser.add_argument("--step-rows", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        files, folder = Path(name) / "files", Path(name) / "project"
        folder.mkdir()
        write(files, chosen.events, chosen.seed)
        settings = {"name": "ctr", "driver_memory": chosen.memory, "step_rows": chosen.step_rows}
        once.write(folder, settings, {t: files / t for t in TABLES}, {"rates": VIEW.format(**{t: t for t in TABLES})})
        figures = once.to_the_end(folder, chosen.events)
        answer = VIEW.format(**{table: f"'{files}/{table}/*.parquet'" for table in TABLES})
        wrong = differing(folder, "rates", f"({answer})")
        figures |= beside(anew(answer), figures["step_p50_ms"])
    report(benchmark="ctr", campaigns=CAMPAIGNS, **figures, wrong=wrong)
    return 1 if wrong else 0


def write(folder: Path, events: int, seed: int) -> None:
    """``folder/impressions`` and ``folder/clicks``, Parquet files in the order of time."""
    random, clicked = np.random.default_rng(seed), events // CLICKS
    shown = events - clicked
    at = BEGIN_US + np.arange(shown) * (1_000_000 // PER_SECOND)
    on = np.sort(random.choice(shown, clicked, replace=False))
    late = at[on] + random.integers(0, LATEST_S * 1_000_000, clicked)
    impressions = pa.table({
        "id": np.arange(shown), "campaign": random.integers(0, CAMPAIGNS, shown), "shown": times(at),
    })  # fmt: skip
    turn = np.argsort(late, kind="stable")
    clicks = pa.table({"impression": on[turn], "clicked": times(late[turn])})
    for name, rows, part in (("impressions", impressions, PART), ("clicks", clicks, PART // CLICKS)):
        (folder / name).mkdir(parents=True)
        for number, first in enumerate(range(0, rows.num_rows, part)):
            parquet.write_table(rows.slice(first, part), folder / name / f"part-{number:05d}.parquet")


def times(microseconds: np.ndarray) -> pa.Array:
    return pa.array(microseconds).cast(pa.timestamp("us", tz="UTC"))


if __name__ == "__main__":
    sys.exit(main())
