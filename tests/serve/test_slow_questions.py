"""Goal: a question over what is in memory is answered at once, whatever else is read for others meanwhile.

Method: the file of a view is a pipe in which nothing comes, so that whoever reads it waits, in the past as at a first
read; beside it a view of which the rows are at hand. The processes are those of a project that runs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pytest

from headrace.catalog.store import Output, StepShape, ViewRecord
from headrace.model.bounds import Deadline
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column, ViewSchema
from headrace.serve.asking import Asking
from headrace.serve.database import Ground, Limits
from headrace.serve.mirror import ROWS_SOON, Mirror
from headrace.serve.questions import Questions, Select
from headrace.state.run import write_run
from published_view import Published, Rows, write

ROWS = 1_000_000  # of the view that it takes long to read
COLUMNS = (Column("id", "bigint"), Column("n", "bigint"))


class Shop(Published):
    """With a view ``few``, and ``large``, ``huge`` and ``more``, which are read for as long as the test wants."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        large = pa.table({
            "c0": np.arange(ROWS), "c1": np.arange(ROWS) % 7, "_i": np.zeros(ROWS, np.int32),
            "_w": np.ones(ROWS, np.int64),
        })  # fmt: skip
        self.files = {"few": self.state / "few.arrow"}
        write(self.files["few"], [((n, n * n), 0, 1) for n in range(10)])
        for name in ("large", "huge", "more"):
            self.files[name] = self.state / f"{name}.arrow"
            write_run(self.files[name], large)
            self.files[name].rename(self.state / f"{name}.whole")
            os.mkfifo(self.files[name])
        for name in self.files:
            self.catalog.put_view(ViewRecord(ViewSchema(name, 1, COLUMNS, ("id",)), "SELECT 1", "f", "live", "", 0))
        self.number, self.upto = 1, 1
        self.catalog.record_step(1, 0, 1, StepShape(), 0)
        counts = dict.fromkeys(self.files, ROWS) | {"few": 10}
        outputs = [Output(1, f"{name}@1", str(path), counts[name], "") for name, path in self.files.items()]
        self.catalog.publish(1, outputs, 1)
        self.step([Rows({(1, 1): 1})])

    def fill(self, name: str) -> None:
        """The file is whole from now on; who waits at the pipe fails."""
        pipe = self.state / f"{name}.pipe"
        self.files[name].rename(pipe)
        (self.state / f"{name}.whole").rename(self.files[name])
        with suppress(OSError):  # nobody waits
            os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))

    @property
    def readers(self) -> list[psutil.Process]:
        """The processes below the one that answers."""
        return [each for each in self.answering.children() if each.status() != psutil.STATUS_ZOMBIE]

    @property
    def answering(self) -> psutil.Process:
        mine = [each for each in psutil.Process().children() if each.status() != psutil.STATUS_ZOMBIE]
        (found,) = [each for each in mine if "headrace.serve.asking" in each.cmdline()]
        return found

    def add(self, name: str, ids: range) -> None:
        """A step that adds rows to a view."""
        self.number, self.upto = self.number + 1, self.upto + 1
        path = self.state / f"{name}{self.number}.arrow"
        write(path, [((n, n), 0, 1) for n in ids])
        self.catalog.record_step(self.number, self.upto - 1, self.upto, StepShape(), 0)
        self.catalog.publish(self.number, [Output(self.number, f"{name}@1", str(path), len(ids), "")], 1)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path / "p")


@pytest.fixture
def questions(shop: Shop) -> Iterator[Questions]:
    with closing(Questions(Mirror(shop.folder), asking=Asking(shop.folder))) as questions:
        assert (
            questions.ask("SELECT 1", limits=Limits(seconds=60)).table.num_rows == 1
        )  # the process that answers is there
        yield questions


def quick(questions: Questions, at: int | None = None) -> None:
    """Questions over what is at hand are answered, and rightly; whoever waited for the pipe would never be."""
    for _ in range(5):
        answer = questions.ask("SELECT sum(n)::BIGINT AS s, count(*) AS c FROM few", at=at)
        assert answer.table.to_pylist() == [{"s": sum(n * n for n in range(10)), "c": 10}]


def error_of(work: Any) -> HeadraceError:
    with pytest.raises(HeadraceError) as caught:
        work()
    return caught.value


def until(shop: Shop, count: int) -> None:
    end = time.monotonic() + 30
    while len(shop.readers) != count and time.monotonic() < end:
        time.sleep(0.01)
    assert len(shop.readers) == count


SUM = "SELECT sum(n)::BIGINT AS s, count(*) AS c FROM large"
JOINED = "SELECT count(*) AS n FROM huge JOIN large USING (id)"
TOLD = [{"s": sum(n % 7 for n in range(ROWS)), "c": ROWS}]


def test_a_slow_past_keeps_nobody_waiting(shop: Shop, questions: Questions) -> None:
    """It ends with its time, or with who asked; what is wrong with a past is told as it is."""
    quick(questions)
    known, ends = frozenset({"large"}), list[Callable[[], None]]()
    with ThreadPoolExecutor(3) as pool:
        past = Select(Ground(), known, 1, Deadline.after(60), SUM, (), Limits())
        slow = [pool.submit(questions.put, past, ends.append) for _ in range(3)]
        until(shop, 3)
        quick(questions)
        quick(questions, at=1)
        assert error_of(lambda: questions.ask(SUM, (), Limits(seconds=2), 1)).code == "query.timeout"
        until(shop, 3)  # they go on
        for leave in ends:
            leave()
        for each in slow:
            error_of(each.result)
        until(shop, 0)
    shop.fill("large")
    assert questions.ask(SUM, at=1).table.to_pylist() == TOLD
    assert error_of(lambda: questions.ask(SUM, at=3)).code == "view.not_at"
    small = Select(Ground("20MB"), known, 1, Deadline.after(30), SUM, (), Limits())
    assert error_of(lambda: questions.put(small)).code == "query.memory"
    shop.files["large"].unlink()
    assert error_of(lambda: questions.ask(SUM, at=1)).code == "state.missing"


def test_a_first_read_keeps_nobody_waiting(shop: Shop, questions: Questions) -> None:
    """Who asks for what is read waits in time; a read that fails is told to who waits for it, and begun anew."""
    quick(questions)
    with ThreadPoolExecutor(8) as pool:
        slow = [pool.submit(questions.ask, SUM, (), Limits(seconds=5)) for _ in range(3)]
        until(shop, 1)  # which reads it for all of them
        quick(questions)
        quick(questions, at=1)
        for each in slow:
            assert error_of(each.result).code == "query.timeout"
        failing = pool.submit(questions.ask, SUM, (), Limits(seconds=30))
        both = pool.submit(questions.ask, JOINED, (), Limits(seconds=30))
        until(shop, 2)  # the first goes on: who asks again finds it further
        beyond = pool.submit(questions.ask, "SELECT n FROM more", (), Limits(seconds=1))
        quick(questions)
        assert error_of(beyond.result).code == "wait.busy"  # its own has not been begun
        shop.fill("large")
        for each in (failing, both):
            with pytest.raises(OSError, match="lseek"):  # of the pipe, which cannot be mapped
                each.result()
    assert questions.ask(SUM).table.to_pylist() == TOLD
    shop.fill("huge")
    until(shop, 0)
    assert questions.ask(JOINED).table.to_pylist() == [{"n": ROWS}]
    shop.add("large", range(ROWS, ROWS + ROWS_SOON + 1))  # so many that another process brings it forward as well
    assert questions.ask("SELECT count(*) AS c, max(id) AS most FROM large").table.to_pylist() == [
        {"c": ROWS + ROWS_SOON + 1, "most": ROWS + ROWS_SOON}
    ]
    quick(questions)
    until(shop, 0)


def test_a_question_that_was_never_begun_is_told_so(shop: Shop, questions: Questions) -> None:
    answering = shop.answering
    answering.suspend()
    try:
        assert error_of(lambda: questions.ask("SELECT 1", limits=Limits(seconds=0.3))).code == "wait.busy"
    finally:
        answering.resume()
    quick(questions)
