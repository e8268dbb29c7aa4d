"""Click-through rates from files to their last change: clicks joined to impressions, per campaign and minute.

python -m benchmarks.ctr [--events 1000000] [--memory 2g] [--step-rows 1000000] [--seed 1] [--peers flink]

One event in twenty is a click, on an impression of the last minute; an impression has one click at most. A project
with a source of files for each, as a user would write it; what is timed, see ``benchmarks.once``. The view is held to
DuckDB over the same files, which is timed: a step of ours is beside computing all of it anew. Flink SQL, where it is
asked for, reads the same rows as CSV, and what its changes come to is compared too. One JSON line an engine; the exit
status is 1 when a row of ours is wrong.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from benchmarks import once
from benchmarks.answers import anew, beside, comparing, differing
from benchmarks.bench import report
from benchmarks.nexmark.rates.folded import compared
from benchmarks.nexmark.rates.neighbours import flink_command
from benchmarks.watched import run

VIEW = """select i.campaign, date_trunc('minute', i.shown) as minute, count(*) as impressions,
  count(c.impression) as clicks, count(c.impression) / count(*) as rate
from {impressions} i left join {clicks} c on c.impression = i.id
group by i.campaign, date_trunc('minute', i.shown)"""
OF_FLINK = """SELECT i.campaign, DATE_FORMAT(i.shown, 'yyyy-MM-dd HH:mm') AS `minute`, count(*) AS impressions,
  count(c.impression) AS clicks, CAST(count(c.impression) AS DOUBLE) / count(*) AS rate
FROM impressions i LEFT JOIN clicks c ON c.impression = i.id
GROUP BY i.campaign, DATE_FORMAT(i.shown, 'yyyy-MM-dd HH:mm')"""
TIMES = {"impressions": "shown", "clicks": "clicked"}
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
    parser.add_argument("--peers", nargs="*", choices=["flink"], default=[])
    parser.add_argument("--folder", type=Path, default=Path("build/nexmark"), help="where neighbours lie")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        files, folder = Path(name) / "files", Path(name) / "project"
        folder.mkdir()
        write(files, chosen.events, chosen.seed)
        settings = {"name": "ctr", "driver_memory": chosen.memory, "step_rows": chosen.step_rows}
        once.write(folder, settings, {t: files / t for t in TIMES}, {"rates": VIEW.format(**{t: t for t in TIMES})})
        figures = once.to_the_end(folder, chosen.events)
        answer = VIEW.format(**{table: f"'{files}/{table}/*.parquet'" for table in TIMES})
        wrong = differing(folder, "rates", f"({answer})")
        figures |= beside(anew(answer), figures["step_p50_ms"])
        if chosen.peers:
            line = flink(files, answer, chosen.events, chosen.folder)
            report(benchmark="ctr", campaigns=CAMPAIGNS, **line)
            if "per_second" in line:
                figures["to_flink"] = round(figures["per_second"] / line["per_second"], 2)
    report(benchmark="ctr", engine="headrace", campaigns=CAMPAIGNS, **figures, wrong=wrong)
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


def flink(files: Path, answer: str, events: int, folder: Path) -> dict[str, Any]:
    """The line of Flink SQL over the same rows."""
    rows, changes, text = files / "csv", files / "changes", files / "view.sql"
    text.write_text(OF_FLINK)
    changes.mkdir()
    with comparing() as connection:
        for file in sorted(files.glob("*/*.parquet")):
            time = TIMES[file.parent.name]
            (rows / file.parent.name).mkdir(parents=True, exist_ok=True)
            into = rows / file.parent.name / f"{file.stem}.csv"
            of_flink = f"SELECT * REPLACE (strftime({time}, '%Y-%m-%d %H:%M:%S.%g') AS {time}) FROM '{file}'"
            connection.execute(f"COPY ({of_flink}) TO '{into}' (FORMAT csv, HEADER false)")
        as_text = f"SELECT * REPLACE (strftime(minute, '%Y-%m-%d %H:%M') AS minute) FROM ({answer})"
        connection.execute(f"COPY ({as_text}) TO '{files}/answer.parquet' (FORMAT parquet)")
    line = {"engine": "flink"} | run(flink_command(folder, rows, events, text, changes))
    return line | compared(line, changes, files / "answer.parquet")


def times(microseconds: np.ndarray) -> pa.Array:
    return pa.array(microseconds).cast(pa.timestamp("us", tz="UTC"))


if __name__ == "__main__":
    sys.exit(main())
