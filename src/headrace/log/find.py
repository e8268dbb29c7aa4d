"""Finding the commit by which the log had got as far as a point of a source. Recent points are found at once."""

from __future__ import annotations

from collections.abc import Callable

from headrace.log.read import LogReader

_WINDOW = 256  # commits looked at first, from the end back; then twice as many, and so on


def first_commit(reader: LogReader, source: str, holds: Callable[[str], bool]) -> int | None:
    """The first commit from which on ``holds`` is true of every position of ``source``; None when it is of none.

    ``holds`` tells of a position, and is true of all positions after one of which it is.
    """
    found = None
    for after, upto, before in reader.newest_first():
        if source in before and holds(before[source]):
            found = after  # it lies in a segment before, or did when that was still there
            continue
        return _within(reader, after, upto, source, holds) or found
    return found


def _within(reader: LogReader, after: int, upto: int, source: str, holds: Callable[[str], bool]) -> int | None:
    """The same among the commits (after, upto], from their end back to a position that does not hold it."""
    found, window, short = None, _WINDOW, False
    while upto > after and not short:
        begin = max(after, upto - window)
        first = None
        for commit, origin in reader.origins(begin, upto):
            if origin.source == source:
                if not holds(origin.position):
                    first, short = None, True
                elif first is None:
                    first = commit
        found = first or found
        upto, window = begin, window * 2
    return found
