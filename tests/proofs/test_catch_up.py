"""Goal: a sink that was away takes many steps at once, and yet each source transaction as one of its own.

Method: the coordinator without Spark takes hundreds of steps of one to three transactions while the sink is away; what
then goes to the sink is held against the model after each commit. A second sink has some transactions of a step already.
"""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import control_plane
import pytest
from bank import VIEWS, History, Rows
from control_plane import recovered

from headrace.catalog.store import Catalog
from headrace.circuit import task
from headrace.engine.deliver import EACH_STEPS, Deliver
from headrace.log.append import LogWriter
from headrace.model.delivery import WEIGHT, Succession
from headrace.sinks.connectors.duckdb.connector import DuckdbSink

TRANSACTIONS = 260


def test_a_sink_that_was_away_takes_many_steps_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "_task", lambda: control_plane._TASK)
    made = History(1, TRANSACTIONS)
    with LogWriter(folder / "log") as log:
        catalog = Catalog(folder / "catalog.db")
        engine = recovered(folder, catalog, log, each=True)
        log.append(made.batch(1, 1))
        assert engine.step() is not None
        sink = DuckdbSink("store", {"path": str(folder / "store.duckdb")}, {})
        deliver = Deliver(sink, None, catalog, engine.reader, lambda event: None)
        deliver.begin()
        assert deliver.deliver()
        ends, at = list[int](), 1
        while at < TRANSACTIONS:
            log.append(made.batch(at + 1, size := made.together(at)))
            at += size
            assert engine.step() is not None
            ends.append(at)

        taken: list[Succession] = []
        write = sink.write_each
        monkeypatch.setattr(sink, "write_each", lambda s: (taken.append(s), write(s))[1])
        while deliver.deliver():
            pass
        assert [s.commits[-1] for s in taken] == [*ends[EACH_STEPS - 1 :: EACH_STEPS], ends[-1]]
        assert [commit for s in taken for commit in s.commits] == list(range(2, TRANSACTIONS + 1))
        assert [o.position for s in taken for o in s.origins] == [str(n) for n in range(2, TRANSACTIONS + 1)]
        follows(taken, made, 1)

        amid = next(before + 1 for before, end in itertools.pairwise(ends) if end == before + 3)
        deliver.frontier = amid
        rest = deliver.next(sink.held())
        assert isinstance(rest, Succession)
        assert rest.commits[0] == amid + 1
        follows([rest], made, amid)
        deliver.close()
        sink.close()
        engine.kept.close()
        catalog.close()


def follows(taken: list[Succession], made: History, commit: int) -> None:
    """What the model holds after ``commit``, changed by one transaction after the other, is what it holds after each."""
    held: dict[str, Rows] = {view.name: Counter(made.held[commit][view.name]) for view in VIEWS}
    for succession in taken:
        for delivery in succession.deliveries():
            for name, table in delivery.deltas.items():
                for row in table.to_pylist():
                    held[name][row["id"], row["amount"]] += row[WEIGHT]
            found = {name: {row: weight for row, weight in rows.items() if weight} for name, rows in held.items()}
            assert found == made.held[delivery.commit]
