"""What a sink receives: whole steps of several views at once, or a step's transactions one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.model.schema import ViewSchema
from headrace.model.transaction import TransactionOrigin

if TYPE_CHECKING:
    import pyarrow as pa

WEIGHT = "_w"  # int64: how many copies of the row come (+) or go (-)
NOWHERE = TransactionOrigin("", "", 0)


@dataclass(frozen=True, slots=True)
class Delivery:
    """All changes that take a sink from its frontier to ``commit``; written in one transaction.

    ``deltas[view]``: the view's columns + ``_w``, consolidated (a row occurs once, its weight is not 0).
    ``replacements[view]``: the whole contents (columns + ``_w`` > 0) of a view that is new to this sink
    or whose definition changed; it takes the place of what the sink held under that name.
    ``dropped``: views whose table goes. ``schemas`` holds every view named in the other fields.
    ``stale``: views that failed, with the reason; their contents stay as they were.
    """

    commit: int
    schemas: Mapping[str, ViewSchema]
    deltas: Mapping[str, pa.Table] = field(default_factory=dict)
    replacements: Mapping[str, pa.Table] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()
    stale: Mapping[str, str] = field(default_factory=dict)
    origin: TransactionOrigin = NOWHERE  # of the last transaction inside; its time is the newest of all


@dataclass(frozen=True, slots=True)
class Succession:
    """Transactions that take a sink from its frontier to the last of ``commits``, each to be one of its own there.

    ``origins``: of each commit. ``deltas[view]``: as in a delivery, in the order of their commits; the commit of row
    ``n`` is ``of_row[view][n]`` (int64). A commit without rows is there only as the last one.
    ``schemas`` and ``stale`` are as in a delivery; what is stale is so from the first of the transactions on.
    ``back``: views that had failed and come back as they were, each with the one of ``commits`` at which it does: its
    delta may have no row of that.
    """

    commits: tuple[int, ...]
    origins: tuple[TransactionOrigin, ...]
    schemas: Mapping[str, ViewSchema]
    deltas: Mapping[str, pa.Table]
    of_row: Mapping[str, pa.Array]
    stale: Mapping[str, str] = field(default_factory=dict)
    back: Mapping[str, int] = field(default_factory=dict)

    @property
    def whole(self) -> Delivery:
        """All of it as one delivery, whose deltas are not consolidated."""
        return Delivery(self.commits[-1], self.schemas, self.deltas, stale=self.stale, origin=self.origins[-1])

    def deliveries(self) -> Iterator[Delivery]:
        """One after the other."""
        import numpy as np

        bounds = {
            view: np.searchsorted(commits.to_numpy(), self.commits, side="right")
            for view, commits in self.of_row.items()
        }
        for place, (commit, origin) in enumerate(zip(self.commits, self.origins, strict=True)):
            deltas = {}
            for view, ends in bounds.items():
                begin, end = int(ends[place - 1]) if place else 0, int(ends[place])
                if begin < end or self.back.get(view) == commit:
                    deltas[view] = self.deltas[view].slice(begin, end - begin)
            yield Delivery(commit, self.schemas, deltas, stale=self.stale, origin=origin)
