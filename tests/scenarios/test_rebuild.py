"""Goal: whatever file is damaged, the command that the error prints makes the project whole again, in views and sinks.

Method: the commands over a followed folder, a copy of one that has run. One bit of a file of each kind is
flipped; what then fails prints a next command, which is carried out as it stands. Each time more rows come; views and
sink are held against a model in plain Python of all rows, and the views against Spark batch.
"""

from __future__ import annotations

import copy
import json
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

import warm_command
from headrace.catalog import sums
from headrace.catalog.place import PLACE
from project_folder import ProjectFolder

COMMAND = str(Path(sys.executable).with_name("headrace"))
COLUMNS = {"id": "bigint not null", "page": "string", "size": "bigint"}


def headrace(folder: Path, *arguments: str) -> dict[str, Any]:
    """What a command answers; ``{"error": ...}`` where it fails."""
    done = warm_command.run(folder, *arguments, "--json")
    if done.returncode:
        return dict(json.loads(done.stderr.splitlines()[-1]))
    return dict(json.loads(done.stdout.splitlines()[-1])) if done.stdout.strip() else {}


class Shop:
    """A project, and the model of what its views hold."""

    def __init__(self, project: ProjectFolder) -> None:
        self.path, self.sizes = project.path, list[tuple[str, int]]()
        (self.path / "in").mkdir()
        project.source("visits", "files", path="in", table="visits", columns=COLUMNS, key="id")
        project.view("pages", "SELECT page, count(*) AS n, sum(size) AS total FROM visits GROUP BY page")
        project.view("often", "SELECT page FROM pages WHERE n > 1")
        project.sink("local", "duckdb", path="views.duckdb")

    def comes(self, *visits: tuple[str, int]) -> None:
        """A file with these rows."""
        lines = [json.dumps({"id": len(self.sizes) + i, "page": p, "size": s}) for i, (p, s) in enumerate(visits)]
        self.sizes += visits
        (self.path / "in" / f"visits-{len(self.sizes):04}.jsonl").write_text("\n".join(lines) + "\n")

    def held(self) -> dict[str, set[tuple[Any, ...]]]:
        """The views, from all rows there ever were."""
        seen = Counter(page for page, _ in self.sizes)
        pages = {(page, n, sum(s for p, s in self.sizes if p == page)) for page, n in seen.items()}
        return {"pages": pages, "often": {(page,) for page, n in seen.items() if n > 1}}

    def catches_up(self) -> None:
        """The views and the sink's tables are the model's, and the views are Spark's."""
        done = headrace(self.path, "up", "--once")
        assert "error" not in done, done
        with duckdb.connect(str(self.path / "views.duckdb"), read_only=True) as store:
            for view, rows in self.held().items():
                found = headrace(self.path, "show", view, "--limit", "100")
                names = ", ".join(column["name"] for column in found["columns"])
                assert {tuple(row) for row in found["rows"]} == rows
                assert set(store.execute(f"SELECT {names} FROM {view}").fetchall()) == rows

    def next_command(self, error: dict[str, Any]) -> dict[str, Any]:
        """Carries out the first command that an error prints."""
        found = re.search(r"`headrace (rebuild[^`]*)`", error["error"]["next"])
        assert found, error
        return headrace(self.path, *shlex.split(found[1]))


@pytest.fixture(scope="module")
def run_once(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    project = ProjectFolder(tmp_path_factory.mktemp("rebuild") / "shop")
    project.settings()
    shop = Shop(project)
    shop.comes(("a", 1), ("a", 2), ("b", 3))
    shop.catches_up()
    return shop


@pytest.fixture
def shop(run_once: Shop, tmp_path: Path) -> Shop:
    """Its views and its sink are up to date."""
    mine = copy.copy(run_once)
    mine.path, mine.sizes = tmp_path / "shop", list(run_once.sizes)
    shutil.copytree(run_once.path, mine.path, ignore=shutil.ignore_patterns(PLACE))  # as if nothing else were there
    return mine


def flipped(file: Path) -> None:
    whole = bytearray(file.read_bytes())
    whole[len(whole) // 2] ^= 4
    file.write_bytes(whole)


def named(folder: Path, sql: str) -> list[str]:
    connection = sqlite3.connect(folder / ".headrace/catalog.db")
    try:
        return [row[0] for row in connection.execute(sql)]
    finally:
        connection.close()


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_the_printed_command_makes_it_whole(shop: Shop) -> None:
    kept = shop.path / ".headrace"
    # A file of a view: reading it fails, and nothing else does.
    base = named(shop.path, "SELECT path FROM output WHERE feed LIKE 'pages@%'")[0]
    flipped(kept / base)
    error = headrace(shop.path, "show", "pages")
    assert (error["error"]["code"], error["error"]["where"]) == ("state.corrupt", str(kept / base))
    assert shop.next_command(error)["views"] == ["pages"]
    shop.comes(("b", 4), ("c", 5))
    shop.catches_up()

    # A run of state: a start fails.
    (runs,) = named(shop.path, "SELECT runs FROM checkpoint")
    run = kept / next(iter(json.loads(runs).values()))[0][0]
    flipped(run)
    shop.comes(("d", 6), ("a", 7))
    error = headrace(shop.path, "up", "--once")
    assert (error["error"]["code"], error["error"]["where"]) == ("state.corrupt", str(run))
    assert "error" not in shop.next_command(error)
    shop.catches_up()


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_damaged_catalogue_and_a_damaged_log(shop: Shop, tmp_path: Path) -> None:
    kept = shop.path / ".headrace"
    # The catalogue: everything fails.
    (kept / "catalog.db").write_bytes(
        (kept / "catalog.db").read_bytes().replace(b"SELECT page, count", b"SELECT page, couns")
    )
    shop.comes(("e", 8), ("e", 9))
    error = headrace(shop.path, "show", "pages")
    assert (error["error"]["code"], error["error"]["where"]) == ("state.corrupt", str(kept / "catalog.db"))
    assert shop.next_command(error)["catalogue"] is True
    shop.catches_up()
    assert "error" not in headrace(shop.path, "verify")

    # The log: only a backup has it again.
    assert "error" not in headrace(shop.path, "backup", str(tmp_path / "copy"))
    (segment,) = (kept / "log").glob("0*")
    whole = bytearray(segment.read_bytes())
    whole[700] ^= 1
    segment.write_bytes(whole)
    error = headrace(shop.path, "up", "--once")
    assert error["error"]["code"] == "log.corrupt"
    assert "`headrace restore BACKUP DIR`" in error["error"]["next"]
    assert "error" not in headrace(tmp_path, "restore", str(tmp_path / "copy"), str(tmp_path / "again"))
    shop.path = tmp_path / "again"
    (shop.path / "in").mkdir()
    shop.comes(("f", 1))
    shop.catches_up()


def of_layout(folder: Path, layout: str) -> None:
    """As if another version had written the files."""
    with closing(sqlite3.connect(folder / ".headrace/catalog.db", isolation_level=None)) as database:
        sums.keep(database)
        database.execute("update meta set value = ? where name = 'state layout'", (layout,))


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_files_of_another_layout_are_made_anew(shop: Shop) -> None:
    of_layout(shop.path, "99 9.9.9")
    shop.comes(("c", 4), ("b", 5))
    for verb in (("show", "pages"), ("up", "--once"), ("views",)):
        error = headrace(shop.path, *verb)
        assert (error["error"]["code"], error["error"]["where"]) == ("state.layout", str(shop.path / ".headrace"))
        assert "version 9.9.9" in error["error"]["why"]
    assert shop.next_command(error)["catalogue"] is True
    shop.catches_up()

    of_layout(shop.path, "0 0.0.1")
    shop.comes(("d", 6), ("a", 7))
    assert headrace(shop.path, "show", "pages")["error"]["code"] == "state.layout"
    shop.catches_up()


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_damaged_view_is_built_beside_a_running_up(shop: Shop) -> None:
    with subprocess.Popen([COMMAND, "up", "--json"], cwd=shop.path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            next(line for line in process.stdout if json.loads(line)["event"] == "ready")
            while not (paths := named(shop.path, "SELECT path FROM output WHERE feed LIKE 'pages@%'")):
                time.sleep(0.1)
            file = shop.path / ".headrace" / paths[0]
            flipped(file)
            error = headrace(shop.path, "show", "pages")
            assert (error["error"]["code"], error["error"]["where"]) == ("state.corrupt", str(file))
            answer = shop.next_command(error)
            assert (answer["views"], answer["built"]) == (["pages"], True)
            found = headrace(shop.path, "show", "pages")
            assert {tuple(row) for row in found["rows"]} == shop.held()["pages"]
            error = headrace(shop.path, "rebuild", "--all")
            assert error["error"]["code"] == "project.locked"
        finally:
            process.terminate()
            process.wait(100)
    shop.comes(("b", 4))
    shop.catches_up()
