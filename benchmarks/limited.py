"""So much memory and no more, page cache included, for this process and all it starts: a control group of Linux."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
PROCESSES = "cgroup.procs"
LEAVING_S = 10


@dataclass(frozen=True)
class Group:
    """``path``: of the group; ``first``: whether it is of the first kind of control groups, which has other names."""

    path: Path
    first: bool

    def limit(self, size: int) -> None:
        self._write("memory.limit_in_bytes" if self.first else "memory.max", size)
        if not self.first and (self.path / "memory.swap.max").exists():
            self._write("memory.swap.max", 0)

    def _write(self, name: str, value: int) -> None:
        (self.path / name).write_text(str(value))

    @property
    def peak(self) -> int:
        """The most bytes that it has had."""
        return int((self.path / ("memory.max_usage_in_bytes" if self.first else "memory.peak")).read_text())

    @property
    def killed(self) -> int:
        """How many processes the system has ended for want of memory."""
        text = (self.path / ("memory.oom_control" if self.first else "memory.events")).read_text()
        return int(dict(line.split() for line in text.splitlines())["oom_kill"])

    def shares(self) -> dict[str, int]:
        """What is in it now: memory that is no file's, and the page cache."""
        text = (self.path / "memory.stat").read_text()
        stat = {name: int(value) for name, value in (line.split() for line in text.splitlines())}
        return {"own": stat["rss" if self.first else "anon"], "cached": stat["cache" if self.first else "file"]}


@contextmanager
def limited(size: int) -> Iterator[Group]:
    """The group, with this process in it. ``PermissionError`` where the system lets only others make one."""
    first = (GROUPS / "memory").is_dir()
    above = GROUPS / "memory" if first else GROUPS
    group = Group(above / f"headrace-{os.getpid()}", first)
    group.path.mkdir()
    try:
        group.limit(size)
        (group.path / PROCESSES).write_text(str(os.getpid()))
        yield group
    finally:
        _leave(group.path, above)


def _leave(group: Path, above: Path) -> None:
    """Take all processes out of a group and remove it; some end, or begin others, meanwhile."""
    until = time.monotonic() + LEAVING_S
    while True:
        for process in (group / PROCESSES).read_text().split():
            with suppress(ProcessLookupError):
                (above / PROCESSES).write_text(process)
        try:
            return group.rmdir()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
