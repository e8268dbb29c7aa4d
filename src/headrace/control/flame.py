"""A flame graph of a process and its Python workers, drawn by py-spy from outside: what is looked at is not changed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from headrace.model.errors import HeadraceError

RATE = 200  # looks a second: a small step is some ten of them
ATTACHED = b"Sampling process"  # what py-spy says once it looks on
DENIED = (b"ermission", b"No python processes found")  # the second of them with --subprocesses
ATTACH_S, DRAW_S = 30.0, 60.0
SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")


@contextmanager
def recorded(pid: int, file: Path, seconds: float) -> Iterator[None]:
    """Look on in here, at most ``seconds``, then write ``file``, an SVG.

    Raises ``HeadraceError``: config.library without py-spy; profile.flame where it may not look, or cannot write.
    """
    program = shutil.which(
        "py-spy", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    )
    if program is None:
        raise HeadraceError(
            "config.library", "py-spy, which draws the flame graph, is not installed",
            next="pip install 'headrace[profile]'",
        )  # fmt: skip
    if not file.absolute().parent.is_dir():
        raise HeadraceError(
            "profile.flame", "there is no flame graph: its folder is missing", where=str(file.parent),
            next=f"mkdir -p {file.parent}",
        )  # fmt: skip
    if why := _denied(pid):
        raise _may_not(pid, why)
    # Started with more time than it will need: it is told when to end.
    asked = ["--subprocesses", "-f", "flamegraph", "-r", str(RATE), "-d", str(int(seconds + ATTACH_S) + 1)]
    with tempfile.TemporaryFile() as said:
        drawing = subprocess.Popen(
            [program, "record", *asked, "-o", str(file), "-p", str(pid)],
            stdin=subprocess.DEVNULL, stdout=said, stderr=said, env={**os.environ, "RUST_BACKTRACE": "0"},
        )  # fmt: skip
        try:
            _attached(drawing, said, pid)
            yield
            drawing.send_signal(signal.SIGINT)
            drawing.wait(DRAW_S)
        except subprocess.TimeoutExpired as error:
            raise _refused(f"py-spy has not written one within {DRAW_S:g} s", said) from error
        finally:
            if drawing.poll() is None:
                drawing.kill()
                drawing.wait()
        if drawing.returncode or not file.exists():
            raise _refused("py-spy has not written one", said)


def _attached(drawing: subprocess.Popen[bytes], said: IO[bytes], pid: int) -> None:
    """Until it looks on."""
    until = time.monotonic() + ATTACH_S
    while ATTACHED not in _text(said):
        if drawing.poll() is not None:
            raise (
                _may_not(pid, _error(said)) if any(d in _text(said) for d in DENIED) else _refused("py-spy ended", said)
            )
        if time.monotonic() > until:
            raise _refused(f"py-spy has not begun within {ATTACH_S:g} s", said)
        time.sleep(0.02)


def _text(said: IO[bytes]) -> bytes:
    # By place, not by seek(): the child writes at the same offset of the same open file.
    return os.pread(said.fileno(), 1 << 20, 0)


def _error(said: IO[bytes]) -> str:
    """The line with its error, else its last."""
    lines = [line.strip() for line in _text(said).decode(errors="replace").splitlines() if line.strip()]
    return next((line for line in lines if line.startswith("Error")), lines[-1] if lines else "")


def _refused(what: str, said: IO[bytes]) -> HeadraceError:
    return HeadraceError(
        "profile.flame", f"there is no flame graph: {what}", why=_error(said), next="the same command without --flame"
    )


def _denied(pid: int) -> str:
    """Why this process may not look into that one, in the system's words; '' if it may."""
    try:
        os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY))
    except PermissionError as error:
        return str(error)
    except OSError:  # it has ended: py-spy will say so
        pass
    return ""


def _may_not(pid: int, said: str) -> HeadraceError:
    scope = SCOPE.read_text().strip() if SCOPE.exists() else "0"
    if scope in ("1", "2"):
        why = f"kernel.yama.ptrace_scope is {scope}: no process may look into another that it has not started"
        helps = "`sudo sysctl kernel.yama.ptrace_scope=0`, or the same command as root"
    elif scope != "0":
        why = f"kernel.yama.ptrace_scope is {scope}: no process may look into another until the machine starts anew"
        helps = "the same command without --flame"
    else:
        why = said
        helps = "the same command as root; in a container, one started with --cap-add SYS_PTRACE"
    return HeadraceError(
        "profile.flame", "there is no flame graph: py-spy may not look into `headrace up`",
        where=f"process {pid}", why=why, next=helps,
    )  # fmt: skip
