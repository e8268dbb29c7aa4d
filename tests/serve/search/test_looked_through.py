"""Goal: a text is found in exactly those transactions of a table that carry it in a value, page by page to the beginning.

Method: random logs (``random_log``) with a retained beginning or without; the oracle looks into each transaction that
was made, as it is spelled, in plain Python.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.serve import newest
from headrace.serve.search import looked_through
from random_log import RandomLog

TEXTS = ("x", "B", "NÉ", "3", "2026-03", "true", "%", "\\", "(", '["', "nowhere to be found")


@pytest.mark.parametrize("seed", range(6))
def test_what_is_found_is_what_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(looked_through, "_COMMITS", 16)
    made = RandomLog(seed)
    made.grow(tmp_path / ".headrace/log", 150)
    commits = range(1, len(made.made) + 1)
    for table in ("orders", "clicks"):
        changing = [c for c in commits if any(change.table == table for change in made.made[c - 1][1])]
        told = {each["commit"]: each for each in newest.of_table(tmp_path, table, 0, None, 1_000)}
        assert sorted(told) == changing
        for text in TEXTS:
            expected = [c for c in reversed(changing) if any(_holds(x.spelled(), text) for x in made.made[c - 1][1])]
            for limit, seconds in ((1_000, 60.0), (7, 60.0), (1, 0.0)):
                found = _all(tmp_path, table, text, limit, seconds)
                assert [each["commit"] for each in found] == expected, (seed, table, text)
                assert found == [told[commit] for commit in expected]
        assert any(_all(tmp_path, table, text, 1_000, 60.0) for text in TEXTS)


def _holds(change: dict[str, Any], text: str) -> bool:
    cells = (
        v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for v in change["row"].values() if v is not None
    )
    return any(text.lower() in cell.lower() for cell in cells)


def _all(project: Path, table: str, text: str, limit: int, seconds: float) -> list[dict[str, Any]]:
    found, before = list[dict[str, Any]](), None
    while True:
        looked = looked_through.of_table(project, table, text, before, limit, seconds)
        assert len(looked.transactions) <= limit
        found += looked.transactions
        if looked.before is None:
            return found
        assert before is None or looked.before < before, "it goes back"
        before = looked.before
