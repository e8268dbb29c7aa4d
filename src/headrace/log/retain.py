"""Removing the log's beginning, whole segments at a time, once a base has what it added up to.

The order is the whole of it: the base's parts are on the disk, their names too, then ``begin`` names them, then that is
on the disk, then segments go. A crash anywhere leaves the old beginning or the new one, and files that nobody names.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headrace.log.base import BEGIN_NAME, PART_SUFFIX, TEMPORARY, Base, Part, link_to, read_base
from headrace.log.files import Files, write_all
from headrace.log.layout import SUFFIX, segment_name
from headrace.log.read import LogReader
from headrace.log.segment import Segment


def boundary(path: Path, upto: int) -> int:
    """The last commit at or below ``upto`` with which a closed segment ends; that of the base when there is none."""
    reader = LogReader(path)
    ends = [segment.last for segment in reader.segments() if not segment.active and segment.last <= upto]
    return max([reader.base.commit, *ends])


def based_on(path: Path, commit: int, parts: Mapping[str, tuple[Part, ...]]) -> Base:
    """The base at ``commit``, with which a closed segment ends, made of these parts."""
    ((_, origin),) = LogReader(path).origins(commit - 1, commit)
    return Base(commit, origin, link_to(Segment(path / segment_name(commit + 1))), dict(parts))


def begin_at(path: Path, base: Base, files: Files) -> None:
    """From now on the log begins behind ``base``, whose parts are on the disk; what it replaces is removed."""
    files.sync_directory(path)
    temporary = path / TEMPORARY
    files.remove(temporary)
    fd = files.open(temporary)
    try:
        write_all(files, fd, base.pack(), 0)
        files.sync(fd)
    finally:
        files.close(fd)
    files.rename(temporary, path / BEGIN_NAME)
    files.sync_directory(path)
    sweep(path, files)


def sweep(path: Path, files: Files) -> None:
    """Remove segments that a base has replaced, oldest first, and parts that none names: what a crash may have left."""
    base = read_base(path)
    first, named = segment_name(base.commit + 1), base.names()
    left = [
        file for file in sorted(path.iterdir())
        if (file.suffix == SUFFIX and file.name < first)
        or (file.suffix == PART_SUFFIX and file.name not in named)
        or file.name == TEMPORARY
    ]  # fmt: skip
    for file in left:
        files.remove(file)
    if left:
        files.sync_directory(path)
