"""Goal: a catalogue that an earlier version has left is taken over as it is, and a later one's is refused.

Method: catalogues of every earlier layout, as those versions made them.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from headrace.catalog.database import LAYOUT, SCHEMA
from headrace.catalog.quarantine import Change, Left, SetAside
from headrace.catalog.store import Catalog, StepShape
from headrace.model.errors import HeadraceError

# What came with each layout: tables, and columns of tables that were there.
NEW_TABLES = {2: ("error_row",), 4: ("set_aside",), 5: ("settled", "replay")}
NEW_COLUMNS = {3: (("step", "each"),)}


def left_by(layout: int, path: Path) -> None:
    """A catalogue of that layout with one published step."""
    database = sqlite3.connect(path)
    database.executescript(SCHEMA)
    database.execute("insert into meta values ('layout', ?)", (str(layout),))
    for later in range(layout + 1, LAYOUT + 1):
        for table in NEW_TABLES.get(later, ()):
            database.execute(f"drop table {table}")
        for table, column in NEW_COLUMNS.get(later, ()):
            database.execute(f"alter table {table} drop column {column}")
    names = "number, after, upto, wide, committed_us, published_us"
    database.execute(f"insert into step ({names}) values (1, 0, 7, 1, 5, 6)")
    database.commit()
    database.close()


@pytest.mark.parametrize("layout", range(1, LAYOUT + 1))
def test_an_earlier_layout_is_taken_over(layout: int, tmp_path: Path) -> None:
    left_by(layout, tmp_path / "catalog.db")
    for _ in range(2):  # what it made of it is there the next time
        catalog = Catalog(tmp_path / "catalog.db")
        last = catalog.last_published()
        assert last is not None and (last.upto, last.shape) == (7, StepShape(wide=True))
        assert catalog.error_rows("v", 1) == []
        catalog.put_set_aside([SetAside("t", 1, "p", 3)])
        assert catalog.set_aside() == [SetAside("t", 1, "p", 3)]
        catalog.settle([Change("t", 7, 1)], 9)
        assert catalog.left(Change("t", 7, 1)) == Left(9, None)
        catalog.close()


def test_a_later_layout_is_refused(tmp_path: Path) -> None:
    left_by(LAYOUT, tmp_path / "catalog.db")
    with sqlite3.connect(tmp_path / "catalog.db") as database:
        database.execute("update meta set value = ? where name = 'layout'", (str(LAYOUT + 1),))
    with pytest.raises(HeadraceError) as raised:
        Catalog(tmp_path / "catalog.db")
    assert raised.value.code == "state.layout"
