"""Goal: who follows a view by its published files has at every commit what it holds, over swaps and what is forgotten.

Method: random steps of a view published by hand, with bases, swaps of its version and a past that goes, taken now and
then; oracle: the rows that the test adds up.
"""

from __future__ import annotations

import gc
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.catalog.store import Catalog
from headrace.model.errors import HeadraceError
from headrace.serve import snapshot
from headrace.serve.contents import Contents
from headrace.state import rows as rows_of_state
from published_view import Rows, Versions


class Taken:
    """What a follower makes of the deltas that are there by now."""

    def __init__(self, published: Versions, after: int | None = None, shared: snapshot.Shared | None = None) -> None:
        self.published, self.rows, self.commit = published, Rows(), -1
        self._stop = threading.Event()
        self._deltas: Iterator[tuple[int, pa.Table]] = snapshot.follow(
            published.folder, "sums", after, self._stop, shared
        )

    def up_to_now(self) -> Rows:
        while self.commit < self.published.upto:
            commit, delta = next(self._deltas)
            assert commit >= self.commit
            self.commit = commit
            for row in delta.to_pylist():
                self.rows[row["id"], row["n"]] += row["_w"]
        return Rows({row: n for row, n in self.rows.items() if n})


def changed(published: Versions, rng: random.Random) -> Rows:
    """A change that is one, so that its commit is told."""
    delta = published.changes(rng)
    delta[100 + published.upto, 0] += 1
    published.held[-1][100 + published.upto, 0] += 1
    return delta


@pytest.mark.parametrize("seed", range(8))
def test_what_is_held_is_what_was_published(tmp_path: Path, seed: int) -> None:
    rng, published = random.Random(seed), Versions(tmp_path / "p")
    published.step([changed(published, rng)])
    taken = Taken(published)
    for number in range(40):
        count = rng.choice([1, 1, 2, 3])
        published.step([changed(published, rng) for _ in range(count)], each=rng.random() < 0.5)
        if rng.random() < 0.2:
            published.base()
        if rng.random() < 0.15:
            published.swap()
            published.step([changed(published, rng)])  # a swap is seen with the next step
        if rng.random() < 0.1:
            published.base()
            published.forget(1)
        if rng.random() < 0.6 or number == 39:
            assert taken.up_to_now() == published.held[published.upto], (seed, number)


def test_a_step_that_is_published_while_another_version_is_read_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, published = random.Random(1), Versions(tmp_path / "p")
    published.step([changed(published, rng)])
    taken, read = Taken(published), snapshot.read
    taken.up_to_now()
    published.swap()
    published.step([changed(published, rng)])

    def late(catalog: Catalog, record: Any, upto_step: int | None = None) -> tuple[int, pa.Table]:
        monkeypatch.setattr(snapshot, "read", read)
        published.step([changed(published, rng)])
        return read(catalog, record, upto_step)

    monkeypatch.setattr(snapshot, "read", late)
    taken.up_to_now()
    published.step([changed(published, rng)])
    assert taken.up_to_now() == published.held[published.upto]


def test_it_costs_the_change_and_not_the_view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published = Versions(tmp_path / "p")
    first = Rows({(n, 0): 1 for n in range(20_000)})
    published.held.append(first)
    published.step([first])
    taken = Taken(published)
    taken.up_to_now()
    worked, consolidate = list[int](), rows_of_state.consolidate

    def counted(table: pa.Table, *more: Any) -> pa.Table:
        worked.append(table.num_rows)
        return consolidate(table, *more)

    for module in ("headrace.serve.snapshot", "headrace.serve.contents"):
        monkeypatch.setattr(f"{module}.consolidate", counted)
    for number in range(50):
        delta = Rows({(number, 0): -1, (number, 1): 1})
        published.held.append(Rows({row: n for row, n in (published.held[-1] + delta).items() if n}))
        published.step([delta])
        taken.up_to_now()
    assert 0 < sum(worked) <= 50 * 10


@pytest.mark.parametrize("seed", range(3))
def test_all_who_are_at_a_commit_hold_its_rows_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Eight who follow, first side by side, then at paces of their own: side by side a delta is added up once."""
    rng, published, shared = random.Random(seed), Versions(tmp_path / "p"), snapshot.Shared()
    published.step([changed(published, rng)])
    added, after = list[int](), Contents.after
    monkeypatch.setattr(Contents, "after", lambda held, delta: added.append(1) or after(held, delta))
    followers = [Taken(published, shared=shared) for _ in range(8)]
    for follower in followers:
        follower.up_to_now()
    for number in range(20):
        published.step([changed(published, rng)])
        for follower in followers:
            if number < 10 or number == 19 or rng.random() < 0.5:
                assert follower.up_to_now() == published.held[published.upto], (seed, number)
        if number < 10:
            assert (len(added), len(shared)) == (number + 1, 1)
    assert len(shared) == 1
    del follower
    followers.clear()
    gc.collect()
    assert not shared


def test_a_commit_whose_changes_are_not_kept_is_refused(tmp_path: Path) -> None:
    rng, published = random.Random(3), Versions(tmp_path / "p")
    for _ in range(6):
        published.step([changed(published, rng)])
    delta = Rows(published.held[6])
    delta.subtract(published.held[5])
    assert Taken(published, 5).up_to_now() == Rows({row: n for row, n in delta.items() if n})
    published.base()
    published.forget(2)
    with pytest.raises(HeadraceError, match="after commit 2 are not kept") as gone:
        Taken(published, 2).up_to_now()
    assert gone.value.code == "state.missing"


@pytest.mark.parametrize("each", [True, False])
def test_what_a_commit_ahead_holds_is_not_told_again(tmp_path: Path, each: bool) -> None:
    rng, published = random.Random(4), Versions(tmp_path / "p")

    def since(commit: int) -> Rows:
        delta = Rows(published.held[-1])
        delta.subtract(published.held[commit])
        return Rows({row: n for row, n in delta.items() if n})

    published.step([changed(published, rng)])
    ahead, amid = Taken(published, 3), Taken(published, 4)
    with ThreadPoolExecutor() as pool:
        waiting = [pool.submit(follower.up_to_now) for follower in (ahead, amid)]
        time.sleep(10 * snapshot.POLL_S)  # both have begun, and wait
        for commits in (1, 1, 2, 1):
            published.step([changed(published, rng) for _ in range(commits)], each=each)
        waiting[0].result()
        assert ahead.up_to_now() == since(3)
        if each:
            waiting[1].result()
            assert amid.up_to_now() == since(4)
            return
        refused = [waiting[1].exception(), pool.submit(Taken(published, 4).up_to_now).exception()]
    for error in refused:  # of one that waited for the step that goes over its commit, and of one that came after it
        assert isinstance(error, HeadraceError)
        assert error.code == "state.missing" and "not apart from those before" in error.what
