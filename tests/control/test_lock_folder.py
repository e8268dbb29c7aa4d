"""Goal: what a project keeps is for its user alone, whoever made the folder. Method: a folder that others can read is locked."""

from __future__ import annotations

import stat
from pathlib import Path

from headrace.control import lock


def test_a_folder_that_others_could_look_into_is_closed_to_them(tmp_path: Path) -> None:
    (tmp_path / ".headrace").mkdir()
    (tmp_path / ".headrace").chmod(0o755)
    with lock.hold(tmp_path, "headrace up"):
        assert stat.S_IMODE((tmp_path / ".headrace").stat().st_mode) == 0o700
