"""Goal: a catalogue that an earlier version has left is taken over as it is, and a later one's is refused.

Method: catalogues of every earlier layout, as those versions wrote them (tests/catalog/layouts).
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headrace.catalog import sums
from headrace.catalog.database import LAYOUT
from headrace.catalog.quarantine import Change, Left, SetAside
from headrace.catalog.store import Catalog, StepShape
from headrace.model.errors import HeadraceError

LAYOUTS = Path(__file__).parent / "layouts"  # each as that version wrote it, as SQL; {home}: the catalogue's folder


def left_by(layout: int, path: Path) -> None:
    """A catalogue of that layout with one published step."""
    with closing(sqlite3.connect(path)) as database:
        database.executescript((LAYOUTS / f"{layout}.sql").read_text().replace("{home}", str(path.parent)))


def files_named(catalog: Catalog) -> tuple[list[str], list[str], dict[str, Any]]:
    """Of the one output, of the base, and of the checkpoint."""
    base, checkpoint = catalog.base("w@1"), catalog.checkpoint()
    assert base is not None and checkpoint is not None
    return [output.path for output in catalog.outputs(0, 1)], base[2], checkpoint[1]


@pytest.mark.parametrize("layout", range(1, LAYOUT + 1))
def test_an_earlier_layout_is_taken_over(layout: int, tmp_path: Path) -> None:
    left_by(layout, tmp_path / "catalog.db")
    for _ in range(2):  # what it made of it is there the next time
        catalog = Catalog(tmp_path / "catalog.db")
        last = catalog.last_published()
        assert last is not None and (last.upto, last.shape) == (7, StepShape(wide=True))
        assert catalog.error_rows("v", 1) == []
        output, base, runs = files_named(catalog)
        assert output == [str(tmp_path / "state/1/out")]
        assert base == [str(tmp_path / "state/base"), "/else/base"]
        assert runs == {"table:t": [[str(tmp_path / "state/1/run"), 5, 100]]}
        aside = [SetAside("t", 1, str(tmp_path / "state/aside"), 3)]
        catalog.put_set_aside(aside)
        assert catalog.set_aside() == aside
        catalog.settle([Change("t", 7, 1)], 9)
        assert catalog.left(Change("t", 7, 1)) == Left(9, None)
        catalog.close()


def test_a_catalogue_that_was_moved_names_its_files_where_they_are_now(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    left_by(5, before / "catalog.db")
    Catalog(before / "catalog.db").close()
    before.rename(after)
    for read_only in (False, True):
        catalog = Catalog(after / "catalog.db", read_only=read_only)
        output, base, runs = files_named(catalog)
        assert output == [str(after / "state/1/out")]
        assert base == [str(after / "state/base"), "/else/base"]
        assert runs == {"table:t": [[str(after / "state/1/run"), 5, 100]]}
        assert catalog.set_aside() == [SetAside("t", 1, str(after / "state/aside"), 3)]
        catalog.close()


def test_a_damaged_catalogue_is_named(tmp_path: Path) -> None:
    left_by(LAYOUT, tmp_path / "catalog.db")
    Catalog(tmp_path / "catalog.db").close()
    whole = (tmp_path / "catalog.db").read_bytes()
    noticed = 0
    for at in range(4096, len(whole), 4096):  # the head of each page
        (tmp_path / "catalog.db").write_bytes(whole[:at] + b"\xff" + whole[at + 1 :])
        for read_only in (True, False):
            with pytest.raises(HeadraceError) as raised:
                Catalog(tmp_path / "catalog.db", read_only=read_only)
            assert (raised.value.code, raised.value.where) == ("state.corrupt", str(tmp_path / "catalog.db"))
            noticed += 1
    assert noticed > 20


def test_a_later_layout_is_refused(tmp_path: Path) -> None:
    left_by(LAYOUT, tmp_path / "catalog.db")
    with sqlite3.connect(tmp_path / "catalog.db") as database:
        sums.keep(database)
        database.execute("update meta set value = ? where name = 'layout'", (str(LAYOUT + 1),))
    with pytest.raises(HeadraceError) as raised:
        Catalog(tmp_path / "catalog.db")
    assert raised.value.code == "state.layout"
