"""Goal: a table is searched as a view is: after every step what is found is what its rows say, at the step's commit.

Method: random histories of a table with a key and of one without (``random_log``), published step by step; the oracle
keeps the rows by the rules of tables in plain Python. The index is brought forward, not made again, but after a TRUNCATE.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warm_command
from headrace.catalog.store import Catalog, StepShape
from headrace.engine import retain
from headrace.formats.json_tables import rows
from headrace.log.append import LogWriter
from headrace.model.errors import HeadraceError
from headrace.serve.search import index
from headrace.serve.search.found import LIMIT_MAX, Found, search
from headrace.serve.search.index import RelationIndex
from random_log import ORDERS, RELATIONS, SOURCE, RandomLog, history

COMMAND = Path(sys.executable).with_name("headrace")
SEGMENT = 1 << 12
Keep = Callable[[dict[str, Any]], bool]
QUERIES: dict[str, list[tuple[str, Keep]]] = {
    "orders": [
        ("*", lambda row: True),
        ("id:3", lambda row: row["id"] == 3),
        ("part:x paid:true", lambda row: row["part"] == "x" and row["paid"] is True),
        ("amount:>=0 NOT id:[0 TO 5]", lambda row: row["amount"] is not None and row["amount"][0] != "-" and row["id"] > 5),
        ("né", lambda row: bool(row["name"])),
    ],
    "clicks": [("*", lambda row: True), ("page:b n:>0", lambda row: row["page"] == "b" and row["n"] > 0)],
}  # fmt: skip


class Project:
    """A project without an engine: what the log has is published when it is told to be."""

    def __init__(self, folder: Path, seed: int, *, strict: bool = False) -> None:
        self.folder, self.made, self.steps = folder, RandomLog(seed, strict), 0
        (folder / "headrace.yaml").write_text("")
        (folder / ".headrace").mkdir()
        self.catalog = Catalog(folder / ".headrace/catalog.db")
        for name, relation in RELATIONS.items():
            self.catalog.put_relation(SOURCE[name], relation)

    @property
    def commit(self) -> int:
        return len(self.made.made)

    def grow(self, transactions: int) -> None:
        before = self.commit
        self.made.grow(self.folder / ".headrace/log", transactions, segment_bytes=SEGMENT)
        self.steps += 1
        self.catalog.record_step(self.steps, before, self.commit, StepShape(), 0)
        self.catalog.publish(self.steps, [], self.steps)

    def retain(self, first: int) -> int:
        """The log's base after the commits before ``first`` were to go."""
        state = self.folder / ".headrace"
        self.catalog.put_checkpoint(self.steps, {})
        with LogWriter(state / "log", segment_bytes=SEGMENT) as log:
            plan = retain.planned(state / "log", self.catalog, first - 1, None)
            base = retain.carry_out(state, self.catalog, log, plan)
        assert base is not None
        return base.commit


def found_rows(found: Found) -> list[list[Any]]:
    every = zip(rows(found.rows), found.copies, strict=True)
    return sorted((list(row) for row, copies in every for _ in range(copies)), key=repr)


def check(project: Project) -> None:
    held = history(project.made)
    for table, queries in QUERIES.items():
        names = ORDERS.names if table == "orders" else ["page", "n"]
        for query, keep in queries:
            found = search(project.folder, table, query, LIMIT_MAX)
            wanted = [row for row in held.rows(table) if keep(dict(zip(names, row, strict=True)))]
            assert repr(found_rows(found)) == repr(wanted), (project.commit, table, query)
            assert (found.kind, found.commit, found.total) == ("table", project.commit, len(wanted))


@pytest.fixture
def anew(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables whose index was made, one after the other; each search brings an index forward at once."""
    names, kept = list[str](), RelationIndex._made
    monkeypatch.setattr(index, "FRESH_S", 0.0)
    monkeypatch.setattr(
        RelationIndex, "_made", lambda self, *rest: (names.append(self.of.schema.name), kept(self, *rest))[1]
    )
    return names


@pytest.mark.parametrize(("seed", "hashes"), [(0, "as they are"), (1, "as they are"), (2, "all alike")])
def test_a_search_finds_what_a_table_has_after_every_step(
    tmp_path: Path, seed: int, hashes: str, anew: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if hashes == "all alike":
        monkeypatch.setattr(index, "row_hashes", lambda columns, rows: np.full(rows, 7, np.uint64))
    project = Project(tmp_path, seed, strict=seed == 1)
    check(project)
    for _ in range(8):
        project.grow(16)
        check(project)
    truncated = [made.table for _, changes in project.made.made for made in changes if not made.row]
    for table in QUERIES:
        assert 1 <= anew.count(table) <= 1 + truncated.count(table)


def test_an_index_that_lies_behind_what_the_log_has_left_is_made_anew(tmp_path: Path, anew: list[str]) -> None:
    project = Project(tmp_path, 7)
    project.grow(40)
    check(project)
    for _ in range(6):
        project.grow(30)
    assert project.retain(150) > 40
    before = len(anew)
    check(project)
    assert sorted(anew[before:]) == ["clicks", "orders"]
    project.grow(8)
    check(project)


def test_the_index_of_a_table_that_is_gone_goes_and_a_view_takes_its_name_over(tmp_path: Path) -> None:
    project = Project(tmp_path, 3)
    project.grow(30)
    check(project)
    folders = tmp_path / ".headrace/search"
    assert sorted(path.name for path in folders.glob("[!.]*")) == ["clicks@table", "orders@table"]
    project.catalog.drop_relation("clicks")
    assert search(tmp_path, "orders", "*").kind == "table"
    assert [path.name for path in folders.glob("[!.]*")] == ["orders@table"]
    with pytest.raises(HeadraceError) as error:
        search(tmp_path, "clicks", "*")
    assert error.value.code == "view.unknown"


def test_a_table_is_searched_from_the_command_line(tmp_path: Path) -> None:
    project = Project(tmp_path, 1)
    project.grow(60)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return warm_command.run(tmp_path, *arguments)

    told = json.loads(run("search", "ORDERS", "id:3", "--limit", "100", "--json").stdout)
    wanted = [row for row in history(project.made).rows("orders") if row[0] == 3]
    assert wanted
    assert sorted((list(hit["row"].values()) for hit in told["hits"]), key=repr) == wanted
    assert {name: told[name] for name in told if name != "hits"} == {
        "table": "orders", "commit": 60, "query": "id:3", "total": len(wanted),
    }  # fmt: skip
    assert run("search", "orders", "id:3").stdout.startswith(f"orders at commit 60: {len(wanted)} row")
    refused = run("search", "order", "id:3")
    assert (refused.returncode, "did you mean 'orders'?" in refused.stderr) == (1, True)
