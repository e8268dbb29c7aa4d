"""What lies in the folder, and which of it may be read now."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from headrace.model.errors import HeadraceError

Format = Literal["jsonl", "csv", "parquet"]
SUFFIXES: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
}
RESTED_S = 60  # a file that was last written so long ago is not waited for: another machine's clock may be off a little
GROWING_SCANS = 5  # JSON lines that never stop growing are read after so many scans, as far as lines are complete


@dataclass(frozen=True, slots=True)
class Seen:
    """A file in a scan. ``scans``: how often it was seen.

    ``stable``: size and time are those of the scan before, or nobody has written to it for long at the first.
    """

    name: str
    path: Path
    format: Format
    size: int
    mtime_ns: int
    stable: bool = False
    scans: int = 1


class Folder:
    """Scans of one folder; a scan is compared with the one before."""

    def __init__(self, path: Path, pattern: str | None, format_: Format | None, where: str) -> None:
        self.path, self.pattern, self.format, self.where = path, pattern, format_, where
        self._before: dict[str, Seen] = {}

    def scan(self) -> list[Seen]:
        """The files that count, by name, compared with the scan before. Raises ``HeadraceError`` (source.connect)."""
        found = self.look()
        self._before = {file.name: file for file in found}
        return found

    def look(self) -> list[Seen]:
        """As ``scan``, but the next scan is not compared with this one."""
        found = []
        try:
            with os.scandir(self.path) as entries:
                for entry in entries:
                    format_ = self._format(entry.name)
                    if format_ is not None and entry.is_file() and self._inside(entry):
                        found.append(self._seen(entry, format_))
        except OSError as error:
            raise HeadraceError(
                "source.connect",
                f"the folder {self.path} cannot be read",
                where=self.where,
                why=error.strerror or str(error),
                next="create it, or correct 'path'",
            ) from None
        return sorted((file for file in found if file is not None), key=lambda file: file.name)

    def _inside(self, entry: os.DirEntry[str]) -> bool:
        """Whether it is a file of the folder, or a link to one: who may put files here may not read others by them."""
        return not entry.is_symlink() or Path(entry.path).resolve().is_relative_to(self.path.resolve())

    def _seen(self, entry: os.DirEntry[str], format_: Format) -> Seen | None:
        try:
            stat = entry.stat()
        except FileNotFoundError:  # gone since it was listed
            return None
        before = self._before.get(entry.name)
        if before is None:
            rests = time.time_ns() - stat.st_mtime_ns > RESTED_S * 1_000_000_000
            return Seen(entry.name, self.path / entry.name, format_, stat.st_size, stat.st_mtime_ns, rests)
        stable = (before.size, before.mtime_ns) == (stat.st_size, stat.st_mtime_ns)
        return Seen(entry.name, before.path, format_, stat.st_size, stat.st_mtime_ns, stable, before.scans + 1)

    def _format(self, name: str) -> Format | None:
        """The format of a file that counts, else None."""
        if name.startswith((".", "_")) or name.endswith(".tmp"):
            return None
        by_suffix = SUFFIXES.get(Path(name).suffix.lower())
        if self.pattern is not None:
            return (self.format or by_suffix) if fnmatchcase(name, self.pattern) else None
        return by_suffix if self.format is None or by_suffix == self.format else None


class Progress:
    """How many bytes of each file were read. A value: reading on makes a new one."""

    def __init__(self, read: Mapping[str, int]) -> None:
        self._read = read

    @classmethod
    def at(cls, position: str | None) -> Progress:
        """From a position in the log; None is the very beginning."""
        return cls(json.loads(position)["files"] if position else {})

    def offset(self, name: str) -> int | None:
        """Bytes of the file that were read, None when it was not read yet."""
        return self._read.get(name)

    def after(self, name: str, offset: int) -> Progress:
        """The progress once that much of the file is read."""
        return Progress({**self._read, name: offset})

    def only(self, names: Collection[str]) -> Progress:
        """The progress without the files that are gone, so that it grows no larger than the folder."""
        return Progress({name: offset for name, offset in self._read.items() if name in names})

    def position(self) -> str:
        """``{"files": {name: bytes read}}``."""
        return json.dumps({"files": self._read}, separators=(",", ":"))
