"""Goal: a relation that takes long to be read holds up nobody who reads another one, and is read once.

Method: a view and a table published by hand; the replay of the table's log is held up while the view is read.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from headrace.model.bounds import Deadline
from headrace.model.errors import HeadraceError
from headrace.serve import replay
from headrace.serve.mirror import Mirror
from published_view import Published, Rows
from random_log import RELATIONS, RandomLog, history

COMMITS = 30


@pytest.fixture
def published(tmp_path: Path) -> Published:
    made = Published(tmp_path / "shop")
    made.catalog.put_relation("shop", RELATIONS["orders"])
    return made


def test_who_reads_another_relation_does_not_wait(published: Published, monkeypatch: pytest.MonkeyPatch) -> None:
    made, read, begun, go = RandomLog(4), replay.contents, threading.Event(), threading.Event()
    made.grow(published.state / "log", COMMITS + 1)
    published.step([Rows({(1, 10): 1}), *[Rows()] * (COMMITS - 1)])
    calls = list[str]()

    def slow(*given: Any, **named: Any) -> Any:
        calls.append(given[1].name)
        begun.set()
        assert go.wait(20)
        return read(*given, **named)

    monkeypatch.setattr(replay, "contents", slow)
    mirror = Mirror(published.folder)
    with ThreadPoolExecutor(2) as threads:
        loading = [threads.submit(mirror.moment, (), ["orders"]) for _ in range(2)]
        assert begun.wait(20)
        first = mirror.moment(["sums"], deadline=Deadline.after(5))
        assert (first.commit, first.contents["sums"].table().to_pylist()) == (COMMITS, [{"id": 1, "n": 10, "_w": 1}])
        published.step([Rows({(2, 20): 1})])
        found = mirror.at_hand("sums")
        assert found is not None and (found[1].commit, found[1].contents["sums"].table().num_rows) == (COMMITS + 1, 2)
        assert mirror.at_hand("orders") is None
        with pytest.raises(HeadraceError, match=r"query\.timeout"):
            mirror.moment(["sums"], ["orders"], deadline=Deadline.after(0.05))
        go.set()
        for each in loading:
            moment = each.result()
            assert len(history(made, moment.commit).rows("orders")) == moment.contents["orders"].table().num_rows > 0
    assert calls == ["orders"]
    mirror.close()


def test_several_relations_are_of_one_commit_while_others_bring_them_forward(published: Published) -> None:
    """Threads that read the view alone run ahead of one that reads it with a table."""
    made, over = RandomLog(5), threading.Event()
    mirror, seen = Mirror(published.folder), list[int]()

    def alone() -> None:
        while not over.is_set():
            mirror.moment(["sums"])

    with ThreadPoolExecutor(2) as threads:
        for number in range(1, 40):
            made.grow(published.state / "log", 1)
            published.step([Rows({(number, 0): 1})])
            if number == 1:
                running = [threads.submit(alone) for _ in range(2)]
            moment = mirror.moment(["sums"], ["orders"])
            assert moment.contents["sums"].table().num_rows == moment.commit
            seen.append(moment.commit)
        over.set()
        for each in running:
            each.result()
    assert seen == list(range(1, 40))
    mirror.close()
