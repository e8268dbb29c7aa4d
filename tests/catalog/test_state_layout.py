"""Goal: files that another version of Headrace has made from the log are never read: refused, or made anew, and told once.

Method: the layout of this version is changed, forth and back, around a catalogue that names files. That views and sinks
are whole afterwards: tests/scenarios/test_rebuild.py.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headrace import __version__
from headrace.catalog import state_layout
from headrace.catalog.back import take_back
from headrace.catalog.quarantine import Change, Left
from headrace.catalog.store import Catalog, Output, StepShape, ViewRecord
from headrace.control import migrate
from headrace.engine import rebuild
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column, Relation, ViewSchema

NOW = state_layout.STATE_LAYOUT
SHOP = Relation("orders", (Column("id", "bigint", nullable=False),), ("id",))
VIEW = ViewRecord(ViewSchema("counts", 3, SHOP.columns, ("id",)), "SELECT id FROM orders", "f", "live", "", 5)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """One that has taken a step, and kept something that nothing else knows."""
    (tmp_path / ".headrace/log").mkdir(parents=True)
    (tmp_path / ".headrace/history").write_text("before\n")
    catalog = Catalog(tmp_path / ".headrace/catalog.db")
    catalog.put_relation("shop", SHOP)
    catalog.put_view(VIEW)
    catalog.settle([Change("orders", 7, 1)], 9)
    catalog.record_step(1, 0, 7, StepShape(), 5)
    catalog.publish(1, [Output(1, "counts@3", "state/1/out", 2, "")], 6)
    catalog.put_checkpoint(1, {"table:orders": [["state/1/run", 2, 100]]})
    catalog.close()
    return tmp_path


def this_version_knows(monkeypatch: pytest.MonkeyPatch, layout: int) -> None:
    for module in (state_layout, rebuild):
        monkeypatch.setattr(module, "STATE_LAYOUT", layout)


def stored(project: Path) -> dict[str, list[Any]]:
    with closing(sqlite3.connect(project / ".headrace/catalog.db")) as database:
        return {
            table: database.execute(f"select * from {table}").fetchall()
            for table in ("meta", "step", "output", "base", "checkpoint", "settled", "view")
        }


def refused(project: Path) -> HeadraceError:
    before = stored(project)
    for read_only in (True, False):
        with pytest.raises(HeadraceError) as caught:
            Catalog(project / ".headrace/catalog.db", read_only=read_only)
        assert (caught.value.code, caught.value.where) == ("state.layout", str(project / ".headrace"))
    assert stored(project) == before
    return caught.value


def test_the_number_and_the_version_are_where_a_start_sees_them(project: Path) -> None:
    assert ("state layout", f"{NOW} {__version__}") in stored(project)["meta"]
    told: list[dict[str, Any]] = []
    catalog = rebuild.opened(project, told.append)
    assert (catalog.state_layout, told) == (NOW, [])
    assert catalog.checkpoint() is not None
    catalog.close()


def test_an_earlier_layout_is_made_anew_by_a_start_and_told_once(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    this_version_knows(monkeypatch, NOW + 1)
    error = refused(project)
    assert re.findall(r"`([^`]+)`", error.next) == ["headrace up"]
    told: list[dict[str, Any]] = []
    for _ in range(2):
        rebuild.opened(project, told.append).close()
    assert [(event["event"], event["before"], event["layout"]) for event in told] == [("state.anew", NOW, NOW + 1)]
    made_anew(project, NOW + 1)


def test_a_later_layout_is_refused_until_all_is_made_anew(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    this_version_knows(monkeypatch, NOW + 1)
    rebuild.everything(project)
    catalog = Catalog(project / ".headrace/catalog.db")
    catalog.record_step(1, 0, 7, StepShape(), 5)
    catalog.publish(1, [Output(1, "counts@3", "state/1/out", 2, "")], 6)
    catalog.close()
    this_version_knows(monkeypatch, NOW)
    error = refused(project)
    assert f"layout {NOW + 1}, this version knows {NOW}" in error.what and f"version {__version__}" in error.why
    assert re.findall(r"`([^`]+)`", error.next) == ["headrace rebuild --all", "headrace up"]
    with pytest.raises(HeadraceError, match=r"state\.layout"):
        rebuild.opened(project, lambda event: None)
    answer = rebuild.everything(project)
    assert answer == {"views": ["counts"], "catalogue": True, "lost": []}
    made_anew(project, NOW)


def made_anew(project: Path, layout: int) -> None:
    """What the log tells is forgotten, what it does not tell is there; the catalogue there was is beside it."""
    found = stored(project)
    assert ("state layout", f"{layout} {__version__}") in found["meta"]
    assert found["step"] == found["output"] == found["base"] == found["checkpoint"] == []
    assert not (project / ".headrace/history").exists()  # sinks get all views anew
    assert list(project.glob(".headrace/catalog.layout.*/catalog.db"))
    catalog = Catalog(project / ".headrace/catalog.db")
    assert catalog.views()["counts"].fingerprint == ""
    assert catalog.relations() == {"orders": ("shop", SHOP)}
    assert catalog.left(Change("orders", 7, 1)) == Left(9, None)
    catalog.close()


def test_versions_before_the_number_know_only_the_first_layout(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rebuild.opened(project, lambda event: None).close()
    before = stored(project)
    with pytest.raises(HeadraceError) as caught:
        take_back(project / ".headrace/catalog.db", 11)
    assert caught.value.code == "state.layout" and "kept files of another layout" in caught.value.why
    assert stored(project) == before
    this_version_knows(monkeypatch, 1)
    rebuild.everything(project)
    assert migrate.alone(project, {"to": 11}, lambda event: None) == {"layout": 11}
    assert [name for name, _ in stored(project)["meta"]] == ["layout"]
    Catalog(project / ".headrace/catalog.db").close()
    assert ("state layout", "1") in stored(project)["meta"]
