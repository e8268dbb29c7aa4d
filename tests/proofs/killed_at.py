"""A forked process that is killed, or held, at its n-th call by which something outside of it changes: a file, a folder, a peer.

The kernel itself stops it there (a seccomp filter names the calls, ptrace counts them), so the calls made inside
SQLite, DuckDB, Arrow and libpq are counted as those of our own code are. Linux on x86-64 or arm64.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
from collections.abc import Callable
from dataclasses import dataclass, field

_CALLS: dict[str, dict[str, int]] = {
    "x86_64": {
        "write": 1, "pwrite64": 18, "writev": 20, "sendto": 44, "fsync": 74, "fdatasync": 75, "truncate": 76,
        "ftruncate": 77, "rename": 82, "mkdir": 83, "rmdir": 84, "unlink": 87, "unlinkat": 263, "renameat": 264,
        "mkdirat": 258, "fallocate": 285, "pwritev": 296, "sendmmsg": 307, "renameat2": 316,
    },
    "aarch64": {
        "write": 64, "pwrite64": 68, "writev": 66, "sendto": 206, "fsync": 82, "fdatasync": 83, "truncate": 45,
        "ftruncate": 46, "mkdirat": 34, "unlinkat": 35, "renameat": 38, "fallocate": 47, "pwritev": 70,
        "sendmmsg": 269, "renameat2": 276,
    },
}  # fmt: skip
CALLS = _CALLS.get(platform.machine(), {})
OPENS = {"x86_64": {"open": 2, "openat": 257}, "aarch64": {"openat": 56}}.get(platform.machine(), {})
SUPPORTED = platform.system() == "Linux" and bool(CALLS)

_TRACEME, _CONT, _SETOPTIONS, _GETEVENTMSG = 0, 7, 0x4200, 0x4201
_OPTIONS = 0x80 | 0x8 | 0x100000  # stop at the filter's calls, follow threads, end with the tracer
_AT_CALL = 7  # PTRACE_EVENT_SECCOMP
_ALL_THREADS = 0x40000000  # __WALL
_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


@dataclass
class Run:
    """``calls``: their names, in order; ``killed``: the call it was killed at, '' for none.

    ``status``: what it exited with, or minus the signal that ended it.
    """

    status: int = 0
    killed: str = ""
    calls: list[str] = field(default_factory=list)


class _Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint)]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.POINTER(_Instruction))]


def run(
    work: Callable[[], int], at: int = 0, *, only: str = "", held: Callable[[str], None] | None = None,
    met: Callable[[int, str], None] | None = None, seconds: int = 60,
) -> Run:  # fmt: skip
    """``work`` in a process of its own, killed just before its ``at``-th call (0: never), or the ``at``-th ``only``.

    With ``held`` it is not killed: that runs, given the call's name, while the process stands still before it.
    ``met`` is told of every call before it is made, those that open files too: its thread, and its name.
    It is ended with SIGALRM after ``seconds``. Nothing else may be a child of the calling process.
    """
    calls = CALLS | (OPENS if met is not None else {})
    child = os.fork()
    if child == 0:
        status = 70
        try:
            signal.alarm(seconds)
            ptrace(_TRACEME, 0, 0)
            os.kill(os.getpid(), signal.SIGSTOP)
            _filter(calls)
            status = work()
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(status)
    os.waitpid(child, 0)
    ptrace(_SETOPTIONS, child, _OPTIONS)
    ptrace(_CONT, child, 0)
    found, names, count = Run(), list(calls), 0
    while True:
        pid, status = os.waitpid(-1, _ALL_THREADS)
        if not os.WIFSTOPPED(status):
            if pid == child:
                found.status = os.waitstatus_to_exitcode(status)
                return found
            continue
        if status >> 16 == _AT_CALL:
            name = names[_message(pid)]
            if met is not None:
                met(pid, name)
            found.calls.append(name)
            count += only in ("", name)
            if count == at and only in ("", name) and held is not None:
                held(name)
            elif count == at and only in ("", name):
                found.killed = name
                os.kill(child, signal.SIGKILL)
                continue
        signalled = os.WSTOPSIG(status)
        ptrace(_CONT, pid, 0 if signalled in (signal.SIGTRAP, signal.SIGSTOP) else signalled)


def ptrace(request: int, pid: int, data: int) -> None:
    if _libc.ptrace(request, pid, None, data) < 0 and ctypes.get_errno() != 3:  # a thread that has ended by now
        raise OSError(ctypes.get_errno(), f"ptrace {request}: {os.strerror(ctypes.get_errno())}")


def _message(pid: int) -> int:
    value = ctypes.c_ulong()
    ptrace(_GETEVENTMSG, pid, ctypes.addressof(value))
    return value.value


def _filter(calls: dict[str, int]) -> None:
    """From here on the calls stop this process and the threads that it starts; each tells its place in ``calls``."""
    code = [_Instruction(0x20, 0, 0, 0)]  # the number of the call
    for place, number in enumerate(calls.values()):
        code += [_Instruction(0x15, 0, 1, number), _Instruction(0x06, 0, 0, 0x7FF00000 | place)]
    code.append(_Instruction(0x06, 0, 0, 0x7FFF0000))
    program = _Program(len(code), (_Instruction * len(code))(*code))
    if _libc.prctl(38, 1, 0, 0, 0) or _libc.prctl(22, 2, ctypes.byref(program)):
        raise OSError(ctypes.get_errno(), "the filter was not taken")
