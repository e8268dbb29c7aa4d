"""The help of every command is as written in tests/golden/help, and worth reading.

After a change on purpose: HEADRACE_UPDATE_GOLDEN=1 pytest tests/cli/test_help.py, then read the difference.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path

import pytest

from headrace.cli.main import app

COMMAND = Path(sys.executable).with_name("headrace")
GOLDEN = Path(__file__).parents[1] / "golden" / "help"
VERBS = sorted(
    path.stem.replace("_", " ")
    for path in (Path(__file__).parents[2] / "src/headrace/cli/commands").glob("*.py")
    if path.stem[0] != "_"
)
PLAIN = {"COLUMNS": "100", "NO_COLOR": "1"}


@cache
def help_of(*arguments: str) -> str:
    """As the command prints it, in this process."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as printed:
        for name, value in PLAIN.items():
            patch.setenv(name, value)
        app(arguments)([*arguments, "--help"], prog_name="headrace", standalone_mode=False)
    return printed.getvalue()


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_the_help_is_the_golden_one(verb: str) -> None:
    path = GOLDEN / f"{verb.replace(' ', '_') or 'headrace'}.txt"
    text = help_of(*verb.split())
    if os.environ.get("HEADRACE_UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("arguments", [[], ["views"], ["groups", "dead", "ls"]])
def test_the_installed_command_prints_the_same(arguments: list[str]) -> None:
    command = [COMMAND, *arguments, "--help"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **PLAIN})
    assert done.stdout == help_of(*arguments)


def test_there_is_no_golden_help_without_its_command() -> None:
    assert sorted(path.stem.replace("_", " ") for path in GOLDEN.glob("*.txt")) == sorted(["headrace", *VERBS])


@pytest.mark.parametrize("verb", VERBS)
def test_each_help_says_what_it_does_and_shows_an_example(verb: str) -> None:
    text = help_of(*verb.split())
    assert f"Usage: headrace {verb} [OPTIONS]" in text
    assert "--json" in text
    examples = text.partition("Examples:\n")[2]
    assert f"  headrace {verb}" in examples
    assert max(len(line) for line in text.splitlines()) <= 100
    for option in re.findall(r"--[a-z-]+", examples):
        assert option in text.partition("Examples:\n")[0]


def test_the_list_of_commands_names_each_once_with_a_whole_sentence() -> None:
    lines = dict(re.findall(r"^  (\w+) {2,}(.+)$", help_of().partition("Options:")[0], re.MULTILINE))
    assert sorted(lines) == sorted({verb.split()[0] for verb in VERBS})
    assert all(text.endswith(".") and not text.endswith("...") for text in lines.values())
