"""The command `headrace` in a process of its own, which begins as a copy of one that has loaded what commands load.

That is most of what a command takes, and tests run hundreds. What is run is the program's own ``main``,
with its arguments, folder, environment, standard input and status; that the installed program begins, and what it loads,
is for tests/cli/test_startup.py and for those that start it themselves.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

LOADED = (
    "numpy", "pyarrow.compute", "pyarrow.csv", "duckdb", "orjson", "yaml", "pydantic", "tantivy", "typer._adapters",
    "headrace.cli.main", "headrace.cli.published", "headrace.control.verbs", "headrace.serve.past",
    "headrace.serve.questions", "headrace.serve.replay",
)  # fmt: skip


def run(
    folder: Path | None, *arguments: object, env: Mapping[str, str] | None = None, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """As ``subprocess.run`` of the installed command, with what it prints as text."""
    with tempfile.TemporaryDirectory() as held:
        files = [Path(held, name) for name in ("in", "out", "err")]
        files[0].write_text(stdin)
        asked = {
            "arguments": [str(each) for each in arguments], "folder": str(folder or Path.cwd()),
            "environment": dict(os.environ if env is None else env), "files": [str(file) for file in files],
        }  # fmt: skip
        warm = _warm()
        assert warm.stdin is not None and warm.stdout is not None
        warm.stdin.write(json.dumps(asked) + "\n")
        warm.stdin.flush()
        status = int(warm.stdout.readline())
        return subprocess.CompletedProcess(["headrace", *arguments], status, *(file.read_text() for file in files[1:]))


@cache
def _warm() -> subprocess.Popen[str]:
    command = [sys.executable, "-P", __file__]
    one_thread = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # a copy has but the thread that made it
    warm = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=one_thread)
    atexit.register(warm.communicate)  # it ends with its standard input
    return warm


def _serve() -> None:
    """A copy for each line, one after the other; each returns from here as the command."""
    for name in LOADED:
        importlib.import_module(name)
    for line in sys.stdin:
        copy = os.fork()
        if copy == 0:
            _become(json.loads(line))
            return
        print(os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]), flush=True)


def _become(asked: Mapping[str, Any]) -> None:
    modes = (os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_CREAT)
    for number, (file, mode) in enumerate(zip(asked["files"], modes, strict=True)):
        opened = os.open(file, mode)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = os.fdopen(0)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    sys.argv = ["headrace", *asked["arguments"]]
    from headrace.cli.main import main

    main()


if __name__ == "__main__":
    _serve()
