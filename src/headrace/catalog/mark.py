"""How many transactions the catalogue has: a file beside it, written after each, so that a lost one is noticed.

SQLite reads its write-ahead log as far as the checksums in it are right. A damaged bit there takes the transactions
behind it away without a word. The mark is not synced, and may be behind the catalogue, never before it.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

_FORM = struct.Struct("<QI")  # transactions, CRC-32 of that number


class Mark:
    """The mark of the catalogue at ``path``."""

    def __init__(self, path: Path) -> None:
        self._path = path.with_name("catalog.mark")
        self._file: int | None = None

    def read(self) -> int:
        """0 where there is none, or one that is damaged itself."""
        try:
            count, crc = _FORM.unpack(self._path.read_bytes())
        except (FileNotFoundError, struct.error):
            return 0
        return int(count) if crc == _crc(count) else 0

    def write(self, count: int) -> None:
        if self._file is None:
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
        os.pwrite(self._file, _FORM.pack(count, _crc(count)), 0)

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _crc(count: int) -> int:
    return zlib.crc32(count.to_bytes(8, "little"))
