"""Goal: generated pages are those that the code gives now. Method: generate them again and compare the text."""

from __future__ import annotations

import importlib.util
import itertools
import re
from pathlib import Path
from types import ModuleType

from headrace.model.errors import CODES
from headrace.model.remedies import REMEDIES

DOCS = Path(__file__).resolve().parents[2] / "docs"
HELP = DOCS.parent / "tests/golden/help"


def load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_generated_page_is_up_to_date() -> None:
    generator = load_generator()
    stale = [path for path, text in generator.PAGES if (DOCS / path).read_text(encoding="utf-8") != text()]
    assert not stale, f"run `make docs` and commit the change: {stale}"


def test_the_page_of_errors_explains_each_code_once() -> None:
    generator = load_generator()
    assert re.findall(r"^### `(.+)`$", generator.errors_page(), flags=re.MULTILINE) == list(generator.CODES)


def test_each_code_has_its_cause_and_its_repair_and_no_other_has() -> None:
    """A new code has a line in ``headrace.model.remedies`` too, at the same place."""
    assert list(REMEDIES) == list(CODES)
    unsaid = [code for code, remedy in REMEDIES.items() if min(map(len, remedy)) < 20 or remedy.repair[-1] != "."]
    assert not unsaid


def test_commands_that_repair_exist() -> None:
    """Every `headrace VERB` of a remedy, and the options behind it, is one that the help knows."""
    for code, remedy in REMEDIES.items():
        for command in re.findall(r"`headrace ([^`]+)`", " ".join(remedy)):
            verb = "_".join(itertools.takewhile(str.islower, command.split()))
            golden = HELP / f"{verb.partition('_--')[0]}.txt"
            assert golden.exists(), (code, command)
            assert all(option in golden.read_text() for option in re.findall("--[a-z-]+", command)), (code, command)


def test_the_page_for_language_models_leads_to_every_page_and_command() -> None:
    page = (DOCS / "llms.txt").read_text()
    linked = set(re.findall(r"\]\(([^)]+)\)", page))
    assert all((DOCS / link).exists() for link in linked)
    assert {f"reference/{path.name}" for path in (DOCS / "reference").glob("*.md")} <= linked
    commands = re.findall(r"^- `headrace ([a-z ]+)`: \S.*\.$", page, flags=re.MULTILINE)
    assert sorted(commands) == sorted(
        path.stem.replace("_", " ") for path in HELP.glob("*.txt") if path.stem != "headrace"
    )


def test_codes_of_one_room_stand_together() -> None:
    generator = load_generator()
    headings = [line for line in generator.errors_page().splitlines() if line.startswith("## ")]
    assert len(headings) == len(set(headings)), "the table of codes goes back to a room it has left"
