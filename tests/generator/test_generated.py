"""Goal: whatever SELECT can be maintained equals Spark batch over the same prefix of the log, after every commit.

Method: random tables, random queries nested in each other (also views over views), a random history; all views of a
program are stepped together, and after every commit each is compared with batch, as a multiset of whole rows told
apart by their bits. What the product refuses by a named clause is counted, what Spark rejects is drawn anew. A
failure is shrunk (view, steps, changes, SQL) and kept under tests/laws/regressions/, from where it is run again first.

HEADRACE_GENERATED: how many comparisons of a view after a commit (300; 100 in the usual run). HEADRACE_SEED: where to draw from (1).
HEADRACE_GENERATED_SHRINK_S: seconds given to making a failure smaller (300).
"""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from programs import Drawing, Failure, Generated, Running, Tally, compile_views
from shrinking import REGRESSIONS, Shrinking, described, read, save

from usual.selection import usual

WANTED = int(os.environ.get("HEADRACE_GENERATED", "100" if usual() else "300"))
SEED = os.environ.get("HEADRACE_SEED", "1")
# Many views share a job; in a usual run fewer, since every one has to be planned first.
VIEWS, STEPS = (24, 8) if WANTED > 1000 else (12, 8)
FAILURES_MAX = 5


@pytest.mark.spark
def test_failures_of_before_stay_away(spark: Any, tmp_path: Path) -> None:
    for path in sorted(REGRESSIONS.glob("generated.*.json")):
        program = read(path)
        compilation = compile_views(spark, program.tables, program.views)
        assert not compilation.refused, {n: str(e) for n, e in compilation.refused.items()}
        outcome = Running(spark, program.tables, compilation, tmp_path / path.stem).run(program.plan, program.steps)
        assert not outcome.failures, "\n".join(described(program, f, path.stem) for f in outcome.failures)


@pytest.mark.spark
@pytest.mark.timeout(0 if WANTED > 1000 else 600)
def test_generated_views_equal_batch(spark: Any, tmp_path: Path) -> None:
    tally, moved, views, compared = Tally(), 0, 0, 0
    reports: list[str] = []
    number = 0
    while compared < WANTED and len(reports) < FAILURES_MAX:
        seed = f"{SEED}/{number}"
        drawing = Drawing(spark, random.Random(seed), tally)
        program = drawing.program(VIEWS, STEPS)
        reports += [kept(broken, failure, seed) for broken, failure in drawing.failures]
        for running, outcome in runs(spark, program, tmp_path / str(number)):
            compared += outcome.comparisons
            moved, views = moved + outcome.moved, views + len(running.views)
            for failure in outcome.failures[: FAILURES_MAX - len(reports)]:
                smallest = Shrinking(spark, tmp_path / f"{number}.{failure.view}").smallest(program, failure)
                reports.append(kept(*smallest, seed))
        number += 1
        print(f"HEADRACE_SEED={SEED} program {number}: {compared} comparisons, {len(reports)} failures", flush=True)
    summary(tally, moved, views, compared)
    assert not reports, "\n\n".join(reports)


def runs(spark: Any, program: Generated, folder: Path) -> Iterator[Any]:
    """The program run, and once more without the views that batch cannot compute on these rows."""
    compilation = program.compilation
    while compilation is not None:
        running = Running(spark, program.tables, compilation, folder)
        outcome = running.run(program.plan, program.steps)
        yield running, outcome
        if not outcome.throwing:
            return
        gone = set(outcome.throwing)
        for name, view in compilation.views.items():
            if gone & set(view.reads):
                gone.add(name)
        left = {n: p for n, p in program.views.items() if n in compilation.views and n not in gone}
        compilation = compile_views(spark, program.tables, left) if left else None
        folder = folder.with_name(f"{folder.name}.again")


def kept(program: Generated, failure: Failure, seed: str) -> str:
    return f"{described(program, failure, seed)}\n  saved as {save(program, failure, seed)}"


def summary(tally: Tally, moved: int, views: int, compared: int) -> None:
    refused: Counter[str] = tally.refused
    share = 100 * refused.total() / max(1, tally.drawn)
    lines = [
        f"HEADRACE_SEED={SEED}: {compared} comparisons of {views} views, {moved} of which changed on the way;",
        f"{tally.drawn} queries drawn, {tally.rejected} rejected by Spark, {refused.total()} refused ({share:.0f} %):",
        *(f"  {count} x {what}" for what, count in refused.most_common()),
    ]
    sys.stdout.write("\n".join(lines) + "\n")
