"""The command starts in a blink: below 0.3 s, and without loading what only running a pipeline needs.

Method: the installed command in its own process, and the modules it has loaded. What is measured is the processor
time of the process: it waits for nothing, so that is its wall time on a machine that does nothing else. On one that
is busy all processes take longer: there it is held to twice what Python takes to load typer, measured in turn.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).with_name("headrace")
# typer reads options with pydantic, so that one is there in any case.
HEAVY = {"pyspark", "py4j", "pyarrow", "pandas", "numpy", "duckdb", "psycopg", "psycopg2", "fastapi", "uvicorn"}
LIMIT_S, LIMIT_LOADS, ATTEMPTS = 0.3, 2, 20
# typer._adapters is what typer loads as soon as a command has options.
LOADING: list[str | Path] = [sys.executable, "-c", "import typer, typer._adapters"]


@pytest.mark.parametrize("arguments", [["--help"], ["views", "--help"], ["up", "--help"], ["--version"]])
def test_help_is_there_at_once(arguments: list[str]) -> None:
    least, loading = processor_seconds([COMMAND, *arguments]), processor_seconds(LOADING)
    for _ in range(ATTEMPTS):  # other work on the machine only ever adds to it
        if least < max(LIMIT_S, LIMIT_LOADS * loading):
            return
        least = min(least, processor_seconds([COMMAND, *arguments]))
        loading = min(loading, processor_seconds(LOADING))
    pytest.fail(f"headrace {' '.join(arguments)} takes {least:.2f} s of processor, loading typer {loading:.2f} s")


def processor_seconds(command: list[str | Path]) -> float:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_utime + usage.ru_stime


@pytest.mark.parametrize(
    "arguments", [["--help"], ["views", "--help"], ["version"], ["status"], ["stop"], ["apply"], ["plan", "-p", "/"]]
)
def test_nothing_heavy_is_loaded_unless_it_is_needed(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "headrace.yaml").write_text("")
    code = (
        "import contextlib, io, json, sys\n"
        "from headrace.cli.main import main\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit): main()\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    environment = {**os.environ, "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], check=True, capture_output=True, cwd=tmp_path, env=environment
    )
    assert HEAVY & set(json.loads(done.stdout)) == set()
