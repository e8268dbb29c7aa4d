"""One query by the product: from Parquet files through the log into its published changes.

python -m benchmarks.nexmark.rates.ours --data FOLDER --query q4 [--answer ANSWER.parquet]

A project with a source of files for each relation, as a user would write it; what is timed, see ``benchmarks.once``.
One JSON line.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks import once
from benchmarks.answers import differing
from benchmarks.bench import report
from benchmarks.nexmark.rates import texts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with person, auction and bid")
    parser.add_argument("--events", type=int, required=True, help="how many there are of all kinds")
    parser.add_argument("--query", required=True)
    parser.add_argument("--answer", type=Path, help="Parquet file with the rows that the view must hold")
    parser.add_argument("--memory", default="2g", help="of the JVM")
    parser.add_argument("--step-rows", type=int, default=1_000_000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, query = Path(name), chosen.query
        settings = {"name": "nexmark", "driver_memory": chosen.memory, "step_rows": chosen.step_rows}
        tables = {table: chosen.data / table for table in texts.reads(query)}
        once.write(folder, settings, tables, {query: texts.text("spark", query) or ""})
        figures = once.to_the_end(folder, chosen.events)
        wrong = differing(folder, query, f"'{chosen.answer}'") if chosen.answer else None
    report(benchmark="nexmark", engine="headrace", query=query, **figures, wrong=wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
