"""Goal: the command line starts without Spark, and documents name only commands it has.

Method: import it in a process of its own and look at what came along; compare the documents with `headrace --help`.
"""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path

from rules.tree import Tree

from headrace.cli.main import GROUPS, SECTIONS

HELP = Path(__file__).resolve().parents[1] / "golden/help"
ROOT = Path(__file__).resolve().parents[2]
# A command at the start of a line of code (after a prompt or the folder of .venv), or in inline code.
COMMAND = re.compile(r"(?:^\$?[ \t]*|`)(?:\.venv/bin/)?headrace ([a-z][a-z-]*)", re.MULTILINE)


def python(*arguments: str) -> str:
    answer = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_the_command_line_loads_without_spark_and_arrow() -> None:
    loaded = python("-c", "import sys; from headrace.cli.main import app; app(); print(*sys.modules)").split()
    heavy = {"pyspark", "py4j", "pyarrow", "pandas", "numpy", "duckdb", "fastapi"}
    assert heavy.isdisjoint(loaded), f"loaded at start: {sorted(heavy.intersection(loaded))}"


def test_every_file_of_commands_is_a_command_that_help_shows() -> None:
    groups = {name for section in SECTIONS.values() for name in section if name in GROUPS}
    verbs = {name for section in SECTIONS.values() for name in section} - groups
    waiting = sorted(groups)
    while waiting:
        group = waiting.pop()
        for verb in GROUPS[group][1]:
            (waiting.append if f"{group} {verb}" in GROUPS else verbs.add)(f"{group} {verb}")
    files = {path.stem for path in (ROOT / "src/headrace/cli/commands").glob("*.py")} - {"__init__"}
    assert {verb.replace(" ", "_") for verb in verbs} == files


def test_documents_name_only_options_that_exist() -> None:
    """In code, a line that begins with a command; its help is the golden one."""
    unknown = []
    for document in Tree(ROOT).markdown():
        for line in re.findall(r"^\$?[ \t]*headrace ([^|>#`(\n;&]+)", Tree(ROOT).text(document), flags=re.MULTILINE):
            words = list(itertools.takewhile(lambda word: re.fullmatch("[a-z]+", word), line.split()))
            while words and not (HELP / f"{'_'.join(words)}.txt").exists():
                words.pop()
            if words:  # else it is prose
                known = (HELP / f"{'_'.join(words)}.txt").read_text()
                unknown += [f"{document}: {line}" for option in re.findall("--[a-z-]+", line) if option not in known]
    assert not unknown


def test_documents_name_only_commands_that_exist() -> None:
    shown = python("-c", "from headrace.cli.main import main; main()", "--help")
    known = set(re.findall(r"^\W*([a-z][a-z-]*)\s{2,}\S", shown, flags=re.MULTILINE))
    assert "plan" in known, shown
    tree = Tree(ROOT)
    unknown = {
        f"{document}: headrace {command}"
        for document in tree.markdown()
        for command in COMMAND.findall(tree.text(document))
        if command not in known
    }
    assert not unknown, sorted(unknown)
