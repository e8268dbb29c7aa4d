"""A folder of files, read and followed: the test writes the files, polls as the engine does, and compares the rows."""

from __future__ import annotations

import json
import os
import pwd
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.model.errors import HeadraceError
from headrace.model.schema import Column, Relation
from headrace.model.transaction import INSERT, UPSERT, TransactionBatch
from headrace.sources.connectors.files.connector import FilesSource

TICK = 0.02


class Follower:
    """The engine's side: polls until something comes, confirms, and remembers rows and the last position."""

    def __init__(self, base: Path, position: str | None = None, **options: Any) -> None:
        (base / "in").mkdir(exist_ok=True)
        given = {"path": "in", "poll_seconds": TICK, **options}
        self.source = FilesSource("events", given, "sources/events.yaml", base)
        self.position = position
        self.transactions: list[list[dict[str, Any]]] = []
        self.source.start(frozenset({self.source.table}), position)

    def poll(self, wait_s: float = 5.0) -> TransactionBatch | None:
        deadline = time.monotonic() + wait_s
        while time.monotonic() < deadline:
            batch = self.source.poll(0.2)
            if batch is not None:
                return batch
        return None

    def take(self, count: int = 1) -> list[list[dict[str, Any]]]:
        """The next ``count`` transactions as rows, without ``_t`` and ``_op``."""
        start = len(self.transactions)
        while len(self.transactions) < start + count:
            batch = self.poll()
            assert batch is not None, "no file came"
            (table,) = batch.changes.values()
            assert set(table.column("_op").to_pylist()) == {UPSERT if self.source.options.key else INSERT}
            made: list[list[dict[str, Any]]] = [[] for _ in batch.origins]
            for row in table.drop_columns(["_op"]).to_pylist():
                made[row.pop("_t")].append(row)
            self.transactions += made
            self.position = batch.origins[-1].position
            self.source.confirm(batch, 1)
        return self.transactions[start:]

    def take_in_the_end(self, count: int, code: str) -> list[list[dict[str, Any]]]:
        """As ``take``, when the source still tells of an error for a while."""
        start, deadline = len(self.transactions), time.monotonic() + 10
        while len(self.transactions) < start + count and time.monotonic() < deadline:
            try:
                self.take()
            except HeadraceError as still:
                assert still.code == code
        return self.transactions[start:]

    def nothing(self, scans: int = 6) -> bool:
        return self.poll(scans * TICK * 2) is None

    def refusal(self) -> HeadraceError:
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            try:
                assert self.source.poll(0.2) is None
            except HeadraceError as error:
                return error
        raise AssertionError("no error came")


def lines(*rows: Mapping[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_each_file_is_one_transaction_in_name_order(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "b.jsonl").write_text(lines({"id": 3}))
    (folder / "a.jsonl").write_text(lines({"id": 1}, {"id": 2}))
    (folder / "a.csv").write_text("id\n0\n")
    pq.write_table(pa.table({"id": [4, 5]}), folder / "c.parquet")
    for other in ("notes.txt", ".hidden.jsonl", "_started.jsonl", "d.jsonl.tmp"):
        (folder / other).write_text("not to be read")
    follower = Follower(tmp_path)
    assert follower.take(4) == [[{"id": 0}], [{"id": 1}, {"id": 2}], [{"id": 3}], [{"id": 4}, {"id": 5}]]
    assert json.loads(follower.position or "") == {
        "files": {"a.csv": 5, "a.jsonl": 20, "b.jsonl": 10, "c.parquet": (folder / "c.parquet").stat().st_size}
    }
    assert follower.nothing()
    (folder / "aa.jsonl").write_text(lines({"id": 6}))
    assert follower.take() == [[{"id": 6}]]


def test_position_resumes_and_columns_stand(tmp_path: Path) -> None:
    first = Follower(tmp_path)
    assert first.source.relations() == ()
    (tmp_path / "in" / "1.jsonl").write_text(lines({"id": 1, "day": "2024-02-29"}))
    first.take()
    relation = Relation("events", (Column("id", "bigint"), Column("day", "date")), updates=False, append_only=True)
    assert first.source.relations() == (relation,)
    (tmp_path / "in" / "0.jsonl").write_text(lines({"id": 2.0, "day": None}))
    again = Follower(tmp_path, first.position)
    assert again.source.relations() == (relation,)
    assert again.take() == [[{"id": 2, "day": None}]]
    assert again.nothing()


def test_relations_can_be_asked_for_without_start(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id,zip,price\n1,00123,1.5\n")
    source = FilesSource("shop-files", {"path": "in", "table": "sales", "key": "id"}, base=tmp_path)
    columns = (Column("id", "bigint", False), Column("zip", "string"), Column("price", "double"))
    assert source.relations() == (Relation("sales", columns, ("id",)),)
    assert not (tmp_path / ".headrace").exists()


def test_declared_columns_rule(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text('{"price":1.10,"id":1}\n{"id":2,"price":"12345678901234567890.05"}\n')
    follower = Follower(tmp_path, columns={"id": "int", "price": "decimal(22,2)"}, key=["id"])
    assert follower.source.relations()[0].updates
    assert follower.take() == [
        [{"id": 1, "price": Decimal("1.10")}, {"id": 2, "price": Decimal("12345678901234567890.05")}]
    ]
    assert not (tmp_path / ".headrace").exists()


def test_a_file_that_is_still_written_is_left_alone(tmp_path: Path) -> None:
    follower = Follower(tmp_path, poll_seconds=1.5)  # far longer than a write takes on a busy machine
    path = tmp_path / "in" / "a.csv"
    text = "id\n"
    for number in range(8):
        text += f"{number}\n"
        path.write_text(text)
        assert follower.source.poll(0.05) is None
    assert follower.take() == [[{"id": number} for number in range(8)]]


def test_what_nobody_wrote_to_for_long_is_read_at_the_first_look(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name, minutes in (("old.csv", 5), ("new.csv", 0), ("of_a_fast_clock.csv", -5)):
        (tmp_path / "in" / name).write_text(f"id\n{minutes}\n")
        at = time.time() - 60 * minutes
        os.utime(tmp_path / "in" / name, (at, at))
    follower = Follower(tmp_path, poll_seconds=3)
    began = time.monotonic()
    assert follower.take() == [[{"id": 5}]]
    assert time.monotonic() - began < 2.5
    assert follower.take(2) == [[{"id": 0}], [{"id": -5}]]


def test_json_lines_are_followed_as_they_grow(tmp_path: Path) -> None:
    path = tmp_path / "in" / "log.jsonl"
    follower = Follower(tmp_path)
    path.write_text(lines({"id": 1}))
    assert follower.take() == [[{"id": 1}]]
    with path.open("a") as file:
        file.write(lines({"id": 2}, {"id": 3}) + '{"id":')
        file.flush()
        assert follower.take() == [[{"id": 2}, {"id": 3}]]
        assert follower.nothing()
        assert json.loads(follower.position or "") == {"files": {"log.jsonl": 30}}
        file.write(" 4}")
        file.flush()
    assert follower.take() == [[{"id": 4}]]
    resumed = Follower(tmp_path, follower.position)
    assert resumed.nothing()
    with path.open("a") as file:
        file.write("\n" + lines({"id": 5}))
    assert resumed.take() == [[{"id": 5}]]


def test_json_lines_that_never_rest_are_read_up_to_the_last_whole_line(tmp_path: Path) -> None:
    follower = Follower(tmp_path, poll_seconds=0.001)
    path = tmp_path / "in" / "log.jsonl"
    written = 0
    with path.open("a") as file:
        while not follower.transactions and written < 5000:
            written += 1
            file.write(lines({"id": written})[:-3])
            file.flush()
            batch = follower.source.poll(0.002)
            file.write(lines({"id": written})[-3:])
            file.flush()
            if batch is not None:
                follower.source.confirm(batch, 1)
                follower.transactions.append(batch.changes["events"].column("id").to_pylist())
    assert written < 5000
    got = follower.transactions[0]
    assert got == list(range(1, len(got) + 1))
    while len(got) < written:
        got += [row["id"] for row in follower.take()[0]]
    assert got == list(range(1, written + 1))


BAD_FILES = [
    ("b.jsonl", '{"id":1}\n\n{"id":"x"}\n', ":3", "column 'id' (bigint) must be a whole number, not text 'x'"),
    ("b.jsonl", '{"id":1}\n{"id":1,"nam":"x"}\n', ":2", "there is no column 'nam'; did you mean 'name'?"),
    ("b.csv", "id,name\n1,a\n1.5,b\n", ":3", "column 'id' (bigint) must be a whole number, not text '1.5'"),
]


@pytest.mark.parametrize(("name", "text", "line", "what"), BAD_FILES)
def test_a_bad_row_stops_the_source_until_it_is_corrected(
    tmp_path: Path, name: str, text: str, line: str, what: str
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl").write_text(lines({"id": 0, "name": "n"}))
    (folder / name).write_text(text)
    (folder / "c.jsonl").write_text(lines({"id": 9}))
    follower = Follower(tmp_path)
    assert follower.take() == [[{"id": 0, "name": "n"}]]
    for _ in range(3):
        error = follower.refusal()
        assert (error.code, error.where, error.what) == ("source.row", f"{folder / name}{line}", what)
    assert "nothing of the file was taken" in error.why
    assert len(follower.transactions) == 1
    (folder / name).write_text("id,name\n7,z\n" if name.endswith("csv") else lines({"id": 7, "name": "z"}))
    assert follower.take_in_the_end(2, "source.row") == [[{"id": 7, "name": "z"}], [{"id": 9, "name": None}]]


def test_a_source_that_stopped_with_an_error_starts_again(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl").write_text(lines({"id": 1}))
    (folder / "b.jsonl").write_text("nonsense\n")
    follower = Follower(tmp_path)
    follower.take()
    for _ in range(2):
        assert follower.refusal().where == f"{folder / 'b.jsonl'}:1"
        follower.source.close()
        assert follower.source.poll(0.01) is None
        follower.source.start(frozenset({"events"}), follower.position)
    (folder / "b.jsonl").write_text(lines({"id": 2}))
    assert follower.take_in_the_end(1, "source.row") == [[{"id": 2}]]


def test_a_bad_file_that_is_taken_away_lets_the_others_pass(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.parquet").write_bytes(b"half a file")
    follower = Follower(tmp_path, columns={"id": "bigint"})
    error = follower.refusal()
    assert (error.code, error.where) == ("source.file", str(folder / "a.parquet"))
    (folder / "b.jsonl").write_text(lines({"id": 1}))
    assert follower.refusal().code == "source.file"
    (folder / "a.parquet").unlink()
    assert follower.take_in_the_end(1, "source.file") == [[{"id": 1}]]


@pytest.mark.parametrize(("name", "text"), [("b.jsonl", '{"id":2}\n'), ("b.csv", "id\n2\n")])
def test_what_the_system_has_against_a_file_is_told_with_its_path(
    tmp_path: Path, name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder takes the file's place once it is known that there is one."""
    monkeypatch.setattr("headrace.sources.connectors.files.connector.BATCH_ROWS", 1)
    path = tmp_path / "in" / name
    path.parent.mkdir()
    (path.parent / "a.jsonl").write_text(lines({"id": 1}))
    path.write_text(text)
    follower = Follower(tmp_path, columns={"id": "bigint"})
    assert follower.take() == [[{"id": 1}]]
    path.unlink()
    path.mkdir()
    error = follower.refusal()
    assert (error.code, error.what, error.where) == ("source.file", f"{name} cannot be read now", str(path))
    assert error.why == "Is a directory"
    path.rmdir()
    path.write_text(text)
    assert follower.take_in_the_end(1, "source.file") == [[{"id": 2}]]


@contextmanager
def as_nobody() -> Iterator[None]:
    """Rights keep others out, but not root."""
    before = os.geteuid()
    os.seteuid(before or pwd.getpwnam("nobody").pw_uid)
    try:
        yield
    finally:
        os.seteuid(before)


def test_a_file_that_may_not_be_read_is_tried_again_though_it_stays_as_it_is() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as made:  # in a folder that all may pass through
        Path(made).chmod(0o755)
        follower = Follower(Path(made), columns={"id": "bigint"})
        path = Path(made) / "in" / "b.jsonl"
        path.with_name("a.jsonl").write_text(lines({"id": 1}))
        follower.take()
        path.write_text(lines({"id": 2}))
        path.chmod(0)
        with as_nobody():
            error = follower.refusal()
        assert (error.code, error.where, error.why) == ("source.file", str(path), "Permission denied")
        path.chmod(0o600)
        assert follower.take_in_the_end(1, "source.file") == [[{"id": 2}]]


@pytest.mark.parametrize(
    ("name", "before", "after"), [("a.csv", "id\n1\n", "id\n1\n2\n"), ("a.jsonl", "{}\n{}\n", "{}\n")]
)
def test_a_file_that_changes_after_it_was_read_is_named(tmp_path: Path, name: str, before: str, after: str) -> None:
    path = tmp_path / "in" / name
    follower = Follower(tmp_path, columns={"id": "bigint"})
    path.write_text(before)
    follower.take()
    path.write_text(after)
    error = follower.refusal()
    assert (error.code, error.what) == ("source.file", f"{name} was changed after it was read")
    assert error.why == f"it had {len(before)} bytes then, and has {len(after)} now"
    path.write_text(before)
    (tmp_path / "in" / "z.jsonl").write_text(lines({"id": 5}))
    assert follower.take_in_the_end(1, "source.file") == [[{"id": 5}]]


def test_a_batch_that_the_log_refused_comes_again(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    for number in range(3):
        (tmp_path / "in" / f"{number}.jsonl").write_text(lines({"id": number}))
    batch = follower.poll()
    assert batch is not None
    follower.source.reject(batch, OSError("no space"))
    taken = follower.take(3)
    assert taken == [[{"id": 0}], [{"id": 1}], [{"id": 2}]]


def test_batches_end_with_whole_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.sources.connectors.files.connector.BATCH_ROWS", 3)
    (tmp_path / "in").mkdir()
    for number in range(5):
        (tmp_path / "in" / f"{number}.jsonl").write_text(lines({"id": number}, {"id": number}))
    follower = Follower(tmp_path)
    sizes = []
    for _ in range(3):
        batch = follower.poll()
        assert batch is not None
        sizes.append((len(batch.origins), batch.rows))
        follower.source.confirm(batch, 1)
    assert sizes == [(2, 4), (2, 4), (1, 2)]
    # A position in the middle of a batch resumes after that file.
    (tmp_path / "in" / "z.jsonl").write_text(lines({"id": 9}, {"id": 9}))
    middle = Follower(tmp_path, '{"files":{"0.jsonl":20,"1.jsonl":20,"2.jsonl":20}}')
    assert middle.take(3) == [[{"id": 3}] * 2, [{"id": 4}] * 2, [{"id": 9}] * 2]


def test_pattern_format_and_delimiter(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x-1.dat").write_text("id;t\n1;a,b\n")
    (tmp_path / "in" / "y-1.dat").write_text("no")
    follower = Follower(tmp_path, pattern="x-*.dat", format="csv", delimiter=";")
    assert follower.take() == [[{"id": 1, "t": "a,b"}]]
    assert follower.nothing()


def test_empty_files_are_no_transactions(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id\n")
    (tmp_path / "in" / "b.jsonl").write_text("")
    follower = Follower(tmp_path, columns={"id": "bigint"})
    assert follower.nothing()
    (tmp_path / "in" / "c.jsonl").write_text(lines({"id": 1}))
    assert follower.take() == [[{"id": 1}]]


def test_files_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    (tmp_path / "in" / "a.jsonl").write_text(lines({"id": 1}))
    follower.take()
    (tmp_path / "in" / "a.jsonl").unlink()
    (tmp_path / "in" / "b.jsonl").write_text(lines({"id": 2}))
    follower.take()
    assert json.loads(follower.position or "") == {"files": {"b.jsonl": 10}}


def test_only_a_followed_table_is_read(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text(lines({"id": 1}))
    source = FilesSource("events", {"path": "in", "poll_seconds": TICK}, base=tmp_path)
    source.start(frozenset(), None)
    assert source.poll(10 * TICK) is None
    with pytest.raises(HeadraceError, match=r"source\.no_table"):
        source.add(frozenset({"event"}))
    source.add(frozenset({"events"}))
    batches = [source.poll(0.2) for _ in range(5)]
    assert any(batch is not None for batch in batches)


@pytest.mark.parametrize(
    ("options", "code", "what"),
    [
        ({"path": "missing"}, "source.connect", "the folder"),
        ({"path": "in", "fromat": "csv"}, "config.unknown_key", "unknown key 'fromat'"),
        ({"path": "in", "format": "xml"}, "config.invalid", "'format' must be 'jsonl', 'csv' or 'parquet'"),
        ({"path": "in", "columns": {"id": "bigintt"}}, "config.invalid", "column 'id' of 'events'"),
        ({"path": "in", "table": "my events"}, "config.invalid", "'my events' is not a table name"),
    ],
)
def test_bad_options(tmp_path: Path, options: dict[str, Any], code: str, what: str) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(HeadraceError) as caught:
        FilesSource("events", options, "sources/events.yaml", tmp_path).start(frozenset({"events"}), None)
    assert (caught.value.code, caught.value.where) == (code, "sources/events.yaml")
    assert caught.value.what.startswith(what)


def test_close_ends_a_poll_that_waits(tmp_path: Path) -> None:
    import threading

    follower = Follower(tmp_path, poll_seconds=60)
    begun = time.monotonic()
    timer = threading.Timer(0.1, follower.source.close)
    timer.start()
    assert follower.source.poll(30) is None
    assert time.monotonic() - begun < 10
    timer.join()


def test_bad_rows_are_kept_and_the_others_of_the_file_flow_on(tmp_path: Path) -> None:
    columns = {"id": "int not null", "amount": "decimal(4,2)"}
    follower = Follower(tmp_path, columns=columns, key="id", on_error="quarantine", on_conflict="replace")
    folder = tmp_path / "in"
    (folder / "1.jsonl").write_text(lines({"id": 1, "amount": "1.00"}) + "{\n" + lines({"id": 2, "amount": "123.00"}))
    (folder / "2.csv").write_text("amount,id\n2.00,3\n2.00\n")
    (folder / "3.jsonl").write_text(lines({"id": "x"}))
    batches = []
    while sum(len(batch.origins) for batch in batches) < 3:
        batch = follower.poll()
        assert batch is not None
        follower.source.confirm(batch, 1)
        batches.append(batch)
    rows = [row for batch in batches for row in batch.changes["events"].select(["id", "amount"]).to_pylist()]
    assert rows == [{"id": 1, "amount": Decimal("1.00")}, {"id": 3, "amount": Decimal("2.00")}]
    positions = [origin.position for batch in batches for origin in batch.origins]
    assert json.loads(positions[-1])["files"].keys() == {"1.jsonl", "2.csv", "3.jsonl"}
    starts = [0]
    for batch in batches:
        starts.append(starts[-1] + len(batch.origins))
    refused = [
        (start + row.ordinal, row.place, row.payload, row.form)
        for start, batch in zip(starts, batches, strict=False)
        for row in batch.refused
    ]
    assert refused == [
        (0, f"{folder}/1.jsonl:2", b"{", "json"),
        (0, f"{folder}/1.jsonl:3", b'{"id": 2, "amount": "123.00"}', "json"),
        (1, f"{folder}/2.csv:3", b"amount,id\n2.00", "csv"),
        (2, f"{folder}/3.jsonl:1", b'{"id": "x"}', "json"),
    ]
    assert follower.nothing()
    kept = [row for batch in batches for row in batch.refused]
    for row in kept:
        with pytest.raises(HeadraceError) as raised:
            follower.source.reread(row)
        assert (raised.value.code, raised.value.where) == ("source.row", row.place)
    wider = FilesSource("events", {"path": "in", "columns": {**columns, "amount": "decimal(6,2)"}}, "", tmp_path)
    assert wider.reread(kept[1])["events"].to_pylist() == [{"_t": 0, "_op": 0, "id": 2, "amount": Decimal("123.00")}]
    right = replace(kept[2], payload=b"amount,id\n2.00,9")
    assert follower.source.reread(right)["events"].to_pylist() == [
        {"_t": 0, "_op": UPSERT, "id": 9, "amount": Decimal("2.00")}
    ]
