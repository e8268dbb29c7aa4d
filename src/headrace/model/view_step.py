"""What a follower of a view is told at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class ViewStep:
    """Rows of a view that came (``weight`` > 0) or went with a commit: ``{"row", "weight"}``, values as in JSON.

    ``snapshot``: a part of the contents, ``last`` the last of them; ``change``: the whole of one step, or with
    `transactions: each` of one transaction; ``behind``: all that was told before is to be forgotten, a snapshot
    follows; ``reason`` says why.
    """

    kind: Literal["snapshot", "change", "behind"]
    commit: int
    changes: list[dict[str, Any]]
    last: bool = True
    reason: str = ""
