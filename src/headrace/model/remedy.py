"""What is told of an error code beside its meaning."""

from __future__ import annotations

from typing import NamedTuple


class Remedy(NamedTuple):
    """What brings it about most often, and what mends it: a sentence or two each, in Markdown; commands stand between
    backquotes."""

    cause: str
    repair: str
