"""Goal: a start that takes many steps again keeps the runs few, so that it costs no more than the steps did.

Method: the coordinator without Spark takes hundreds of steps and is let go of as a kill leaves it, before a
checkpoint; the next one's runs are counted after each step, and its views held against the model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import control_plane
import pytest
from bank import KEPT, History
from control_plane import recovered

from headrace.catalog.store import Catalog
from headrace.circuit import task
from headrace.engine.kept import RUNS_MAX, Kept
from headrace.log.append import LogWriter
from headrace.state.arrangement import Arrangement

STEPS = 300


def test_runs_stay_few_while_steps_are_taken_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "_task", lambda: control_plane._TASK)
    made = History(1, STEPS)
    with LogWriter(folder / "log") as log:
        catalog = Catalog(folder / "catalog.db")
        engine = recovered(folder, catalog, log, each=True)
        for number in range(STEPS):
            log.append(made.batch(number + 1, 1))
            assert engine.step() is not None
        engine.kept.close()
        catalog.close()
    counted: list[int] = []
    add = Kept.add

    def counting(self: Kept, files: Iterable[Path]) -> None:
        add(self, files)
        counted.append(max((len(runs) for runs in self.runs.values()), default=0))

    monkeypatch.setattr(Kept, "add", counting)
    with LogWriter(folder / "log") as log:
        catalog = Catalog(folder / "catalog.db")
        engine = recovered(folder, catalog, log, each=True)
        assert (engine.number, engine.frontier, len(counted)) == (STEPS, STEPS, STEPS)
        assert max(counted) <= RUNS_MAX + 1
        for name in KEPT:
            rows: Counter[tuple[int, int]] = Counter()
            for table in Arrangement(engine.kept.paths()[name], "proof").all():
                for row in table.to_pylist():
                    rows[row["c0"], row["c1"]] += row["_w"]
            assert {row: weight for row, weight in rows.items() if weight} == made.held[STEPS][name]
        engine.kept.close()
        catalog.close()
