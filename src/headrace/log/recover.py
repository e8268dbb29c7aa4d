"""Opening a log for writing: find its end, cut a torn tail, refuse damage."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headrace.log.base import Base, link_to, retained
from headrace.log.layout import HEAD_BYTES, Mark, corrupt, segment_name
from headrace.log.segment import Segment, read_mark
from headrace.model.errors import HeadraceError


@dataclass(frozen=True, slots=True)
class Tail:
    """Where the last segment ends: its first commit, the offset (bytes), the hash of the last head.

    ``confirmed``: the offset up to which the mark says it was synced. ``end``: the last commit.
    """

    first: int
    offset: int
    link: bytes
    confirmed: int
    end: int
    positions: dict[str, str]


def find_tail(path: Path) -> Tail | None:
    """The end of the log in ``path``, None when it holds no segment. Changes nothing.

    Reads the last segment whole and the headers of the others. A frame that is not sound is torn, and the log
    ends before it, unless it was acknowledged: the mark covers it, or a later frame was written after a sync
    of it. Then ``log.corrupt``: dropping it would lose what was promised to be kept.
    """
    (base, names), mark = retained(path), read_mark(path)
    if base.commit and not names:
        raise corrupt(segment_name(base.commit + 1), 0, "the file is missing; the log begins with it")
    if mark is not None and mark.end and segment_name(mark.segment) not in names:
        raise corrupt(segment_name(mark.segment), 0, "the file is missing")
    if not names:
        return None
    last = _linked(path, names, base)
    confirmed = mark.offset if mark is not None and mark.segment == last.header.first else last.start
    positions = dict(last.header.positions)
    offset, link, commit = last.start, last.digest, last.header.first
    while offset + HEAD_BYTES <= last.size or offset < confirmed:
        try:
            head, meta = last.check(offset, commit, link)
        except HeadraceError as error:
            if offset < confirmed:
                raise
            if last.written_after(offset):
                raise corrupt(last.name, offset, f"{error.why}, and sound frames follow") from error
            break
        positions |= meta.last_positions()
        link = last.digest_at(offset)
        offset, commit = offset + head.length, head.last + 1
    return Tail(last.header.first, offset, link, confirmed, commit - 1, positions)


def _linked(path: Path, names: list[str], base: Base) -> Segment:
    """The last segment, after a look at the header of every one: none is missing, none is cut short.

    The first one must be that which ``base`` says the log begins with.
    """
    before: Segment | None = None
    for name in names:
        segment = Segment(path / name)
        header = segment.header
        if before is None and link_to(segment) != base.previous:
            raise corrupt(segment_name(header.previous_first), 0, f"the file is missing; {name} follows it")
        if before and header.previous_first != before.header.first:
            raise corrupt(segment_name(header.previous_first), 0, f"the file is missing; {name} follows it")
        if before and before.size < header.previous_length:
            raise corrupt(before.name, before.size, f"the file ends here; it had {header.previous_length} bytes")
        before = segment
    assert before is not None
    return before


def mark_of(tail: Tail | None) -> Mark:
    return Mark(tail.first, tail.offset, tail.end) if tail else Mark(0, 0, 0)
