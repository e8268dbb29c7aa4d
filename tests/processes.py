"""Which processes there are, while any of them may end."""

from __future__ import annotations

import psutil


def runs(process: psutil.Process) -> bool:
    """Whether it has not ended: one that nobody has asked how it ended does not count."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
