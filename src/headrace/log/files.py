"""Every call by which the log touches the disk, so that a test can make each of them fail."""

from __future__ import annotations

import os
from pathlib import Path


class SyncFailed(OSError):
    """The disk did not confirm what was written. Asking again may report a false success: never retried."""


class Files:
    """The real file system. All methods raise ``OSError``; offsets and lengths are bytes."""

    def open(self, path: Path) -> int:
        """A descriptor to read and write ``path``, which is made when it is missing."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)

    def close(self, fd: int) -> None:
        os.close(fd)

    def read(self, fd: int, length: int, offset: int) -> bytes:
        return os.pread(fd, length, offset)

    def write(self, fd: int, data: bytes | bytearray | memoryview, offset: int) -> int:
        """Write some of ``data``; returns how many bytes, which may be fewer than given."""
        return os.pwrite(fd, data, offset)

    def allocate(self, fd: int, offset: int, length: int) -> None:
        """Reserve disk space; the file grows to ``offset + length`` and reads as zeros there."""
        os.posix_fallocate(fd, offset, length)

    def truncate(self, fd: int, length: int) -> None:
        os.ftruncate(fd, length)

    def sync(self, fd: int) -> None:
        """Return when the file's bytes are on the disk; raises ``SyncFailed``."""
        try:
            os.fdatasync(fd)
        except OSError as error:
            raise SyncFailed(error.errno, error.strerror) from error

    def rename(self, old: Path, new: Path) -> None:
        old.rename(new)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def sync_directory(self, path: Path) -> None:
        """Return when the directory's names are on the disk; raises ``SyncFailed``."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        except OSError as error:
            raise SyncFailed(error.errno, error.strerror) from error
        finally:
            os.close(fd)


def write_all(files: Files, fd: int, data: bytes | bytearray | memoryview, offset: int) -> None:
    """Write all of ``data``, however often the system takes only a part."""
    with memoryview(data) as view:
        done = 0
        while done < len(view):
            written = files.write(fd, view[done:], offset + done)
            if written == 0:
                raise OSError(5, "the system wrote nothing and named no error")
            done += written
