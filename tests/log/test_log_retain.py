"""The log's beginning is removed: every crash on the way leaves a log that opens, with all that was acknowledged.

Method: a base that holds every change there was stands for the commits it replaces, so that what is read must be the same
list of ids as was appended, whatever was removed. `FaultyFiles` draws the folder as a power cut would leave it, at each
call, and refuses each call once.
"""

from __future__ import annotations

import errno
import random
import shutil
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.log.append import LogWriter
from headrace.log.base import BEGIN_NAME, PartsWriter, read_base
from headrace.log.faults import CRASH, Fault, FaultyFiles
from headrace.log.files import Files
from headrace.log.read import LogReader
from headrace.log.retain import based_on, boundary
from headrace.log.verify import verify
from headrace.model.errors import HeadraceError
from headrace.model.transaction import TransactionBatch, TransactionOrigin

SEGMENT = 4096
TABLES = ("orders", "lines")
Rows = list[tuple[int, int]]


def batch(number: int, rows: int = 20) -> TransactionBatch:
    """One transaction; its rows' id is ``number``."""
    table = pa.table(
        {
            "_t": pa.array([0] * rows, pa.int32()),
            "_op": pa.array([0] * rows, pa.int8()),
            "id": pa.array([number] * rows, pa.int64()),
        }
    )
    return TransactionBatch((TransactionOrigin("shop", str(number), number),), {"orders": table, "lines": table})


def filled(path: Path, commits: int, files: Files | None = None) -> LogWriter:
    writer = LogWriter(path, segment_bytes=SEGMENT, files=files)
    for number in range(1, commits + 1):
        assert writer.append(batch(number)) == number
    return writer


def remove(writer: LogWriter, path: Path, upto: int, files: Files) -> int:
    """The commits up to the last boundary below ``upto`` become a base of all their changes; the base's commit."""
    commit, reader = boundary(path, upto), LogReader(path)
    refs = reader.refs(0, commit)
    made = PartsWriter(path, commit, files)
    parts = {
        table: made.write(b.select(b.schema.names[1:]) for b in reader.read(refs, table, 0, commit)) for table in TABLES
    }
    assert writer.begin_at(based_on(path, commit, parts), 0)
    return commit


def ids(path: Path, table: str = "orders") -> list[int]:
    """The ids of all rows there ever were, in order."""
    reader = LogReader(path)
    refs = reader.refs(0, reader.end)
    return [i for b in reader.read(refs, table, 0, reader.end) for i in b.column("id").to_pylist()]


def expected(commits: int) -> list[int]:
    return [number for number in range(1, commits + 1) for _ in range(20)]


def test_what_is_left_adds_up_to_what_was_there(tmp_path: Path) -> None:
    files = Files()
    with filled(tmp_path, 40) as writer:
        before = sorted(file.name for file in tmp_path.glob("*.segment"))
        commit = remove(writer, tmp_path, 25, files)
        assert 20 < commit <= 25
        assert writer.append(batch(41)) == 41
        left = sorted(file.name for file in tmp_path.glob("*.segment"))
        assert left[0] == f"{commit + 1:020d}.segment" and before[0] not in left
        assert ids(tmp_path) == ids(tmp_path, "lines") == expected(41)
        later = remove(writer, tmp_path, 41, files)  # a base of a base and what lies behind it
        assert later > commit
        assert ids(tmp_path) == expected(41)
        assert boundary(tmp_path, 3) == later
    assert verify(tmp_path).damages == []
    with LogWriter(tmp_path, segment_bytes=SEGMENT) as writer:
        assert (writer.end, writer.positions) == (41, {"shop": "41"})
        assert writer.append(batch(42)) == 42
    assert ids(tmp_path) == expected(42)


def test_who_asks_for_what_is_gone_is_told_where_the_log_begins(tmp_path: Path) -> None:
    with filled(tmp_path, 40) as writer:
        open_before = LogReader(tmp_path)
        refs = open_before.refs(3, 40)
        assert len(refs) == 37
        commit = remove(writer, tmp_path, 30, Files())
    for reader in (open_before, LogReader(tmp_path)):
        for asked in (lambda r: r.refs(3, 10), lambda r: r.refs(0, commit - 1), lambda r: list(r.origins(0, 40))):
            with pytest.raises(HeadraceError, match=r"log\.retained") as caught:
                asked(reader)
            assert f"begins with commit {commit + 1}" in caught.value.what
        assert [c for c, _ in reader.origins(commit, 40)] == list(range(commit + 1, 41))
        ((base, origin),) = reader.origins(commit - 1, commit)  # what sinks tell of the commit they have reached
        assert (base, origin) == (commit, TransactionOrigin("shop", str(commit), commit))
        assert reader.base.commit == commit
        assert next(segment.first for segment in reader.segments()) == commit + 1
    with pytest.raises(HeadraceError, match=r"log\.retained") as caught:  # looked up before it went, opened after it
        list(LogReader(tmp_path).read(refs, "orders", 3, 40))
    assert f"begins with commit {commit + 1}" in caught.value.what


def test_a_closed_segment_lets_all_go_that_was_there(tmp_path: Path) -> None:
    with filled(tmp_path, 7) as writer:
        assert writer.roll() == 7
        assert writer.roll() == 7  # it is empty: there is nothing to close
        assert remove(writer, tmp_path, 7, Files()) == 7
        assert len(list(tmp_path.glob("*.segment"))) == 1
        assert ids(tmp_path) == expected(7)
    with LogWriter(tmp_path, segment_bytes=SEGMENT) as writer:
        assert (writer.end, writer.positions) == (7, {"shop": "7"})
        assert writer.append(batch(8)) == 8
    assert ids(tmp_path) == expected(8)
    assert verify(tmp_path).damages == []


def test_nothing_is_removed_while_somebody_holds_the_log(tmp_path: Path) -> None:
    with filled(tmp_path, 40) as writer:
        base = based_on(tmp_path, commit := boundary(tmp_path, 30), {})
        with writer.held(), writer.held():
            assert not writer.begin_at(base, 0.01)
            assert len(LogReader(tmp_path).refs(0, 40)) == 40
        assert writer.begin_at(base, 0.01)
        assert LogReader(tmp_path).base.commit == commit


def test_a_power_cut_at_every_call(tmp_path: Path) -> None:
    """What a base names is on the disk before it counts, and what it replaces goes only after that."""
    rng = random.Random(1)

    def work(path: Path, files: FaultyFiles, acknowledged: list[int]) -> None:
        writer = LogWriter(path, segment_bytes=SEGMENT, files=files)
        try:
            for number in range(1, 15):
                acknowledged.append(writer.append(batch(number)))
            assert remove(writer, path, 12, files) > 8
            acknowledged.append(writer.append(batch(15)))
            writer.roll()
            assert remove(writer, path, 15, files) == 15
            acknowledged.append(writer.append(batch(16)))
        finally:
            writer.close()

    sound = FaultyFiles()
    work(tmp_path / "sound", sound, [])
    assert ids(tmp_path / "sound") == expected(16)
    for nth in range(50, sound.calls["any"] + 1):
        files = FaultyFiles([Fault("any", nth, CRASH)])
        path, acknowledged = tmp_path / str(nth), list[int]()
        with suppress(HeadraceError, OSError):
            work(path, files, acknowledged)
        assert files.crashed
        for draw in range(4):
            image = tmp_path / f"{nth}.{draw}"
            kept = [c for c in files.unsynced if rng.random() < 0.5] if draw else []
            files.image(image, kept)
            with LogWriter(image, segment_bytes=SEGMENT) as writer:
                assert writer.end >= len(acknowledged)
                end = writer.end
                assert ids(image) == ids(image, "lines") == expected(end), f"call {nth}, draw {draw}"
                assert writer.positions == {"shop": str(end)}
                assert writer.append(batch(end + 1)) == end + 1
            assert verify(image).damages == []
            base = read_base(image)
            assert {f.name for f in image.glob("*.base")} == base.names()
            assert min(f.name for f in image.glob("*.segment")) == f"{base.commit + 1:020d}.segment"
            shutil.rmtree(image)
        shutil.rmtree(path)


@pytest.mark.parametrize("operation", ["open", "write", "sync", "sync_directory", "rename", "remove"])
def test_a_call_that_is_refused_leaves_the_log_as_it_was_or_shortened(tmp_path: Path, operation: str) -> None:
    for nth in range(1, 40):
        path = tmp_path / f"{operation}{nth}"
        writer = filled(path, 24, files := FaultyFiles())
        files.faults.append(Fault(operation, files.calls[operation] + nth, errno.EIO))
        try:
            remove(writer, path, 20, files)
        except (OSError, HeadraceError):
            assert ids(path) == expected(24)
        else:
            assert nth > 1
            writer.close()
            break
        assert writer.append(batch(25)) == 25
        assert remove(writer, path, 24, files) > 8
        assert ids(path) == expected(25)
        writer.close()
        assert verify(path).damages == []
        with LogWriter(path, segment_bytes=SEGMENT) as again:
            assert again.end == 25


def test_damage_to_a_base_shows(tmp_path: Path) -> None:
    with filled(tmp_path, 40) as writer:
        commit = remove(writer, tmp_path, 30, Files())
    part = sorted(tmp_path.glob("*.base"))[0]
    for file, offset in ((part, 200), (tmp_path / BEGIN_NAME, 30)):
        whole = file.read_bytes()
        file.write_bytes(whole[:offset] + bytes([whole[offset] ^ 4]) + whole[offset + 1 :])
        found = verify(tmp_path).damages
        assert [damage.segment for damage in found] == [file.name]
        with pytest.raises(HeadraceError, match=r"log\.corrupt"):
            ids(tmp_path)
        file.write_bytes(whole)
    assert ids(tmp_path) == expected(40)
    part.rename(tmp_path / "away")
    (damage,) = verify(tmp_path).damages
    assert (damage.segment, damage.first, damage.last, damage.relation) == (part.name, commit, commit, "orders")
    with pytest.raises(HeadraceError, match="the file is missing"):
        ids(tmp_path)
    (tmp_path / "away").rename(part)
    sorted(tmp_path.glob("*.segment"))[0].unlink()  # the first one that is left
    assert next(d.why for d in verify(tmp_path).damages).startswith("the file is missing")
    with pytest.raises(HeadraceError, match=r"log\.corrupt"):
        LogWriter(tmp_path)
