"""What stands in a file, or which names a folder has, is on the disk."""

from __future__ import annotations

import os
from pathlib import Path


def synced(path: str | Path) -> None:
    """Return when ``path``, a file or a folder, is on the disk as it is now. Raises ``OSError``."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
