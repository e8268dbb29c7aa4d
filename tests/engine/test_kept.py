"""Goal: the live state is what steps added, whatever was merged, made durable, restored or collected meanwhile.

Method: runs written as tasks name them; oracle: a Counter of all rows added.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from headrace.engine.kept import RUNS_MAX, Kept
from headrace.model.errors import HeadraceError
from headrace.state import run as runs
from headrace.state.order import Order, SortColumn
from headrace.state.ordered import OrderedArrangement, merge_runs
from headrace.state.ordered_run import Layout, arrange
from headrace.state.run import STRETCH, open_run, write_run
from waiting import until

NAME = "a1b2"


def written(folder: Path, step: int, entries: list[tuple[int, int]], part: int = 0, attempt: int = 0) -> Path:
    """A task's run of (value, weight), under the name a task gives it."""
    place = folder / f"{step}.0"
    place.mkdir(parents=True, exist_ok=True)
    entries = sorted(entries)
    values, weights = [v for v, _ in entries], [w for _, w in entries]
    table = pa.table(
        [pa.array(values, pa.int64()), pa.array(weights, pa.int64()), pa.array([str(v) for v in values])],
        names=["_h", "_w", "c0"],
    )
    path = place / f"{NAME}~{part}~{attempt}~{len(entries)}.arrow"
    write_run(path, table)
    return path


def contents(kept: Kept) -> dict[str, int]:
    total: Counter[str] = Counter()
    for path in kept.paths().get(NAME, []):
        for row in open_run(path).to_pylist():
            total[row["c0"]] += row["_w"]
    return {value: weight for value, weight in total.items() if weight}


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    state = Kept(tmp_path / "state")
    yield state
    state.close()


def test_a_merge_has_room_for_text_that_is_stored_once(tmp_path: Path) -> None:
    """100,000 rows with one text of 1,000 letters are a megabyte in a file and a hundred in a merge."""
    kept, text, rows = Kept(tmp_path / "state", merge_bytes=250_000_000), "x" * 1000, 100_000
    for step in range(6):
        place = tmp_path / f"{step}.0"
        place.mkdir()
        columns = [np.arange(rows) + step * rows, np.ones(rows, np.int64), pa.repeat(text, rows)]
        write_run(path := place / f"{NAME}~0~0~{rows}.arrow", pa.table(columns, names=["_h", "_w", "c0"]))
        assert path.stat().st_size < 2_000_000
        kept.add([path])
    while kept.merge():
        pass
    assert [run.rows for run in kept.runs[NAME]] == [rows] * 6
    kept.merge_bytes = 1 << 30
    while kept.merge():
        pass
    assert [run.rows for run in kept.runs[NAME]] == [6 * rows]
    kept.close()


def test_what_a_killed_merge_left_goes_at_the_next_start(kept: Kept) -> None:
    left = kept.folder / "merged" / f".{NAME}~1~2~3.arrow.77"
    left.parent.mkdir()
    left.write_bytes(b"half")
    kept.start()
    assert not left.exists()


def test_merging_goes_on_after_the_disk_has_refused_it(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[Path] = []

    def full(path: Path, table: pa.Table) -> None:
        refused.append(path)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("headrace.engine.kept.write_run", full)
    kept.start()
    total = steps(kept, 6)
    until(lambda: bool(refused))
    assert contents(kept) == nonzero(total)
    monkeypatch.undo()
    total.update(steps(kept, 1, after=6))
    until(lambda: kept.size[NAME][0] < 6)
    assert contents(kept) == nonzero(total)


def steps(kept: Kept, count: int, after: int = 0) -> Counter[str]:
    """Add ``count`` steps of a few changes each; what they add up to."""
    random = np.random.default_rng(after)
    total: Counter[str] = Counter()
    for step in range(after, after + count):
        entries = [(int(v), int(random.choice([1, -1]))) for v in random.choice(30, size=4, replace=False)]
        kept.add([written(kept.folder, step, entries)])
        for value, weight in entries:
            total[str(value)] += weight
    return total


def nonzero(total: Counter[str]) -> dict[str, int]:
    return {value: weight for value, weight in total.items() if weight}


def test_merges_keep_the_contents(kept: Kept) -> None:
    total = steps(kept, 40)
    assert len(kept.paths()[NAME]) == 40
    kept.wait_for_merges()
    assert len(kept.paths()[NAME]) <= RUNS_MAX
    assert contents(kept) == nonzero(total)


def test_merging_in_the_background_while_steps_add(kept: Kept) -> None:
    kept.start()
    total = steps(kept, 120)
    until(lambda: len(kept.paths()[NAME]) <= RUNS_MAX)
    assert contents(kept) == nonzero(total)


def test_too_few_runs_to_merge_are_not_opened(kept: Kept) -> None:
    steps(kept, 3)
    opened = set(runs._open)
    assert not kept.merge()
    assert set(runs._open) == opened


def test_a_task_that_ran_twice_counts_once(kept: Kept) -> None:
    first = written(kept.folder, 1, [(1, 1)], attempt=3)
    again = written(kept.folder, 1, [(1, 1)], attempt=4)
    other = written(kept.folder, 1, [(2, 1)], part=1, attempt=5)
    kept.add([again, other, first])
    assert contents(kept) == {"1": 1, "2": 1}


def test_an_empty_run_is_not_kept(kept: Kept) -> None:
    kept.add([written(kept.folder, 1, [])])
    assert kept.paths() == {}


def test_whole_is_one_run_with_all_of_it(kept: Kept) -> None:
    assert kept.whole(NAME) is None
    total = steps(kept, 5)
    path = kept.whole(NAME)
    assert path is not None
    assert kept.paths()[NAME] == [path]
    assert contents(kept) == nonzero(total)


def test_whole_of_rows_that_cancelled(kept: Kept) -> None:
    kept.add([written(kept.folder, 1, [(1, 1)])])
    kept.add([written(kept.folder, 2, [(1, -1)])])
    path = kept.whole(NAME)
    assert path is not None
    assert open_run(path).num_rows == 0
    assert kept.paths()[NAME] == []


def test_a_checkpoint_restores_the_state_it_was_taken_of(kept: Kept) -> None:
    total = steps(kept, 6)
    durable = kept.checkpoint()
    steps(kept, 5, after=6)
    again = Kept(kept.folder)
    again.restore(durable)
    assert contents(again) == nonzero(total)
    assert again.size[NAME][:2] == (6, 24)


def test_collecting_deletes_only_what_nothing_needs(kept: Kept) -> None:
    total = steps(kept, 6)
    durable = kept.checkpoint()
    old = {entry[0] for entry in durable[NAME]}
    assert kept.whole(NAME)  # merged: the six are live no more, but the checkpoint needs them
    later = steps(kept, 2, after=6)
    output = kept.folder / "7.0" / "out:v@1~0~0~1.arrow"
    write_run(output, pa.table({"c0": ["x"], "_w": [1]}))
    left_over = written(kept.folder, 99, [(1, 1)])
    kept.collect(durable, [str(output)]).result()
    assert all(Path(path).exists() for path in old)
    assert output.exists()
    assert not left_over.exists()
    assert not left_over.parent.exists()
    both = Counter(total)
    both.update(later)
    assert contents(kept) == nonzero(both)
    newer = kept.checkpoint()
    kept.collect(newer).result()
    assert not any(Path(path).exists() for path in old)
    assert not output.exists()
    assert contents(kept) == nonzero(both)


def test_what_first_contents_replace_goes_at_once(kept: Kept) -> None:
    """But nothing that was there before, which steps and checkpoints may need."""
    total = steps(kept, 6)
    kept.checkpoint()
    before = kept.paths()[NAME]
    with kept.filling():
        while kept.merge():
            pass
        assert all(Path(path).exists() for path in before)
    total.update(steps(kept, 1, after=6))
    before = [*before, *kept.paths()[NAME]]
    with kept.filling():
        total.update(steps(kept, 3, after=7))
        assert kept.merge()  # old ones with new ones
        assert all(Path(path).exists() for path in (*before, *kept.paths()[NAME]))
        kept.runs.clear()
        total = steps(kept, 5, after=20)
        inside = kept.paths()[NAME]
        assert kept.merge() and kept.size[NAME][0] == 1
        assert not any(Path(path).exists() for path in inside)
        inside = kept.paths()[NAME]
        total.update(steps(kept, 5, after=30))
        assert kept._merge_one(NAME, least=2) and kept.size[NAME][0] == 1
        assert not any(Path(path).exists() for path in inside)
    assert contents(kept) == nonzero(total)
    inside = kept.paths()[NAME]
    total.update(steps(kept, 5, after=40))
    assert kept._merge_one(NAME, least=2)
    assert all(Path(path).exists() for path in inside)
    assert contents(kept) == nonzero(total)


def test_the_disk_keeps_no_space_of_a_file_that_is_gone(kept: Kept) -> None:
    steps(kept, 6)
    kept.checkpoint()
    assert kept.whole(NAME)  # which has opened the six
    old = [path for path in runs._open if str(kept.folder / "0.0") in path]
    assert old
    kept.collect(kept.checkpoint()).result()
    assert not runs._open.keys() & {*old}


def test_a_run_that_a_checkpoint_names_but_is_gone_is_an_error(kept: Kept) -> None:
    steps(kept, 2)
    durable = kept.checkpoint()
    Path(durable[NAME][0][0]).rename(kept.folder / "elsewhere.arrow")
    again = Kept(kept.folder)
    with pytest.raises(HeadraceError, match=r"state\.missing"):
        again.restore(durable)
        again.whole(NAME)


def test_forgotten_arrangements_are_gone(kept: Kept) -> None:
    steps(kept, 2)
    kept.keep_only({"another"})
    assert kept.paths() == {}


def test_ordered_runs_stay_ordered_when_they_are_merged(kept: Kept) -> None:
    layout = Layout(pa.schema([("v", pa.int64())]), Order((SortColumn(pa.int64(), descending=True, nullable=False),)))
    for step in range(6):
        values = pa.array([step, 10 - step, step - 1])
        rows = pa.table(
            {"v": values, "_o": layout.order.encode([values]), "_h": [7, 7, 7], "_w": [1, 1, -1 if step else 1]}
        )
        run = arrange(rows, layout)
        path = kept.folder / f"{NAME}~0~{step}~{run.num_rows}.arrow"
        write_run(path, run)
        kept.add([path])
    assert kept.whole(NAME) is not None
    (path,) = kept.paths()[NAME]
    assert open_run(path)["v"].to_pylist() == [10, 9, 8, 7, 6, 5, -1]
    first = OrderedArrangement([path], layout, "").groups(np.array([7])).first(8)
    assert (first.rows["v"].to_pylist(), first.weights.tolist()) == ([10, 9, 8, 7, 6, 5, -1], [1, 1, 1, 1, 1, 2, 1])


@pytest.mark.parametrize("large", [True, False])
def test_large_merges_take_turns(kept: Kept, monkeypatch: pytest.MonkeyPatch, large: bool) -> None:
    """One that waited for its turn finds the runs merged, and merges nothing."""
    total, merges = steps(kept, 8), list[int]()
    begin, at_once = threading.Barrier(2), threading.Barrier(2)

    def merging(tables: list[pa.Table]) -> pa.Table:
        with contextlib.suppress(threading.BrokenBarrierError):
            at_once.wait(0.3 if large else 20)
        merges.append(1 if at_once.broken else 2)  # at a time
        return merge_runs(tables)

    monkeypatch.setattr("headrace.engine.kept.STRETCH", 0 if large else STRETCH)
    monkeypatch.setattr("headrace.engine.kept.merge_runs", merging)

    def one() -> None:
        begin.wait()
        kept._merge_one(NAME)

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (merges, contents(kept)) == ([1] if large else [2, 2], nonzero(total))


def test_a_merge_while_files_are_collected(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a collection looks at last, a merge that ends just before it keeps its file."""
    total = steps(kept, 8)
    listed = Path.iterdir

    def merging(folder: Path) -> Iterator[Path]:
        kept.wait_for_merges()
        kept._merge_one(NAME, least=2)
        return listed(folder)

    monkeypatch.setattr(Path, "iterdir", merging)
    for step in range(8, 40, 2):
        kept.collect(kept.checkpoint())
        total.update(steps(kept, 2, after=step))
    assert contents(kept) == nonzero(total)
