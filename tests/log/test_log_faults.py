"""A disk that is full, fails, tears writes, forgets them or flips bits: nothing acknowledged is lost or changed.

Method: `FaultyFiles` refuses a named call, or draws the folder as a power cut would leave it; then a fresh writer
and reader on the real files are compared with the list of what was acknowledged. Every row tells its own commit
(`id` = what the appender meant), so a row in the wrong place cannot hide.
"""

from __future__ import annotations

import dataclasses
import errno
import itertools
import os
import random
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.log.append import LogWriter
from headrace.log.faults import CRASH, Change, Fault, FaultyFiles
from headrace.log.read import LogReader
from headrace.model.errors import HeadraceError
from headrace.model.transaction import TransactionBatch, TransactionOrigin

SEGMENT = 4096
IMAGES = int(os.environ.get("HEADRACE_LOG_IMAGES", "6"))  # what a power cut leaves, drawn at each call
Rows = list[tuple[int, int]]


def batch(number: int, transactions: int = 1, rows: int = 1) -> TransactionBatch:
    """Each transaction has ``rows`` rows in two relations; its rows' id is ``number`` + its ordinal."""
    ordinals = [t for t in range(transactions) for _ in range(rows)]
    table = pa.table(
        {
            "_t": pa.array(ordinals, pa.int32()),
            "_op": pa.array([0] * len(ordinals), pa.int8()),
            "id": pa.array([number + t for t in ordinals], pa.int64()),
        }
    )
    origins = tuple(TransactionOrigin("shop", str(number + t), number + t) for t in range(transactions))
    return TransactionBatch(origins, {"orders": table, "lines": table})


def contents(path: Path) -> Rows:
    """All (commit, id) of the log, checked to be whole transactions in dense order, the same in both relations."""
    reader = LogReader(path)
    refs = reader.refs(0, reader.end)
    orders, lines = (
        [(c, i) for b in reader.read(refs, name, 0, reader.end) for c, i in zip(*columns(b), strict=True)]
        for name in ("orders", "lines")
    )
    assert orders == lines
    assert sorted({commit for commit, _ in orders}) == list(range(1, reader.end + 1))
    assert [(commit, int(origin.position)) for commit, origin in reader.origins(0, reader.end)] == sorted(set(orders))
    assert reader.verify().end == reader.end
    return orders


def put(file: Path, data: bytes) -> None:
    """Write in place: some file systems flush a file that was emptied first, which takes long."""
    file.touch()
    with file.open("r+b") as opened:
        opened.write(data)
        opened.truncate()


def columns(b: pa.RecordBatch) -> tuple[list[int], list[int]]:
    return b.column("_c").to_pylist(), b.column("id").to_pylist()


def check_opens(path: Path, acknowledged: Rows, possible: Rows) -> None:
    """A fresh writer finds all of ``acknowledged``, at most ``possible``, nothing else, and can go on."""
    with LogWriter(path, segment_bytes=SEGMENT, files=FaultyFiles()) as writer:
        found = contents(path)
        assert found[: len(acknowledged)] == acknowledged
        assert found == possible[: len(found)]
        assert writer.positions == ({"shop": str(found[-1][1])} if found else {})
        first = writer.append(batch(10_000, 2))
        assert first == (found[-1][0] if found else 0) + 1
    assert contents(path) == [*found, (first, 10_000), (first + 1, 10_001)]


def work(writer: LogWriter, acknowledged: Rows, attempted: Rows, count: int = 12) -> None:
    """Append batches of several sizes; some of them begin a new segment."""
    for number in range(100, 100 + 10 * count, 10):
        transactions, rows = 1 + number // 10 % 3, 1 + number // 10 % 4 * 20
        pairs = [
            (len({c for c, _ in acknowledged}) + t + 1, number + t) for t in range(transactions) for _ in range(rows)
        ]
        attempted[:] = acknowledged + pairs
        assert writer.append(batch(number, transactions, rows)) == pairs[0][0]
        acknowledged += pairs


def calls_of(operation: str, tmp_path: Path) -> range:
    """The numbers of all calls of the operation while `work` runs on a sound disk, after opening."""
    files = FaultyFiles()
    writer = LogWriter(tmp_path / "sound", segment_bytes=SEGMENT, files=files)
    opening = files.calls[operation]
    work(writer, [], [])
    assert len(list((tmp_path / "sound").glob("*.segment"))) > 3
    last = files.calls[operation]
    writer.close()
    shutil.rmtree(tmp_path / "sound")
    return range(opening + 1, last + 1)


@pytest.mark.parametrize(
    ("operation", "partial", "number", "code"),
    [
        ("write", 0, errno.ENOSPC, "log.full"),
        ("write", 1, errno.ENOSPC, "log.full"),
        ("write", 100, errno.EDQUOT, "log.full"),
        ("allocate", 0, errno.ENOSPC, "log.full"),
        ("rename", 0, errno.ENOSPC, "log.full"),
        ("open", 0, errno.EMFILE, "log.failed"),
    ],
)
def test_a_full_disk_refuses_and_then_goes_on(
    tmp_path: Path, operation: str, partial: int, number: int, code: str
) -> None:
    for nth in calls_of(operation, tmp_path):
        path = tmp_path / str(nth)
        files = FaultyFiles([Fault(operation, nth, number, partial=partial)])
        acknowledged: Rows = []
        with LogWriter(path, segment_bytes=SEGMENT, files=files) as writer:
            after_rename = operation == "open" and nth % 2 == 1
            with pytest.raises(HeadraceError) as caught:
                work(writer, acknowledged, [])
            assert caught.value.code == code and caught.value.next
            assert contents(path) == acknowledged
            assert writer.end == len({commit for commit, _ in acknowledged})
            shutil.copytree(path, tmp_path / "killed")  # as a SIGKILL right after the refusal would leave it
            if after_rename:  # with the new segment named but not opened, only a restart is safe
                with pytest.raises(HeadraceError, match=r"log\.failed"):
                    writer.append(batch(900))
            else:
                first = writer.append(batch(900))
                assert contents(path) == [*acknowledged, (first, 900)]
        check_opens(tmp_path / "killed", acknowledged, acknowledged)
        shutil.rmtree(tmp_path / "killed")
        if not after_rename:
            acknowledged.append((first, 900))
        check_opens(path, acknowledged, acknowledged)


def test_a_disk_that_stays_full_and_gets_space_again(tmp_path: Path) -> None:
    files = FaultyFiles()
    with LogWriter(tmp_path, segment_bytes=SEGMENT, files=files) as writer:
        acknowledged: Rows = []
        work(writer, acknowledged, [], 5)
        files.faults.append(Fault("allocate", files.calls["allocate"] + 1, errno.ENOSPC, lasting=True))
        refused = 0
        for number in range(300, 340):
            try:
                acknowledged.append((writer.append(batch(number)), number))
            except HeadraceError as error:
                assert error.code == "log.full" and "start one that has ended" in error.next
                refused += 1
        assert refused > 10
        assert contents(tmp_path) == acknowledged
        files.faults.clear()
        acknowledged.append((writer.append(batch(500)), 500))
    check_opens(tmp_path, acknowledged, acknowledged)


@pytest.mark.parametrize(("number", "code"), [(errno.ENOSPC, "log.full"), (errno.EIO, "log.failed")])
def test_a_log_that_cannot_be_opened_says_why_and_keeps_all(tmp_path: Path, number: int, code: str) -> None:
    path, acknowledged = tmp_path / "log", []
    with LogWriter(path, segment_bytes=SEGMENT, files=FaultyFiles()) as writer:
        work(writer, acknowledged, [], 5)
    files = FaultyFiles()
    LogWriter(path, segment_bytes=SEGMENT, files=files).close()
    refused = 0
    for operation in ("open", "write", "sync"):
        for nth in range(1, files.calls[operation] + 1):
            failing = FaultyFiles([Fault(operation, nth, number, lasting=True)])
            try:
                LogWriter(path, segment_bytes=SEGMENT, files=failing).close()
            except HeadraceError as error:
                assert error.code == code and error.next
                refused += 1
            assert contents(path) == acknowledged
    assert refused >= 3
    check_opens(path, acknowledged, acknowledged)


def test_a_sync_that_fails_is_final(tmp_path: Path) -> None:
    for nth in calls_of("sync", tmp_path):
        path = tmp_path / str(nth)
        files = FaultyFiles([Fault("sync", nth, errno.EIO)])
        acknowledged: Rows = []
        attempted: Rows = []
        writer = LogWriter(path, segment_bytes=SEGMENT, files=files)
        with pytest.raises(HeadraceError, match=r"log\.failed"):
            work(writer, acknowledged, attempted)
        calls = files.calls["any"]
        for _ in range(3):
            with pytest.raises(HeadraceError, match=r"log\.failed"):
                writer.append(batch(900))
        assert writer.wait(10_000, 0.01) == writer.end
        assert files.calls["any"] == calls  # nothing was tried again on the disk
        assert contents(path) == acknowledged  # readers do not see what was not confirmed
        writer.close()
        check_opens(path, acknowledged, attempted)


def test_opening_writes_again_what_a_failed_sync_left_in_doubt(tmp_path: Path) -> None:
    """After a failed sync the cache looks clean and the disk lacks the bytes: a sync alone would prove nothing."""
    files = FaultyFiles()
    writer = LogWriter(tmp_path / "log", segment_bytes=SEGMENT, files=files)
    writer.append(batch(1))
    files.faults.append(Fault("sync", files.calls["sync"] + 1, errno.EIO))
    with pytest.raises(HeadraceError, match=r"log\.failed"):
        writer.append(batch(2))
    writer.close()
    kept = tmp_path / "kept"  # the disk as it is: without the frame of batch 2
    files.image(kept)
    lying = FaultyFiles()
    lying.open(tmp_path / "log" / "durable")
    for name in ("00000000000000000001.segment", "durable"):
        file = tmp_path / "log" / name
        lying._contents[file.stat().st_ino] = bytearray((kept / name).read_bytes())
    LogWriter(tmp_path / "log", segment_bytes=SEGMENT, files=lying).close()
    lying.image(tmp_path / "after")
    check_opens(tmp_path / "after", [(1, 1), (2, 2)], [(1, 1), (2, 2)])


def surviving(unsynced: list[Change], generator: random.Random) -> list[Change]:
    """What may have reached the disk of the unsynced changes: all up to some byte, or any of them in any part."""
    if not unsynced or generator.random() < 0.3:
        return [change for change in unsynced if generator.random() < 0.5]
    place = generator.randrange(len(unsynced))
    size = len(unsynced[place].data)
    cut = generator.choice([0, generator.randrange(size + 1), min(size, generator.randrange(1, 130)), size])
    return [*unsynced[:place], dataclasses.replace(unsynced[place], data=unsynced[place].data[:cut])]


def test_a_power_cut_at_every_call(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    generator = random.Random(7)
    images = 0
    for nth in calls_of("any", tmp_path):
        files = FaultyFiles([Fault("any", nth, CRASH)])
        acknowledged: Rows = []
        attempted: Rows = []
        writer = LogWriter(tmp_path / "log", segment_bytes=SEGMENT, files=files)
        with pytest.raises(HeadraceError, match=r"log\.failed"):
            work(writer, acknowledged, attempted)
        writer.close()
        for _ in range(IMAGES):
            files.image(tmp_path / "image", surviving(files.unsynced, generator))
            check_opens(tmp_path / "image", acknowledged, attempted)
            shutil.rmtree(tmp_path / "image")
            images += 1
        shutil.rmtree(tmp_path / "log")
    assert images > 100 * IMAGES
    what = {"what": "images of the log that a power cut leaves", "tried": images, "detail": f"{IMAGES} at each call"}
    request.node.user_properties.append(("proof", what))


@pytest.fixture
def three(tmp_path: Path) -> tuple[Path, Rows, list[int]]:
    """A closed log of three frames in one segment, its rows, and the offset behind each frame."""
    path = tmp_path / "log"
    ends = []
    with LogWriter(path) as writer:
        for number in (10, 20, 30):
            writer.append(batch(number, 2))
            ends.append(LogReader(path).verify().bytes)
    rows = contents(path)
    assert rows == [(1, 10), (2, 11), (3, 20), (4, 21), (5, 30), (6, 31)]
    return path, rows, ends


def test_a_tail_torn_at_every_byte(tmp_path: Path, three: tuple[Path, Rows, list[int]]) -> None:
    """The last two frames were on their way when the power went: cut at each byte, or zeros from there."""
    path, rows, (confirmed, middle, end) = three
    segment = next(path.glob("*.segment")).read_bytes()
    alone = tmp_path / "alone"
    with LogWriter(alone) as writer:
        writer.append(batch(10, 2))
    mark = (alone / "durable").read_bytes()  # as it stood after the first frame
    image = tmp_path / "image"
    image.mkdir()
    name = next(path.glob("*.segment")).name
    for cut, reserved in itertools.product(range(confirmed, end + 1), (False, True)):
        if reserved and cut % 7:
            continue
        put(image / name, segment[:cut] + bytes(5000) if reserved else segment[:cut])
        put(image / "durable", mark)
        if cut % 16 == 0:
            assert contents(image) == rows[:2]  # a reader before recovery
        with LogWriter(image, segment_bytes=8 * SEGMENT, files=FaultyFiles()) as writer:
            # Zeros that padded the frame are zeros again in the reserved space.
            kept = 6 if cut == end else 4 if cut >= middle else 2
            assert writer.end == kept or (reserved and writer.end >= kept and contents(image) == rows[: writer.end])
            kept = writer.end
            assert writer.append(batch(77)) == kept + 1
        assert contents(image) == [*rows[:kept], (kept + 1, 77)]


def test_an_acknowledged_tail_that_is_gone_is_refused(tmp_path: Path, three: tuple[Path, Rows, list[int]]) -> None:
    """Shortening the log silently would lose what was acknowledged: it is refused, with the offset, and left alone."""
    path, _, (_, middle, end) = three
    file = next(path.glob("*.segment"))
    whole = file.read_bytes()
    for cut in [*range(middle, end, 13), end - 1]:
        file.write_bytes(whole[:cut])
        with pytest.raises(HeadraceError) as caught:
            LogWriter(path)
        assert caught.value.code == "log.corrupt"
        assert caught.value.where == f"segment {file.name}, offset {middle}"
        assert file.read_bytes() == whole[:cut]
    file.unlink()
    with pytest.raises(HeadraceError, match=r"the file is missing"):
        LogWriter(path)
    file.write_bytes(whole)
    check_opens(path, three[1], three[1])


def test_every_flipped_bit_is_found(tmp_path: Path, three: tuple[Path, Rows, list[int]]) -> None:
    path, rows, ends = three
    file = next(path.glob("*.segment"))
    whole = file.read_bytes()
    starts = [0, *ends[:-1]]
    generator = random.Random(3)
    between = 0
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << generator.randrange(8)
        put(file, damaged)
        with pytest.raises(HeadraceError) as found:
            LogReader(path).verify()
        error = found.value
        assert error.code == "log.corrupt", at
        frame = max(start for start in starts if start <= at)
        named = int(error.where.rsplit(" ", 1)[1])
        assert named == frame or (frame == 0 and named <= ends[0]), (at, error.where)
        if "no row is concerned" in error.why:  # zeros between the parts of a frame: who writes goes on
            between += 1
            assert whole[at] == 0
            assert read_ids(path) == [number for _, number in rows]
        elif at % 11 == 0:
            with pytest.raises(HeadraceError) as caught:
                LogWriter(path)
            assert caught.value.where == error.where
            assert file.read_bytes() == damaged
    assert 0 < between < len(whole) / 4


def read_ids(path: Path) -> list[int]:
    reader = LogReader(path)
    read = reader.read(reader.refs(0, reader.end), "orders", 0, reader.end)
    return [number for part in read for number in columns(part)[1]]


def test_damage_behind_a_sync_is_told_from_a_torn_write_without_the_mark(
    tmp_path: Path, three: tuple[Path, Rows, list[int]]
) -> None:
    path, rows, (first, middle, end) = three
    file = next(path.glob("*.segment"))
    whole = file.read_bytes()
    for begin, stop in ((first, first + 4), (first + 40, first + 41), (first + 300, first + 310), (first, middle)):
        (path / "durable").unlink()
        file.write_bytes(whole[:begin] + bytes(255 - b for b in whole[begin:stop]) + whole[stop:])
        with pytest.raises(HeadraceError, match=f"offset {first}"):
            LogWriter(path)
        (path / "durable").touch()
    file.write_bytes(whole[: end - 70])  # nothing sound behind: torn
    check_opens(path, rows[:4], rows)


def test_damage_in_an_older_segment_is_found_by_whoever_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "log"
    acknowledged: Rows = []
    with LogWriter(path, segment_bytes=SEGMENT) as writer:
        work(writer, acknowledged, [])
    names = sorted(path.glob("*.segment"))
    whole = names[1].read_bytes()
    at = whole.index(b"orders", 200)
    names[1].write_bytes(whole[:at] + b"0rders" + whole[at + 6 :])
    with LogWriter(path, segment_bytes=SEGMENT) as writer:  # opening reads the last segment only
        assert writer.end == acknowledged[-1][0]
        reader = LogReader(path)
        with pytest.raises(HeadraceError, match=f"segment {names[1].name}"):
            reader.verify()
        with pytest.raises(HeadraceError, match=f"segment {names[1].name}"):
            contents(path)
        safe = int(names[2].stem) - 1
        assert next(ref.first for ref in reader.refs(safe, reader.end)) == safe + 1  # the rest can be read
    names[1].write_bytes(whole[:-10])
    with pytest.raises(HeadraceError, match=rf"segment {names[1].name}, offset {len(whole) - 10}"):
        LogWriter(path)
    names[1].unlink()
    with pytest.raises(HeadraceError, match=f"segment {names[1].name}"):
        LogWriter(path)


def test_a_sound_frame_of_another_log_is_refused(tmp_path: Path) -> None:
    """Every checksum and every commit number is right; only the chain tells."""
    ends = []
    for name, middle in (("one", 20), ("two", 21)):
        with LogWriter(tmp_path / name) as writer:
            for number in (10, middle, 30):
                writer.append(batch(number))
                ends.append(LogReader(tmp_path / name).verify().bytes)
    assert ends[:3] == ends[3:]
    one, two = (next((tmp_path / name).glob("*.segment")) for name in ("one", "two"))
    whole = one.read_bytes()
    one.write_bytes(whole[: ends[0]] + two.read_bytes()[ends[0] : ends[1]] + whole[ends[1] :])
    for look in (LogWriter, lambda path: LogReader(path).verify()):
        with pytest.raises(HeadraceError, match=f"offset {ends[1]}"):
            look(tmp_path / "one")


def test_another_layout_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.log.layout.LAYOUT", 2)
    with LogWriter(tmp_path) as writer:
        writer.append(batch(1))
    monkeypatch.undo()
    with pytest.raises(HeadraceError, match=r"layout 2; this version reads layout 1"):
        LogWriter(tmp_path)
    with pytest.raises(HeadraceError, match=r"log\.layout"):
        LogReader(tmp_path).refs(0, 1)


def test_a_reader_without_a_sound_mark_says_so(three: tuple[Path, Rows, list[int]]) -> None:
    path, rows, _ = three
    (path / "durable").write_bytes(b"nonsense")
    with pytest.raises(HeadraceError, match=r"log\.corrupt"):
        _ = LogReader(path).end
    check_opens(path, rows, rows)
