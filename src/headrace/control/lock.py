"""One process a project folder: an advisory lock on .headrace/lock that ends with its process."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.model.errors import HeadraceError

FILE = Path(".headrace") / "lock"


@contextmanager
def hold(project: Path, command: str) -> Iterator[None]:
    """Hold the lock of the project for the block; the file names the process and its ``command``.

    Raises ``HeadraceError`` (project.locked), with the holder's pid, when another process has it. The lock
    is the kernel's (flock): after SIGKILL or a power cut nothing has to be cleaned up.
    """
    path = project / FILE
    path.parent.mkdir(mode=0o700, exist_ok=True)
    _tighten(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _taken(descriptor, fcntl.LOCK_EX, 0.3):  # the look of `wait_free` may hold it for an instant
            raise _locked(project, holder(project))
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()} {command}\n".encode(), 0)
        yield
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _tighten(folder: Path) -> None:
    """Rows and tokens lie in it: where others of the machine could look into a folder of ours they cannot any more."""
    found = folder.stat()
    if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) & 0o077:
        folder.chmod(0o700)


def holder(project: Path) -> tuple[int, str] | None:
    """(pid, command) that the lock file names, whether or not it still runs; None when it names none."""
    try:
        pid, _, command = (project / FILE).read_text(encoding="utf-8").strip().partition(" ")
        return int(pid), command
    except (OSError, ValueError):
        return None


def wait_free(project: Path, timeout_s: float) -> bool:
    """Wait until nobody holds the lock; false when it is still held after ``timeout_s`` seconds."""
    try:
        descriptor = os.open(project / FILE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        return _taken(descriptor, fcntl.LOCK_SH, timeout_s)
    finally:
        os.close(descriptor)


def _taken(descriptor: int, kind: int, timeout_s: float) -> bool:
    end = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > end:
                return False
        time.sleep(0.05)


def _locked(project: Path, by: tuple[int, str] | None) -> HeadraceError:
    who = f"process {by[0]} (`{by[1]}`)" if by else "another process"
    if by and by[1] == "headrace up":
        hint = f"use it: `headrace status`; or end it: `headrace stop`, or `kill {by[0]}` when it does not answer"
    else:
        hint = f"wait until it ends, or end it: `kill {by[0]}`" if by else "wait until it ends"
    return HeadraceError(
        "project.locked",
        f"{who} runs this project",
        where=str(project),
        why="two at once would write the same log and state",
        next=hint,
    )
