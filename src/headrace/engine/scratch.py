"""Where Spark's processes write what lasts no longer than they do: exchanged rows, sockets, notes of crashes.

A folder of each process of ours, below ``TMPDIR``, gone when the process ends. One that was killed takes nothing with
it: the next process to start a Spark removes what it left, which it knows by the kernel's lock (flock). The lock is on
the folder itself, as who tidies up /tmp by age (systemd-tmpfiles) lets a locked one be.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "hr-"  # short, for what is named below it
OWNER = "owner"  # a file with its process id, that makes it one of ours
SOCKET_BYTES_MAX = 103  # of a path to a Unix socket, on the systems that allow least
_SOCKET = "/.01234567-89ab-cdef-0123-456789abcdef.sock"  # as Spark names one


@functools.cache
def folder() -> Path:
    """The folder of this process, made at the first call; those of processes that were killed are removed then."""
    _sweep(Path(tempfile.gettempdir()))
    new = Path(tempfile.mkdtemp(prefix=f".{PREFIX}"))
    try:
        (new / OWNER).write_text(f"{os.getpid()}\n")
        fcntl.flock(os.open(new, os.O_RDONLY | os.O_CLOEXEC), fcntl.LOCK_EX)  # as long as the process is there
        made = new.rename(new.with_name(new.name.removeprefix(".")))  # others see it locked, or not at all
    except OSError:  # a full disk
        shutil.rmtree(new, ignore_errors=True)
        raise
    atexit.register(_remove, made, os.getpid())
    return made


def sockets(below: Path) -> Path:
    """The folder for Spark's Unix sockets: ``below``, or the system's own where their paths would be too long."""
    fits = len(os.fsencode(f"{below}{_SOCKET}")) <= SOCKET_BYTES_MAX
    return below if fits else Path("/tmp")


def _remove(made: Path, owner: int) -> None:
    if os.getpid() == owner:  # not a process that was forked from it
        shutil.rmtree(made, ignore_errors=True)


def _sweep(parent: Path) -> None:
    """Remove the folders of this user's processes that are no more."""
    for owner in parent.glob(f"{PREFIX}*/{OWNER}"):
        with contextlib.suppress(OSError):  # another's, or being removed by another
            descriptor = os.open(owner.parent, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(owner.parent, ignore_errors=True)
            finally:
                os.close(descriptor)
