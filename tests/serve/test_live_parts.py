"""Goal: who follows a part of a view has it after every event, and all parts cost a step one read and one question.

Method: views published by hand from random histories, followed through filters and stored queries side by side; oracle:
the rows that the test adds up, filtered in Python.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from headrace.catalog.store import Catalog, StepRecord, ViewRecord
from headrace.model.errors import HeadraceError
from headrace.serve import live as live_module
from headrace.serve import questions as questions_module
from headrace.serve import snapshot
from headrace.serve.live import Live, Reader
from headrace.serve.mirror import Mirror
from headrace.serve.parts import Keep
from headrace.serve.questions import Questions
from headrace.serve.relation import Filter
from headrace.serve.search.matching import Matched
from published_view import Published, Rows, Versions

WAIT_S = 20.0
Wanted = Callable[[int, int], bool]


class Part:
    """A reader of a part, and what it has."""

    def __init__(self, live: Live, keep: Keep, wanted: Wanted) -> None:
        self.reader: Reader = live.subscribe("sums", None, keep)
        self.wanted, self.rows, self.commit = wanted, Rows(), -1

    def up_to(self, published: Published) -> None:
        end = time.monotonic() + WAIT_S
        while self.commit < published.upto:
            assert time.monotonic() < end, f"at {self.commit}, not {published.upto}"
            news = self.reader.next()
            progress = [] if news is None or news else [self.reader.progress()]
            for event in (*(self.reader.begin() if news is None else news), *progress):
                if event is None:
                    continue
                told = orjson.loads(event.data)
                if event.kind == "behind":
                    self.rows = Rows()
                for change in told.get("rows", ()):
                    self.rows[change["row"]["id"], change["row"]["n"]] += change["weight"]
                if event.whole and event.kind != "behind":
                    self.commit = event.commit
                    assert Rows({row: n for row, n in self.rows.items() if n}) == self.of(published.held[self.commit])
            time.sleep(0.001)

    def of(self, held: Rows) -> Rows:
        return Rows({row: n for row, n in held.items() if n and self.wanted(*row)})


def parts(live: Live, questions: Questions) -> list[Part]:
    def by(column: str, operator: str, value: object) -> Keep:
        return questions.keeping("sums", (Filter(column, operator, value),))

    filters = [Part(live, by("id", "eq", id), lambda i, n, id=id: i == id) for id in range(6)]
    filters += [Part(live, by("n", "gte", least), lambda i, n, least=least: n >= least) for least in range(4)]
    queries = [Part(live, Matched(f"id:{id}"), lambda i, n, id=id: i == id) for id in range(4)]
    return [*filters, *queries]


@pytest.mark.parametrize("seed", range(4))
def test_every_part_is_what_the_view_held_of_it(tmp_path: Path, seed: int) -> None:
    rng, published = random.Random(seed), Versions(tmp_path / "shop")
    published.step([published.changes(rng)])
    questions = Questions(Mirror(published.folder))
    live = Live(published.folder, questions.mirror)
    try:
        followed = parts(live, questions)
        for _ in range(25):
            published.step([published.changes(rng) for _ in range(rng.choice([1, 3]))], each=rng.random() < 0.5)
            if rng.random() < 0.1:
                for part in followed:  # what the version before held at the same commit is told apart from it
                    part.up_to(published)
                published.swap()
                published.step([published.changes(rng)])
            for part in rng.sample(followed, len(followed) // 2):
                part.up_to(published)
        for part in followed:
            part.up_to(published)
    finally:
        live.close()
        questions.close()


def test_a_step_is_read_once_and_asked_once_for_all_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, published = random.Random(1), Versions(tmp_path / "shop")
    published.step([published.changes(rng)])
    questions = Questions(Mirror(published.folder))
    live = Live(published.folder, questions.mirror)
    try:
        followed = parts(live, questions)
        for part in followed:
            part.up_to(published)
        read, asked = list[int](), list[int]()
        of_step, run = snapshot.of_step, questions_module.run
        monkeypatch.setattr(snapshot, "of_step", lambda *given: read.append(1) or of_step(*given))
        monkeypatch.setattr(questions_module, "run", lambda *given: asked.append(1) or run(*given))
        for _ in range(10):
            published.step([Rows({(1, 1): 1})])
            published.held.append(published.held[-1] + Rows({(1, 1): 1}))
            for part in followed:
                part.up_to(published)
        assert (len(read), len(asked)) == (10, 10)
    finally:
        live.close()
        questions.close()


@pytest.mark.parametrize("wrong", [HeadraceError("query.memory", "no room"), HeadraceError("state.missing", "gone")])
def test_a_step_that_cannot_be_read_is_lost_to_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: HeadraceError
) -> None:
    """Each is ended, or begins anew; none is told that it has what it has not."""
    rng, published = random.Random(1), Versions(tmp_path / "shop")
    published.step([published.changes(rng)])
    questions = Questions(Mirror(published.folder))
    live = Live(published.folder, questions.mirror)
    try:
        followed = parts(live, questions)
        for part in followed:
            part.up_to(published)
        of_step, failed = snapshot.of_step, list[int]()

        def fails_once(
            catalog: Catalog, record: ViewRecord, step: StepRecord, after: int
        ) -> list[tuple[int, pa.Table]]:
            if not failed:
                failed.append(step.number)
                raise wrong
            return list(of_step(catalog, record, step, after))

        monkeypatch.setattr(snapshot, "of_step", fails_once)
        published.step([Rows({(id, n): 1 for id in range(6) for n in range(4)})])
        published.held.append(published.held[-1] + Rows({(id, n): 1 for id in range(6) for n in range(4)}))
        ended = 0
        for part in followed:
            try:
                part.up_to(published)
            except HeadraceError as error:
                assert error is wrong
                ended += 1
        assert failed
        assert ended == (1 if wrong.code == "query.memory" else 0)
    finally:
        live.close()
        questions.close()


def test_what_is_wrong_with_one_filter_ends_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, published = random.Random(1), Versions(tmp_path / "shop")
    published.step([published.changes(rng)])
    questions = Questions(Mirror(published.folder))
    live = Live(published.folder, questions.mirror)
    try:
        with pytest.raises(HeadraceError, match="n is neither true nor false"):
            questions.keeping("sums", (Filter("n", "is", "true"),))
        followed = parts(live, questions)
        for part in followed:
            part.up_to(published)
        wrong, run, asked = questions.keeping("sums", (Filter("n", "lt", 99),)), questions_module.run, list[int]()

        def fails(connection: Any, text: str, values: list[Any], *given: Any) -> Any:
            asked.append(1)
            if 99 in values:
                raise HeadraceError("query.failed", "this one cannot be asked")
            return run(connection, text, values, *given)

        monkeypatch.setattr(questions_module, "run", fails)
        reader = live.subscribe("sums", published.upto, wrong)
        list(reader.begin())
        published.step([Rows({(1, 3): 1})])
        published.held.append(published.held[-1] + Rows({(1, 3): 1}))
        for part in followed:
            part.up_to(published)
        with pytest.raises(HeadraceError, match="this one cannot be asked"):
            reader.next()
        assert len(asked) <= 1 + 11  # all at once, then each by itself, and nobody again
    finally:
        live.close()
        questions.close()


def test_one_token_leaves_parts_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_module, "FILTERED", 4)
    monkeypatch.setattr(live_module, "FILTERED_OF_ONE", 2)
    published = Versions(tmp_path / "shop")
    published.step([Rows({(1, 1): 1})])
    questions = Questions(Mirror(published.folder))
    live = Live(published.folder, questions.mirror)

    def follow(id: int, whose: str) -> Reader:
        return live.subscribe("sums", None, questions.keeping("sums", (Filter("id", "eq", id),)), whose)

    try:
        first = follow(1, "greedy")
        follow(2, "greedy")
        with pytest.raises(HeadraceError, match="2 parts of views are followed by this token already"):
            follow(3, "greedy")
        follow(1, "greedy")  # that is followed already
        follow(3, "other")
        follow(4, "other")
        with pytest.raises(HeadraceError, match="4 parts of views are followed already"):
            follow(5, "third")
        first.close()
    finally:
        live.close()
        questions.close()


def test_a_filter_of_a_column_that_is_gone_ends_its_readers_alone(tmp_path: Path) -> None:
    published = Versions(tmp_path / "shop")
    published.step([Rows({(1, 1): 1})])
    published.held.append(Rows({(1, 1): 1}))
    questions = Questions(Mirror(published.folder))
    live = Live(published.folder, questions.mirror)
    try:
        gone = questions.keeping("sums", (Filter("id", "eq", 1),))
        object.__setattr__(gone.filters[0], "column", "lost")
        kept = Part(live, questions.keeping("sums", (Filter("n", "eq", 1),)), lambda i, n: n == 1)
        kept.up_to(published)
        (wrong,) = gone.together(published.catalog.views()["sums"].schema, _rows(published), [gone])
        assert isinstance(wrong, HeadraceError)
        assert wrong.code == "query.filter"
        reader = live.subscribe("sums", published.upto, gone)
        list(reader.begin())
        published.step([Rows({(2, 1): 1})])
        published.held.append(Rows({(1, 1): 1, (2, 1): 1}))
        kept.up_to(published)
        with pytest.raises(HeadraceError, match="no column 'lost'"):
            reader.next()
    finally:
        live.close()
        questions.close()


def _rows(published: Published) -> pa.Table:
    return snapshot.contents(published.folder, "sums")[2]
