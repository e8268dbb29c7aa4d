"""Goal: a bad row of a file is in the quarantine once, and the good ones in the log once, wherever the product is killed.

Method: a real source, log and catalogue, driven as the engine drives them and killed at each step between them; what
the files say, sorted by hand, is the judge. No Spark.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from headrace.catalog.store import Catalog
from headrace.engine.door import Door, settle
from headrace.log.append import LogWriter
from headrace.log.read import LogReader
from headrace.model.errors import HeadraceError
from headrace.model.transaction import TransactionBatch
from headrace.sources.connectors.files.connector import FilesSource

OPTIONS = {"path": "in", "columns": {"id": "int"}, "on_error": "quarantine", "poll_seconds": 0.01}


class Product:
    """A source of files, its door, the log and the catalogue; ``open`` is a start."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.events = folder, list[dict[str, Any]]()
        (folder / "in").mkdir()
        self.open()

    def open(self) -> None:
        self.catalog, self.log = Catalog(self.folder / "catalog.db"), LogWriter(self.folder / "log")
        settle(self.catalog, LogReader(self.folder / "log"), self.log.end)
        self.door = Door("events", self.catalog, self.log, threading.Lock(), self.events.append)
        self.source = FilesSource("events", OPTIONS, "", self.folder)
        self.source.start(frozenset({"events"}), self.log.positions.get("events"))

    def close(self) -> None:
        self.log.close()
        self.catalog.close()

    def poll(self) -> TransactionBatch | None:
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline:
            batch = self.source.poll(0.05)
            if batch is not None:
                return batch
        return None

    def take(self) -> None:
        while (batch := self.poll()) is not None:
            self.source.confirm(batch, self.door.append(batch))

    def logged(self) -> list[int]:
        reader = LogReader(self.folder / "log")
        read = reader.read(reader.refs(0, reader.end), "events", 0, reader.end)
        return [id for batch in read for id in batch.column("id").to_pylist()]

    def kept(self) -> list[tuple[str, str, bytes]]:
        return [(e.id, Path(e.row.place).name, e.row.payload) for e in self.catalog.refused()]


@pytest.fixture
def product(tmp_path: Path) -> Any:
    made = Product(tmp_path)
    (tmp_path / "in/1.jsonl").write_text('{"id": 1}\nbad\n{"id": 2}\n')
    (tmp_path / "in/2.jsonl").write_text('{"id": "x"}\n')
    (tmp_path / "in/3.csv").write_text("id\n3\nworse\n")
    yield made
    made.close()


GOOD = [1, 2, 3]
BAD = [("1.jsonl:2", b"bad"), ("2.jsonl:1", b'{"id": "x"}'), ("3.csv:3", b"id\nworse")]


def test_good_rows_are_logged_and_bad_ones_kept(product: Product) -> None:
    product.take()
    assert product.logged() == GOOD
    assert product.kept() == [(f"events:{n}", *bad) for n, bad in enumerate(BAD, start=1)]
    assert product.catalog.refused_counts() == {"events": 3}
    assert sum(event["rows"] for event in product.events) == 3
    commits = [entry.commit for entry in product.catalog.refused()]
    assert commits == [1, 2, 3]
    product.catalog.drop_refused([2], 0)
    product.close()
    product.open()
    product.take()
    assert (product.logged(), [place for _, place, _ in product.kept()]) == (GOOD, ["1.jsonl:2", "3.csv:3"])


@pytest.mark.parametrize("when", ["before the log", "after the log"])
def test_killed_in_between_each_is_there_once(product: Product, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    append = product.log.append

    def dies(batch: TransactionBatch) -> int:
        if when == "after the log":
            append(batch)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(product.log, "append", dies)
        with pytest.raises(KeyboardInterrupt):
            product.take()
    assert product.kept() == []  # not told before it is known whether they come again
    product.close()
    product.open()
    assert product.catalog.untaken_refused() == []
    product.take()
    assert product.logged() == GOOD
    assert [kept[1:] for kept in product.kept()] == BAD


def test_a_log_without_room_keeps_nothing_and_the_rows_come_again(
    product: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(batch: TransactionBatch) -> int:
        raise HeadraceError("log.full", "No space is left.")

    batch = product.poll()
    assert batch is not None
    with monkeypatch.context() as patched:
        patched.setattr(product.log, "append", full)
        with pytest.raises(HeadraceError) as raised:
            product.door.append(batch)
    product.source.reject(batch, raised.value)
    assert (product.kept(), product.catalog.untaken_refused()) == ([], [])
    product.take()
    assert (product.logged(), [kept[1:] for kept in product.kept()]) == (GOOD, BAD)
