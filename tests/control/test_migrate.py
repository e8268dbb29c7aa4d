"""Goal: `headrace migrate` changes the catalogue only when nothing runs, and only when the log can be read then too."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headrace.catalog import state_layout
from headrace.catalog.store import Catalog
from headrace.control import lock, migrate
from headrace.log.base import BEGIN_NAME, Base
from headrace.log.read import LogReader
from headrace.model.errors import HeadraceError
from headrace.serve.snapshot import catalog_path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".headrace/log").mkdir(parents=True)
    Catalog(catalog_path(tmp_path)).close()
    return tmp_path


def moved_to(project: Path, layout: int) -> HeadraceError | None:
    try:
        assert migrate.alone(project, {"to": layout}, lambda event: None) == {"layout": layout}
    except HeadraceError as error:
        return error
    return None


def test_it_goes_back_and_forward_again(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files_of_another_layout = moved_to(project, 8)
    assert files_of_another_layout is not None and "kept since layout 12" in str(files_of_another_layout)
    monkeypatch.setattr(state_layout, "STATE_LAYOUT", 1)
    shutil.rmtree(project / ".headrace")
    (project / ".headrace/log").mkdir(parents=True)
    Catalog(catalog_path(project)).close()
    assert moved_to(project, 8) is None
    with pytest.raises(HeadraceError, match=r"layout 8, this version knows"):
        Catalog(catalog_path(project), read_only=True)
    Catalog(catalog_path(project)).close()
    assert moved_to(project, 1) is None


def test_beside_another_command_it_is_refused(project: Path) -> None:
    with lock.hold(project, "headrace up"):
        error = moved_to(project, 8)
    assert error is not None and error.code == "project.locked"
    Catalog(catalog_path(project), read_only=True).close()


def test_a_log_without_its_beginning_holds_it_back(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not (project / ".headrace/log" / BEGIN_NAME).exists()
    monkeypatch.setattr(LogReader, "base", Base(7))
    error = moved_to(project, 8)
    assert error is not None and (error.code, "up to commit 7" in error.why) == ("state.layout", True)
    Catalog(catalog_path(project), read_only=True).close()
