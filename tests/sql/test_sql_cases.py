"""Goal: whole queries are exact however the work is cut up. Method: each ``.test`` file of this folder in every mode.

All transactions in one step; a step a transaction, verified against batch after each; once more from the start, killed
and opened again after each step, and once between recording a step and publishing it, which must publish the same
bytes; views defined only after all transactions; in two steps, wide over three partitions (the laws are over two). A
case's views are compiled anew in its first mode and after the kill in the midst of a step; else they are taken as
compiled.

To verify and to kill after each step, and to lay few rows out widely, is most of the time: the usual run does so to every
sixth case, and verifies the others half-way; `make prove` does so to all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from running_case import Case, Running, all_wide, read_case, running

from sampled import SHARE, sampled

CASES = {path.stem: path for path in sorted(Path(__file__).parent.glob("*.test"))}
CLOSELY = sampled(sorted(CASES), 6)  # in every mode, verified and killed after each step
pytestmark = pytest.mark.spark


@pytest.fixture(params=sorted(CASES))
def case(request: pytest.FixtureRequest, spark: Any) -> Case:
    return read_case(CASES[request.param])


def holds(at_work: Running) -> None:
    for view, rows in at_work.case.expected.items():
        assert at_work.contents(view) == rows, view


def test_all_in_one_step(case: Case, tmp_path: Path) -> None:
    with running(case, tmp_path / "p") as at_work:
        at_work.define()
        at_work.push(*case.transactions)
        at_work.step()
        holds(at_work)


def test_a_step_a_transaction(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closely, half = case.name in CLOSELY, len(case.transactions) // 2
    print(f"{case.name}: {'after each step' if closely else 'half-way'}, HEADRACE_SHARE={SHARE}")
    with running(case, tmp_path / "p", anew=False) as at_work:
        at_work.define()
        for number, transaction in enumerate(case.transactions):
            at_work.push(transaction)
            at_work.step()
            if closely or number == half:
                at_work.verify()
        holds(at_work)
        straight = at_work.published()
    if closely:
        killed_after_each(case, tmp_path / "killed", straight, monkeypatch)


def killed_after_each(case: Case, folder: Path, straight: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is published is the same bytes as if nothing had happened."""
    with running(case, folder, anew=False) as at_work:
        at_work.define()
        for number, transaction in enumerate(case.transactions):
            at_work.push(transaction)
            if number == len(case.transactions) // 2:
                broken_off(at_work, monkeypatch)
                at_work.reopen()
                continue
            at_work.step()
            before, contents = at_work.published(), at_work.all_contents()
            at_work.reopen(anew=False)
            assert at_work.published() == before
            assert at_work.all_contents() == contents
        holds(at_work)
        assert at_work.published() == straight


def broken_off(at_work: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that is recorded and has run, but is not published."""

    class Killed(Exception):
        pass

    def publish(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(at_work.pipeline.maintainer, "publish", publish)
        with pytest.raises(Killed):
            at_work.step()


def test_views_defined_after_all_transactions(case: Case, tmp_path: Path) -> None:
    with running(case, tmp_path / "p", anew=False) as at_work:
        at_work.define({})
        at_work.push(*case.transactions[:-1])
        at_work.define(case.views)
        at_work.push(case.transactions[-1])
        at_work.step()
        holds(at_work)


@pytest.mark.parametrize("case", CLOSELY, indirect=True)
def test_wide(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    all_wide(monkeypatch)
    half = len(case.transactions) // 2
    with running(case, tmp_path / "p", 3, anew=False) as at_work:
        at_work.define()
        for transactions in (case.transactions[:half], case.transactions[half:]):
            at_work.push(*transactions)
            at_work.step()
        holds(at_work)
