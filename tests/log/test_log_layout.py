"""Goal: a log that an earlier version has written is read and gone on with, and a later one's is refused, as it is.

Method: a log with several segments and a base in the place of its beginning, as the version wrote it that first had the
layout (tests/log/layouts), byte by byte; this version writes the same bytes, so the way back needs nothing.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.log.append import LogWriter
from headrace.log.base import BEGIN_NAME, PartsWriter
from headrace.log.files import Files
from headrace.log.layout import LAYOUT
from headrace.log.read import LogReader
from headrace.log.retain import based_on, boundary
from headrace.log.verify import verify
from headrace.model.errors import HeadraceError
from headrace.model.transaction import TransactionBatch, TransactionOrigin

LAYOUTS = Path(__file__).parent / "layouts"
COMMITS, SEGMENT = 12, 4096


def written(path: Path) -> None:
    """What each of ``layouts`` holds: twelve transactions, the first ones in a base."""
    with LogWriter(path, segment_bytes=SEGMENT) as writer:
        for number in range(1, COMMITS + 1):
            writer.append(batch(number))
        commit, reader = boundary(path, 7), LogReader(path)
        read = reader.read(reader.refs(0, commit), "orders", 0, commit)
        part = PartsWriter(path, commit, Files()).write(b.select(b.schema.names[1:]) for b in read)
        assert commit > 2 and writer.begin_at(based_on(path, commit, {"orders": part}), 0)


def batch(number: int) -> TransactionBatch:
    rows = {"_t": [0] * 9, "_op": [0] * 9, "id": [number] * 9, "name": [None, *"abcdefgh"]}
    types = {"_t": pa.int32(), "_op": pa.int8(), "id": pa.int64(), "name": pa.string()}
    table = pa.table({name: pa.array(values, types[name]) for name, values in rows.items()})
    return TransactionBatch((TransactionOrigin("shop", f"at {number}", number * 1000),), {"orders": table})


def ids(path: Path) -> list[int]:
    reader = LogReader(path)
    read = reader.read(reader.refs(0, reader.end), "orders", 0, reader.end)
    return [row["id"] for b in read for row in b.to_pylist()]


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(path.iterdir())}


def expected(commits: int) -> list[int]:
    return [number for number in range(1, commits + 1) for _ in range(9)]


@pytest.mark.parametrize("layout", range(1, LAYOUT + 1))
def test_a_log_of_an_earlier_version_is_read_and_gone_on_with(layout: int, tmp_path: Path) -> None:
    with zipfile.ZipFile(LAYOUTS / f"{layout}.zip") as golden:
        golden.extractall(tmp_path)
    assert ids(tmp_path) == expected(COMMITS)
    assert LogReader(tmp_path).base.commit > 2 and verify(tmp_path).damages == []
    with LogWriter(tmp_path, segment_bytes=SEGMENT) as writer:
        assert writer.positions == {"shop": f"at {COMMITS}"}
        assert writer.append(batch(COMMITS + 1)) == COMMITS + 1
    assert ids(tmp_path) == expected(COMMITS + 1)


def test_this_version_writes_what_the_first_of_its_layout_can_read(tmp_path: Path) -> None:
    written(tmp_path)
    with zipfile.ZipFile(LAYOUTS / f"{LAYOUT}.zip") as golden:
        assert contents(tmp_path) == {name: golden.read(name) for name in sorted(golden.namelist())}


def opened(path: Path) -> None:
    LogWriter(path).close()


def read(path: Path) -> None:
    LogReader(path).refs(0, COMMITS)


@pytest.mark.parametrize("look", [opened, read, verify])
@pytest.mark.parametrize("later", ["segments", "base"])
def test_a_later_layout_is_refused_and_nothing_changes(
    look: Callable[[Path], Any], later: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"headrace.log.{'layout' if later == 'segments' else 'base'}.LAYOUT", LAYOUT + 1)
    written(tmp_path)
    assert len(ids(tmp_path)) == 9 * COMMITS  # which the later version can read
    monkeypatch.undo()
    before = contents(tmp_path)
    with pytest.raises(HeadraceError) as caught:
        look(tmp_path)
    assert caught.value.code == "log.layout"
    assert f"layout {LAYOUT + 1}; this version reads layout {LAYOUT}" in caught.value.what
    assert caught.value.where == BEGIN_NAME if later == "base" else caught.value.where.startswith("segment 0")
    assert "`headrace restore BACKUP DIR`" in caught.value.next
    assert contents(tmp_path) == before
