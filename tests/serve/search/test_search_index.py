"""The files of an index: damaged, of another version, of another history, in many pieces. Each search opens them anew."""

from __future__ import annotations

import random
import shutil
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from benchmarks.published import PublishedView

from headrace.model.errors import HeadraceError
from headrace.serve.search import found, index
from headrace.serve.search.found import search
from headrace.serve.search.kept_rows import KeptRows

LATE, EARLY = (1, "late parcel"), (2, "early parcel")


@pytest.fixture(autouse=True)
def as_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """No search knows what an earlier one has opened."""
    monkeypatch.setattr(found, "_opened", found._opened.__wrapped__)


@pytest.fixture
def view(tmp_path: Path) -> PublishedView:
    made = PublishedView(tmp_path / "project", "orders", {"id": "bigint", "text": "string"})
    made.publish([(LATE, 1), (EARLY, 2)])
    return made


def ids(view: PublishedView, query: str) -> list[int]:
    return sorted(search(view.folder, "orders", query).rows["id"].to_pylist())


@pytest.mark.parametrize("damage", ["meta.json", "*.term", "*.fast", "*.store", "rows/*"])
def test_an_index_that_is_damaged_is_made_anew(view: PublishedView, damage: str) -> None:
    assert ids(view, "parcel") == [1, 2]
    for path in list((view.folder / ".headrace/search/orders@1").glob(damage)):
        path.write_bytes(b"{}")
    assert ids(view, "parcel") == [1, 2]
    view.publish([(LATE, -1), ((3, "late again"), 1)])
    assert ids(view, "parcel OR late") == [2, 3]


def test_rows_that_are_missing_are_made_anew(view: PublishedView) -> None:
    assert ids(view, "parcel") == [1, 2]
    shutil.rmtree(view.folder / ".headrace/search/orders@1/rows")
    assert ids(view, "parcel") == [1, 2]


def test_another_version_has_an_index_of_its_own_and_the_old_one_goes(view: PublishedView) -> None:
    assert ids(view, "late") == [1]
    view.put_version(2)
    view.publish([((3, "late"), 1)])
    assert ids(view, "late") == [3]
    assert [path.name for path in (view.folder / ".headrace/search").glob("[!.]*")] == ["orders@2"]


def test_an_index_of_another_history_than_the_project_has_is_made_anew(view: PublishedView, tmp_path: Path) -> None:
    view.publish([((3, "late in one history"), 1)])
    assert ids(view, "late") == [1, 3]
    back = PublishedView(tmp_path / "back", "orders", {"id": "bigint", "text": "string"}, started_us=77)
    shutil.copytree(view.folder / ".headrace/search", back.folder / ".headrace/search")
    back.publish([(LATE, 1)])
    assert ids(back, "late") == [1]
    shutil.copytree(view.folder / ".headrace/search", back.folder / ".headrace/search", dirs_exist_ok=True)
    back.publish([((4, "late in the other"), 1)])
    back.publish([((5, "and later"), 1)])
    assert ids(back, "late") == [1, 4]


def test_rows_of_one_hash_are_told_apart(view: PublishedView, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "row_hashes", lambda columns, rows: np.full(rows, 7, np.uint64))
    assert ids(view, "parcel") == [1, 2]
    view.publish([(EARLY, -1), ((3, "late too"), 1)])
    assert (ids(view, "parcel"), search(view.folder, "orders", "parcel").total) == ([1, 2], 2)
    view.publish([(LATE, -1), ((4, "late as well"), 1)])
    assert (ids(view, "*"), ids(view, "late")) == ([2, 3, 4], [3, 4])


def test_what_is_too_far_down_is_refused(view: PublishedView) -> None:
    for limit, offset in ((10_001, 0), (10, 1_000_001), (-1, 0), (1, -1)):
        with pytest.raises(HeadraceError, match="cannot be asked for"):
            search(view.folder, "orders", "late", limit, offset)
    assert search(view.folder, "orders", "late", 10_000, 1_000_000).rows.num_rows == 0


def test_a_failed_view_is_searched_as_it_stood(view: PublishedView) -> None:
    view.publish_table(view.table([], []))
    view.catalog.set_view_state("orders", 1, "failed", "it threw")
    found = search(view.folder, "orders", "late")
    assert (found.state, found.reason, found.commit, found.total) == ("failed", "it threw", 10, 1)
    assert found.as_dict()["reason"] == "it threw"


def test_what_went_does_not_stay_for_ever(view: PublishedView, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "WASTE_ROWS", 8)
    for number in range(10, 34):
        view.publish([((number, "late"), 1), *([((number - 1, "late"), -1)] if number > 10 else [])])
        assert ids(view, "late") == [1, number]
        rows = sum(
            pa.ipc.open_file(path).read_all().num_rows
            for path in (view.folder / ".headrace/search/orders@1/rows").glob("*.arrow")
        )
        assert rows <= 2 * 4 + 8 + 2


def test_kept_rows_are_those_that_were_added_whatever_files_hold_them(tmp_path: Path) -> None:
    draw, schema = random.Random(5), pa.schema([("n", pa.int64())])
    kept, count = KeptRows(tmp_path, schema), 0
    for _ in range(200):
        more = draw.choice([1, 1, 2, 30])
        kept.add(pa.table({"n": range(count, count + more)}, schema=schema), count)
        count += more
        if draw.random() < 0.3:
            kept = KeptRows(tmp_path, schema)
        places = np.array([draw.randrange(count) for _ in range(20)])
        assert kept.take(places)["n"].to_pylist() == places.tolist()
    assert len(list(tmp_path.iterdir())) <= 12
    kept.add(pa.table({"n": [-1, -2]}, schema=schema), count - 5)  # as after a kill: what lay behind is given up
    assert kept.take(np.array([count - 6, count - 5, count - 4]))["n"].to_pylist() == [count - 6, -1, -2]


def test_an_index_that_cannot_be_written_says_where_and_why(view: PublishedView) -> None:
    (view.folder / ".headrace/search").mkdir()
    (view.folder / ".headrace/search/orders@1").write_text("in the way")
    with pytest.raises(HeadraceError) as error:
        ids(view, "late")
    assert (error.value.code, error.value.where) == ("search.index", str(view.folder / ".headrace/search/orders@1"))


def test_threads_see_whole_steps_and_what_they_wait_for(view: PublishedView, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step has 50 rows with the word, others than the step before; all searches share one index."""
    monkeypatch.undo()
    rows = [((number, "word"), 1) for number in range(100, 150)]
    view.publish(rows)
    stop, seen, lock = threading.Event(), list[tuple[int, int, int]](), threading.Lock()

    def look() -> None:
        while not stop.is_set():
            found = search(view.folder, "orders", "word", 100)
            with lock:
                seen.append((found.commit, found.total, found.rows["id"][0].as_py() // 100))

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for step in range(2, 12):
        gone, rows = rows, [((number, "word"), 1) for number in range(100 * step, 100 * step + 50)]
        commit = view.publish([*((row, -1) for row, _ in gone), *rows])
        assert search(view.folder, "orders", "word", at_least=commit).rows["id"][0].as_py() // 100 == step
    stop.set()
    for thread in threads:
        thread.join()
    assert {total for _, total, _ in seen} == {50}
    assert all(commit == 10 + 10 * step for commit, _, step in seen)
    assert len({commit for commit, _, _ in seen}) > 3
