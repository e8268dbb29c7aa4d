"""A table as of any commit, from the log alone: every commit of random histories against a plain dict.

The dict is filled from what the test made, by the rules of the tables in plain Python (``random_log.Contents``).
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import warm_command
from headrace.catalog.store import Catalog
from headrace.formats.json_tables import rows
from headrace.log.append import LogWriter
from headrace.model.schema import Column, Relation
from headrace.model.transaction import DELETE, INSERT, UPDATE, TransactionBatch, TransactionOrigin
from headrace.serve import replay
from random_log import RELATIONS, SOURCE, RandomLog, history

COMMAND = Path(sys.executable).with_name("headrace")


def project(folder: Path) -> Path:
    (folder / "headrace.yaml").write_text("")
    (folder / ".headrace").mkdir()
    catalog = Catalog(folder / ".headrace/catalog.db")
    for name, relation in RELATIONS.items():
        catalog.put_relation(SOURCE[name], relation)
    catalog.close()
    return folder


def copies(table: pa.Table) -> list[list[Any]]:
    found = rows(table.drop_columns("_w"))
    return sorted((r for r, n in zip(found, table["_w"].to_pylist(), strict=True) for _ in range(n)), key=repr)


@pytest.mark.parametrize("part_rows", [1, 7, 1_000_000])
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_every_commit_of_a_random_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, strict: bool, part_rows: int
) -> None:
    """Taken change by change, in parts that grow, or all at once, it is the same."""
    monkeypatch.setattr(replay, "PART_ROWS", part_rows)
    made = RandomLog(seed, strict)
    made.grow(project(tmp_path) / ".headrace/log", 90)
    filled = 0
    for commit in range(0, 91, 1 if part_rows == 7 else 9):
        kept = history(made, commit)
        for name, relation in RELATIONS.items():
            found = replay.contents(tmp_path, relation, commit)
            assert repr(copies(found)) == repr(kept.rows(name)), (commit, name)
            assert found.schema.names == [*relation.names, "_w"]
            filled += found.num_rows
    assert filled > 100


def append(log: Path, columns: dict[str, pa.Array], operations: list[int], marks: list[bytes | None] | None) -> None:
    head = {"_t": pa.array([0] * len(operations), pa.int32()), "_op": pa.array(operations, pa.int8())}
    if marks:
        head["_unchanged"] = pa.array(marks, pa.binary())
    with LogWriter(log) as writer:
        writer.append(TransactionBatch((TransactionOrigin("s", "", 0),), {"t": pa.table(head | columns)}))


def test_an_update_after_a_delete_of_a_whole_row_takes_nothing_of_it(tmp_path: Path) -> None:
    log = project(tmp_path) / ".headrace/log"
    values = {"id": pa.array([1, 1, 1]), "a": pa.array(["x", "x", None])}
    append(log, values, [INSERT, DELETE, UPDATE], [None, None, b"\2"])
    relation = Relation("t", (Column("id", "bigint"), Column("a", "string")), ("id",))
    assert replay.contents(tmp_path, relation, 1).to_pylist() == [{"id": 1, "a": None, "_w": 1}]


def test_columns_that_came_later_are_null_before(tmp_path: Path) -> None:
    log = project(tmp_path) / ".headrace/log"
    append(log, {"id": pa.array([1, 2], pa.int32())}, [INSERT, INSERT], None)
    append(log, {"id": pa.array([2]), "a": pa.array(["x"])}, [UPDATE], None)
    relation = Relation("t", (Column("id", "bigint"), Column("a", "string")), ("id",))
    found = replay.contents(tmp_path, relation, 2).sort_by("id").to_pylist()
    assert found == [{"id": 1, "a": None, "_w": 1}, {"id": 2, "a": "x", "_w": 1}]


def show(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return warm_command.run(folder, "show", *arguments)


def test_show_of_a_table_now_at_a_commit_and_at_a_time(tmp_path: Path) -> None:
    made = RandomLog(5)
    made.grow(project(tmp_path) / ".headrace/log", 120)
    cut = "2026-03-01T08:00:50.5Z"
    at = max(n for n, (o, _) in enumerate(made.made, start=1) if o.committed_us <= 1_772_352_050_500_000)
    assert 50 < at < 80
    for arguments, commit in (((), 120), (("--at", "30"), 30), (("--at", cut), at), (("--at", "0"), 0)):
        for name in RELATIONS:
            answer = json.loads(show(tmp_path, name.upper(), "--json", *arguments).stdout)
            kept = history(made, commit)
            assert (answer["table"], answer["commit"]) == (name, commit)
            assert repr(sorted(answer["rows"], key=repr)) == repr(kept.rows(name))
            assert answer["total"] == len(kept.rows(name))
            assert [column["name"] for column in answer["columns"]] == list(RELATIONS[name].names)
    done = show(tmp_path, "clicks", "--at", "30", "-n", "1", "--order-by", "n:desc")
    assert done.stdout.startswith(f"clicks at commit 30: {len(history(made, 30).rows('clicks'))} rows\n")
    assert show(tmp_path, "clicks", "--csv", "--at", "0").stdout == "page,n\n"


def test_show_at_a_commit_that_is_not_there_and_of_a_view_that_has_not_run_is_refused(tmp_path: Path) -> None:
    made = RandomLog(5)
    made.grow(project(tmp_path) / ".headrace/log", 3)
    done = show(tmp_path, "orders", "--at", "4")
    assert (done.returncode, "the log ends at commit 3" in done.stderr) == (2, True)
    done = show(tmp_path, "ordrs", "--at", "2", "--json")
    assert json.loads(done.stderr)["error"]["next"] == "did you mean 'orders'?"
    (tmp_path / "views").mkdir()
    (tmp_path / "views/revenue.sql").write_text("SELECT 1")
    done = show(tmp_path, "revenue", "--at", "2", "--json")
    assert (done.returncode, json.loads(done.stderr)["error"]["code"]) == (1, "view.unknown")
