"""Goal: what a view was before is known by when it came and went, also once it was dropped and begun again.

Method: a catalogue in which views come, are edited, built anew and dropped; judge: a list kept by hand.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from headrace.catalog.back import take_back
from headrace.catalog.salvage import salvage
from headrace.catalog.store import Catalog, ViewRecord
from headrace.model.schema import Column, ViewSchema

ID, N = Column("id", "bigint", nullable=False), Column("n", "bigint")


def view(version: int, sql: str, commit: int, *columns: Column, state: str = "live") -> ViewRecord:
    return ViewRecord(ViewSchema("v", version, columns or (ID,), ("id",)), sql, f"f{version}", state, "", commit)


def told(catalog: Catalog) -> list[tuple[object, ...]]:
    return [
        (of.schema.version, of.sql, of.state, of.schema.names, of.came_commit, of.came_us, of.gone_commit, of.gone_us)
        for of in catalog.history("v")
    ]


def test_versions_come_and_go_and_a_dropped_view_keeps_its_own(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    catalog = Catalog(path)
    assert told(catalog) == []
    catalog.put_view(view(1, "SELECT 1", 3), 30)
    first = (1, "SELECT 1", "live", ("id",), 3, 30, None, None)
    assert told(catalog) == [first]
    catalog.put_view(view(1, "SELECT 1", 4), 40)  # built anew
    assert told(catalog) == [first]
    catalog.put_view(view(2, "SELECT 2", 5, ID, N, state="failed"), 50)
    catalog.put_view(ViewRecord(ViewSchema("w", 1, (ID,)), "SELECT w", "f", "live", "", 5), 50)
    first = (*first[:2], "gone", *first[3:6], 5, 50)
    second = (2, "SELECT 2", "failed", ("id", "n"), 5, 50, None, None)
    assert told(catalog) == [second, first]
    catalog.set_view_state("v", 2, "live")
    assert told(catalog)[0][2] == "live"
    catalog.drop_view("v", 7, 70)
    second = (*second[:2], "gone", *second[3:6], 7, 70)
    assert told(catalog) == [second, first]
    catalog.put_view(view(1, "SELECT 1", 9), 90)  # another of its name: numbers begin again
    third = (1, "SELECT 1", "live", ("id",), 9, 90, None, None)
    assert told(catalog) == [third, second, first]
    assert [(of.gone_commit, of.state) for of in catalog.history("w")] == [(None, "live")]
    catalog.close()

    salvage(path)  # where the catalogue is made anew
    catalog = Catalog(path)
    assert told(catalog) == [third, second, first]
    catalog.close()


def test_a_catalogue_of_before_tells_what_its_views_tell(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    catalog = Catalog(path)
    catalog.put_view(view(1, "SELECT 1", 3), 30)
    catalog.put_view(view(2, "SELECT 2", 5), 50)
    catalog.put_view(ViewRecord(ViewSchema("w", 1, (ID,)), "SELECT w", "f", "live", "", 6), 60)
    catalog.drop_view("w", 8, 80)
    catalog.close()
    take_back(path, 12)
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("select count(*) from sqlite_master where name like 'version%'").fetchone() == (0,)
        assert ("layout", "12") in database.execute("select * from meta").fetchall()
    catalog = Catalog(path)
    assert told(catalog) == [
        (2, "SELECT 2", "live", ("id",), 5, None, None, None),
        (1, "SELECT 1", "gone", ("id",), 3, None, 5, None),
    ]
    assert [(of.state, of.gone_commit) for of in catalog.history("w")] == [("gone", None)]
    catalog.put_view(view(3, "SELECT 3", 9), 90)
    assert told(catalog)[1] == (2, "SELECT 2", "gone", ("id",), 5, None, 9, 90)
    catalog.close()
