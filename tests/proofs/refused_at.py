"""A disk that refuses a call of a process, or lets it wait: in the process's place the kernel is told what the call gives.

Calls are counted as in ``killed_at``, those made inside SQLite and Arrow too, and those that open a file; but only of
files below one folder, and not of the store that a sink writes to, whose disk is its own. Linux on x86-64.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import control_plane
from control_plane import World
from killed_at import SUPPORTED as TRACED
from killed_at import ptrace

from headrace.engine.disk import refusal
from headrace.model.errors import HeadraceError

SUPPORTED = TRACED and platform.machine() == "x86_64"
REFUSED = 7  # what a process exits with that the disk has ended
STALL = 0  # in the place of an error number: the call waits, and is made
_GETREGS, _SETREGS = 12, 13
_PLACES = {name: place for place, name in enumerate(
    ["r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi", "orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs", "gs", "ds", "es", "f", "g"]
)}  # fmt: skip
_BY_NAME = {"open", "rename", "mkdir", "rmdir", "unlink", "truncate"}  # the path is the first argument
_IN_FOLDER = {"openat", "mkdirat", "unlinkat", "renameat", "renameat2"}  # a folder is, and the path the second
_WRITES = {"write", "pwrite64", "writev", "pwritev", "fallocate", "ftruncate"}
_CREATES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@dataclass
class Disk:
    """Gives ``error`` at the ``at``-th call below ``folder``, and at those behind it that can give it, ``times`` in all.

    ``seen``: the calls there were: name, file, and the errors that each can give.
    """

    folder: str
    error: int = 0
    at: int = 1 << 62
    times: int = 1
    stall_s: float = 0.0
    seen: list[tuple[str, str, list[int]]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def met(self, pid: int, name: str) -> None:
        registers = (ctypes.c_ulonglong * len(_PLACES))()
        ptrace(_GETREGS, pid, ctypes.addressof(registers))
        file = self._file(pid, name, registers)
        if file is None:
            return
        writes = name not in ("open", "openat") or bool(
            registers[_PLACES["rsi" if name == "open" else "rdx"]] & _CREATES
        )
        possible = errors(name, writes=writes)
        self.seen.append((name, file, possible))
        if not self.at <= len(self.seen) or len(self.refused) == self.times or self.error not in possible:
            return
        self.refused.append(f"{name} {file}")
        if self.error == STALL:
            time.sleep(self.stall_s)
            return
        registers[_PLACES["orig_rax"]] = ctypes.c_ulonglong(-1).value  # no call at all
        registers[_PLACES["rax"]] = ctypes.c_ulonglong(-self.error).value
        ptrace(_SETREGS, pid, ctypes.addressof(registers))

    def _file(self, pid: int, name: str, registers: ctypes.Array[ctypes.c_ulonglong]) -> str | None:
        """Which file the call is about, from the folder on; None when that is none of ours."""
        try:
            if name in _BY_NAME or name in _IN_FOLDER:
                path = _text(pid, registers[_PLACES["rdi" if name in _BY_NAME else "rsi"]])
            else:
                path = Path(f"/proc/{pid}/fd/{registers[_PLACES['rdi']]}").readlink().as_posix()
        except OSError:
            return None
        if not path.startswith(self.folder + "/"):
            return None
        file = path[len(self.folder) + 1 :].removesuffix(" (deleted)")
        return None if file.startswith(("warehouse.duckdb", ".warehouse.duckdb", "acknowledged", "told")) else file


def told_in(world: World) -> Path:
    """The errors that were told, of each an object in JSON, a line each."""
    return Path(world.folder) / "told"


def work(world: World) -> int:
    """As the control plane works; what goes wrong is told as the product would tell it."""
    with told_in(world).open("a", buffering=1) as told:

        def tell(event: dict[str, Any]) -> None:
            if "error" in event:
                told.write(json.dumps(event["error"]) + "\n")

        try:
            return control_plane.work(world, tell)
        except Exception as error:
            known = refusal(error, Path(world.folder)) or error
            if not isinstance(known, HeadraceError):
                raise
            tell({"error": known.as_dict()})
            return REFUSED


def errors(name: str, *, writes: bool) -> list[int]:
    """What a call may give; a stall too."""
    if name in ("open", "openat"):
        refusing = [errno.EIO, errno.EMFILE] + ([errno.ENOSPC, errno.EROFS] if writes else [])
    elif name in _WRITES:
        refusing = [errno.EIO, errno.ENOSPC]
    elif name in ("fsync", "fdatasync"):
        refusing = [errno.EIO]
    elif name in ("unlink", "unlinkat", "rmdir"):
        refusing = [errno.EIO, errno.EROFS]
    else:
        refusing = [errno.EIO, errno.ENOSPC, errno.EROFS]
    return [STALL, *refusing]


def _text(pid: int, address: int) -> str:
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        memory.seek(address)
        return memory.read(1024).split(b"\0")[0].decode(errors="replace")
