"""What tests wait for beside something that works by itself."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(holds: Callable[[], object], seconds: float = 30) -> None:
    """Returns once ``holds()`` is true, and fails when it is not in time."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not within {seconds:g} s"
        time.sleep(0.01)
