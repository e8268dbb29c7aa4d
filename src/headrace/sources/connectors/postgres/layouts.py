"""Which columns the rows of a table have, message by message: a table may be altered in the middle of a transaction."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from headrace.sources.connectors.postgres import changes
from headrace.sources.connectors.postgres.pgoutput import Integers, RelationMessage


class Layouts:
    """The descriptions of tables that a stream has brought.

    Epoch n of a stream begins with its n-th change of a description; a row message is read by the description of its
    table that is the latest in its epoch.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self._begins: dict[int, list[int]] = {}  # by table: the epochs that began with a description of it
        self._messages: dict[int, list[RelationMessage]] = {}

    def epochs(self, described: Sequence[tuple[int, RelationMessage]], count: int) -> Integers:
        """The epoch of each of ``count`` row messages; ``described``: before which of them a description came."""
        found = np.full(count, self.epoch, dtype=np.int64)
        for at, message in described:
            known = self._messages.setdefault(message.oid, [])
            if known and known[-1] == message:
                continue  # the server repeats itself
            self.epoch += 1
            self._begins.setdefault(message.oid, []).append(self.epoch)
            known.append(message)
            found[at:] = self.epoch
        return found

    def of(
        self, epochs: Integers, places: Callable[[int, RelationMessage, int], changes.Places | None]
    ) -> changes.Layout:
        """How row messages of these epochs are laid out.

        ``places`` tells them for a table and its description, from the message of that number on.
        """

        def runs(oid: int, numbers: Integers) -> Iterator[tuple[slice, int | None, changes.Places | None]]:
            for run, message in self.runs(oid, epochs[numbers]):
                if message is None:
                    yield run, None, ()
                else:
                    yield run, len(message.columns), places(oid, message, int(numbers[run.start]))

        return runs

    def runs(self, oid: int, epochs: Integers) -> Iterator[tuple[slice, RelationMessage | None]]:
        """Runs of messages of one table under one description; None: the stream began before there was one.

        ``epochs`` never decreases.
        """
        start = 0
        while start < len(epochs):
            number = bisect_right(self._begins.get(oid, []), epochs[start])
            begins = self._begins.get(oid, [])
            end = int(np.searchsorted(epochs, begins[number])) if number < len(begins) else len(epochs)
            yield slice(start, end), self._messages[oid][number - 1] if number else None
            start = end
