"""Goal: what is known of changes that have left the quarantine does not grow beyond what the log could set aside again.

Method: changes of ten commits leave, dropped or sent again; the log's base comes to lie between them. A file of the
quarantine still has some. Judge: a set in plain Python, and that nothing comes back into the quarantine.
"""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.catalog.quarantine import Change, SetAside
from headrace.catalog.store import Catalog
from headrace.engine.quarantined import forget
from headrace.serve import quarantine
from headrace.state.run import write_run


def file(folder: Path, step: int, changes: list[tuple[int, int]]) -> SetAside:
    """A file of the quarantine with these (commit, place)."""
    columns = {
        "_commit": [commit for commit, _ in changes], "_place": [place for _, place in changes],
        "_operation": ["insert"] * len(changes), "_reason": ["it is there"] * len(changes),
        "_unchanged": pa.nulls(len(changes), pa.binary()), "id": list(range(len(changes))),
    }  # fmt: skip
    path = folder / f"t~{step}.arrow"
    write_run(path, pa.table(columns))
    return SetAside("t", step, str(path), len(changes))


@pytest.mark.parametrize("base", [0, 4, 10])
def test_what_has_left_is_known_as_long_as_the_log_could_set_it_aside(base: int, tmp_path: Path) -> None:
    rng = random.Random(base)
    catalog = Catalog(tmp_path / "catalog.db")
    changes = [(commit, place) for commit in range(1, 11) for place in (1, 2)]
    kept = [(1, 1), (1, 2), (9, 1)]
    catalog.put_set_aside([file(tmp_path, 1, kept)])
    left = {change for change in changes if change != (1, 2)}
    for commit, place in sorted(left):
        change = Change("t", commit, place)
        if rng.random() < 0.5:
            catalog.settle([change], 5)
        else:
            catalog.end_replay(catalog.begin_replay([change], [], commit, 5), commit)
    under_way = catalog.begin_replay([Change("t", 2, 3)], [], 10, 5)
    for _ in range(2):
        forget(catalog, base)
        assert catalog.gone("t") == {change for change in left if change[0] > base or change in kept}
        (found,) = quarantine.there(catalog, catalog.set_aside())
        assert found[1]["_place"].to_pylist() == [2]  # of commit 1: the only one that has not left
    assert [number for number, _ in catalog.open_replays()] == [under_way]
    catalog.close()
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as database:
        used = {n for (n,) in database.execute("select replay from settled where replay is not null")}
        there = {n for (n,) in database.execute("select number from replay")}
    assert used == there if base else used <= there
