"""A file layer that fails on command and knows what a power cut would leave: for tests of what must not be lost.

A plan is a list of faults. ``Fault("write", 3, errno.ENOSPC)`` refuses the third write; ``nth`` counts the calls of
that operation, or of all operations under ``"any"``. Everything really happens in the folder, so a reader or a
second writer can look at it. ``image`` writes the folder as a power cut would leave it.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.log.files import Files, SyncFailed

CRASH = 0  # in the place of an error number: from this call on nothing reaches the disk


@dataclass(frozen=True, slots=True)
class Fault:
    """The ``nth`` call (from 1) of ``operation`` fails with ``error``; all later ones too when it is ``lasting``.

    A write that fails has first written ``partial`` of its bytes.
    """

    operation: str
    nth: int
    error: int
    lasting: bool = False
    partial: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """What no sync has covered yet: ``data`` written at ``offset``; or, with a ``length``, the file cut to it."""

    inode: int
    offset: int
    data: bytes
    length: int = -1

    def apply(self, contents: bytearray) -> None:
        if self.length >= 0:
            del contents[self.length :]
            return
        contents.extend(bytes(max(0, self.offset + len(self.data) - len(contents))))
        contents[self.offset : self.offset + len(self.data)] = self.data


class FaultyFiles(Files):
    """``Files`` with a plan of faults; ``calls`` counts the calls by operation, and all of them under ``any``."""

    def __init__(self, faults: Sequence[Fault] = (), *, most_bytes: int | None = None) -> None:
        """``most_bytes``: a write takes at most that many of the bytes given."""
        self.faults = list(faults)
        self.calls: Counter[str] = Counter()
        self.crashed = False
        self.unsynced: list[Change] = []
        self._most_bytes = most_bytes
        self._contents: dict[int, bytearray] = {}  # by inode: what the disk surely has
        self._names: dict[Path, int] = {}  # as the directory is now
        self._kept_names: dict[Path, int] = {}  # as it surely is on the disk

    def image(self, folder: Path, kept: Iterable[Change] = ()) -> None:
        """Write into ``folder`` what a power cut leaves: all that was synced, and of the rest only ``kept``."""
        folder.mkdir(parents=True)
        contents = {inode: bytearray(data) for inode, data in self._contents.items()}
        for change in kept:
            change.apply(contents[change.inode])
        for path, inode in self._kept_names.items():
            (folder / path.name).write_bytes(contents[inode])

    def open(self, path: Path) -> int:
        self._call("open")
        if not self._names:  # what is there before the first call is on the disk
            self._names = {file: file.stat().st_ino for file in path.parent.iterdir()}
            self._kept_names = dict(self._names)
            self._contents = {inode: bytearray(file.read_bytes()) for file, inode in self._names.items()}
        fd = super().open(path)
        if path not in self._names:
            inode = self._names[path] = os.fstat(fd).st_ino
            self._contents[inode] = bytearray()
        return fd

    def read(self, fd: int, length: int, offset: int) -> bytes:
        self._call("read")
        return super().read(fd, length, offset)

    def write(self, fd: int, data: bytes | bytearray | memoryview, offset: int) -> int:
        taken = bytes(data[: self._most_bytes])
        try:
            self._call("write")
        except _Partial as fault:
            self._write(fd, taken[: fault.bytes], offset)
            raise OSError(fault.errno, fault.strerror) from None
        self._write(fd, taken, offset)
        return len(taken)

    def allocate(self, fd: int, offset: int, length: int) -> None:
        self._call("allocate")
        super().allocate(fd, offset, length)
        self.unsynced.append(Change(os.fstat(fd).st_ino, offset, bytes(length)))

    def truncate(self, fd: int, length: int) -> None:
        self._call("truncate")
        super().truncate(fd, length)
        self.unsynced.append(Change(os.fstat(fd).st_ino, 0, b"", length))

    def sync(self, fd: int) -> None:
        self._sync_call("sync")
        inode = os.fstat(fd).st_ino
        for change in self.unsynced:
            if change.inode == inode:
                change.apply(self._contents[inode])
        self.unsynced = [change for change in self.unsynced if change.inode != inode]

    def rename(self, old: Path, new: Path) -> None:
        self._call("rename")
        super().rename(old, new)
        self._names[new] = self._names.pop(old)

    def remove(self, path: Path) -> None:
        self._call("remove")
        super().remove(path)
        self._names.pop(path, None)

    def sync_directory(self, path: Path) -> None:
        self._sync_call("sync_directory")
        self._kept_names = dict(self._names)

    def _write(self, fd: int, data: bytes, offset: int) -> None:
        if data:
            super().write(fd, data, offset)
            self.unsynced.append(Change(os.fstat(fd).st_ino, offset, data))

    def _sync_call(self, operation: str) -> None:
        try:
            self._call(operation)
        except OSError as error:
            raise SyncFailed(error.errno, error.strerror) from error

    def _call(self, operation: str) -> None:
        if self.crashed:
            raise OSError(errno.EIO, "after the crash")
        self.calls[operation] += 1
        self.calls["any"] += 1
        for fault in self.faults:
            count = self.calls[fault.operation] if fault.operation in (operation, "any") else 0
            if count == fault.nth or (fault.lasting and count > fault.nth):
                self.crashed = fault.error == CRASH
                raise _Partial(fault.error or errno.EIO, f"planned for {operation} {count}", fault.partial)


class _Partial(OSError):
    """A planned fault, with how many bytes of a write come before it."""

    def __init__(self, number: int, text: str, partial: int) -> None:
        super().__init__(number, text)
        self.bytes = partial
