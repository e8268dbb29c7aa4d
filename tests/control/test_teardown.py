"""What was made for a project can be removed again, and only while nothing runs it.

Method: a real DuckDB sink is filled and a real HTTP source makes its token; then the installed command removes both.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from headrace.catalog import place
from headrace.catalog.project import identity, read
from headrace.control import lock, verbs
from headrace.control.socket import ControlServer
from headrace.engine import connectors
from headrace.model.delivery import Delivery
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column, ViewSchema
from headrace.sources.connectors.http.connector import HttpSource

COMMAND = Path(sys.executable).with_name("headrace")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    subprocess.run([COMMAND, "init", tmp_path], check=True, capture_output=True)
    project = read(tmp_path)
    sink = connectors.make_sink(project.sinks[0], project)
    schema = ViewSchema("revenue", 1, (Column("region", "string"), Column("revenue", "bigint")), ("region",))
    rows = pa.table({"region": ["north"], "revenue": [7], "_w": [1]})
    sink.open()
    sink.write(Delivery(5, {"revenue": schema}, replacements={"revenue": rows}))
    sink.close()
    source = connectors.make_source(project.sources[0], project)
    assert isinstance(source, HttpSource)
    source.token()
    assert source.token_path.exists()
    (tmp_path / ".headrace/log").mkdir()
    (tmp_path / ".headrace/log/segment").write_text("x")
    return tmp_path


def drop(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, "drop", *arguments, "--yes"], check=False, capture_output=True, text=True, cwd=folder
    )


def tables(folder: Path) -> set[str]:
    with duckdb.connect(folder / "views.duckdb", read_only=True) as database:
        return {row[0] for row in database.execute("SELECT table_name FROM information_schema.tables").fetchall()}


def test_everything_that_was_made_goes_and_what_was_written_stays(folder: Path) -> None:
    assert "revenue" in tables(folder)
    written = {path: path.read_text() for path in folder.glob("*/*.[ys]*") if ".headrace" not in path.parts}
    done = drop(folder, "--all")
    assert (done.returncode, done.stdout) == (0, "removed everything that was made\n")
    assert "revenue" not in tables(folder)
    assert [path.name for path in (folder / ".headrace").iterdir()] == ["lock"]
    assert {path: path.read_text() for path in written} == written


def test_one_source_goes_and_the_rest_stays(folder: Path) -> None:
    assert drop(folder, "--source", "shop").returncode == 0
    assert not (folder / ".headrace/tokens/shop").exists()
    assert (folder / ".headrace/log/segment").exists()
    assert "revenue" in tables(folder)
    done = drop(folder, "--source", "shp")
    assert done.returncode == 1
    assert "did you mean 'shop'?" in done.stderr


def test_a_running_project_is_left_alone(folder: Path) -> None:
    with lock.hold(folder, "headrace up"), ControlServer(folder, lambda verb, arguments, progress: {}):
        for arguments in (["--all"], ["--source", "shop"]):
            done = drop(folder, *arguments)
            assert done.returncode == 1
            assert "[project.locked]" in done.stderr
    with lock.hold(folder, "headrace sql"):
        assert "[project.locked]" in drop(folder, "--all").stderr
    assert "revenue" in tables(folder)


def test_what_the_original_of_a_copy_made_is_left_alone(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """By all that takes a sink over, or removes what was made: the copy has the original's id."""
    (folder / "sinks/local.yaml").write_text(f"type: duckdb\npath: {folder / 'views.duckdb'}\n")
    identity(read(folder))
    place.take(folder)
    copy = tmp_path_factory.mktemp("elsewhere") / "copy"
    shutil.copytree(folder, copy)
    for arguments in (["--all"], ["--source", "shop"]):
        done = drop(copy, *arguments)
        assert (done.returncode, "[project.copied]" in done.stderr) == (1, True), done.stderr
    with pytest.raises(HeadraceError) as caught:
        verbs.call(copy, "repair", {"sink": "local"}, lambda event: None)
    assert caught.value.code == "project.copied"
    assert (copy / ".headrace/log/segment").exists() and "revenue" in tables(folder)
    place.take(copy, as_copy=True)
    assert drop(copy, "--source", "shop").returncode == 0


def test_a_sink_that_refuses_leaves_the_log_to_try_again(folder: Path) -> None:
    (folder / "views.duckdb").write_text("this is no database" * 1000)
    assert drop(folder, "--all").returncode == 1
    assert (folder / ".headrace/log/segment").exists()


def test_a_wrong_option_is_named_with_its_line(folder: Path) -> None:
    for text, where, said in (
        ("type: http\nport: 1\ntables:\n  a: {}\nprot: 2\n", "sources/shop.yaml:5", "did you mean 'port'?"),
        ("type: http\ntables:\n  a: {kye: [x]}\n", "sources/shop.yaml:3", "did you mean 'key'?"),
        ("type: http\ntables:\n  a: {}\nport: many\n", "sources/shop.yaml:4", "'port'"),
    ):
        (folder / "sources/shop.yaml").write_text(text)
        with pytest.raises(HeadraceError) as caught:
            connectors.check(read(folder))
        assert caught.value.where == where
        assert said in str(caught.value)
