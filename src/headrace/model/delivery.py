"""What a sink receives: whole steps of several views at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.model.schema import ViewSchema

if TYPE_CHECKING:
    import pyarrow as pa

WEIGHT = "_w"  # int64: how many copies of the row come (+) or go (-)


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
    committed_us: int = 0  # the newest source commit time inside, microseconds since the epoch
