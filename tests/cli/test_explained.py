"""Goal: `headrace help` explains commands and error codes, and every error that is printed says how to ask.

Method: the installed command; what it prints of a code is what the reference page has, and the advice of an error is run.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import warm_command
from headrace.model.errors import CODES
from headrace.model.remedies import REMEDIES

COMMAND = Path(sys.executable).with_name("headrace")


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return warm_command.run(cwd, *arguments)


def test_a_printed_error_names_the_command_that_explains_it(tmp_path: Path) -> None:
    done = run("views", cwd=tmp_path)
    assert done.returncode == 1
    *_, last = done.stderr.splitlines()
    assert last == "  help:  headrace help project.not_found"
    explained = run(*last.split()[2:]).stdout
    assert explained.splitlines()[0] == f"[project.not_found] {CODES['project.not_found']}"
    assert REMEDIES["project.not_found"].cause in explained and "headrace init DIR" in explained


def test_links_of_the_page_become_names_of_files() -> None:
    explained = run("help", "source.row").stdout
    assert "(docs/reference/quarantine.md)" in explained and "](" not in explained
    assert (Path(__file__).parents[2] / "docs/reference/quarantine.md").exists()


def test_for_programs() -> None:
    answer = json.loads(run("help", "internal", "--json").stdout)
    remedy = REMEDIES["internal"]
    assert answer == {"code": "internal", "meaning": CODES["internal"], "cause": remedy.cause, "repair": remedy.repair}


def test_a_code_that_is_spelled_wrong() -> None:
    done = run("help", "sql.sintax")
    assert done.returncode == 1 and "did you mean 'sql.syntax'?" in done.stderr


def test_of_a_command_it_is_the_commands_own_help() -> None:
    assert run("help", "groups", "dead", "ls").stdout == run("groups", "dead", "ls", "--help").stdout
    assert run("help").stdout == run("--help").stdout


def test_of_a_command_for_programs() -> None:
    for words in (["views"], ["groups", "dead", "ls"], []):
        told = json.loads(run("help", *words, "--json").stdout)
        assert list(told) == ["help"] and "Usage: headrace" in told["help"]
    assert run("help", "groups", "ded", "--json").returncode == 2


def test_a_word_that_is_neither_a_command_nor_a_code() -> None:
    done = run("help", "pln")
    assert done.returncode == 1 and "there is no command and no error code 'pln'" in done.stderr
    assert "did you mean 'plan'?" in done.stderr
    assert "next:  `headrace help`, or docs/reference/errors.md" in run("help", "zzzzzz").stderr
