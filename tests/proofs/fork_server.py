"""The other end of ``forks.py``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from control_plane import World


class Forks:
    """The process whose forks are killed and held."""

    def __init__(self) -> None:
        here = Path(__file__).parent
        path = [*filter(None, [os.environ.get("PYTHONPATH")]), str(here.parents[1] / "src"), str(here)]
        self.process = subprocess.Popen(
            [sys.executable, str(here / "forks.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path)},
        )  # fmt: skip

    def run(self, world: World, at: int) -> dict[str, Any]:
        """The control plane, killed at its ``at``-th call."""
        answer: dict[str, Any] = self._ask({"world": asdict(world), "at": at})
        return answer

    def refuse(self, world: World, **disk: Any) -> dict[str, Any]:
        """The control plane on a ``refused_at.Disk``: how it ended, which calls there were and which were refused."""
        answer: dict[str, Any] = self._ask({"world": asdict(world), "disk": disk})
        return answer

    def read_group(self, folder: Path, at: int) -> dict[str, Any]:
        """A reader of a consumer group, killed at its ``at``-th call."""
        answer: dict[str, Any] = self._ask({"reader": str(folder), "at": at})
        return answer

    def hold(self, world: World, upto: int, at: int, only: str) -> str | dict[str, Any]:
        """A writer that is held at its ``at``-th call, or its ``at``-th ``only``: the call's name; or how it ended when it came to none."""
        answer: str | dict[str, Any] = self._ask({"world": asdict(world), "upto": upto, "at": at, "only": only})
        return answer

    def let_go(self) -> None:
        """The writer goes on."""
        self._send("go")

    def ended(self) -> dict[str, Any]:
        """How the writer ended that was let go."""
        answer: dict[str, Any] = self._answer()
        return answer

    def close(self) -> None:
        self.process.communicate()

    def _ask(self, request: dict[str, Any]) -> Any:
        self._send(json.dumps(request))
        return self._answer()

    def _send(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())
