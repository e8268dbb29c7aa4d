"""A step that runs again after a crash must give what it published: the same rows, to the byte."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from headrace.catalog.store import Output
from headrace.serve.sound import sound_now


def differing(published: Sequence[Output], again: Sequence[Output]) -> set[str]:
    """The feeds of which the step has other rows now.

    Raises ``state.corrupt`` where a published file is not what it was: readers have that file, and it stays.
    """
    for output in published:
        sound_now([(output.path, output.crc)], output.feed.rpartition("@")[0])
    before, after = (Counter((o.feed, o.rows, o.crc) for o in outputs) for outputs in (published, again))
    return {feed for feed, _, _ in (before - after) + (after - before)}
