"""Goal: an index that is searched follows what is published by itself, and one that cannot harms nobody.

Method: the thread of a server over published files; how far an index is, is read from it without a search.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest
from benchmarks.published import PublishedView

from headrace.serve.search import forward
from headrace.serve.search.forward import Forward
from headrace.serve.search.found import lately, search
from waiting import until


@pytest.fixture
def view(tmp_path: Path) -> PublishedView:
    made = PublishedView(tmp_path / "project", "orders", {"id": "bigint", "note": "string"})
    made.publish([((1, "a late parcel"), 1)])
    return made


def is_at(view: PublishedView, commit: int) -> bool:
    return [index._state and index._state.frontier.at.commit for index in lately(view.folder, 60)] == [commit]


def test_what_is_published_is_in_the_index_before_the_next_search(
    view: PublishedView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward, "LOOK_S", 0.02)
    following = Forward(view.folder)
    following.start()
    try:
        assert search(view.folder, "orders", "late").total == 1
        for number in range(2, 5):
            view.publish([((number, "late again"), 1)])
            until(partial(is_at, view, 10 * number))
            assert search(view.folder, "orders", "late").total == number
        (index,) = lately(view.folder, 60)
        shutil.rmtree(index.folder)
        view.publish([((9, "late once more"), 1)])
        assert search(view.folder, "orders", "late", at_least=50).total == 5
        view.publish([((10, "and late"), 1)])
        until(partial(is_at, view, 60))
    finally:
        following.close()


def test_what_was_not_searched_lately_is_left_alone(view: PublishedView, monkeypatch: pytest.MonkeyPatch) -> None:
    search(view.folder, "orders", "late")
    assert len(lately(view.folder, 60)) == 1 and not lately(view.folder / "other", 60)
    view.publish([((2, "late again"), 1)])
    monkeypatch.setattr(forward, "LATELY_S", 0.0)
    Forward(view.folder).look()
    assert lately(view.folder, 60) == []
