"""The 23 queries of Nexmark as one pipeline, held to Spark batch after every step.

python -m benchmarks.nexmark [--events 100000] [--steps 10] [--changes 1000] [--seed 1]

The views are built over the first events all at once; each step takes one or two transactions of more. One JSON line
a step; the exit status is 1 when a view ever differed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.held import Held, run
from benchmarks.nexmark.events import QUERIES, RELATIONS, Events
from headrace.engine.session import open_session
from headrace.model.definition import Settings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--changes", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--queries", nargs="*", default=list(QUERIES), help="only these")
    chosen = parser.parse_args()
    settings = Settings(driver_memory="2g")
    spark = open_session(settings)
    with tempfile.TemporaryDirectory() as folder:
        views = {name: QUERIES[name] for name in chosen.queries}
        held = Held(spark, Path(folder), RELATIONS, views, settings)
        events = Events(held.contents, chosen.seed)
        held.append(events.side_input())
        held.append(events.transaction(chosen.events))
        wrong = run(held, "nexmark", chosen.steps, lambda: events.transaction(chosen.changes))
        held.close()
    spark.stop()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
