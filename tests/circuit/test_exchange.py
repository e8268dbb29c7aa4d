"""Goal: of a wide circuit each task is given the rows that it owns, all of them, in one order; nothing stays on the disk.

Method: rows with drawn hashes through a plan as steps run them; which task owns one is Spark's word.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from headrace.circuit import exchange
from headrace.circuit.build import Builder, Shape
from headrace.circuit.flow import Columns, Flow, united
from headrace.circuit.operators.changes import ReadRange
from headrace.circuit.prepare import Prepared
from headrace.circuit.task import Step, partition
from headrace.circuit.written import COLUMNS, Written, told

TASKS = 7
HASHES = [None, 0, -1, 1, -(2**63), 2**63 - 1, 1 << 32, -(1 << 32)]
GIVEN: Columns = (("id", "bigint"), ("_h", "bigint"), ("text", "string"), ("to", "int"))


@pytest.mark.spark
@pytest.mark.parametrize("by", [None, "to"], ids=["by hash", "by a column"])
def test_each_row_goes_to_the_task_that_owns_it_in_the_order_of_those_that_had_it(
    spark: Any, tmp_path: Path, by: str | None
) -> None:
    random = np.random.default_rng(3)
    hashes = [*HASHES, *(int(h) for h in random.integers(-(2**63), 2**63 - 1, 992))]
    rows = [(n, h, f"r{n}" if n % 3 else None, n % TASKS if n % 5 == 0 else None) for n, h in enumerate(hashes)]
    frame = spark.createDataFrame(rows, "id bigint, _h bigint, text string, `to` int")
    owned = F.expr(f"coalesce(int(shiftright((shiftright(_h, 32) + {1 << 31}) * {TASKS}, 32)), 0)")
    owner = owned if by is None else F.coalesce(F.col(by), owned)
    owners = {row.id: row.owner for row in frame.select("id", owner.alias("owner")).collect()}
    builder = Builder(spark, "c", Shape(True, TASKS), {}, cast("ReadRange", None))

    def tell(pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = [[row["id"], row["_h"], row["text"], row["to"]] for piece in pieces for row in piece.to_pylist()]
        yield told([Written(json.dumps(found), "", partition(), "")])

    for parts in (1, 3):  # tasks that have the rows
        flow = builder.dealt(Flow(frame.repartitionByRange(parts, "id").sortWithinPartitions("id"), GIVEN), by)
        folder = tmp_path / str(parts)
        folder.mkdir()
        Step("", [], 0, 0, "one", {}, {}, False, str(folder)).write(folder / "step.json")
        files = Prepared(flow.then(tell, COLUMNS).frame).run(folder / "step.json")
        had = {file.rows: list(map(tuple, json.loads(file.circuit))) for file in files}
        expected = defaultdict(list)
        for row in rows:
            expected[owners[row[0]]].append(row)
        assert had == {task: expected[task] for task in range(TASKS)}
        assert len(list(folder.glob(f"{exchange.PREFIX}*"))) == parts
        exchange.discard(folder)
        assert [path.name for path in folder.iterdir()] == ["step.json"]


@pytest.mark.spark
@pytest.mark.parametrize("everywhere", [(), (1,)], ids=["by hash", "one everywhere"])
def test_inputs_that_are_given_together_are_told_apart(spark: Any, tmp_path: Path, everywhere: tuple[int, ...]) -> None:
    """Of one a task may own rows, of the other none; they need not have the same columns. What is for every task is
    written once."""
    one = Flow(spark.range(0, 40, 1, 2).selectExpr("id AS _h", "id AS a"), (("_h", "bigint"), ("a", "bigint")))
    other = Flow(spark.range(0, 1, 1, 1).selectExpr("id AS _h", "'x' AS b"), (("_h", "bigint"), ("b", "string")))
    builder = Builder(spark, "c", Shape(True, TASKS), {}, cast("ReadRange", None))

    def tell(pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        lie = list(pieces)
        found = [[row for rows in exchange.Dealt(n)(lie) for row in rows.to_pylist()] for n in (0, 1)]
        yield told([Written(json.dumps(found), "", partition(), "")])

    Step("", [], 0, 0, "one", {}, {}, False, str(tmp_path)).write(tmp_path / "step.json")
    lie = builder.lie([one, other], everywhere=everywhere)
    files = Prepared(lie.then(tell, COLUMNS).frame).run(tmp_path / "step.json")
    had = {file.rows: json.loads(file.circuit) for file in files}
    owner, others = TASKS // 2, [{"_h": 0, "b": "x"}]  # small hashes lie in the middle
    assert had.pop(owner) == [[{"_h": n, "a": n} for n in range(40)], others]
    assert had == {task: [[], others if everywhere else []] for task in range(TASKS) if task != owner}
    dealt = [pa.ipc.open_file(path).read_all().num_rows for path in tmp_path.glob(f"{exchange.PREFIX}*")]
    assert sorted(dealt) == [1, 20, 20]


@pytest.mark.spark
def test_inputs_that_spark_runs_in_one_task_write_files_of_their_own(spark: Any, tmp_path: Path) -> None:
    """Each in a process of its own, of which none knows what another wrote. So do those of a union."""
    columns: Columns = (("id", "bigint"), ("_h", "bigint"))
    flows = [
        Flow(spark.range(n * 100, n * 100 + 40, 1, 1).selectExpr("id", "0L AS _h"), columns).then(iter, columns)
        for n in range(3)
    ]
    builder = Builder(spark, "c", Shape(True, 1), {}, cast("ReadRange", None))

    def tell(pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        lie = list(pieces)
        found = [[id for rows in exchange.Dealt(n)(lie) for id in rows["id"].to_pylist()] for n in (0, 1)]
        yield told([Written(json.dumps(found), "", partition(), "")])

    Step("", [], 0, 0, "one", {}, {}, False, str(tmp_path)).write(tmp_path / "step.json")
    frame = builder.lie([united(flows[:2]), flows[2]]).then(tell, COLUMNS).frame
    (file,) = Prepared(frame).run(tmp_path / "step.json")
    assert json.loads(file.circuit) == [[*range(40), *range(100, 140)], [*range(200, 240)]]
    written = [path.stem.split("~")[2:] for path in tmp_path.glob(f"{exchange.PREFIX}*")]
    assert len({attempt for attempt, _ in written}) == 1
    assert sorted(number for _, number in written) == ["000000", "000001", "000002"]


def test_rows_are_dealt_out_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as memory has room for: few where they are long."""
    monkeypatch.setattr(exchange, "ROWS", 10)
    monkeypatch.setattr(exchange, "BYTES", 1000)
    short = [pa.record_batch({"a": list(range(n))}) for n in (4, 0, 7, 1, 30)]
    assert [table.num_rows for table in exchange._portions(short)] == [11, 11, 10, 10]
    long = [pa.record_batch({"a": ["x" * 600] * n}) for n in (1, 1, 1, 2, 1)]
    assert [table.num_rows for table in exchange._portions(long)] == [2, 2, 2]
    assert list(exchange._portions([pa.record_batch({"a": pa.array([], pa.int32())})])) == []


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Step("", [], 0, 0, "one", {}, {}, False, str(tmp_path / "gone"))
    monkeypatch.setattr(exchange, "current", lambda: gone)
    monkeypatch.setattr(exchange, "partition", lambda: 0)
    monkeypatch.setattr(exchange, "attempt", lambda: 0)
    with pytest.raises(OSError, match=r"gone/\.dealt~000000~0~") as refused:
        list(exchange.Deal(2)([pa.record_batch({"_h": [1, 2]})]))
    assert refused.value.errno == 2
