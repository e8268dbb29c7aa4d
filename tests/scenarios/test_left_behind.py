"""Goal: a `headrace up` that is killed leaves nothing below TMPDIR for good: the next one removes it, and its own.

Method: a project of files, started by the installed command with a TMPDIR of its own, killed while it works, then run
to its end.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import warm_command

COMMAND = str(Path(sys.executable).with_name("headrace"))
WAIT_S = 120.0


@pytest.mark.spark
@pytest.mark.usefixtures("own_jvm")
def test_what_a_killed_one_left_goes_with_the_next(tmp_path: Path) -> None:
    assert warm_command.run(tmp_path, "init", "pages", "--template", "files").returncode == 0
    with tempfile.TemporaryDirectory() as name:  # short, so that sockets fit below it
        temporary = Path(name)
        environment = {**os.environ, "TMPDIR": name}
        with (tmp_path / "said").open("wb") as said:
            killed = subprocess.Popen(
                [COMMAND, "up"], cwd=tmp_path / "pages", env=environment, stdout=said, stderr=said
            )
        try:
            end = time.monotonic() + WAIT_S
            while not list(temporary.glob("hr-*/.*.sock")):  # its first Python worker is there
                assert killed.poll() is None and time.monotonic() < end, (tmp_path / "said").read_text()
                time.sleep(0.02)
        finally:
            killed.kill()
            killed.wait()
        (left,) = temporary.glob("hr-*")
        assert {entry.name.partition("-")[0] for entry in left.iterdir()} >= {"owner", "blockmgr", "spark"}

        done = subprocess.run(
            [COMMAND, "up", "--once"], cwd=tmp_path / "pages", env=environment, capture_output=True, text=True,
            timeout=WAIT_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert list(temporary.iterdir()) == []
