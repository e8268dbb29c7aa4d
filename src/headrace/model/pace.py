"""How far something is that takes long, how fast it goes, and about how long it still takes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Literal

TOLD_S = 1.0  # what takes less is not worth a word; what takes more is told as often


@dataclass(slots=True)
class Pace:
    """``done`` of ``total`` (None: not known; it may be an estimate) since ``began`` (of ``time.monotonic``)."""

    total: int | None
    done: int = 0
    began: float = field(default_factory=time.monotonic)

    def shown(self) -> dict[str, Any]:
        """``{"done", "total", "per_s", "left_s"}``: how many a second, and the seconds left; None: not known yet."""
        seconds = time.monotonic() - self.began
        per_s = self.done / seconds if self.done and seconds > 0 else None
        # An estimate that was passed tells nothing any more.
        total = self.total if self.total is not None and self.done <= self.total else None
        left = None if total is None else total - self.done
        return {
            "done": self.done,
            "total": total,
            "per_s": None if per_s is None else round(per_s, 1),
            "left_s": None if per_s is None or left is None else round(left / per_s, 1),
        }


@dataclass(frozen=True, slots=True)
class Copying:
    """The copy of a table: the first one of a server's, whose total is its estimate, or that of large files."""

    table: str
    pace: Pace
    unit: Literal["rows", "bytes"] = "rows"

    def shown(self) -> dict[str, Any]:
        """``{"table", "unit", "done", "total", "per_s", "left_s"}``."""
        return {"table": self.table, "unit": self.unit, **self.pace.shown()}
