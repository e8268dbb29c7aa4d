"""Goal: bases that are made of deltas beside the steps hold what was published, and cost what has changed.

Method: a view published by hand from random histories, its deltas made part of its base now and then while steps go on,
read by every reader there is; oracle: the rows that the test adds up. Work is counted in rows that are written.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.engine import compaction
from headrace.engine.backfill import rows_of
from headrace.engine.compaction import Compactions
from headrace.model.errors import HeadraceError
from headrace.serve import snapshot
from headrace.serve.mirror import Mirror
from published_view import Rows, Versions, write


@pytest.fixture
def published(tmp_path: Path) -> Versions:
    return Versions(tmp_path / "shop")


@pytest.fixture
def compactions(published: Versions) -> Iterator[Compactions]:
    made = Compactions(published.state, published.catalog)
    yield made
    made.close()


def read(published: Versions) -> Rows:
    commit, _, rows = snapshot.contents(published.folder, "sums")
    assert commit == published.upto
    return Rows({(row["id"], row["n"]): row["_w"] for row in rows.to_pylist()})


def mirrored(mirror: Mirror) -> Rows:
    found = Rows()
    for row in mirror.moment(["sums"]).contents["sums"].table().to_pylist():
        found[row["id"], row["n"]] += row["_w"]
    return Rows({row: n for row, n in found.items() if n})


def begin(compactions: Compactions, published: Versions) -> None:
    compactions.begin(published.catalog.views()["sums"].feed, published.number, published.upto)


@pytest.mark.parametrize("seed", range(6))
def test_readers_see_what_was_published_whatever_the_base_is_made_of(
    published: Versions, compactions: Compactions, seed: int
) -> None:
    rng, kept, earlier = random.Random(seed), Mirror(published.folder), 0
    for number in range(120):
        published.step([published.changes(rng) for _ in range(rng.choice([1, 2]))], each=rng.random() < 0.3)
        if rng.random() < 0.3:
            begin(compactions, published)
        if rng.random() < 0.3:
            compactions.put(all_of_them=rng.random() < 0.5)
        if rng.random() < 0.1:
            compactions.put(all_of_them=True)
            published.forget(kept=3)
        if rng.random() < 0.03:
            published.swap()
            published.step([published.changes(rng)])
        if rng.random() < 0.3 or number == 119:
            held = published.held[published.upto]
            assert read(published) == held
            assert mirrored(Mirror(published.folder)) == held
            assert mirrored(kept) == held
        if rng.random() < 0.3 and published.catalog.views()["sums"].schema.version == 1:
            with suppress(HeadraceError):  # it is not kept, or lies inside a step
                assert published.at(published.upto - 1) == published.held[published.upto - 1]
                earlier += 1
    assert earlier or published.catalog.views()["sums"].schema.version > 1


def test_a_large_view_is_not_written_again_for_a_few_changes(
    published: Versions, compactions: Compactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, write = list[int](), compaction.write_run

    def counted(path: Path, rows: Any) -> None:
        written.append(rows.num_rows)
        write(path, rows)

    monkeypatch.setattr(compaction, "write_run", counted)
    large = Rows({(id, 0): 1 for id in range(4_000)})
    published.step([large])
    published.held.append(large)
    begin(compactions, published)
    compactions.put(all_of_them=True)
    assert written == [4_000]
    held = Rows(large)
    for id in range(600):
        delta = Rows({(id, 0): -1, (id, 1): 1})
        held = Rows({row: n for row, n in {**held, (id, 0): 0, (id, 1): 1}.items() if n})
        published.held.append(held)
        published.step([delta])
        if id % 10 == 9:
            begin(compactions, published)
            compactions.put(all_of_them=True)
    assert read(published) == held == mirrored(Mirror(published.folder))
    files = published.catalog.base_files(published.catalog.views()["sums"].feed)
    assert len(files) <= 8
    assert sum(written) < 4_000 + 1_200 * 8, written  # not 60 times 4,000
    assert max(written[1:]) <= 1_200


def test_the_base_of_a_view_that_is_updated_for_ever_stays_as_large_as_the_view(
    published: Versions, compactions: Compactions
) -> None:
    held = Rows({(id, 0): 1 for id in range(500)})
    published.step([held])
    published.held.append(held)
    sizes = []
    for turn in range(1, 121):
        delta, after = Rows(), Rows(held)
        for id in range((turn * 100) % 500, (turn * 100) % 500 + 100):
            delta[id, _last(held, id)] -= 1
            delta[id, turn] += 1
        after.update(delta)
        held = Rows({row: n for row, n in after.items() if n})
        published.held.append(held)
        published.step([delta])
        begin(compactions, published)
        compactions.put(all_of_them=True)
        files = published.catalog.base_files(published.catalog.views()["sums"].feed)
        sizes.append(sum(rows_of(path) for path, _ in files))
    assert read(published) == held
    assert max(sizes) <= 4 * 500, sizes


def _last(held: Rows, id: int) -> int:
    return next(n for (at, n) in held if at == id)


def test_a_view_that_is_dropped_and_made_again_has_nothing_of_the_one_before(published: Versions) -> None:
    """Under the name, the columns and the feed of the one before."""
    mirror = Mirror(published.folder)
    published.step([Rows({(1, 0): 1, (2, 0): 1})])
    published.held.append(Rows({(1, 0): 1, (2, 0): 1}))
    assert mirrored(mirror) == Rows({(1, 0): 1, (2, 0): 1})
    catalog = published.catalog
    (record,) = catalog.views().values()
    catalog.drop_view("sums", published.upto, 1)
    catalog.forget_feed(record.feed)
    published.step([Rows()])
    path = published.state / "again.arrow"
    write(path, [((7, 70), 0, 1)])
    catalog.put_base(record.feed, published.number, published.upto, [str(path)], 1)
    catalog.put_view(replace(record, created_commit=published.upto))
    assert mirror.at_hand("sums") is None
    assert mirrored(mirror) == Rows({(7, 70): 1})


def test_what_is_merged_while_another_base_comes_is_of_no_use(published: Versions, compactions: Compactions) -> None:
    rng = random.Random(1)
    for _ in range(5):
        published.step([published.changes(rng)])
    begin(compactions, published)
    published.base()
    before = published.catalog.base("sums@1")
    compactions.put(all_of_them=True)
    assert published.catalog.base("sums@1") == before
    assert compactions.files == set()
    assert read(published) == published.held[published.upto]
    published.step([published.changes(rng)])
    begin(compactions, published)
    published.swap()  # the feed of the version before is nobody's
    published.catalog.forget_feed("sums@1")
    compactions.put(all_of_them=True)
    assert published.catalog.base("sums@1") is None


def test_a_file_that_is_damaged_is_told_and_nothing_is_made_of_it(
    published: Versions, compactions: Compactions
) -> None:
    rng = random.Random(2)
    published.step([published.changes(rng), published.changes(rng)])
    published.base()
    published.step([Rows({(1, 1): 1})])
    (path,) = published.catalog.base("sums@1")[2]
    Path(path).unlink()
    begin(compactions, published)
    with pytest.raises(HeadraceError):
        compactions.put(all_of_them=True)


def test_who_holds_a_view_goes_on_by_deltas_when_its_base_moves(
    published: Versions, compactions: Compactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headrace.serve import mirror as mirror_module

    rng, kept = random.Random(3), Mirror(published.folder)
    read_anew, from_base = list[int](), mirror_module._from_base
    monkeypatch.setattr(mirror_module, "_from_base", lambda *given: read_anew.append(1) or from_base(*given))
    for _ in range(40):
        published.step([published.changes(rng)])
        assert mirrored(kept) == published.held[published.upto]
        published.step([published.changes(rng)])  # that it has not
        begin(compactions, published)
        compactions.put(all_of_them=True)
    assert len(read_anew) == 1
    published.step([published.changes(rng)])
    published.forget(kept=1)
    assert mirrored(kept) == published.held[published.upto]
    assert len(read_anew) == 2
