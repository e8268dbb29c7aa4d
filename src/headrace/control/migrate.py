"""migrate: the catalogue is written in the layout of an earlier version, so that that one can go on with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.control import lock
from headrace.control.running import Progress, Running
from headrace.model.errors import HeadraceError

BASES = 9  # the first layout of which some version reads logs without their beginning


def run(running: Running, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Beside a running `up` it is refused."""
    raise HeadraceError(
        "project.locked", "the running `headrace up` has the catalogue open",
        next="`headrace stop`, then again",
    )  # fmt: skip


def alone(path: Path, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """``{"layout": as it is now}``. Raises ``state.layout``, with nothing changed."""
    from headrace.catalog.back import take_back
    from headrace.catalog.project import STATE
    from headrace.log.read import LogReader
    from headrace.serve.snapshot import catalog_path

    layout = int(arguments["to"])
    with lock.hold(path, "headrace migrate"):
        base = LogReader(path / STATE / "log").base.commit
        if base and layout < BASES:
            raise HeadraceError(
                "state.layout", f"versions of layout {layout} cannot read this log", where=str(path / STATE / "log"),
                why=f"its beginning up to commit {base} is gone, and they know of no base in its place",
                next=f"`headrace migrate --to {BASES}` or above",
            )  # fmt: skip
        take_back(catalog_path(path), layout)
    return {"layout": layout}
