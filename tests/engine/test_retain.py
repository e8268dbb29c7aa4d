"""The log's beginning replaced by a base: every table at every commit that is left is what it was, by a plain model.

Method: random histories that the test keeps as Python values (``random_log``); retention as a project without
`headrace up` carries it out, at random commits, one base upon the other; the tables are then read at every commit as
`headrace show --at` reads them. Who may hold the log back is tried with a catalogue that the test has filled.
"""

from __future__ import annotations

import json
import random
import subprocess
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import warm_command
from headrace.catalog.quarantine import SetAside
from headrace.catalog.store import Catalog, StepShape
from headrace.engine import bases, retain
from headrace.engine.altered import Lost
from headrace.engine.quarantine import Quarantine
from headrace.formats.json_tables import rows
from headrace.log.append import LogWriter
from headrace.log.read import LogReader
from headrace.log.verify import verify
from headrace.model.altered import ALTERED
from headrace.model.definition import Retention
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column, Relation
from headrace.model.transaction import INSERT, UPDATE, TransactionBatch, TransactionOrigin
from headrace.serve import replay
from headrace.serve.quarantine import HEAD, there
from headrace.state.run import write_run
from random_log import RELATIONS, SOURCE, RandomLog, history

SEGMENT = 1 << 12


def project(folder: Path, relations: dict[str, Relation] = RELATIONS) -> Path:
    """A project whose catalogue knows these tables."""
    (folder / "headrace.yaml").write_text("")
    (folder / ".headrace").mkdir()
    catalog = Catalog(folder / ".headrace/catalog.db")
    for name, relation in relations.items():
        catalog.put_relation(SOURCE.get(name, "shop"), relation)
    catalog.close()
    return folder


def reached(catalog: Catalog, upto: int, number: int = 1) -> None:
    """The engine has published everything up to a commit, and made a checkpoint of it."""
    catalog.record_step(number, 0, upto, StepShape(), 0)
    catalog.publish(number, [], 1)
    catalog.put_checkpoint(number, {})


def removed(folder: Path, before: int) -> int:
    """The log's base after the commits before ``before`` were to go."""
    state = folder / ".headrace"
    with LogWriter(state / "log", segment_bytes=SEGMENT) as log:
        catalog = Catalog(state / "catalog.db")
        try:
            reached(catalog, log.end)
            plan = retain.planned(state / "log", catalog, before - 1, None)
            base = retain.carry_out(state, catalog, log, plan) if plan.segments else None
        finally:
            catalog.close()
    return base.commit if base else 0


def copies(table: pa.Table) -> list[list[Any]]:
    found = rows(table.drop_columns("_w"))
    return sorted((r for r, n in zip(found, table["_w"].to_pylist(), strict=True) for _ in range(n)), key=repr)


def check(folder: Path, made: RandomLog, first: int, step: int = 1) -> None:
    """Both tables at the commits from ``first`` to the end."""
    for commit in range(first, len(made.made) + 1, step):
        kept = history(made, commit)
        for name, relation in RELATIONS.items():
            assert repr(copies(replay.contents(folder, relation, commit))) == repr(kept.rows(name)), (commit, name)


@pytest.mark.parametrize("share_bytes", [1 << 27, 3_000])
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_every_commit_that_is_left_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, strict: bool, share_bytes: int
) -> None:
    """In memory or parted by key into files, base upon base."""
    monkeypatch.setattr(bases, "SHARE_BYTES", share_bytes)
    rng, made = random.Random(seed), RandomLog(seed, strict)
    log = project(tmp_path) / ".headrace/log"
    begins = [0]
    for _ in range(3):
        made.grow(log, 60, segment_bytes=SEGMENT)
        begins.append(removed(tmp_path, rng.randrange(begins[-1] + 20, len(made.made) + 1)))
        assert begins[-1] > begins[-2]
        check(tmp_path, made, begins[-1], 5)
        for relation in RELATIONS.values():
            with pytest.raises(HeadraceError, match=r"log\.retained"):
                replay.contents(tmp_path, relation, begins[-1] - 1)
    report = verify(log)
    assert (report.damages, report.base, report.end) == ([], begins[-1], 180)
    assert not (log / bases.FOLDER).exists()
    reader = LogReader(log)
    kept = history(made, begins[-1])
    assert reader.base.rows["orders"] == len(kept.orders)  # one row a key, nothing of what was deleted
    assert reader.base.rows["clicks"] == len(kept.rows("clicks"))


def test_a_table_of_which_the_key_is_not_known_keeps_its_changes(tmp_path: Path) -> None:
    """It may be read again by a view that is defined later."""
    made = RandomLog(3)
    log = project(tmp_path, {"clicks": RELATIONS["clicks"]}) / ".headrace/log"
    made.grow(log, 100, segment_bytes=SEGMENT)
    begin = removed(tmp_path, 80)
    changes = sum(1 for _, changes in made.made[:begin] for change in changes if change.table == "orders")
    assert LogReader(log).base.rows["orders"] == changes > 50
    check(tmp_path, made, begin)
    catalog = Catalog(tmp_path / ".headrace/catalog.db")
    catalog.put_relation("shop", RELATIONS["orders"])  # now it is
    catalog.close()
    made.grow(log, 60, segment_bytes=SEGMENT)
    later = removed(tmp_path, 150)
    assert LogReader(log).base.rows["orders"] == len(history(made, later).orders)
    check(tmp_path, made, later)


def test_a_table_that_does_not_change_keeps_its_parts(tmp_path: Path) -> None:
    log = project(tmp_path) / ".headrace/log"
    writer = LogWriter(log, segment_bytes=SEGMENT)

    def insert(table: str, number: int) -> None:
        columns = {"page": pa.array(["x" * 500]), "n": pa.array([number], pa.int32())}
        if table == "orders":
            columns = {"id": pa.array([number]), "part": pa.array(["x" * 500])}
        head = {"_t": pa.array([0], pa.int32()), "_op": pa.array([INSERT], pa.int8())}
        writer.append(TransactionBatch((TransactionOrigin("s", str(number), 0),), {table: pa.table(head | columns)}))

    for number in range(20):
        insert("orders" if number < 10 else "clicks", number)
    writer.close()
    assert removed(tmp_path, 16) > 10
    first = LogReader(log).base
    writer = LogWriter(log, segment_bytes=SEGMENT)
    for number in range(20, 40):
        insert("clicks", number)
    writer.close()
    assert removed(tmp_path, 38) > 30
    second = LogReader(log).base
    assert second.parts["orders"] == first.parts["orders"] and second.rows["orders"] == 10
    assert not set(second.parts["clicks"]) & set(first.parts["clicks"])
    assert sorted(path.name for path in log.glob("*.base")) == sorted(second.names())


def test_a_base_that_cannot_begin_as_somebody_reads_the_log_leaves_no_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next try writes parts of its own: those of many would fill the disk."""
    monkeypatch.setattr(retain, "HOLD_S", 0.01)
    made, log = RandomLog(3), project(tmp_path) / ".headrace/log"
    made.grow(log, 100, segment_bytes=SEGMENT)
    begin = removed(tmp_path, 40)
    assert begin > 0
    named = LogReader(log).base.names()
    with LogWriter(log, segment_bytes=SEGMENT) as writer, writer.held():
        catalog = Catalog(tmp_path / ".headrace/catalog.db")
        plan = retain.planned(log, catalog, 80, None)
        assert plan.commit > begin
        assert retain.carry_out(log.parent, catalog, writer, plan) is None
        catalog.close()
    assert {path.name for path in log.glob("*.base")} == named
    check(tmp_path, made, begin, 5)


def test_columns_that_no_view_has_read_yet_are_kept(tmp_path: Path) -> None:
    """The source's table has a column more than the catalogue knows."""
    known = Relation("t", (Column("id", "bigint"), Column("a", "string")), ("id",))
    log = project(tmp_path, {"t": known}) / ".headrace/log"
    with LogWriter(log, segment_bytes=SEGMENT) as writer:

        def append(columns: dict[str, pa.Array], operation: int, mark: bytes | None) -> None:
            head = {"_t": pa.array([0], pa.int32()), "_op": pa.array([operation], pa.int8())}
            table = pa.table({**head, "_unchanged": pa.array([mark], pa.binary()), **columns})
            writer.append(TransactionBatch((TransactionOrigin("s", "", 0),), {"t": table}))

        append({"id": pa.array([1], pa.int32()), "a": pa.array(["x"])}, INSERT, None)
        append({"id": pa.array([2]), "a": pa.array(["y"]), "b": pa.array([2.5])}, INSERT, None)
        append({"id": pa.array([2]), "a": pa.array(["z"]), "b": pa.array([None], pa.float64())}, UPDATE, b"\4")
        writer.roll()
        append({"id": pa.array([3]), "a": pa.array(["w"]), "b": pa.array([7.5])}, INSERT, None)
    assert removed(tmp_path, 4) == 3
    wider = Relation("t", (*known.columns, Column("b", "double")), ("id",))
    assert sorted(replay.contents(tmp_path, wider, 3).drop_columns("_w").to_pylist(), key=lambda r: r["id"]) == [
        {"id": 1, "a": "x", "b": None}, {"id": 2, "a": "z", "b": 2.5},
    ]  # fmt: skip
    assert replay.contents(tmp_path, wider, 4).num_rows == 3


def test_what_is_needed_is_not_removed(tmp_path: Path) -> None:
    """The engine's checkpoint, each sink that is waited for, and what the quarantine has under way hold it back."""
    log = project(tmp_path) / ".headrace/log"
    RandomLog(1).grow(log, 200, segment_bytes=SEGMENT)
    ends = [0, *(segment.last for segment in LogReader(log).segments() if not segment.active)]

    def last(upto: int) -> int:
        return max(end for end in ends if end <= upto)

    catalog = Catalog(tmp_path / ".headrace/catalog.db")

    def plan(wait_for: tuple[str, ...] | None = None) -> tuple[int, str]:
        found = retain.planned(log, catalog, 190, wait_for)
        return found.commit, found.holder.who

    assert plan() == (0, "the engine, from its checkpoint on")  # it has none
    reached(catalog, 150)
    catalog.record_step(2, 150, 200, StepShape(), 0)
    catalog.publish(2, [], 1)  # beyond the checkpoint: a start runs it again
    assert plan() == (last(150), "the engine, from its checkpoint on")
    catalog.put_checkpoint(2, {})
    assert plan()[0] == last(190)
    catalog.put_sink("slow", 90, "", 0)
    catalog.put_sink("quick", 200, "", 0)
    assert plan() == (last(90), "sink slow")
    assert plan(("slow",))[0] == last(90)
    assert plan(("quick",))[0] == plan(())[0] == last(190)  # it is left behind
    number = catalog.begin_replay([], [], 60, 0)
    assert plan() == (last(60), "the quarantine")
    catalog.end_replay(number, 61)
    assert plan() == (last(90), "sink slow")
    catalog.close()


def test_what_has_outlived_its_time_or_is_too_much(tmp_path: Path) -> None:
    log = project(tmp_path) / ".headrace/log"
    made = RandomLog(2)
    made.grow(log, 200, segment_bytes=SEGMENT)
    segments = LogReader(log).segments()
    newest = {s.last: max(o.committed_us for o, _ in made.made[s.first - 1 : s.last]) for s in segments}
    end_us = max(newest.values())
    for keep_s in (1, 30, 90, 1_000):
        wanted = retain.Ages(log).outlived(Retention(keep_s=keep_s), end_us)
        closed = [s.last for s in segments[:-1]]
        old = [all(newest[e] < end_us - keep_s * 1e6 for e in closed[: n + 1]) for n in range(len(closed))]
        assert wanted == max([0, *(e for e, gone in zip(closed, old, strict=True) if gone)])
        assert (wanted > 0) == (keep_s < 200)
    for keep in (1, 20_000, 1 << 40):
        wanted = retain.Ages(log).outlived(Retention(keep_bytes=keep), 0)
        left = sum(s.bytes for s in segments if s.last > wanted)
        assert left <= keep or wanted == segments[-2].last
        one_more = min((s.last for s in segments if s.last >= wanted), default=0)
        assert wanted == 0 or sum(s.bytes for s in segments if s.last >= one_more) > keep
    assert retain.Ages(log).outlived(Retention(), end_us) == 0


def headrace(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return warm_command.run(folder, *arguments)


def test_by_hand_while_nothing_runs(tmp_path: Path) -> None:
    made = RandomLog(4)
    log = project(tmp_path) / ".headrace/log"
    made.grow(log, 200, segment_bytes=SEGMENT)
    catalog = Catalog(tmp_path / ".headrace/catalog.db")
    reached(catalog, 200)
    catalog.close()
    before = sorted(path.name for path in log.iterdir())
    asked = json.loads(headrace(tmp_path, "log", "retain", "--before", "120", "--dry-run", "--json").stdout)
    assert sorted(path.name for path in log.iterdir()) == before
    assert 100 < asked["first"] <= 120 and not asked["removed"] and asked["held"] is None
    done = headrace(tmp_path, "log", "retain", "--before", "120")
    assert done.stdout.startswith(f"removed {asked['segments']} segments, ")
    assert f"begins with commit {asked['first']:,}" in done.stdout
    listed = json.loads(headrace(tmp_path, "log", "ls", "--json").stdout)
    assert listed["total"]["first"] == listed["segments"][0]["first"] == asked["first"]
    assert listed["total"]["commits"] == 201 - asked["first"]
    kept = history(made, asked["first"] - 1)
    assert {t["table"]: t["rows"] for t in listed["base"]["tables"]} == {
        "orders": len(kept.orders), "clicks": len(kept.rows("clicks")),
    }  # fmt: skip
    assert "begins with commit" in headrace(tmp_path, "log", "ls").stdout
    assert f"the log begins with commit {asked['first']}" in headrace(tmp_path, "status").stdout
    first = json.loads(headrace(tmp_path, "log", "cat", "--limit", "1", "--json").stdout)
    assert first["commit"] == asked["first"]
    for command in (
        ("log", "cat", "--from", "3"),
        ("show", "orders", "--at", "3"),
        ("show", "orders", "--at", "2026-03-01T07:00"),
    ):
        done = headrace(tmp_path, *command, "--json")
        error = json.loads(done.stderr)["error"]
        assert (done.returncode, error["code"]) == (1, "log.retained")
        assert f"begins with commit {asked['first']:,}" in error["what"]
    shown = json.loads(headrace(tmp_path, "show", "orders", "--at", str(asked["first"] - 1), "--json").stdout)
    assert repr(sorted(shown["rows"], key=repr)) == repr(kept.rows("orders"))
    compacted = headrace(tmp_path, "log", "compact")
    assert compacted.stdout.startswith("removed ") and "begins with commit 201" in compacted.stdout
    shown = json.loads(headrace(tmp_path, "show", "clicks", "--json").stdout)
    assert repr(sorted(shown["rows"], key=repr)) == repr(history(made).rows("clicks"))
    assert headrace(tmp_path, "log", "verify").returncode == 0
    assert headrace(tmp_path, "log", "cat", "--json").stdout == ""
    assert json.loads(headrace(tmp_path, "log", "ls", "--json").stdout)["total"]["commits"] == 0
    assert "log begins with commit 201" in headrace(tmp_path, "log", "compact").stdout
    assert headrace(tmp_path, "log", "retain").returncode == 2  # neither --before nor settings
    (tmp_path / "headrace.yaml").write_text("retention:\n  keep: 7 days\n")
    assert "nothing to remove" in headrace(tmp_path, "log", "retain").stdout


def test_a_big_table_is_replayed_in_shares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory follows a share: no replay sees more than a few times a share's part of the rows."""
    monkeypatch.setattr(bases, "SHARE_BYTES", 1 << 20)
    seen: list[int] = []

    class Counted(replay.Replay):
        def contents(self) -> pa.Table:
            found = super().contents()
            seen.append(found.num_rows)
            return found

    monkeypatch.setattr(bases, "Replay", Counted)
    relation = Relation("t", (Column("id", "bigint"), Column("a", "string")), ("id",))
    log = project(tmp_path, {"t": relation}) / ".headrace/log"
    count = 200_000
    began = time.monotonic()
    with LogWriter(log) as writer:
        for number in range(5):
            ids = pa.array(range(number * count // 10, number * count // 10 + count))
            head = {"_t": pa.array([0] * count, pa.int32()), "_op": pa.array([INSERT] * count, pa.int8())}
            table = pa.table({**head, "id": ids, "a": pa.array([f"{number}"] * count)})
            writer.append(TransactionBatch((TransactionOrigin("s", "", 0),), {"t": table}))
        writer.roll()
    assert removed(tmp_path, 6) == 5
    total = count + 4 * count // 10
    assert sum(seen) == total and len(seen) > 15 and max(seen) < 3 * total / len(seen)
    found = replay.contents(tmp_path, relation, 5).sort_by("id")
    assert found["id"].to_pylist() == list(range(total))
    assert found["a"].to_pylist()[:: count // 10] == ["0", "1", "2", "3", *["4"] * 10]
    assert time.monotonic() - began < 120


def test_what_was_set_aside_before_the_base_stays_in_the_quarantine(tmp_path: Path) -> None:
    """A table that is made again from a base sets aside again what came behind it, and nothing from before."""
    made = RandomLog(6)
    state = project(tmp_path) / ".headrace"
    made.grow(state / "log", 100, segment_bytes=SEGMENT)
    begin = removed(tmp_path, 80)
    catalog = Catalog(state / "catalog.db")
    kept = Quarantine(state, catalog, frozenset, lambda event: None)

    def file(step: int, commits: list[int]) -> SetAside:
        path = state / f"{step}.arrow"
        head = [pa.array(commits), pa.array([1] * len(commits)), pa.array(["insert"] * len(commits))]
        rest = [pa.array(["why"] * len(commits)), pa.array([None] * len(commits), pa.binary())]
        write_run(path, pa.table([*head, *rest, pa.array(commits)], names=[*HEAD, "id"]))
        return SetAside("orders", step, str(path), len(commits))

    (state / "quarantine").mkdir()
    files = [file(1, [3, 5]), file(2, [begin - 1, begin, begin + 1]), file(3, [begin + 2])]
    catalog.put_set_aside([*files, SetAside("clicks", 1, "elsewhere", 7)])
    kept.begin([], RELATIONS["orders"], 9, 100)
    assert catalog.set_aside()[1:] == files  # what there was is named until the step is published
    kept.save()
    orders = [entry for entry in catalog.set_aside() if entry.relation == "orders"]
    assert orders[0] == files[0]
    assert [rows["_commit"].to_pylist() for _, rows in there(catalog, orders)] == [[3, 5], [begin - 1, begin]]
    assert [entry.rows for entry in orders] == [2, 2]
    assert [entry.rows for entry in catalog.set_aside() if entry.relation == "clicks"] == [7]
    catalog.close()


def test_what_tables_have_lost_is_told_by_a_base_too(tmp_path: Path) -> None:
    """State that is made anew begins at commit 0: its first step goes over the base, and then over what lies behind."""
    log = project(tmp_path, {}) / ".headrace/log"
    with LogWriter(log, segment_bytes=SEGMENT) as writer:

        def tell(column: str, statement: str) -> None:
            row = {"relation": ["t"], "column": [column], "statement": [statement]}
            head = {"_t": pa.array([0], pa.int32()), "_op": pa.array([INSERT], pa.int8())}
            table = pa.table({**head, **{name: pa.array(values) for name, values in row.items()}})
            writer.append(TransactionBatch((TransactionOrigin("s", "", 0),), {ALTERED.name: table}))

        for column, statement in (("a", "one"), ("b", "two"), ("", "copied"), ("c", "three")):
            tell(column, statement)
        writer.roll()
        tell("d", "four")
    assert removed(tmp_path, 5) == 4
    catalog, reader = Catalog(tmp_path / ".headrace/catalog.db"), LogReader(log)
    lost = Lost(catalog, reader)
    assert lost.bound(reader.refs(0, 5), 0, 5) == 4
    assert lost.take(0, 4) and lost.columns("t") == {"c": "three"}
    assert lost.bound(reader.refs(4, 5), 4, 5) == 5
    assert lost.take(4, 5) and lost.columns("t") == {"c": "three", "d": "four"}
    catalog.close()
