"""What lies in the segments of a log, the newest first; of those that are not written to any more it is remembered.

A question of the kind "the last commit such that" reads the heads of the newest frames, and of older segments as far as
they may have the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from headrace.log.layout import segment_name
from headrace.log.read import LogReader

REMEMBERED = 65_536  # segments, of all logs that this process looks through


@dataclass(frozen=True, slots=True)
class Sealed:
    """The least commit time in a segment, in microseconds since the epoch, and the tables that its commits change."""

    earliest_us: int
    tables: frozenset[str]


def newest_first(reader: LogReader) -> Iterator[tuple[int, int, Sealed | None]]:
    """Segment by segment its commits as (after, upto], and what lies there; None of the one that is written to.

    Work: the heads of a segment's frames when it is first come to. Raises what ``LogReader.frames`` does.
    """
    base, active = reader.base.commit, True
    for after, upto, _ in reader.newest_first():
        if active:
            yield max(after, base), upto, None
        elif upto > base:
            try:
                inode = (reader.path / segment_name(after + 1)).stat().st_ino
            except FileNotFoundError:
                return  # retention has taken it since
            yield max(after, base), upto, _sealed(reader.path, inode, max(after, base), upto)
        active = False


@lru_cache(REMEMBERED)
def _sealed(path: Path, inode: int, after: int, upto: int) -> Sealed:
    del inode  # it tells a log from one that lay there before
    earliest_us, tables = 1 << 62, set[str]()
    for ref, meta in LogReader(path).frames(after, upto):
        earliest_us = min(earliest_us, *meta.committed_us)
        tables |= ref.rows.keys()
    return Sealed(earliest_us, frozenset(tables))
