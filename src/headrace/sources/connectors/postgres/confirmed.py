"""How far the server was told that it may forget, on disk before it is told.

A slot that stands beyond that was dropped and made anew under its name, or somebody else has read it: what was
between is gone, and neither the slot nor the log of the project tells.
"""

from __future__ import annotations

import os
from pathlib import Path

from headrace.sources.connectors.postgres.stream import lsn_number, lsn_text

_BYTES = 17  # of the longest LSN


class Confirmed:
    """The farthest LSN that the slot of a source was told beyond the positions in the log."""

    def __init__(self, project: Path, source: str) -> None:
        """Kept in the project's ``.headrace``; where there is none, nothing is."""
        self._path = project / ".headrace" / "confirmed" / source
        self._known = -1

    def read(self) -> int | None:
        """None where an earlier version wrote nothing down."""
        if not self._path.exists():
            return None
        try:
            self._known = lsn_number(self._path.read_text().strip())
        except ValueError:
            return None
        return self._known

    def begin(self, lsn: int) -> None:
        """From here on, whatever was known of another slot."""
        self._known = -1
        self.note(lsn)

    def note(self, lsn: int) -> int:
        """``lsn``, once it is on disk."""
        if lsn > self._known and self._path.parent.parent.is_dir():
            self._path.parent.mkdir(exist_ok=True)
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                os.pwrite(file, lsn_text(lsn).ljust(_BYTES).encode(), 0)
                os.fdatasync(file)
            finally:
                os.close(file)
            self._known = lsn
        return lsn
