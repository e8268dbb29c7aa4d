"""Goal: of a project and its copy only one runs under one id; what was moved, or put back from a backup, just runs."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from headrace.catalog import place
from headrace.catalog.project import history, identity, read
from headrace.control import up
from headrace.model.errors import HeadraceError


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A project that has run."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/headrace.yaml").write_text("name: shop\n")
    assert identity(read(tmp_path / "shop")) and history(read(tmp_path / "shop"))
    place.take(tmp_path / "shop")
    return tmp_path / "shop"


def known_by(project: Path) -> tuple[str, str]:
    return identity(read(project)), history(read(project))


def test_a_copy_is_refused_while_the_original_is_there(shop: Path) -> None:
    copy = shop.with_name("copy")
    shutil.copytree(shop, copy)
    for _ in range(2):
        with pytest.raises(HeadraceError, match="--as-copy") as raised:
            place.take(copy)
        assert raised.value.code == "project.copied" and str(shop) in raised.value.what
    place.take(shop)  # the original goes on
    for word in ("id", "history"):  # as `headrace drop --all` leaves it
        (shop / ".headrace" / word).unlink()
    place.take(copy)


@pytest.mark.parametrize("word", ["id", "history"])
def test_a_copy_is_known_by_each_word_of_the_original(shop: Path, word: str) -> None:
    """Only a PostgreSQL source asks for the id; only sinks ask for the history, and `headrace rebuild` makes it anew."""
    (shop / ".headrace" / word).unlink()
    copy = shop.with_name("copy")
    shutil.copytree(shop, copy)
    with pytest.raises(HeadraceError, match=r"project\.copied"):
        place.take(copy)
    place.take(copy, as_copy=True)
    place.take(shop)


def test_as_a_copy_it_is_a_project_of_its_own(shop: Path) -> None:
    copy = shop.with_name("copy")
    (shop / ".headrace/confirmed").mkdir()
    shutil.copytree(shop, copy)
    before = known_by(shop)
    place.take(copy, as_copy=True)
    mine = known_by(copy)
    assert mine[0] != before[0] and mine[1] != before[1] and known_by(shop) == before
    assert not (copy / ".headrace/confirmed").exists()
    for project in (shop, copy, shop):
        place.take(project)
    assert (known_by(shop), known_by(copy)) == (before, mine)


def test_a_copy_is_made_its_own_once(shop: Path) -> None:
    """However often it is started so; and a copy of it is made another one."""
    copy = shop.with_name("copy")
    shutil.copytree(shop, copy)
    before = known_by(shop)
    place.take(copy, as_copy=True)
    mine = known_by(copy)
    for _ in range(2):
        place.take(copy, as_copy=True)
    again = copy.with_name("again")
    shutil.copytree(copy, again)
    place.take(again, as_copy=True)
    assert (known_by(copy), known_by(shop)) == (mine, before)
    assert len({before[0], mine[0], known_by(again)[0]}) == 3


def test_a_copy_that_was_started_when_the_original_was_away_can_still_be_made_its_own(shop: Path) -> None:
    copy, before = shop.with_name("copy"), known_by(shop)
    shutil.copytree(shop, copy)
    hidden = shop.rename(shop.with_name("hidden"))
    place.take(copy)
    hidden.rename(shop)
    place.take(copy, as_copy=True)
    assert known_by(copy)[0] != before[0] == known_by(shop)[0]


def test_what_was_moved_goes_on(shop: Path) -> None:
    before = known_by(shop)
    moved = shop.rename(shop.with_name("moved"))
    place.take(moved)
    elsewhere = moved.with_name("elsewhere")
    shutil.copytree(moved, elsewhere)  # as to another disk
    shutil.rmtree(moved)
    place.take(elsewhere)
    assert known_by(elsewhere) == before


def test_up_looks_before_anything_is_started(shop: Path) -> None:
    copy = shop.with_name("copy")
    shutil.copytree(shop, copy)

    class Started(Exception):
        pass

    def make(*_: Any) -> Any:
        raise Started

    def runs(**more: Any) -> None:
        up.run(
            read(copy), threading.Event(), on_event=print, on_ready=print, on_tick=print, make=make, **more
        )  # fmt: skip

    with pytest.raises(HeadraceError, match=r"project\.copied"):
        runs()
    with pytest.raises(Started):
        runs(as_copy=True)
    with pytest.raises(Started):
        runs()
