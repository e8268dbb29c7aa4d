"""Goal: what Spark's processes set down goes when its process ends, and with the next one where it was killed."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from headrace.engine.scratch import OWNER, folder, sockets

HOLDS = """
import sys
from headrace.engine.scratch import folder
(folder() / "exchanged").write_text("rows")
print(folder(), flush=True)
sys.stdin.read()
"""


def begin(temporary: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process that has its folder below ``temporary``, until its standard input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    )  # fmt: skip
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_it_goes_with_its_process_and_that_of_a_killed_one_with_the_next(tmp_path: Path) -> None:
    (tmp_path / "hr-tower").mkdir()  # somebody else's
    first, killed = begin(tmp_path)
    second, held = begin(tmp_path)
    assert killed.parent == held.parent == tmp_path and killed != held
    assert (killed / "exchanged").exists() and (held / OWNER).read_text() == f"{second.pid}\n"
    first.send_signal(signal.SIGKILL)
    first.communicate(timeout=30)
    assert (killed / "exchanged").exists()

    third, _ = begin(tmp_path)
    assert not killed.exists()
    assert (held / "exchanged").exists()
    for process in (second, third):
        process.communicate(timeout=30)
        assert process.returncode == 0
    assert [entry.name for entry in tmp_path.iterdir()] == ["hr-tower"]


def test_nothing_is_left_where_it_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left"):
        folder.__wrapped__()
    assert list(tmp_path.iterdir()) == []


def test_paths_of_sockets_are_no_longer_than_a_system_takes(tmp_path: Path) -> None:
    macos = Path("/var/folders/zz/zyxvpxvq6csfxvn_n0000000000000/T/hr-0123abcd")
    assert sockets(macos) == macos
    assert sockets(tmp_path / ("deep" * 20)) == Path("/tmp")
