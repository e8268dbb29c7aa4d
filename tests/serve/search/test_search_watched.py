"""Followed matches add up to what the queries mean of the contents, whatever comes and goes, rows and queries.

Method: random histories of a view and of the files of queries; the deltas are added up until they are what a predicate of
plain Python says of each query (``random_search``), and no longer.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from benchmarks.published import PublishedView
from random_search import COLUMNS, Asked, random_query
from test_search_histories import expected, frozen, random_delta, thawed

from headrace.catalog import searches
from headrace.model.definition import StoredQuery
from headrace.model.errors import HeadraceError
from headrace.serve.search import deltas, watched
from headrace.serve.search.watched import Watched

Matches = Counter[tuple[str, tuple[Any, ...]]]


class Deadline(threading.Event):
    """Ends a follower that would wait for ever."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.end = time.monotonic() + seconds

    def is_set(self) -> bool:
        return time.monotonic() > self.end


def means(stored: dict[str, Asked], held: Counter[tuple[Any, ...]]) -> Matches:
    return Counter(
        {(name, row): copies for name, asked in stored.items() for row, copies in expected(asked, held).items()}
    )


@pytest.mark.parametrize("seed", range(4))
def test_followed_matches_are_those_of_the_contents(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "LOOK_S", 0.0)
    draw, held, stored = random.Random(seed), Counter[tuple[Any, ...]](), dict[str, Asked]()
    view = PublishedView(tmp_path / "project", "orders", COLUMNS)
    view.publish(random_delta(draw, held))
    begin = deltas.begin

    def begun(*arguments: Any) -> Any:
        """What is published while contents are read is behind them."""
        found = begin(*arguments)
        if draw.random() < 0.5:
            view.publish(random_delta(draw, held))
        return found

    monkeypatch.setattr(deltas, "begin", begun)
    wrong = list[HeadraceError]()
    followed = Watched(view.folder, "orders", None, wrong.append).follow(Deadline(300))
    matches, told = Matches(), 0
    assert next(followed)[0] == 10
    for step in range(15):
        for _ in range(draw.randrange(3)):
            view.publish(random_delta(draw, held))
        if step == 9:
            view.put_version(2)
            view.publish([(thawed(row), copies) for row, copies in held.items()])
        for number in range(draw.randrange(4)):
            name, asked = f"q{draw.randrange(5)}", random_query(draw)
            if stored.pop(name, None):
                searches.remove(view.folder, name)
            if number < 2:
                stored[name] = asked
                searches.add(view.folder, StoredQuery(name, "ORDERS", asked.text))
        until = time.monotonic() + 20
        while matches != means(stored, held) and time.monotonic() < until:
            commit, delta = next(followed)
            told += 1
            for name, *row, weight in zip(*(column.to_pylist() for column in delta.columns), strict=True):
                matches[name, frozen(tuple(row))] += weight
            matches = Matches({match: copies for match, copies in matches.items() if copies})
            assert commit <= view.commit
        assert matches == means(stored, held), f"seed {seed}, step {step}"
    assert told > 10 and not wrong


def test_a_query_with_a_mistake_is_told_once_and_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "LOOK_S", 0.0)
    view = PublishedView(tmp_path / "project", "orders", {"id": "bigint", "note": "string"})
    view.publish([((1, "late"), 1)])
    for name, query in (("good", "late"), ("bad", "nte:late")):
        searches.add(view.folder, StoredQuery(name, "orders", query))
    wrong = list[HeadraceError]()
    followed = Watched(view.folder, "orders", None, wrong.append).follow(Deadline(20))
    assert next(followed)[1]["_query"].to_pylist() == ["good"]
    (view.folder / "searches/odd.yml").write_text("")
    (view.folder / "searches/zero.yaml").write_text("view: orders\nquery: a\0\n")
    view.publish([((2, "late"), 1)])
    assert next(followed)[1]["id"].to_pylist() == [2]
    (view.folder / "searches/odd.yml").unlink()
    (view.folder / "searches/bad.yaml").write_text("view: orders\nquery: note:late\n")
    _, delta = next(followed)
    assert sorted(zip(delta["_query"].to_pylist(), delta["id"].to_pylist(), strict=True)) == [("bad", 1), ("bad", 2)]
    assert [(error.code, error.where) for error in wrong] == [
        ("search.query", "searches/bad.yaml"),
        ("config.invalid", "searches/zero.yaml"),
        ("config.invalid", "searches/odd.yml"),
    ]


def test_a_query_that_goes_while_all_are_looked_at_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):
        searches.add(tmp_path, StoredQuery(name, "orders", "late"))
    listed = searches.files

    def going(*given: Any) -> Any:
        found = list(listed(*given))
        (tmp_path / "searches/first.yaml").unlink(missing_ok=True)
        return found

    monkeypatch.setattr(searches, "files", going)
    assert searches.StoredQueries(tmp_path).read() == ({"second": searches.find(tmp_path, "second")}, {})


def test_of_several_who_add_a_query_at_once_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All have looked before the first writes, and none leaves anything else."""
    looked, listed = threading.Barrier(8), searches.files

    def together(*given: Any) -> Any:
        found = list(listed(*given))
        looked.wait(20)
        return found

    def add(number: int) -> str:
        try:
            searches.add(tmp_path, StoredQuery("mine", "orders", f"n:{number}"))
        except HeadraceError as error:
            return error.code
        return "added"

    (tmp_path / "searches").mkdir()
    with ThreadPoolExecutor(8) as pool, monkeypatch.context() as patch:
        patch.setattr(searches, "files", together)
        outcomes = Counter(pool.map(add, range(8)))
    assert outcomes == {"added": 1, "search.exists": 7}
    assert [path.name for path in (tmp_path / "searches").iterdir()] == ["mine.yaml"]
    assert searches.find(tmp_path, "mine").query.startswith("n:")
