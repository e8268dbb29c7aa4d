"""Goal: a question over what is in memory is answered at once, whatever else is read for others meanwhile.

Method: the file of a view is a pipe in which nothing comes, so that whoever reads it waits, in the past as at a first
read; beside it a view of which the rows are at hand. The processes are those of a project that runs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
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
from headrace.state.run import checksums, write_run
from processes import runs
from published_view import Published, Rows, write
from waiting import until

ROWS = 1_000_000  # of the view that it takes long to read
LOT = ROWS_SOON + 1  # of one that another process reads, in a moment
COLUMNS = (Column("id", "bigint"), Column("n", "bigint"))


def rows(count: int) -> pa.Table:
    """Of views, as they are stored."""
    return pa.table({
        "c0": np.arange(count), "c1": np.arange(count) % 7, "_i": np.zeros(count, np.int32),
        "_w": np.ones(count, np.int64),
    })  # fmt: skip


# What the process that answers runs as it begins: a fault of the system, while a file says which.
FAULTS = """
import os
from headrace.serve.mirror import Mirror

def faulty(name, real):
    def work(*given):
        if os.path.exists({failing!r}) and open({failing!r}).read() == name:
            raise OSError("no " + name)
        return real(*given)
    return work

os.fork, Mirror.far = faulty("fork", os.fork), faulty("far", Mirror.far)
"""


class Shop(Published):
    """With views ``few``, ``lot``, and ``large``, ``huge`` and ``more``, which are read for as long as the test wants."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.files = {name: self.state / f"{name}.arrow" for name in ("few", "lot", "large", "huge", "more")}
        write(self.files["few"], [((n, n * n), 0, 1) for n in range(10)])
        write_run(self.files["lot"], rows(LOT))
        sums = {"lot": checksums(self.files["lot"], sync=False)}
        for name in ("large", "huge", "more"):
            write_run(self.files[name], rows(ROWS))
            sums[name] = self._held_back(name)
        for name in self.files:
            self.catalog.put_view(ViewRecord(ViewSchema(name, 1, COLUMNS, ("id",)), "SELECT 1", "f", "live", "", 0))
        self.number, self.upto = 1, 1
        self.catalog.record_step(1, 0, 1, StepShape(), 0)
        counts = dict.fromkeys(self.files, ROWS) | {"few": 10, "lot": LOT}
        sums |= {"few": "", "large": ""}  # a pipe of these cannot be mapped
        outputs = [Output(1, f"{name}@1", str(path), counts[name], sums[name]) for name, path in self.files.items()]
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
        return [each for each in self.answering.children() if runs(each)]

    @property
    def answering(self) -> psutil.Process:
        mine = [each for each in psutil.Process().children() if each.status() != psutil.STATUS_ZOMBIE]
        (found,) = [each for each in mine if "headrace.serve.asking" in each.cmdline()]
        return found

    @property
    def memory(self) -> set[str]:
        """What has been handed to the process that answers, by the inodes of files in memory."""
        lines = Path(f"/proc/{self.answering.pid}/maps").read_text().splitlines()
        return {line.split()[4] for line in lines if "/memfd:headrace" in line}

    @contextmanager
    def passing(self, name: str) -> Iterator[list[psutil.Process]]:
        """Somebody waits at a file in the block, and goes on behind it. Gives those who read."""
        path, end = self.files[name], time.monotonic() + 30
        while True:
            try:
                pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
                break
            except OSError:  # nobody is there yet
                assert time.monotonic() < end
                time.sleep(0.01)
        yield self.readers
        path.with_suffix(".whole").rename(path)
        os.set_blocking(pipe, True)
        with os.fdopen(pipe, "wb") as file:
            file.write(path.read_bytes())

    def add(self, name: str, ids: range) -> None:
        """A step that adds rows to a view."""
        self._step(name, len(ids), self._written(ids), "")

    def add_slowly(self, name: str, ids: range) -> str:
        """The same, whose file is given out as ``passing`` says, by the name that is returned."""
        path = self._written(ids)
        sums = self._held_back(path.stem)
        self._step(name, len(ids), path, sums)
        return path.stem

    def _written(self, ids: range) -> Path:
        path = self.state / f"step{self.number + 1}.arrow"
        write(path, [((n, n), 0, 1) for n in ids])
        return path

    def _step(self, name: str, count: int, path: Path, sums: str) -> None:
        self.number, self.upto = self.number + 1, self.upto + 1
        self.catalog.record_step(self.number, self.upto - 1, self.upto, StepShape(), 0)
        self.catalog.publish(self.number, [Output(self.number, f"{name}@1", str(path), count, sums)], 1)

    def _held_back(self, name: str) -> str:
        """A pipe stands for a file that has been written. Gives the sums of the file."""
        path = self.files[name] = self.state / f"{name}.arrow"
        path.rename(path.with_suffix(".whole"))
        os.mkfifo(path)
        return checksums(path.with_suffix(".whole"), sync=False)


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
        until(lambda: len(shop.readers) == 3)
        quick(questions)
        quick(questions, at=1)
        assert error_of(lambda: questions.ask(SUM, (), Limits(seconds=2), 1)).code == "query.timeout"
        until(lambda: len(shop.readers) == 3)  # they go on
        for leave in ends:
            leave()
        for each in slow:
            error_of(each.result)
        until(lambda: len(shop.readers) == 0)
    shop.fill("large")
    assert questions.ask(SUM, at=1).table.to_pylist() == TOLD
    assert error_of(lambda: questions.ask(SUM, at=3)).code == "view.not_at"
    large = Select(Ground("20MB"), known, 1, Deadline.after(30), SUM, (), Limits())  # reading it takes more
    assert questions.put(large).found[0].to_pylist() == TOLD
    more = replace(large, sql="SELECT length(repeat('x', 200000000)) FROM large LIMIT 1")
    assert error_of(lambda: questions.put(more)).code == "query.memory"
    shop.files["large"].unlink()
    assert error_of(lambda: questions.ask(SUM, at=1)).code == "state.missing"


def test_a_first_read_keeps_nobody_waiting(shop: Shop, questions: Questions) -> None:
    """Who asks for what is read waits in time; a read that fails is told to who waits for it, and begun anew."""
    quick(questions)
    with ThreadPoolExecutor(8) as pool:
        slow = [pool.submit(questions.ask, SUM, (), Limits(seconds=5)) for _ in range(3)]
        until(lambda: len(shop.readers) == 1)  # which reads it for all of them
        quick(questions)
        quick(questions, at=1)
        for each in slow:
            assert error_of(each.result).code == "query.timeout"
        failing = pool.submit(questions.ask, SUM, (), Limits(seconds=30))
        both = pool.submit(questions.ask, JOINED, (), Limits(seconds=30))
        until(lambda: len(shop.readers) == 2)  # the first goes on: who asks again finds it further
        beyond = pool.submit(questions.ask, "SELECT n FROM more", (), Limits(seconds=3))
        until(lambda: len(shop.readers) == 3)  # in the place for what is small
        quick(questions)
        assert questions.ask("SELECT count(*) AS c FROM lot").table.to_pylist() == [{"c": LOT}]
        assert error_of(beyond.result).code == "wait.busy"  # it was not small
        until(lambda: len(shop.readers) == 2)
        shop.fill("large")
        for each in (failing, both):
            with pytest.raises(OSError, match="lseek"):  # of the pipe, which cannot be mapped
                each.result()
    assert questions.ask(SUM).table.to_pylist() == TOLD
    shop.fill("huge")
    until(lambda: len(shop.readers) == 0)
    assert questions.ask(JOINED).table.to_pylist() == [{"n": ROWS}]


def test_what_is_held_is_copied_only_for_a_large_part_of_it(shop: Shop, questions: Questions) -> None:
    """And a file is checked once, by whichever process."""
    shop.fill("large")
    assert questions.ask(SUM).table.to_pylist() == TOLD
    memory, end = shop.memory, ROWS
    assert len(memory) == 1
    for count, copied in ((ROWS_SOON + 1, False), (ROWS // 8, True)):
        shop.add("large", range(end, end + count))
        end += count
        found = questions.ask("SELECT count(*) AS c, max(id) AS most FROM large").table.to_pylist()
        assert found == [{"c": end, "most": end - 1}]
        assert memory.isdisjoint(shop.memory) == copied
    assert questions.ask("SELECT count(*) AS c FROM lot").table.to_pylist() == [{"c": LOT}]
    shop.files["lot"].unlink()
    write_run(shop.files["lot"], rows(LOT).take(np.arange(LOT)[::-1]))  # other bytes than were checked
    assert questions.ask("SELECT count(*) AS c FROM lot", at=1).table.to_pylist() == [{"c": LOT}]
    quick(questions)
    until(lambda: len(shop.readers) == 0)


def test_what_comes_while_a_relation_is_read_keeps_nobody_waiting(shop: Shop, questions: Questions) -> None:
    """The process that reads the relation reads it too; what comes while another relation is waited for, another one."""
    quick(questions)
    shop.fill("large")
    assert questions.ask(SUM).table.to_pylist() == TOLD
    counted = "SELECT count(*) AS n FROM large JOIN more USING (id)"
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(questions.ask, "SELECT count(*) AS n FROM huge", (), Limits(seconds=60))
        with shop.passing("huge") as readers:
            assert len(readers) == 1
            behind = shop.add_slowly("huge", range(ROWS, ROWS + ROWS // 8))
        with shop.passing(behind) as still:
            assert still == readers
            quick(questions)
        assert answer.result().table.to_pylist() == [{"n": ROWS + ROWS // 8}]
        answer = pool.submit(questions.ask, counted, (), Limits(seconds=60))
        with shop.passing("more"):
            behind = shop.add_slowly("large", range(ROWS, ROWS + ROWS // 8))
        with shop.passing(behind):
            quick(questions)
        assert answer.result().table.to_pylist() == [{"n": ROWS}]


def test_what_fails_before_a_question_is_begun_is_told_to_who_asked(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No room for another process or file, and a disk that cannot be read, end no process that answers."""
    failing = tmp_path / "failing"
    (tmp_path / "sitecustomize.py").write_text(FAULTS.format(failing=str(failing)))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with closing(Questions(Mirror(shop.folder), asking=Asking(shop.folder))) as questions:
        quick(questions)
        answering = shop.answering
        for name in ("fork", "far"):
            failing.write_text(name)
            for sql in (SUM, JOINED, "SELECT count(*) FROM few"):
                with pytest.raises(OSError, match=f"no {name}"):
                    questions.ask(sql)
            failing.unlink()
            quick(questions)
        most = answering.rlimit(psutil.RLIMIT_NOFILE)
        answering.rlimit(psutil.RLIMIT_NOFILE, (3, most[1]))  # so it cannot be given a question either
        assert error_of(lambda: questions.ask(SUM)).code == "query.memory"
        answering.rlimit(psutil.RLIMIT_NOFILE, most)
        quick(questions)
        assert shop.answering == answering
        files = answering.num_fds()
        shop.fill("large")
        assert questions.ask(SUM).table.to_pylist() == TOLD
        assert answering.num_fds() <= files + 1  # of the memory that it holds: none of those that failed is left


def test_a_question_that_was_never_begun_is_told_so(shop: Shop, questions: Questions) -> None:
    answering = shop.answering
    answering.suspend()
    try:
        assert error_of(lambda: questions.ask("SELECT 1", limits=Limits(seconds=0.3))).code == "wait.busy"
    finally:
        answering.resume()
    quick(questions)
