"""A step that runs again after a crash must give what it published: the same rows, to the byte."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from headrace.catalog.store import Output
from headrace.serve.sound import sound_now
from headrace.state.run import SUM_DIGITS, checksums


def differing(published: Sequence[Output], again: Sequence[Output]) -> set[str]:
    """The feeds of which the step has other rows now.

    Raises ``state.corrupt`` where a published file is not what it was: readers have that file, and it stays.
    """
    for output in published:
        sound_now([(output.path, output.sums)], output.feed.rpartition("@")[0])
    before, after = (Counter((o.feed, o.rows, o.sums) for o in outputs) for outputs in (map(_as_now, published), again))
    return {feed for feed, _, _ in (before - after) + (after - before)}


def _as_now(output: Output) -> Output:
    """Layouts of the catalogue before 11 kept one checksum of a whole file, not one of each block."""
    path = Path(output.path)
    if len(output.sums) != SUM_DIGITS or not path.exists():
        return output
    return replace(output, sums=checksums(path, sync=False))
