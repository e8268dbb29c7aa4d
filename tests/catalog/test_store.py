"""Goal: a catalogue that an earlier version has left is taken over as it is, and a later one's is refused.

Method: catalogues of every earlier layout, as those versions wrote them (tests/catalog/layouts).
"""

from __future__ import annotations

import errno
import random
import resource
import signal
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest

from headrace.catalog import state_layout, sums
from headrace.catalog.back import take_back
from headrace.catalog.database import LAYOUT
from headrace.catalog.mark import Mark
from headrace.catalog.quarantine import Change, Left, SetAside
from headrace.catalog.store import Catalog, Output, StepShape
from headrace.model.errors import HeadraceError
from headrace.state.run import checksums, damage

LAYOUTS = Path(__file__).parent / "layouts"  # each as that version wrote it, as SQL; {home}: the catalogue's folder


@pytest.fixture(autouse=True)
def first_layout_of_kept_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """What these catalogues name is of the time before there was another one; see test_state_layout.py."""
    monkeypatch.setattr(state_layout, "STATE_LAYOUT", 1)


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


def test_what_a_first_start_has_left_that_was_killed_is_no_catalogue_yet(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("pragma journal_mode=wal")
    assert path.stat().st_size > 0
    with pytest.raises(HeadraceError) as raised:
        Catalog(path, read_only=True)
    assert raised.value.code == "project.not_running"
    Catalog(path).close()
    Catalog(path, read_only=True).close()


def test_a_later_layout_is_refused(tmp_path: Path) -> None:
    left_by(LAYOUT, tmp_path / "catalog.db")
    with sqlite3.connect(tmp_path / "catalog.db") as database:
        sums.keep(database)
        database.execute("update meta set value = ? where name = 'layout'", (str(LAYOUT + 1),))
    with pytest.raises(HeadraceError) as raised:
        Catalog(tmp_path / "catalog.db")
    assert raised.value.code == "state.layout"


# --- the way back -----------------------------------------------------------------------------------------------------


def held(path: Path) -> dict[str, tuple[list[str], list[tuple[Any, ...]]]]:
    """Table -> its columns and its rows, without the product."""
    with closing(sqlite3.connect(path)) as database:
        names = database.execute("select name from sqlite_master where type = 'table' and name not like 'sqlite_%'")
        return {
            name: (
                [str(column[1:6]) for column in database.execute(f"pragma table_info({name})")],
                sorted((spelled_alike(row) for row in database.execute(f"select * from {name}")), key=repr),
            )
            for (name,) in names.fetchall()
        }


def spelled_alike(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """JSON without spaces, as it is when it has been written again."""
    return tuple(v.replace(", ", ",").replace(": ", ":") if str(v)[:1] in ("[", "{") else v for v in row)


@pytest.mark.parametrize("layout", range(1, LAYOUT))
def test_there_and_back_is_what_the_earlier_version_wrote(layout: int, tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    left_by(layout, path)
    before = held(path)
    for _ in range(2):
        Catalog(path).close()
        assert held(path)["meta"][1] == [("layout", str(LAYOUT)), ("state layout", "1")]
        take_back(path, layout)
        assert sorted(file.name for file in tmp_path.iterdir()) == ["catalog.db"]
        assert held(path) == before


@pytest.mark.parametrize(
    ("layout", "why"),
    [(7, "rows or requests that sources could not read: 1 are"), (4, "left the quarantine: 1 are"), (3, "could not take: 1 are")],
)  # fmt: skip
def test_what_an_earlier_layout_cannot_hold_is_named_and_nothing_changes(layout: int, why: str, tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    left_by({7: 8, 4: 5, 3: 4}[layout], path)
    Catalog(path).close()
    before = held(path)
    with pytest.raises(HeadraceError) as raised:
        take_back(path, layout)
    assert raised.value.code == "state.layout" and why in raised.value.why
    assert held(path) == before
    Catalog(path).close()


@pytest.mark.parametrize("layout", [0, LAYOUT, LAYOUT + 1])
def test_only_an_earlier_layout_is_gone_back_to(layout: int, tmp_path: Path) -> None:
    left_by(LAYOUT, tmp_path / "catalog.db")
    with pytest.raises(HeadraceError, match=r"state\.layout"):
        take_back(tmp_path / "catalog.db", layout)


@pytest.mark.parametrize("size", [1000, 256 << 10, 600_000, 1 << 20])
def test_checksums_of_blocks_are_one_of_the_file_before_layout_11_and_are_taken_from_there(
    size: int, tmp_path: Path
) -> None:
    path, file, gone = tmp_path / "catalog.db", tmp_path / "state" / "run", str(tmp_path / "state" / "gone")
    file.parent.mkdir()
    file.write_bytes(random.Random(size).randbytes(size))
    texts, whole = checksums(file, sync=False), zlib.crc32(file.read_bytes())
    catalog = Catalog(path)
    catalog.put_outputs([Output(1, "v@1", str(file), 5, texts), Output(2, "v@1", str(file), 5, "")])
    catalog.put_base("v@1", 1, 7, [str(file), gone], 5, [texts, "12345678" * 2])
    catalog.put_checkpoint(1, {"a1": [[str(file), 5, size, texts], [str(file), 5, size]]})
    catalog.close()
    take_back(path, 10)
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("select crc from output order by step").fetchall() == [(whole,), (0,)]
        assert database.execute("select crcs from base").fetchone() == (f"[{whole},0]",)  # the other file is gone
        ((runs,),) = database.execute("select runs from checkpoint").fetchall()
        assert orjson.loads(runs) == {"a1": [["state/run", 5, size, whole], ["state/run", 5, size]]}
    catalog = Catalog(path)
    one = f"{whole:08x}"
    assert [output.sums for output in catalog.outputs(0, 2)] == [one, ""]
    assert catalog.base_files("v@1") == [(str(file), one), (gone, "")]
    assert catalog.checkpoint() == (1, {"a1": [[str(file), 5, size, one], [str(file), 5, size]]})
    catalog.close()
    assert damage(file, one) == damage(file, texts) == ""


def test_a_change_that_the_disk_refuses_leaves_nothing_and_says_why(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "catalog.db")
    catalog.put_sink("before", 1, "", 1)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "catalog.db-wal").stat().st_size, limit[1]))
        with pytest.raises(sqlite3.OperationalError, match="disk I/O error"):  # at the end
            catalog.put_sink("refused", 2, "", 2)
        with pytest.raises(sqlite3.OperationalError, match="disk I/O error"), catalog.transaction():
            for number in range(2000):  # more than SQLite holds in memory: in the midst
                catalog.set_meta(str(number), "x" * 4096)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    catalog.put_sink("after", 3, "", 3)
    catalog.close()
    catalog = Catalog(tmp_path / "catalog.db")
    assert sorted(catalog.sinks()) == ["after", "before"]
    assert catalog.meta("0") is None
    catalog.close()


def test_a_mark_that_cannot_be_written_does_not_undo_what_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(mark: Mark, count: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    catalog = Catalog(tmp_path / "catalog.db")
    monkeypatch.setattr(Mark, "write", refused)
    catalog.put_sink("kept", 1, "", 1)
    catalog.close()
    assert list(Catalog(tmp_path / "catalog.db", read_only=True).sinks()) == ["kept"]
