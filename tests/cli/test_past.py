"""A view as of any commit: exactly what it held then, or a refusal that names the commits that can be asked for.

Method: a catalogue and files of steps written here as the engine writes them, from a random history of weighted rows that
the test adds up in a plain Counter; some steps take several commits at once, some keep each apart, and a base lies
somewhere among them. Every commit there ever was is asked for.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

import warm_command
from headrace.log.append import LogWriter
from headrace.model.transaction import TransactionBatch, TransactionOrigin
from headrace.serve import past
from published_view import SCHEMA, Published, Rows

COMMAND = Path(sys.executable).with_name("headrace")
BEGIN_US = 1_772_352_000_000_000  # 2026-03-01T08:00Z; commit n is made n seconds later


@pytest.mark.parametrize("seed", range(4))
def test_every_commit_is_exact_or_refused(tmp_path: Path, seed: int) -> None:
    rng, published = random.Random(seed), Published(tmp_path / "p")
    exact, between = {0}, dict[int, tuple[int, int]]()
    based = rng.randrange(3, 18)
    for number in range(20):
        after, each, size = published.upto, rng.random() < 0.4, rng.randrange(1, 5)
        published.step([published.changes(rng) for _ in range(size)], each=each)
        exact |= set(range(after + 1, published.upto + 1)) if each else {published.upto}
        between |= {} if each else dict.fromkeys(range(after + 1, published.upto), (after, published.upto))
        if number == based:
            published.base()
    assert len(between) > 5 and len(exact) > 20
    for commit in range(published.upto + 1):
        if commit in exact:
            assert published.at(commit) == published.held[commit], commit
        else:
            error = published.refused(commit)
            first, last = between[commit]
            assert (error.code, f"as of commit {first:,} or {last:,};" in error.next) == ("view.not_at", True)
    error = published.refused(published.upto + 1)
    assert (error.code, error.why) == ("view.not_at", f"it has reached commit {published.upto}")


def test_before_it_was_made_and_while_it_had_failed_it_is_refused(tmp_path: Path) -> None:
    rng, published = random.Random(5), Published(tmp_path / "p", created=2)
    published.step([Rows(), Rows()])
    published.held += [Rows(), Rows()]
    published.base()
    for _ in range(3):  # up to commit 5
        delta = published.changes(rng)
        delta[50, published.upto] += 1
        published.held[-1][50, published.upto] += 1
        published.step([delta])
    published.step([Rows()])  # it has failed: nothing comes of it
    published.step([Rows()])
    held = Rows({(1, 1): 1})
    back = Rows({row: held[row] - published.held[5][row] for row in {*held, *published.held[5]}})
    published.step([back], folder="8.back.1")  # commit 8
    published.held += [Rows(), Rows(), held]
    delta = published.changes(rng)
    published.step([delta])
    for commit in (2, 3, 4, 5, 8, 9):
        assert published.at(commit) == published.held[commit], commit
    for commit in (6, 7):
        error = published.refused(commit)
        assert not isinstance(error, past.NotPublished)  # its query would throw
        assert (error.code, error.why, error.next) == (
            "view.not_at", "it had failed, and came back at commit 8", "ask as of commit 8",
        )  # fmt: skip
    for commit in (0, 1):
        assert published.refused(commit).why == "it was made, as it is defined now, at commit 2"


def test_deltas_that_are_not_kept_any_more(tmp_path: Path) -> None:
    rng, published = random.Random(6), Published(tmp_path / "p")
    for _ in range(9):
        published.step([published.changes(rng)])
    published.base()
    published.catalog.forget_outputs("sums@1", 4)
    published.catalog.forget_steps(5)
    assert published.at(4) == published.held[4] and published.at(7) == published.held[7]
    error = published.refused(3)
    assert isinstance(error, past.NotPublished) and error.commit == 3
    assert (error.code, error.why) == ("state.missing", "the oldest step that is kept begins at commit 4")


def show(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return warm_command.run(folder, "show", "sums", *arguments, "--json")


def test_show_of_a_view_at_a_commit_and_at_a_time(tmp_path: Path) -> None:
    rng, published = random.Random(7), Published(tmp_path / "p")
    with LogWriter(published.state / "log") as log:
        for number in range(1, 13):
            at_us = BEGIN_US + number * 1_000_000
            log.append(TransactionBatch((TransactionOrigin("s", f"{number}", at_us),)))
    for size in (3, 4, 5):
        published.step([published.changes(rng) for _ in range(size)])
    for asked, commit in (
        ("7", 7),
        ("2026-03-01T08:00:07", 7),
        ("2026-03-01T08:00:09.5Z", 7),
        ("2026-03-01T09:00", 12),
    ):
        answer = json.loads(show(published.folder, "--at", asked).stdout)
        assert (answer["view"], answer["commit"]) == ("sums", commit)
        assert Rows(map(tuple, answer["rows"])) == published.held[commit]
    with pytest.raises(past.NotPublished) as caught:
        past.contents(published.folder, "sums", 9, None)
    assert (caught.value.code, caught.value.commit, caught.value.schema) == ("view.not_at", 9, SCHEMA)
    assert caught.value.next.startswith("ask as of commit 7 or 12; ")
