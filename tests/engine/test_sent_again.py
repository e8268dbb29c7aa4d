"""Goal: what is sent again from the quarantine is in the log once, in one transaction, and nowhere else; a crash at any
point loses nothing and sends nothing twice.

Method: the changes of random commits, set aside by a dict that plays the table, in the files that a step writes; the
log is read back and compared with what the dict says should be there. No Spark.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from headrace.catalog.quarantine import SetAside
from headrace.catalog.store import Catalog
from headrace.engine import quarantined
from headrace.engine.quarantined import Quarantined
from headrace.log.append import LogWriter
from headrace.log.read import LogReader
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column, Relation
from headrace.model.transaction import SELF, STRICT, UPSERT, RefusedRow, TransactionBatch, TransactionOrigin
from headrace.serve import history, quarantine
from headrace.state.run import write_run

ORDERS = Relation(
    "orders", (Column("id", "int", nullable=False), Column("note", "string"), Column("amount", "decimal(6,2)")), ("id",)
)
VISITS = Relation("visits", (Column("page", "string"), Column("n", "double")))
TYPES = {"orders": [pa.int32(), pa.string(), pa.decimal128(6, 2)], "visits": [pa.string(), pa.float64()]}
INSERT, UPDATE, DELETE = "insert", "update", "delete"
BEFORE = 9  # commits of the log before anything is sent again


class Files:
    """A source of visits: a payload is a page, in lower case."""

    def reread(self, refused: RefusedRow) -> dict[str, pa.Table]:
        page = refused.payload.decode()
        if not page.islower():
            raise HeadraceError("source.row", f"{page} is not in lower case", where=refused.place)
        values = [pa.array([0], pa.int32()), pa.array([0], pa.int8()), pa.array([page]), pa.array([None], pa.float64())]
        return {"visits": pa.table(values, names=["_t", "_op", "page", "n"])}


class Shop:
    """A project's log, catalogue and quarantine. Sent again is: ``self.quarantine.replay(...)``."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state = folder, folder / ".headrace"
        (self.state / "quarantine").mkdir(parents=True)
        self.open()
        for relation in (ORDERS, VISITS):
            self.catalog.put_relation("shop", relation)
        origins = tuple(TransactionOrigin("shop", str(n), n) for n in range(1, BEFORE + 1))
        self.log.append(TransactionBatch(origins, {}))

    def open(self) -> None:
        self.catalog, self.log = Catalog(self.state / "catalog.db"), LogWriter(self.state / "log")
        pipeline: Any = SimpleNamespace(
            project=SimpleNamespace(path=self.folder), folder=self.state, catalog=self.catalog, log=self.log,
            on_engine=lambda work: work(), stopping=False, sources={"files": Files()},
            maintainer=SimpleNamespace(
                frontier=0, number=0, lock=threading.Lock(), pins={}, aside=SimpleNamespace(reread=lambda step: None)
            ),
        )  # fmt: skip
        self.quarantine = Quarantined(pipeline)
        self.quarantine.begin()

    def close(self) -> None:
        self.log.close()
        self.catalog.close()

    def keep(self, table: str, *changes: tuple[int, int, str, tuple[Any, ...], str]) -> None:
        """A step's file: (commit, place, operation, row, columns that were left out) of each change."""
        relation = ORDERS if table == "orders" else VISITS
        marks = [sum(1 << relation.names.index(n) for n in left.split()) for *_, left in changes]
        head = [
            pa.array([c[0] for c in changes], pa.int64()), pa.array([c[1] for c in changes], pa.int64()),
            pa.array([c[2] for c in changes]), pa.array(["?"] * len(changes)),
            pa.array([bytes([m]) if m else None for m in marks], pa.binary()),
        ]  # fmt: skip
        values = [
            pa.array([c[3][i] for c in changes]).cast(type_) for i, type_ in enumerate(TYPES[table])
        ]  # fmt: skip
        step = changes[-1][0]
        path = self.state / f"quarantine/{table}~{step}.arrow"
        write_run(path, pa.table([*head, *values], names=[*quarantine.HEAD, *relation.names]))
        self.catalog.put_set_aside([SetAside(table, step, str(path), len(changes))])

    def there(self) -> list[str]:
        found, total = quarantine.entries(self.folder, None, None)
        assert len(found) == total == sum(quarantine.counts(self.catalog).values())
        assert {Path(e.path) for e in self.catalog.set_aside()} == set((self.state / "quarantine").glob("*.arrow"))
        return [e["id"] for e in found]

    def sent(self) -> list[list[dict[str, Any]]]:
        """The transactions of the log after the first, as an HTTP source would take them."""
        reader = LogReader(self.state / "log")
        found = []
        for transaction in history.transactions(reader, BEFORE, reader.end):
            assert transaction.origin.source == SELF
            found.append([c for table, part in transaction.changes for c in history.spelled(table, part)])
        return found

    def codes(self, table: str) -> list[int]:
        """The log's own codes of the changes of a table after the first commits."""
        reader = LogReader(self.state / "log")
        read = reader.read(reader.refs(BEFORE, reader.end), table, BEFORE, reader.end)
        return [code for batch in read for code in batch.column("_op").to_pylist()]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path)
    made.keep("orders", (3, 1, INSERT, (1, "a", "1.00"), ""), (3, 4, UPDATE, (2, None, "2.50"), "note"))
    made.keep("orders", (5, 2, DELETE, (3, None, None), ""), (6, 1, INSERT, (4, None, None), ""))
    made.keep("visits", (5, 1, DELETE, ("home", float("nan")), ""))
    yield made
    made.close()


AS_THEY_WERE = {
    "orders:3:1": {"table": "orders", "op": INSERT, "row": {"id": 1, "note": "a", "amount": "1.00"}},
    "orders:3:4": {"table": "orders", "op": UPDATE, "row": {"id": 2, "amount": "2.50"}},
    "orders:5:2": {"table": "orders", "op": DELETE, "row": {"id": 3}},
    "orders:6:1": {"table": "orders", "op": INSERT, "row": {"id": 4, "note": None, "amount": None}},
    "visits:5:1": {"table": "visits", "op": DELETE, "row": {"page": "home", "n": "NaN"}},
}


def refused(work: Callable[[], Any]) -> HeadraceError:
    with pytest.raises(HeadraceError) as raised:
        work()
    return raised.value


def test_all_of_it_goes_as_it_was_in_one_transaction(shop: Shop) -> None:
    answer = shop.quarantine.replay(wait_s=0)
    assert answer == {"commit": BEFORE + 1, "changes": 5, "again": None}
    assert shop.sent() == [list(AS_THEY_WERE.values())]
    assert shop.codes("orders") == [0 | STRICT, 1 | STRICT, 2 | STRICT, 0 | STRICT]
    assert shop.codes("visits") == [2]  # there is no key that it could be strict about
    assert shop.there() == []
    left = refused(lambda: shop.quarantine.replay("orders:5:2", wait_s=0))
    assert (left.code, left.why) == ("quarantine.unknown", f"it was sent again in commit {BEFORE + 1}")
    assert refused(lambda: shop.quarantine.replay(wait_s=0)).code == "quarantine.unknown"
    shop.close()
    shop.open()
    assert (shop.there(), len(shop.sent())) == ([], 1)


@pytest.mark.parametrize("seed", range(6))
def test_random_replays_and_drops_send_each_change_once_or_never(shop: Shop, seed: int) -> None:
    chance, left = random.Random(seed), list(AS_THEY_WERE)
    expected = []
    while left:
        some = chance.sample(left, chance.randint(1, len(left)))
        left = [id for id in left if id not in some]
        if chance.random() < 0.3:
            shop.quarantine.drop(*some)
        else:
            shop.quarantine.replay(*some, wait_s=0)
            expected.append([change for id, change in AS_THEY_WERE.items() if id in some])
        assert shop.there() == left
        if chance.random() < 0.5:
            shop.close()
            shop.open()
    assert shop.sent() == expected


def test_as_another_operation_where_the_whole_row_is_known(shop: Shop) -> None:
    shop.quarantine.replay("orders:3:1", "orders:6:1", as_="replace", wait_s=0)
    assert shop.codes("orders") == [UPSERT, UPSERT]
    found = refused(lambda: shop.quarantine.replay("orders:3:4", as_="insert", wait_s=0))
    assert (found.code, found.where) == ("quarantine.replay", "orders:3:4")
    found = refused(lambda: shop.quarantine.replay("orders:5:2", as_="update", wait_s=0))
    assert (found.code, found.where) == ("quarantine.replay", "orders:5:2")
    assert refused(lambda: shop.quarantine.replay(table="visits", as_="replace", wait_s=0)).code == "quarantine.replay"
    assert refused(lambda: shop.quarantine.replay("orders:5:2", as_="upsert", wait_s=0)).code == "quarantine.replay"
    assert shop.there() == ["orders:3:4", "orders:5:2", "visits:5:1"]
    shop.quarantine.replay("orders:3:4", as_="delete", wait_s=0)
    shop.quarantine.replay("visits:5:1", as_="insert", wait_s=0)
    row = {"id": 2, "amount": "2.50"}
    assert shop.sent()[1:] == [
        [{"table": "orders", "op": DELETE, "row": row}],
        [{"table": "visits", "op": INSERT, "row": {"page": "home", "n": "NaN"}}],
    ]


def test_a_correction_is_typed_like_a_row_that_is_pushed(shop: Shop) -> None:
    fix = shop.quarantine.fix
    for wrong in (
        lambda: fix("orders:3:1", cells={"amount": "a lot"}, wait_s=0),
        lambda: fix("orders:3:1", cells={"id": ""}, wait_s=0),
        lambda: fix("orders:3:1", cells={"amuont": "1"}, wait_s=0),
        lambda: fix("orders:3:1", {"id": "7"}, wait_s=0),
        lambda: fix("orders:3:1", row='{"id": 7, "amount": 1.001}', wait_s=0),
        lambda: fix("orders:3:1", row="{", wait_s=0),
        lambda: fix("orders:3:1", row="[]", wait_s=0),
    ):
        assert refused(wrong).code == "source.row"
    assert refused(lambda: fix("orders:5:2", {"note": "x"}, as_="insert", wait_s=0)).code == "quarantine.replay"
    assert shop.there() == list(AS_THEY_WERE) and shop.sent() == []
    fix("orders:3:1", cells={"id": "7", "note": "", "amount": "9.90"}, wait_s=0)
    fix("orders:3:4", {"id": 8}, wait_s=0)
    fix("orders:5:2", cells={"note": "there", "amount": ""}, as_="insert", wait_s=0)
    fix("orders:6:1", row='{"id": 7, "amount": 1234.10}', as_="replace", wait_s=0)
    fix("visits:5:1", cells={"n": "0.5"}, wait_s=0)
    assert shop.sent() == [
        [{"table": "orders", "op": INSERT, "row": {"id": 7, "note": "", "amount": "9.90"}}],
        [{"table": "orders", "op": UPDATE, "row": {"id": 8, "amount": "2.50"}}],
        [{"table": "orders", "op": INSERT, "row": {"id": 3, "note": "there", "amount": None}}],
        [{"table": "orders", "op": "upsert", "row": {"id": 7, "note": None, "amount": "1234.10"}}],
        [{"table": "visits", "op": DELETE, "row": {"page": "home", "n": 0.5}}],
    ]
    assert shop.there() == []


def test_rows_of_a_table_whose_columns_have_changed_are_typed_again(shop: Shop) -> None:
    wider = Relation(
        "orders", (Column("id", "bigint", nullable=False), Column("amount", "decimal(8,3)"), Column("note", "string")),
        ("id",),
    )  # fmt: skip
    shop.catalog.put_relation("shop", wider)
    shop.quarantine.replay("orders:3:1", "orders:3:4", wait_s=0)
    assert shop.sent() == [[
        {"table": "orders", "op": INSERT, "row": {"id": 1, "amount": "1.000", "note": "a"}},
        {"table": "orders", "op": UPDATE, "row": {"id": 2, "amount": "2.500"}},
    ]]  # fmt: skip
    shop.catalog.put_relation("shop", Relation("orders", wider.columns[:1], ("id",)))
    found = refused(lambda: shop.quarantine.replay("orders:6:1", wait_s=0))
    assert (found.code, found.where) == ("source.row", "orders:6:1")
    shop.catalog.drop_relation("visits")
    assert refused(lambda: shop.quarantine.replay(table="visits", wait_s=0)).code == "source.no_table"
    assert shop.there() == ["orders:5:2", "orders:6:1", "visits:5:1"]


@pytest.mark.parametrize("when", ["before the log", "after the log", "after the catalogue"])
def test_killed_in_between_it_is_sent_once_or_still_there(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    def dies(*arguments: Any) -> None:
        raise KeyboardInterrupt

    append = shop.log.append

    def dies_after(batch: TransactionBatch) -> int:
        append(batch)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        if when == "after the catalogue":
            patched.setattr(quarantined, "sweep", dies)
        else:
            patched.setattr(shop.log, "append", dies if when == "before the log" else dies_after)
        with pytest.raises(KeyboardInterrupt):
            shop.quarantine.replay("orders:3:1", "visits:5:1", wait_s=0)
    listed = [e["id"] for e in quarantine.entries(shop.folder, None, None)[0]]
    assert listed == ([*AS_THEY_WERE] if when != "after the catalogue" else ["orders:3:4", "orders:5:2", "orders:6:1"])
    shop.close()
    shop.open()
    if when == "before the log":
        assert (shop.there(), shop.sent()) == (list(AS_THEY_WERE), [])
        shop.quarantine.replay("orders:3:1", "visits:5:1", wait_s=0)
    assert shop.there() == ["orders:3:4", "orders:5:2", "orders:6:1"]
    assert shop.sent() == [[AS_THEY_WERE["orders:3:1"], AS_THEY_WERE["visits:5:1"]]]


def test_a_log_without_room_leaves_it_where_it_was(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(batch: TransactionBatch) -> int:
        raise HeadraceError("log.full", "No space is left.")

    with monkeypatch.context() as patched:
        patched.setattr(shop.log, "append", full)
        assert refused(lambda: shop.quarantine.replay(wait_s=0)).code == "log.full"
    assert shop.there() == list(AS_THEY_WERE)
    assert shop.catalog.open_replays() == []
    assert shop.quarantine.replay(wait_s=0)["changes"] == 5


def visit(page: str) -> dict[str, Any]:
    return {"table": "visits", "op": INSERT, "row": {"page": page, "n": None}}


def test_rows_that_a_source_could_not_read_go_as_it_reads_them_now(shop: Shop) -> None:
    pages = [RefusedRow("visits", f"a.csv:{n}", "?", page, "csv") for n, page in enumerate((b"One", b"two", b"Six"))]
    assert shop.catalog.keep_refused("files", pages, 0) == [1, 2, 3]
    first, second, third = "files:1", "files:2", "files:3"
    assert shop.there() == [*AS_THEY_WERE, first, second, third]
    wrong = refused(lambda: shop.quarantine.replay(second, first, wait_s=0))
    assert (wrong.code, wrong.where) == ("source.row", "files:1 (a.csv:0)")
    assert refused(lambda: shop.quarantine.replay(second, as_="insert", wait_s=0)).code == "quarantine.replay"
    assert refused(lambda: shop.quarantine.fix(first, {"page": "one"}, wait_s=0)).code == "quarantine.replay"
    assert (shop.there(), shop.sent()) == ([*AS_THEY_WERE, first, second, third], [])
    assert shop.quarantine.replay(second, "visits:5:1", wait_s=0)["changes"] == 2
    shop.quarantine.fix(first, row="one", wait_s=0)
    assert shop.sent() == [[AS_THEY_WERE["visits:5:1"], visit("two")], [visit("one")]]
    assert refused(lambda: shop.quarantine.replay(first, wait_s=0)).why == f"it was sent again in commit {BEFORE + 2}"
    assert shop.quarantine.drop(table="visits") == 1
    assert refused(lambda: shop.quarantine.replay(third, wait_s=0)).why == "it was dropped"
    assert shop.there() == [id for id in AS_THEY_WERE if id.startswith("orders")]


@pytest.mark.parametrize("in_log", [False, True])
def test_killed_in_between_a_refused_row_is_sent_once_or_still_there(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, in_log: bool
) -> None:
    shop.catalog.keep_refused("files", [RefusedRow("visits", "a.csv:1", "?", b"one", "csv")], 0)
    append = shop.log.append

    def dies(batch: TransactionBatch) -> int:
        if in_log:
            append(batch)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(shop.log, "append", dies)
        with pytest.raises(KeyboardInterrupt):
            shop.quarantine.replay("files:1", wait_s=0)
    shop.close()
    shop.open()
    if not in_log:
        assert (shop.there()[-1], shop.sent()) == ("files:1", [])
        shop.quarantine.replay("files:1", wait_s=0)
    assert (shop.there(), shop.sent()) == ([*AS_THEY_WERE], [[visit("one")]])
