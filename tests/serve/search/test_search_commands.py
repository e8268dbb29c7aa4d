"""`headrace search` and `headrace queries` as a user runs them, over published files without an engine."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from benchmarks.published import PublishedView

import warm_command
from headrace.cli.commands import queries_add
from headrace.control import doctor
from headrace.model.errors import HeadraceError

COMMAND = Path(sys.executable).with_name("headrace")
PARCEL = (1, "The late Parcel", Decimal("10.50"))
REFUND = (2, "a refund is late", Decimal("99.00"))
COPIED = (3, None, None)


@pytest.fixture
def view(tmp_path: Path) -> PublishedView:
    made = PublishedView(tmp_path / "project", "orders", {"id": "bigint", "note": "string", "total": "decimal(9,2)"})
    made.publish([(PARCEL, 1), (REFUND, 1), (COPIED, 2)])
    return made


def run(view: PublishedView, *arguments: str, status: int = 0) -> str:
    done = warm_command.run(view.folder, *arguments)
    assert done.returncode == status, done.stderr
    return done.stderr if status else done.stdout


def answer(view: PublishedView, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(view, *arguments, "--json"))
    return found


def ids(found: dict[str, Any]) -> list[int]:
    return [hit["row"]["id"] for hit in found["hits"]]


def test_a_search_shows_rows_marks_copies_and_the_commit(view: PublishedView) -> None:
    assert answer(view, "search", "orders", "parcel") == {
        "view": "orders", "version": 1, "commit": 10, "query": "parcel", "total": 1,
        "hits": [{
            "score": pytest.approx(0.8, abs=0.6), "copies": 1, "row": {"id": 1, "note": "The late Parcel", "total": "10.50"},
            "snippets": [{"column": "note", "text": "The late Parcel", "marks": [[9, 15]]}],
        }],
    }  # fmt: skip
    copied = answer(view, "search", "orders", "NOT note:*")
    assert (copied["total"], copied["hits"][0]["copies"], ids(copied)) == (2, 2, [3])
    assert ids(answer(view, "search", "orders", "2 OR late", "--field", "note", "--limit", "1", "--offset", "1")) == [2]
    assert "did you mean 'orders'?" in run(view, "search", "order", "late", status=1)
    lines = run(view, "search", "orders", "late", "-n", "1").splitlines()
    assert lines[0] == "orders at commit 10: 2 rows found, 1 shown"
    assert lines[2].startswith("id=")


def test_stored_queries_are_files_that_can_be_listed_shown_and_removed(view: PublishedView) -> None:
    run(view, "queries", "add", "late", "--view", "ORDERS", '"late parcel" OR refund')
    path = view.folder / "searches/late.yaml"
    assert path.read_text() == "view: orders\nquery: '\"late parcel\" OR refund'\n"
    (view.folder / "searches/bad.yaml").write_text("view: orders\nquery: 'nte:x'\n")
    (view.folder / "searches/worse.yaml").write_text("view: orders\nqery: x\n")
    listed = {entry["name"]: entry for entry in answer(view, "queries", "ls")["queries"]}
    assert listed["late"] == {"name": "late", "view": "orders", "query": '"late parcel" OR refund', "problem": None}
    assert listed["bad"]["problem"]["where"] == "searches/bad.yaml"
    assert listed["worse"]["problem"]["next"] == "did you mean 'query'?"
    assert "[config.unknown_key]" in run(view, "queries", "ls")
    examined = doctor.run(view.folder, quick=True)["examined"]
    told = {finding["where"]: finding["code"] for part in examined for finding in part["findings"]}
    assert (told["searches/bad.yaml"], told["searches/worse.yaml:2"]) == ("search.query", "config.unknown_key")
    view.publish([(REFUND, -1)])
    now, before = answer(view, "queries", "show", "late"), answer(view, "queries", "show", "LATE", "--at", "10")
    assert (now["commit"], [match["row"]["id"] for match in now["matches"]]) == (20, [1])
    assert sorted(match["row"]["id"] for match in before["matches"]) == [1, 2]
    for name, of, query, code in (
        ("Late", "orders", "x", "search.exists"), ("other", "orders", "nte:x", "search.query"),
        ("other", "ordrs", "x", "view.unknown"), ("no name", "orders", "x", "config.invalid"),
    ):  # fmt: skip
        with pytest.raises(HeadraceError) as error:
            queries_add.run(name, query, view=of, project=view.folder)
        assert error.value.code == code
    run(view, "queries", "rm", "late")
    assert not path.exists()
    assert "[search.unknown]" in run(view, "queries", "rm", "late", status=1)
    entries = answer(view, "audit")["entries"]
    assert [(e["action"], e["relation"], e["outcome"], e["detail"]["query"]) for e in entries if e["of"]] == [
        ("query_add", "orders", "done", "late"), ("query_add", "orders", "failed", "Late"),
        ("query_add", "orders", "failed", "no name"), ("query_remove", None, "done", "late"),
        ("query_remove", None, "failed", "late"),
    ]  # fmt: skip


def test_a_stored_query_is_changed_in_its_words_or_its_view(view: PublishedView) -> None:
    run(view, "queries", "add", "late", "--view", "orders", "late")
    path = view.folder / "searches/late.yaml"
    assert answer(view, "queries", "change", "LATE", "refund") == {
        "name": "late", "view": "orders", "query": "refund", "file": "searches/late.yaml",
    }  # fmt: skip
    assert path.read_text() == "view: orders\nquery: refund\n"
    (view.folder / "views/returns.sql").write_text("SELECT 1")
    assert "queries watch late" in run(view, "queries", "change", "late", "--view", "Returns")
    assert path.read_text() == "view: returns\nquery: refund\n"
    assert "[search.query]" in run(view, "queries", "change", "late", "nte:x", "--view", "orders", status=1)
    assert "did you mean 'late'?" in run(view, "queries", "change", "lat", "x", "--view", "orders", status=1)
    assert path.read_text() == "view: returns\nquery: refund\n"
    path.write_text("qery: x\n")  # one that cannot be read is written anew, when all of it is given
    assert "[config.unknown_key]" in run(view, "queries", "change", "late", "late", status=1)
    run(view, "queries", "change", "late", "late", "--view", "orders")
    assert path.read_text() == "view: orders\nquery: late\n"
    run(view, "queries", "change", "late", status=2)
    assert "headrace queries change late" in run(view, "queries", "add", "late", "--view", "orders", "x", status=1)


def test_a_watch_tells_matches_that_come_and_go_with_rows_and_with_queries(view: PublishedView) -> None:
    run(view, "queries", "add", "late", "--view", "orders", "late")
    watch = subprocess.Popen(
        [COMMAND, "queries", "watch", "--view", "orders", "--json"], cwd=view.folder, stdout=subprocess.PIPE, text=True
    )
    try:
        told = [_next(watch)]
        view.publish([(REFUND, -1), ((4, "late again", None), 1), ((5, "nothing", None), 1)])
        told.append(_next(watch))
        run(view, "queries", "add", "dear", "--view", "orders", "total:>5")
        told.append(_next(watch))
        run(view, "queries", "rm", "late")
        told.append(_next(watch))
    finally:
        watch.send_signal(signal.SIGINT)
        watch.wait(10)
        assert watch.stdout is not None
        watch.stdout.close()
    assert [(line["commit"], line["snapshot"], line["changes"]) for line in told] == [
        (10, True, [("late", 1, 1), ("late", 1, 2)]),
        (20, False, [("late", -1, 2), ("late", 1, 4)]),
        (20, False, [("dear", 1, 1)]),
        (20, False, [("late", -1, 1), ("late", -1, 4)]),
    ]


def _next(watch: subprocess.Popen[str]) -> dict[str, Any]:
    """The next line, its changes as (query, weight, id)."""
    assert watch.stdout is not None
    line: dict[str, Any] = json.loads(watch.stdout.readline())
    changes = [(change["query"], change["weight"], change["row"]["id"]) for change in line["changes"]]
    return {**line, "changes": sorted(changes, key=lambda change: (change[1] > 0, change))}
