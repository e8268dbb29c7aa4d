"""Goal: rows of a table that only grows stay in the log where they are many, and the table is all that a table is.

Method: the least size of such rows is set to nothing, so that each step's stay there; views over them against Spark
batch after every step, built late, after a kill, after deletes came nevertheless, and while the log's beginning goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from failing_case import TABLES
from running_case import Case, Running, running

from headrace.circuit.build import TABLE
from headrace.circuit.operators import table
from headrace.control import log_retain
from headrace.engine import kept as keeping
from headrace.engine import rebuild, retain
from headrace.engine.backup import restore
from headrace.log.append import LogWriter
from headrace.log.base import Base
from headrace.log.read import LogReader
from headrace.model.errors import HeadraceError
from headrace.sources.connectors.http.connector import HttpSource
from headrace.state.reference import SUFFIX

pytestmark = pytest.mark.spark
VIEWS = {
    "all_of_it": "SELECT page, n FROM clicks",
    "some": "SELECT page, n % 3 AS third FROM clicks WHERE n > 2",
    "counted": "SELECT page, count(*) AS c, sum(n) AS s FROM clicks GROUP BY page",
}
LATE = {**VIEWS, "late": "SELECT n, count(*) AS c FROM clicks GROUP BY n"}


@pytest.fixture
def shop(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """Of which the source only adds to ``clicks``; four steps, each of which lies in a segment of its own."""
    relations = HttpSource.relations
    monkeypatch.setattr(
        HttpSource, "relations", lambda source: tuple(replace(r, updates=bool(r.key)) for r in relations(source))
    )
    monkeypatch.setattr(table, "LEAST_BYTES", 0)
    monkeypatch.setattr(table, "LEAST_PIECE", 0)
    with running(Case("shop", TABLES, {}, (), {}), tmp_path / "shop") as made:
        (made.folder / "headrace.yaml").write_text("name: shop\n")
        (made.folder / "functions/declared.py").unlink()
        made.define(VIEWS)
        for n in range(4):
            add(made, n)
        yield made


def add(shop: Running, n: int) -> None:
    shop.push({"clicks": {"insert": [["b", n], ["a", n], ["b", n], [None, n]]}})
    shop.step()
    shop.verify()
    shop.pipeline.log.roll()


def kept(shop: Running) -> list[Path]:
    return [Path(path) for path in shop.pipeline.maintainer.kept.paths()[TABLE + "clicks"]]


def test_they_are_found_there(shop: Running) -> None:
    assert [path.suffix for path in kept(shop)] == [SUFFIX] * 4
    shop.define(LATE)
    shop.verify()
    shop.define({**LATE, "later": "SELECT page FROM clicks"})
    shop.verify()


def test_after_a_kill_and_a_restart(shop: Running) -> None:
    shop.pipeline.maintainer.checkpoint()
    add(shop, 4)
    shop.kill()
    shop.reopen()
    assert [path.suffix for path in kept(shop)] == [SUFFIX] * 5
    add(shop, 5)
    shop.define(LATE)
    shop.verify()


def test_many_are_merged_into_a_run_of_their_own(shop: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "UNSORTED_RUNS", 3)
    shop.pipeline.maintainer.kept.merge()
    assert [path.suffix for path in kept(shop)] == [".arrow"]
    add(shop, 4)
    shop.define(LATE)
    shop.verify()


def test_deletes_that_come_nevertheless_find_them(shop: Running) -> None:
    shop.push({"clicks": {"delete": [["b", 1], ["a", 3]]}})
    shop.step()
    shop.verify()
    assert shop.contents("counted")["b", "7", str(0 + 0 + 1 + 2 + 2 + 3 + 3)] == 1
    shop.push({"clicks": {"delete": [["b", 1], ["b", 1], ["a", 3]]}})  # two of them once too often
    shop.step()
    add(shop, 4)
    shop.define(LATE)
    shop.verify()


def test_a_log_that_loses_its_beginning_gives_them_back_before(shop: Running) -> None:
    shop.pipeline.maintainer.checkpoint()
    assert shop.pipeline.retention.by_hand(4, dry_run=True)["segments"] == 2
    assert [path.suffix for path in kept(shop)] == [SUFFIX] * 4
    shop.pipeline.retention.by_hand(4, dry_run=False)
    assert LogReader(shop.pipeline.folder / "log").base.commit == 3
    assert [path.suffix for path in kept(shop)] == [".arrow"] * 2 + [SUFFIX] * 2
    shop.verify()
    shop.reopen()
    shop.define(LATE)
    shop.verify()
    assert shop.contents("late")["0", "4"] == 1


def test_so_it_does_while_nothing_runs(shop: Running) -> None:
    shop.pipeline.maintainer.checkpoint()
    shop.kill()
    told = log_retain.alone(shop.folder, {"compact": True}, lambda event: None)
    assert told["removed"] is True
    shop.reopen()
    assert {path.suffix for path in kept(shop)} == {".arrow"}
    add(shop, 4)
    shop.define(LATE)
    shop.verify()


def test_a_backup_finds_them_in_its_own_log(shop: Running, tmp_path: Path) -> None:
    shop.pipeline.backup(tmp_path / "copy", lambda event: None)
    restore(tmp_path / "copy", tmp_path / "again", lambda event: None)
    shop.kill()
    (shop.pipeline.folder / "log").rename(tmp_path / "gone")
    shop.project = replace(shop.project, path=tmp_path / "again")
    shop.pipeline = shop.opened()
    shop.pipeline.definitions.carry_out(shop.project)
    assert [path.suffix for path in kept(shop)] == [SUFFIX] * 4
    shop.define(LATE)
    shop.verify()
    assert shop.contents("counted")["a", "4", "6"] == 1


def test_damage_of_the_log_is_told_of_its_segment(shop: Running) -> None:
    shop.pipeline.maintainer.checkpoint()
    shop.kill()
    segment = LogReader(shop.pipeline.folder / "log").segments()[0]
    path = shop.pipeline.folder / "log" / segment.name
    data = bytearray(path.read_bytes())
    data[data.rindex(b"page")] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(HeadraceError, match=segment.name) as error:
        shop.reopen()
    assert error.value.code == "log.corrupt"


def removed(shop: Running) -> bool:
    """Whether retention, on its own thread, takes the first two segments away."""
    plan = retain.planned(shop.pipeline.folder / "log", shop.pipeline.catalog, 3, None)
    assert len(plan.segments) == 2
    return shop.pipeline.retention._carried_out(plan, lambda: None) is not None


def test_merged_since_the_checkpoint_that_names_them(shop: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.pipeline.maintainer.checkpoint()
    monkeypatch.setattr(keeping, "UNSORTED_RUNS", 3)
    shop.pipeline.maintainer.kept.merge()
    assert removed(shop)
    shop.reopen()
    shop.verify()


def test_no_checkpoint_names_them_where_one_has_failed(shop: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.pipeline.maintainer.checkpoint()
    with monkeypatch.context() as patch:
        patch.setattr(shop.pipeline.maintainer, "checkpoint", failing)
        with pytest.raises(OSError, match="full"):
            removed(shop)
    assert removed(shop)
    shop.reopen()
    shop.verify()


def test_a_table_that_is_first_read_meanwhile(shop: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.define({})
    add(shop, 4)
    shop.pipeline.maintainer.checkpoint()
    begin = LogWriter.begin_at

    def later(log: LogWriter, base: Base, timeout_s: float) -> bool:
        shop.define({"some": VIEWS["some"]})
        return begin(log, base, timeout_s)

    monkeypatch.setattr(LogWriter, "begin_at", later)
    assert removed(shop)
    assert [path.suffix for path in kept(shop)] == [".arrow"]
    shop.reopen()
    shop.verify()


def test_half_of_a_step_is_no_checkpoint(shop: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.pipeline.maintainer.checkpoint()
    shop.push({"clicks": {"insert": [["z", 100]]}})
    monkeypatch.setattr(shop.pipeline.maintainer, "publish", failing)
    with pytest.raises(OSError, match="full") as error:
        shop.step()
    shop.pipeline.error = error.value
    with pytest.raises(OSError, match="full"):
        removed(shop)
    shop.reopen()
    shop.pipeline.maintainer.step()
    shop.verify()
    assert shop.contents("counted")["z", "1", "100"] == 1


def test_all_is_made_anew_though_the_steps_before_are_gone(shop: Running) -> None:
    shop.pipeline.maintainer.checkpoint()
    assert removed(shop)
    shop.kill()
    rebuild.everything(shop.folder)
    shop.reopen()
    shop.define(LATE)
    shop.verify()
    assert shop.contents("counted")["a", "4", "6"] == 1


def failing(*given: Any, **named: Any) -> None:
    raise OSError(28, "the disk is full")
