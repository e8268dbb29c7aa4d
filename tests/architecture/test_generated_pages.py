"""Goal: generated pages are those that the code gives now. Method: generate them again and compare the text."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).resolve().parents[2] / "docs"


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
    page = generator.errors_page()
    assert {code: page.count(f"| `{code}` |") for code in generator.CODES} == dict.fromkeys(generator.CODES, 1)


def test_codes_of_one_room_stand_together() -> None:
    generator = load_generator()
    headings = [line for line in generator.errors_page().splitlines() if line.startswith("## ")]
    assert len(headings) == len(set(headings)), "the table of codes goes back to a room it has left"
