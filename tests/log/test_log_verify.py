"""Checking a whole log: any bit flipped in bytes in use is found, its place is named, and what still stands is so.

Method: a small random log of several segments; a bit is flipped (or the file cut) at places that a seed draws, and
after each one the report is held against where the test knows the frames to lie, and against the rows it appended.
HEADRACE_LOG_FLIPS=10000 for a long proof.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.log.append import LogWriter
from headrace.log.read import LogReader
from headrace.log.verify import LogReport, verify
from headrace.model.errors import HeadraceError
from headrace.model.transaction import TransactionBatch
from random_log import RandomLog, changes_of

FLIPS = int(os.environ.get("HEADRACE_LOG_FLIPS", "1000"))
MARK = "durable"


class SmallLog:
    """A closed log, where its frames begin, and the rows of each commit as they were appended."""

    def __init__(self, path: Path) -> None:
        self.path, made = path, RandomLog(11)
        made.grow(path, 60, segment_bytes=8_000, most=3)
        self.end = len(made.made)
        self.rows: dict[int, list[tuple[str, list[Any]]]] = {}
        for commit, (origin, changes) in enumerate(made.made, start=1):
            tables = {made.table for made in changes}
            self.rows[commit] = []
            for table in sorted(tables):
                read = changes_of(table, [(origin, changes)])[table].drop_columns("_t")
                names = [n for n in read.column_names if n != "_unchanged"]
                self.rows[commit] += [(table, row) for row in _rows(read.select(names))]
        reader = LogReader(path)
        self.segments = {segment.name: segment for segment in reader.segments()}
        self.begins: dict[str, list[tuple[int, int, int]]] = {}  # segment -> (offset, first, last) of header, frames
        for ref in reader.refs(0, self.end):
            self.begins.setdefault(ref.segment, [(0, ref.first, 0)]).append((ref.offset, ref.first, ref.last))

    def used(self) -> list[tuple[str, int]]:
        """Each file with the number of its bytes in use."""
        return [(MARK, (self.path / MARK).stat().st_size), *((s.name, s.bytes) for s in self.segments.values())]

    def part(self, name: str, at: int) -> tuple[int, int, int]:
        """(offset, first, last) of the frame that byte ``at`` belongs to; of the header (0, ...)."""
        return max(part for part in self.begins[name] if part[0] <= at)


def _rows(table: pa.Table) -> list[list[Any]]:
    return [list(row.values()) for row in table.to_pylist()]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> SmallLog:
    return SmallLog(tmp_path_factory.mktemp("small") / "log")


@contextmanager
def flipped(file: Path, at: int, bit: int) -> Iterator[None]:
    byte = file.read_bytes()[at]
    with file.open("r+b") as opened:
        for value in (byte ^ 1 << bit, byte):
            opened.seek(at)
            opened.write(bytes([value]))
            opened.flush()
            if value != byte:
                yield


def read_back(path: Path, begin: int, end: int) -> dict[int, list[tuple[str, list[Any]]]]:
    """The rows of these commits as a reader gets them."""
    reader = LogReader(path)
    refs = reader.refs(begin - 1, end)
    found: dict[int, list[tuple[str, list[Any]]]] = {commit: [] for commit in range(begin, end + 1)}
    for table in sorted({name for ref in refs for name in ref.rows}):
        for batch in reader.read(refs, table, begin - 1, end):
            for row in batch.to_pylist():
                commit = row.pop("_c")
                row.pop("_unchanged", None)
                found[commit].append((table, list(row.values())))
    return found


def lost_by(report: LogReport) -> set[int]:
    return {commit for damage in report.damages for commit in range(damage.first, damage.last + 1)}


def check_what_stands(small: SmallLog, report: LogReport) -> None:
    """Ranges that stand give the rows that were appended; a commit that is lost is refused, never misread."""
    standing = {commit for first, last in report.stands() for commit in range(first, last + 1)}
    assert standing == set(range(1, small.end + 1)) - lost_by(report)
    for first, last in report.stands():
        expected = {commit: small.rows[commit] for commit in range(first, last + 1)}
        assert repr(read_back(small.path, first, last)) == repr(expected)  # NaN equals itself as text
    for commit in sorted(lost_by(report))[:1]:
        try:  # a file cut in the padding of its last frame still has the rows
            found = read_back(small.path, commit, commit)
        except HeadraceError as error:
            assert error.code == "log.corrupt"
        else:
            assert "the file ends at" in report.damages[0].why
            assert repr(found) == repr({commit: small.rows[commit]})


def test_a_sound_log_is_reported_whole(small: SmallLog) -> None:
    report = verify(small.path)
    assert report.damages == [] and report.stands() == [(1, small.end)]
    assert (report.end, report.segments, report.reserved) == (small.end, len(small.segments), 0)
    assert report.bytes == sum(size for name, size in small.used() if name != MARK)
    assert report.frames == sum(len(parts) - 1 for parts in small.begins.values()) > 10
    counts = [table for rows in small.rows.values() for table, _ in rows]
    assert report.rows == {table: counts.count(table) for table in ("orders", "clicks")}
    assert len(small.segments) > 4


def test_every_flipped_bit_in_use_is_found_and_what_stands_can_be_read(
    small: SmallLog, request: pytest.FixtureRequest
) -> None:
    generator = random.Random(3)
    places = [(name, at) for name, size in small.used() for at in range(size)]
    assert {name for name, _ in places} == {file.name for file in small.path.iterdir()}
    kinds = set()
    for number in range(FLIPS):
        name, at = places[generator.randrange(len(places))] if number % 20 else (MARK, number // 20 % 32)
        with flipped(small.path / name, at, generator.randrange(8)):
            report = verify(small.path)
            assert report.damages, (name, at)
            assert {damage.segment for damage in report.damages} == {name}, (name, at)
            damage = report.damages[0]
            kinds.add(damage.why)
            if name == MARK:
                assert damage.offset == 0 and report.stands() == [(1, small.end)]
                with pytest.raises(HeadraceError, match=r"log\.corrupt"):
                    read_back(small.path, 1, small.end)
                continue
            offset, first, last = small.part(name, at)
            assert damage.offset == offset <= at
            segment = small.segments[name]
            possible = [set(), set(range(first, last + 1)), set(range(first, segment.last + 1))]
            assert lost_by(report) in possible
            check_what_stands(small, report)
    assert verify(small.path).damages == []
    assert len(kinds) >= 7, kinds
    what = {"what": "flips in the log", "tried": FLIPS, "detail": f"{len(kinds)} kinds of damage"}
    request.node.user_properties.append(("proof", what))


def test_every_truncation_is_found(small: SmallLog, tmp_path: Path) -> None:
    generator = random.Random(5)
    for number in range(max(100, FLIPS // 10)):
        name, size = small.used()[generator.randrange(len(small.used()))]
        file, cut = small.path / name, generator.randrange(size) if number % 10 else 0
        whole = file.read_bytes()
        try:
            with file.open("r+b") as opened:
                opened.truncate(cut)
            report = verify(small.path)
            damage = report.damages[0]
            assert {found.segment for found in report.damages} == {name}
            if name != MARK:
                offset, first, _ = small.part(name, cut)
                assert damage.offset == offset <= cut
                if offset:
                    assert lost_by(report) == set(range(first, small.segments[name].last + 1))
                check_what_stands(small, report)
        finally:
            file.write_bytes(whole)
    assert verify(small.path).damages == []


def test_a_segment_that_is_gone_is_named_with_its_commits(small: SmallLog, tmp_path: Path) -> None:
    for name, segment in small.segments.items():
        copy = tmp_path / name
        shutil.copytree(small.path, copy)
        (copy / name).unlink()
        (damage,) = verify(copy).damages
        assert (damage.segment, damage.offset) == (name, 0)
        assert (damage.first, damage.last) == (segment.first, segment.last)
        assert "the file is missing" in damage.why


def test_damage_in_two_places_is_told_in_one_go(small: SmallLog) -> None:
    names = list(small.segments)
    first, second = small.begins[names[0]][1], small.begins[names[2]][-1]
    with flipped(small.path / names[0], first[0] + 40, 0), flipped(small.path / names[2], second[0] + 200, 1):
        report = verify(small.path)
        assert [(damage.segment, damage.offset) for damage in report.damages] == [
            (names[0], first[0]),
            (names[2], second[0]),
        ]
        lost = {*range(1, small.segments[names[0]].last + 1), *range(second[1], second[2] + 1)}
        assert lost_by(report) == lost
        check_what_stands(small, report)


def test_a_part_that_the_disk_cannot_read_is_damage(small: SmallLog, monkeypatch: pytest.MonkeyPatch) -> None:
    name = list(small.segments)[1]
    (offset, first, last), real = small.begins[name][2], os.preadv

    def failing(fd: int, buffers: Any, at: int) -> int:
        inside = at <= offset + 500 < at + len(buffers[0]) and Path(f"/proc/self/fd/{fd}").resolve().name == name
        if inside and at:  # the look at the header reads on
            raise OSError(errno.EIO, "Input/output error")
        return real(fd, buffers, at)

    monkeypatch.setattr(os, "preadv", failing)
    (damage,) = verify(small.path).damages
    assert (damage.segment, damage.offset, damage.first, damage.last) == (name, offset, first, last)
    assert damage.why == "the disk cannot read it: Input/output error"


def test_the_space_behind_the_end_is_not_looked_at(tmp_path: Path) -> None:
    """Reserved space, and what a writer has begun and nobody was told of, are no part of the log."""
    made = RandomLog(2)
    made.grow(tmp_path / "log", 5)
    with LogWriter(tmp_path / "log", segment_bytes=1 << 20) as writer:
        writer.append(batch_of(made))
        (segment,) = LogReader(tmp_path / "log").segments()
        for at in (segment.bytes, segment.bytes + 100, (1 << 20) - 1):
            with flipped(tmp_path / "log" / segment.name, at, 3):
                report = verify(tmp_path / "log")
                assert report.damages == []
                assert report.reserved == (1 << 20) - segment.bytes


def batch_of(made: RandomLog) -> TransactionBatch:
    origin = made.origin("shop", 0)
    return TransactionBatch((origin,), changes_of("orders", [(origin, [made.change("orders")])]))


def test_an_empty_log_is_sound(tmp_path: Path) -> None:
    assert verify(tmp_path / "none") == LogReport()
    LogWriter(tmp_path / "log").close()
    assert verify(tmp_path / "log") == LogReport()


def test_a_log_of_another_version_is_not_called_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.log.layout.LAYOUT", 2)
    RandomLog(1).grow(tmp_path / "log", 3)
    monkeypatch.undo()
    with pytest.raises(HeadraceError, match=r"log\.layout"):
        verify(tmp_path / "log")
