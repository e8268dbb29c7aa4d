"""What goes into the log comes out again: values, order, numbers, ranges, also across segments and processes.

The judge is a plain Python list of what was appended; nothing of the log computes the expected values.
"""

from __future__ import annotations

import dataclasses
import json
import pickle
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.log.append import LogWriter
from headrace.log.faults import FaultyFiles
from headrace.log.read import FrameRef, LogReader
from headrace.model.errors import HeadraceError
from headrace.model.transaction import TransactionBatch, TransactionOrigin

WIDE = pa.schema(
    [
        ("_t", pa.int32()),
        ("_op", pa.int8()),
        ("id", pa.int64()),
        ("amount", pa.decimal128(38, 9)),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("name", pa.string()),
        ("raw", pa.binary()),
        ("ratio", pa.float64()),
        ("tags", pa.list_(pa.string())),
        ("place", pa.struct([("x", pa.int32()), ("more", pa.list_(pa.struct([("y", pa.string())])))])),
        ("counts", pa.map_(pa.string(), pa.int64())),
    ]
)


def wide_row(ordinal: int, number: int) -> dict[str, Any]:
    row: dict[str, Any] = {
        "_t": ordinal,
        "_op": number % 3,
        "id": number,
        "amount": Decimal(number) * Decimal("12345678901234567890.000000001"),
        "at": datetime(2024, 2, 29, tzinfo=UTC) + timedelta(microseconds=number),
        "local": datetime(1969, 12, 31, 23, 59, 59, number % 1000),
        "name": "é\0😀" * (number % 4),
        "raw": bytes(range(number % 7)),
        "ratio": number / 7,
        "tags": [None, "a", ""][: number % 4],
        "place": {"x": None, "more": [{"y": None}, {"y": str(number)}]},
        "counts": [("k", number), ("n", None)],
    }
    for place, name in enumerate(list(row)[3:]):
        if (number + place) % 5 == 0:
            row[name] = None
    return row


def origins(count: int, source: str = "shop", begin: int = 0) -> tuple[TransactionOrigin, ...]:
    return tuple(TransactionOrigin(source, f"0/{begin + n:X}", 1_700_000_000_000_000 + n) for n in range(count))


def simple(
    rows: list[tuple[int, int]], transactions: int, relation: str = "orders", source: str = "shop"
) -> TransactionBatch:
    """Rows as (ordinal, id) of one relation with the columns id and a text of it."""
    table = pa.table(
        {
            "_t": pa.array([t for t, _ in rows], pa.int32()),
            "_op": pa.array([0] * len(rows), pa.int8()),
            "id": pa.array([number for _, number in rows], pa.int64()),
            "text": pa.array([f"row {number}" for _, number in rows]),
        }
    )
    return TransactionBatch(origins(transactions, source), {relation: table})


def rows_of(reader: LogReader, relation: str, after: int, upto: int) -> list[dict[str, Any]]:
    refs = reader.refs(after, upto)
    return [row for batch in reader.read(refs, relation, after, upto) for row in batch.to_pylist()]


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[LogWriter]:
    with LogWriter(tmp_path / "log") as opened:
        yield opened


def test_every_type_comes_back_with_its_commit(writer: LogWriter, tmp_path: Path) -> None:
    rows = [wide_row(n // 3, n) for n in range(30)]
    other = simple([(0, 7), (4, 8), (9, 9)], 10).changes["orders"]
    batch = TransactionBatch(origins(10), {"wide": pa.Table.from_pylist(rows, schema=WIDE), "orders": other})
    assert writer.append(simple([(0, 1)], 5)) == 1
    assert writer.append(batch) == 6
    reader = LogReader(tmp_path / "log")
    expected = [{"_c": 6 + row.pop("_t"), **row} for row in rows]
    assert rows_of(reader, "wide", 0, 15) == expected
    assert [(row["_c"], row["id"]) for row in rows_of(reader, "orders", 0, 15)] == [(1, 1), (6, 7), (10, 8), (15, 9)]
    (read,) = reader.read(reader.refs(5, 15), "wide", 5, 15)
    assert read.schema.names == ["_c", *WIDE.names[1:]]
    assert read.schema.types == [pa.int64(), *WIDE.types[1:]]


def test_partial_updates_keep_their_unchanged_column(writer: LogWriter, tmp_path: Path) -> None:
    table = pa.table(
        {
            "_t": pa.array([0, 1], pa.int32()),
            "_op": pa.array([0, 1], pa.int8()),
            "_unchanged": pa.array([None, b"\x02"]),
            "id": [1, 1],
            "text": ["long", None],
        }
    )
    writer.append(TransactionBatch(origins(2), {"orders": table}))
    writer.append(simple([(0, 2)], 1))  # without the column: another schema, both stay as they were
    read = list(LogReader(tmp_path / "log").read(LogReader(tmp_path / "log").refs(0, 3), "orders", 0, 3))
    assert [batch.schema.names for batch in read] == [
        ["_c", "_op", "_unchanged", "id", "text"],
        ["_c", "_op", "id", "text"],
    ]
    assert [row["_unchanged"] for row in read[0].to_pylist()] == [None, b"\x02"]


def test_transactions_without_rows_have_commits_and_positions(writer: LogWriter, tmp_path: Path) -> None:
    empty = simple([], 2)
    assert writer.append(TransactionBatch(origins(3, "idle"))) == 1
    assert writer.append(empty) == 4
    reader = LogReader(tmp_path / "log")
    assert [ref.rows for ref in reader.refs(0, 5)] == [{}, {}]
    assert list(reader.read(reader.refs(0, 5), "orders", 0, 5)) == []
    assert writer.positions == {"idle": "0/2", "shop": "0/1"}
    assert [(commit, origin.source) for commit, origin in reader.origins(1, 4)] == [
        (2, "idle"),
        (3, "idle"),
        (4, "shop"),
    ]


class GatedSync(FaultyFiles):
    """A disk whose syncs wait for the gate: what is appended meanwhile becomes one group."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()

    def sync(self, fd: int) -> None:
        assert self.gate.wait(30)
        super().sync(fd)


def test_a_column_added_between_two_batches_of_one_group(tmp_path: Path) -> None:
    files = GatedSync()
    with LogWriter(tmp_path / "log", files=files) as writer:
        writer.append(simple([(0, 0)], 1))
        before = simple([(0, 1)], 1)
        wider = before.changes["orders"].append_column("extra", pa.array([5], pa.int32()))
        syncs = files.calls["sync"]
        files.gate.clear()
        answers = [writer.submit(before)]  # perhaps on its way by itself; the other three wait for it
        answers += [writer.submit(b) for b in (before, TransactionBatch(origins(1), {"orders": wider}), before)]
        files.gate.set()
        assert [answer.result() for answer in answers] == [2, 3, 4, 5]
        assert files.calls["sync"] - syncs <= 2
        reader = LogReader(tmp_path / "log")
        read = list(reader.read(reader.refs(1, 5), "orders", 1, 5))
        assert [batch.schema.names[2:] for batch in read] == [["id", "text"], ["id", "text", "extra"], ["id", "text"]]
        assert [batch.column(0).to_pylist() for batch in read] == [[2, 3], [4], [5]]


def test_ranges_cut_inside_a_frame(writer: LogWriter, tmp_path: Path) -> None:
    written = [(n // 2, n) for n in range(40)]
    for begin in range(0, 60, 20):
        writer.append(simple([(t, n + 100 * begin) for t, n in written], 20))
    expected = [(begin + t + 1, n + 100 * begin) for begin in range(0, 60, 20) for t, n in written]
    reader = LogReader(tmp_path / "log")
    for after in range(0, 60, 7):
        for upto in range(after, 61, 3):
            found = [(row["_c"], row["id"]) for row in rows_of(reader, "orders", after, upto)]
            assert found == [pair for pair in expected if after < pair[0] <= upto]
            assert [commit for commit, _ in reader.origins(after, upto)] == list(range(after + 1, upto + 1))
    # More refs than the range needs change nothing.
    wide = reader.refs(0, 60)
    assert [batch.num_rows for batch in reader.read(wide, "orders", 19, 21)] == [4]


def test_refs_travel_as_json_and_readers_as_pickles(writer: LogWriter, tmp_path: Path) -> None:
    writer.append(simple([(0, 1), (1, 2)], 2))
    reader = LogReader(tmp_path / "log")
    (ref,) = reader.refs(0, 2)
    assert (ref.first, ref.last, ref.rows) == (1, 2, {"orders": 2})
    (segment,) = reader.segments()
    assert ref.offset + ref.bytes == segment.bytes
    there = FrameRef(**json.loads(json.dumps(dataclasses.asdict(ref))))
    task = pickle.loads(pickle.dumps(reader))
    assert [batch.column("id").to_pylist() for batch in task.read([there], "orders", 0, 2)] == [[1, 2]]


def test_the_log_does_not_end_before_what_is_asked_for(writer: LogWriter, tmp_path: Path) -> None:
    reader = LogReader(tmp_path / "log")
    assert (reader.end, reader.refs(0, 0), LogReader(tmp_path / "none").end) == (0, [], 0)
    writer.append(simple([(0, 1)], 1))
    with pytest.raises(ValueError, match="ends at commit 1"):
        reader.refs(0, 2)


def test_many_segments_and_reopening(tmp_path: Path) -> None:
    expected = []
    for opening in range(4):
        with LogWriter(tmp_path / "log", segment_bytes=8192) as writer:
            assert writer.end == len(expected)
            for n in range(25):
                source = f"source {n % 3}"
                expected.append((len(expected) + 1, 1000 * opening + n))
                batch = TransactionBatch(
                    origins(1, source, begin=expected[-1][1]), simple([(0, expected[-1][1])], 1).changes
                )
                assert writer.append(batch) == len(expected)
            positions = writer.positions
            assert positions == {f"source {n % 3}": f"0/{1000 * opening + n:X}" for n in range(22, 25)}
    reader = LogReader(tmp_path / "log")
    names = sorted(path.name for path in (tmp_path / "log").glob("*.segment"))
    assert len(names) > 5
    assert [(row["_c"], row["id"]) for row in rows_of(reader, "orders", 0, 100)] == expected
    assert [(row["_c"], row["id"]) for row in rows_of(LogReader(tmp_path / "log"), "orders", 57, 58)] == [expected[57]]
    report = reader.verify()
    assert (report.segments, report.end, report.rows) == (len(names), 100, {"orders": 100})
    # Positions survive although no frame of the last segment may name the source.
    with LogWriter(tmp_path / "log", segment_bytes=8192) as writer:
        assert writer.positions == positions
        for n in range(20):
            writer.append(simple([(0, n)], 1, source="source 0"))
    with LogWriter(tmp_path / "log") as writer:
        assert writer.positions == positions | {"source 0": "0/0"}


def test_a_frame_larger_than_a_segment(tmp_path: Path) -> None:
    count = 200_000
    table = pa.table(
        {
            "_t": pa.array([0] * count, pa.int32()),
            "_op": pa.array([0] * count, pa.int8()),
            "id": pa.array(range(count), pa.int64()),
            "text": pa.array(["x" * (n % 50) for n in range(count)]),
        }
    )
    with LogWriter(tmp_path / "log", segment_bytes=1 << 20) as writer:
        writer.append(simple([(0, 1)], 1))
        assert writer.append(TransactionBatch(origins(1), {"orders": table})) == 2
        assert writer.append(simple([(0, 3)], 1)) == 3
        reader = LogReader(tmp_path / "log")
        read = pa.Table.from_batches(reader.read(reader.refs(1, 2), "orders", 1, 2))
        assert read.drop_columns("_c").equals(table.drop_columns("_t"))
        assert len(list((tmp_path / "log").glob("*.segment"))) == 3
        assert reader.verify().rows == {"orders": count + 2}


def test_a_large_transaction_takes_little_memory(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
import numpy as np, pyarrow as pa
from headrace.log.append import LogWriter
from headrace.model.transaction import TransactionBatch, TransactionOrigin

def resident(line):
    status = Path("/proc/self/status").read_text().split()
    return int(status[status.index(line + ":") + 1]) // 1024

rows = 2_000_000
columns = {f"c{n}": pa.array(np.arange(rows) + n) for n in range(12)}
zeros = {"_t": pa.array(np.zeros(rows, np.int32)), "_op": pa.array(np.zeros(rows, np.int8))}
batch = TransactionBatch((TransactionOrigin("s", "1", 0),), {"orders": pa.table(zeros | columns)})
writer = LogWriter(Path(sys.argv[1]))
Path("/proc/self/clear_refs").write_text("5")
before = resident("VmRSS")
writer.append(batch)
print(resident("VmHWM") - before, batch.changes["orders"].nbytes >> 20)
writer.close()
"""
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True, check=True)
    extra_mb, size_mb = map(int, done.stdout.split())
    assert size_mb > 180
    assert extra_mb < 64
    reader = LogReader(tmp_path)
    assert sum(b["c11"].to_numpy().sum() for b in reader.read(reader.refs(0, 1), "orders", 0, 1)) == 2_000_021_000_000


def test_many_threads_share_syncs_and_get_dense_commits(tmp_path: Path) -> None:
    class SlowSync(FaultyFiles):
        def sync(self, fd: int) -> None:
            time.sleep(0.005)
            super().sync(fd)

    files = SlowSync()
    got: dict[int, int] = {}
    with LogWriter(tmp_path / "log", files=files) as writer:
        before = files.calls["sync"]

        def run(thread: int) -> None:
            for n in range(25):
                number = thread * 1000 + n
                got[writer.append(simple([(0, number), (1, number)], 2))] = number

        threads = [threading.Thread(target=run, args=(n,)) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert files.calls["sync"] - before < 400 / 4
        reader = LogReader(tmp_path / "log")
        assert sorted(got) == list(range(1, 801, 2))
        found = [(row["_c"], row["id"]) for row in rows_of(reader, "orders", 0, 800)]
        assert found == [(commit + k, got[commit]) for commit in sorted(got) for k in (0, 1)]
        for thread in range(16):  # a thread's own batches are in its order
            commits = [commit for commit in sorted(got) if got[commit] // 1000 == thread]
            assert [got[commit] % 1000 for commit in commits] == list(range(25))
        # Few large batches, not one for each of 400 appends.
        assert len(list(reader.read(reader.refs(0, 800), "orders", 0, 800))) == 1


def test_wait_returns_at_once_late_or_never(writer: LogWriter) -> None:
    assert writer.wait(0, 0.01) == 0
    answer: list[int] = []
    thread = threading.Thread(target=lambda: answer.append(writer.wait(1, 30)))
    thread.start()
    writer.append(simple([(0, 1), (1, 2)], 2))
    thread.join(10)
    assert answer == [2]
    assert writer.wait(1, 0) == 2


def test_one_writer_only_and_none_after_close(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "log")
    with pytest.raises(HeadraceError, match=r"project\.locked"):
        LogWriter(tmp_path / "log")
    answers = [writer.submit(simple([(0, n)], 1)) for n in range(50)]
    writer.close()
    writer.close()
    assert [answer.result() for answer in answers] == list(range(1, 51))
    with pytest.raises(HeadraceError, match=r"log\.failed"):
        writer.append(simple([(0, 1)], 1))
    with LogWriter(tmp_path / "log") as again:
        assert again.end == 50


@pytest.mark.parametrize("ordinals", [[0, 2], [1, 0], [-1, 0], [0, None]])
def test_a_batch_out_of_order_is_refused_alone(writer: LogWriter, ordinals: list[int | None]) -> None:
    table = simple([(0, 1), (0, 2)], 2).changes["orders"].set_column(0, "_t", pa.array(ordinals, pa.int32()))
    with pytest.raises(ValueError, match="orders"):
        writer.append(TransactionBatch(origins(2), {"orders": table}))
    with pytest.raises(ValueError, match="without transactions"):
        writer.append(TransactionBatch((), {}))
    assert writer.append(simple([(0, 1)], 1)) == 1


def test_another_process_reads_while_this_one_writes(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from headrace.log.read import LogReader
reader, seen, frontier = LogReader(Path(sys.argv[1])), 0, 0
while frontier < 600:
    end = reader.end
    if end > frontier:
        for batch in reader.read(reader.refs(frontier, end), "orders", frontier, end):
            for commit, number in zip(batch["_c"].to_pylist(), batch["id"].to_pylist()):
                seen += 1
                assert number == seen and commit == (seen + 1) // 2, (commit, number, seen)
        assert seen == 2 * end, (seen, end)
        frontier = end
print("read", seen)
"""
    with LogWriter(tmp_path / "log", segment_bytes=32_768) as writer:
        command = [sys.executable, "-c", script, str(tmp_path / "log")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reading:
            generator = random.Random(1)
            number = 0
            while number < 1200:
                count = min(generator.randrange(1, 6), (1200 - number) // 2)
                rows = [(n // 2, number + n + 1) for n in range(2 * count)]
                writer.submit(simple(rows, count))
                number += 2 * count
                time.sleep(0.001)
            out, _ = reading.communicate(timeout=60)
    assert (reading.returncode, out) == (0, "read 1200\n")


VALUES = st.tuples(
    st.integers(0, 3),
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    st.none() | st.lists(st.none() | st.floats(allow_nan=False, width=64), max_size=3),
)
BATCHES = st.lists(
    st.tuples(
        st.integers(1, 5),
        st.dictionaries(
            st.sampled_from(["a", "b", "É \"'"]), st.lists(st.tuples(st.integers(0, 4), VALUES), max_size=6)
        ),
    ),
    max_size=8,
)
TYPES = [("op", pa.int8()), ("n", pa.int64()), ("s", pa.string()), ("l", pa.list_(pa.float64()))]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(batches=BATCHES, cuts=st.tuples(st.integers(0, 40), st.integers(0, 40)), reopen=st.booleans())
def test_arbitrary_batches(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[tuple[int, dict[str, list[tuple[int, tuple[Any, ...]]]]]],
    cuts: tuple[int, int],
    reopen: bool,
) -> None:
    path = tmp_path_factory.mktemp("arbitrary")
    expected: dict[str, list[tuple[Any, ...]]] = {}
    end = 0
    writer = LogWriter(path, segment_bytes=4096, files=FaultyFiles(most_bytes=1000))
    for count, relations in batches:
        changes = {}
        for name, rows in relations.items():
            ordered = sorted((t % count, place, values) for place, (t, values) in enumerate(rows))
            columns = [pa.array([t for t, _, _ in ordered], pa.int32())]
            columns += [pa.array([v[k] for _, _, v in ordered], kind) for k, (_, kind) in enumerate(TYPES)]
            changes[name] = pa.table(columns, names=["_t", "_op", "n", "s", "l"])
            expected.setdefault(name, []).extend((end + 1 + t, *values) for t, _, values in ordered)
        assert writer.append(TransactionBatch(origins(count), changes)) == end + 1
        end += count
        if reopen:
            writer.close()
            writer = LogWriter(path, segment_bytes=4096)
    after, upto = sorted(min(cut, end) for cut in cuts)
    reader = LogReader(path)
    for name, rows in expected.items():
        found = [tuple(row.values()) for row in rows_of(reader, name, after, upto)]
        assert found == [row for row in rows if after < row[0] <= upto]
    writer.close()
    assert reader.verify().end == end
