"""The disk of the simulated machine, below a folder in memory: what a power cut may take and what it may not.

The log's calls come through its own ``Files``; files of views and state are written by Arrow, so of those only the
syncs are noted, and after a power cut what was not synced is gone, cut or zeroed. SQLite's commits are taken at its
word: they are whole and stay.
"""

from __future__ import annotations

import dataclasses
import errno
import os
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sim_world import Crash, World

from headrace.log.faults import Change, FaultyFiles
from headrace.log.files import SyncFailed


class Disk(FaultyFiles):
    """``Files`` over a folder of its own, with what was synced of the rest of ``folder``."""

    def __init__(self, world: World, folder: Path) -> None:
        super().__init__()
        self.world, self.folder = world, folder
        self.opened: set[int] = set()
        self.kept: dict[int, tuple[int, int]] = {}  # inode -> size and time of what is on the disk
        self.entries: dict[int, dict[str, int]] = {}  # inode of a folder -> names that are on the disk

    def _call(self, operation: str) -> None:
        self.world.call(f"log.{operation}")
        if operation in {"sync", "sync_directory"} and self.world.due("sync", self.world.calls):
            self.world.say("sync fails")
            raise OSError(errno.EIO, "planned")
        if operation == "allocate" and self.world.during("full"):
            raise OSError(errno.ENOSPC, "planned")

    def open(self, path: Path) -> int:
        fd = super().open(path)
        self.opened.add(fd)
        return fd

    def close(self, fd: int) -> None:
        if self.world.dead:
            raise Crash
        self.opened.discard(fd)
        os.close(fd)

    def sync(self, fd: int) -> None:
        try:
            super().sync(fd)
        except SyncFailed:  # the pages count as clean from now on, and are not on the disk
            inode = os.fstat(fd).st_ino
            self.unsynced = [change for change in self.unsynced if change.inode != inode]
            raise

    def let_go(self) -> None:
        """The process is gone, and its descriptors with it."""
        for fd in self.opened:
            os.close(fd)
        self.opened.clear()

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Syncs of all other files are noted here, and none is done."""
        before = os.fsync, os.fdatasync
        os.fsync = os.fdatasync = self._note  # type: ignore[assignment]
        try:
            yield
        finally:
            os.fsync, os.fdatasync = before

    def _note(self, fd: Any) -> None:
        self.world.call("sync")
        stat = os.fstat(fd)
        if os.path.isdir(place := os.readlink(f"/proc/self/fd/{fd}")):  # noqa: PTH112, PTH115
            self.entries[stat.st_ino] = {entry.name: entry.inode() for entry in os.scandir(place)}
        else:
            self.kept[stat.st_ino] = (stat.st_size, stat.st_mtime_ns)

    def cut(self, rng: random.Random) -> None:
        """The power goes, and comes back."""
        log = self.folder / "log"
        if log.exists():
            image = self.folder / "image"
            self.image(image, _surviving(self.unsynced, rng))
            shutil.rmtree(log)
            image.rename(log)
            self.unsynced.clear()
            self._names.clear()
        state = self.folder / "state"
        if state.exists():
            self._cut(state, rng)

    def _cut(self, folder: Path, rng: random.Random) -> None:
        known = self.entries.get(folder.stat().st_ino, {})
        for entry in sorted(folder.iterdir()):
            stat = entry.stat()
            if known.get(entry.name) != stat.st_ino and rng.random() < 0.5:
                self.world.say("gone", entry.parent.name if entry.is_file() else "folder")
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
            elif entry.is_dir():
                self._cut(entry, rng)
            elif self.kept.get(stat.st_ino) != (stat.st_size, stat.st_mtime_ns):
                data = entry.read_bytes()
                left = rng.choice([data, b"", bytes(len(data)), data[: rng.randrange(len(data) + 1)]])
                entry.write_bytes(left)


def _surviving(unsynced: list[Change], rng: random.Random) -> list[Change]:
    """What may have reached the disk of the unsynced changes: all up to some byte, or any of them."""
    if not unsynced or rng.random() < 0.3:
        return [change for change in unsynced if rng.random() < 0.5]
    place = rng.randrange(len(unsynced))
    cut = rng.randrange(len(unsynced[place].data) + 1)
    return [*unsynced[:place], dataclasses.replace(unsynced[place], data=unsynced[place].data[:cut])]
