"""Search over random histories of a view says what a plain predicate over its contents says, after every step.

Method: published files as the engine writes them, queries whose meaning is written down twice (``random_search``); the
index is made once and brought forward, thrown away in between by another process, by a base, by a new version.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from benchmarks.published import PublishedView
from random_search import COLUMNS, Asked, Row, random_query, random_row

from headrace.serve.search import index
from headrace.serve.search.found import LIMIT_MAX, search
from headrace.serve.search.matching import Matcher

QUERIES = 40


@pytest.fixture(autouse=True)
def always_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "FRESH_S", 0.0)


def frozen(row: Row) -> tuple[Any, ...]:
    return tuple(tuple(cell) if isinstance(cell, list) else cell for cell in row)


def random_delta(draw: random.Random, held: Counter[tuple[Any, ...]]) -> list[tuple[Row, int]]:
    """Rows that come, also such as are there already, and copies that go; applied to ``held``."""
    delta = Counter[tuple[Any, ...]]()
    for _ in range(draw.randrange(12)):
        again = held and draw.random() < 0.2
        row = draw.choice(list(held)) if again else frozen(random_row(draw))
        delta[row] += draw.choice([1, 1, 2])
    for row in [row for row in held if draw.random() < 0.2]:
        delta[row] -= draw.randrange(1, held[row] + 1)
    for row, weight in delta.items():
        held[row] += weight
    for row in [row for row, weight in held.items() if not weight]:
        del held[row]
    return [(row, weight) for row, weight in delta.items() if weight]


def expected(asked: Asked, held: Counter[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    return Counter({row: copies for row, copies in held.items() if asked.found(thawed(row))})


def thawed(row: tuple[Any, ...]) -> Row:
    return tuple(list(cell) if isinstance(cell, tuple) else cell for cell in row)


def rows(table: Any) -> list[tuple[Any, ...]]:
    return [frozen(row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]


@pytest.mark.parametrize("seed", range(4))
def test_a_search_finds_what_the_query_means_after_every_step(seed: int, tmp_path: Path) -> None:
    draw, held = random.Random(seed), Counter[tuple[Any, ...]]()
    view = PublishedView(tmp_path / "project", "orders", COLUMNS)
    for step in range(8):
        commit = view.publish(random_delta(draw, held))
        if step == 4:
            commit = view.publish(random_delta(draw, held))
            view.rebase(held.items(), forget_steps=seed % 2 == 0)
        if step == 6 and seed % 3 == 0:
            view.put_version(2)
            view.publish(held.items())
            commit = view.commit
        for _ in range(QUERIES):
            asked = random_query(draw)
            found = search(view.folder, "orders", asked.text, LIMIT_MAX)
            wanted = expected(asked, held)
            got = Counter(dict(zip(rows(found.rows), found.copies, strict=True)))
            assert got == wanted, f"seed {seed}, step {step}: {asked.text}"
            assert (found.total, found.commit) == (wanted.total(), commit), asked.text


@pytest.mark.parametrize("seed", range(6))
def test_the_matches_of_a_delta_are_the_delta_of_the_matches(seed: int, tmp_path: Path) -> None:
    draw, held = random.Random(seed), Counter[tuple[Any, ...]]()
    view = PublishedView(tmp_path / "project", "orders", COLUMNS)
    queries = {f"q{number}": random_query(draw) for number in range(150)}
    schema = view.catalog.views()["orders"].schema
    matcher = Matcher(schema, {name: asked.text for name, asked in queries.items()})
    matched = Counter[tuple[str, tuple[Any, ...]]]()
    for step in range(8):
        delta = random_delta(draw, held)
        table = view.table([thawed(row) for row, _ in delta], [weight for _, weight in delta])
        found = matcher.matches(table.rename_columns([*COLUMNS, "_w"]))
        for name, *row, weight in zip(*(column.to_pylist() for column in found.columns), strict=True):
            matched[name, frozen(tuple(row))] += weight
        matched = Counter({match: weight for match, weight in matched.items() if weight})
        wanted = {
            (name, row): copies for name, asked in queries.items() for row, copies in expected(asked, held).items()
        }
        assert matched == wanted, f"seed {seed}, step {step}"
    assert matched
