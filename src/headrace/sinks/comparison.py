"""A store's rows against those that it should hold: what a sink is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.model.schema import ViewSchema

if TYPE_CHECKING:
    import pyarrow as pa

FIRST_ROWS = 5  # of those that differ, how many are shown


@dataclass(frozen=True, slots=True)
class Wanted:
    """A view to compare: ``rows`` is all that it should hold, its columns and ``_w`` > 0, each row once."""

    schema: ViewSchema
    rows: pa.Table


# Called once inside the store's transaction, with the commit that the store has reached (None: none) and the versions
# of the views that were delivered to it, whether their tables are still there or not; the views to compare, in turn.
Expected = Callable[[int | None, Mapping[str, int]], Iterable[Wanted]]


@dataclass(frozen=True, slots=True)
class RowDifference:
    """A row, its values as the store shows them, and how many copies of it should be there and are."""

    row: Mapping[str, Any]
    expected: int
    found: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """One view in a store.

    ``rows``: copies that its table should hold; ``quarantined``: those that the store cannot hold. ``differences``:
    copies that are missing or too many. ``diverged``: what is wrong with the table itself ('' for nothing; then every
    row that should be there is a difference); ``additions``: what somebody has put beside the view's own columns, which
    does no harm. ``first``: some of the rows that differ.
    """

    view: str
    rows: int
    quarantined: int
    differences: int
    diverged: str = ""
    additions: tuple[str, ...] = ()
    first: tuple[RowDifference, ...] = ()

    @property
    def same(self) -> bool:
        """Whether there is nothing to repair."""
        return not self.differences and not self.diverged


def from_text(text: str | None, type_text: str) -> Any:
    """A value that a store has printed: numbers and truth as such, all else as its text."""
    if text is None:
        return None
    if type_text in ("tinyint", "smallint", "int", "bigint"):
        return int(text)
    if type_text in ("float", "double"):
        return float(text)
    return text == "true" if type_text == "boolean" else text
