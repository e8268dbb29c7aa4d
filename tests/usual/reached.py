"""Which files of the tests look at what was changed since the last commit: they run first, for an early answer."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

SOURCE = "src/"


def changed(root: Path) -> set[str]:
    """The files that git has as changed or new, below the root; none where there is no git."""
    asked = ["git", "status", "--porcelain", "--no-renames", "-uall"]
    told = subprocess.run(asked, cwd=root, capture_output=True, text=True, check=False)
    return {line[3:].strip('"') for line in told.stdout.splitlines()}


def reached(files: Iterable[str], root: Path) -> set[str]:
    """The files of tests (paths below the root) that were changed, or that name a changed module."""
    touched = changed(root)
    modules = [
        file.removeprefix(SOURCE).removesuffix(".py").replace("/", ".") for file in touched if file.startswith(SOURCE)
    ]
    return {file for file in files if file in touched or any(name in (root / file).read_text() for name in modules)}
