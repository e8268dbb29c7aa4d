"""Goal: a backup that somebody has tampered with writes nothing outside the folder that it is restored to, reads nothing outside
its own, and leaves no right that we did not give.

Method: a sound backup of a project without rows, of which the list of files or a file is changed.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.catalog.store import Catalog
from headrace.engine import backup
from headrace.model.errors import HeadraceError
from headrace.serve.snapshot import catalog_path
from project_folder import ProjectFolder
from random_log import RandomLog


@pytest.fixture
def made(project: ProjectFolder, tmp_path: Path) -> Path:
    project.write(
        "functions/rates.py",
        'import headrace\n\n\n@headrace.function(returns="int")\ndef rates(n: int) -> int:\n    return n\n',
    )
    project.view("v", "SELECT 1 AS one")
    RandomLog(7).grow(project.path / ".headrace/log", 2)
    catalog = Catalog(catalog_path(project.path))
    target = backup.begin(tmp_path / "backup")
    backup.copy(project.path, backup.cut(catalog, project.path, target), target, lambda event: None)
    catalog.close()
    return target


def told(made: Path, change: Callable[[dict[str, Any]], None]) -> None:
    file = made / backup.TOLD
    document = json.loads(file.read_text())
    change(document["files"])
    file.write_text(json.dumps(document))


def restored(made: Path) -> dict[str, Any]:
    return backup.restore(made, made.with_name("restored"), lambda event: None)


def refused(made: Path) -> HeadraceError:
    with pytest.raises(HeadraceError) as caught:
        restored(made)
    assert caught.value.code == "backup.damaged"
    return caught.value


@pytest.mark.parametrize("place", [
    "project//etc/headrace", "project/../outside.txt", "project/views/../../../outside.txt", "kept/../../outside.txt", "kept//tmp/x",
    "/etc/headrace", "project", "kept", "kept/", "project/./headrace.yaml", "other/x", "project/.git/hooks/post-checkout", "",
    "project/views/a\0b", "kept/log/..",
])  # fmt: skip
def test_a_place_that_no_backup_has_is_refused_before_anything_is_written(place: str, made: Path) -> None:
    (made.parent / "outside.txt").write_text("as it was")
    (made / "payload").write_text("payload")
    told(made, lambda files: files.update({place: [7, 0]}))
    assert repr(place) in refused(made).why
    assert (made.parent / "outside.txt").read_text() == "as it was"
    assert not made.with_name("restored").exists()


@pytest.mark.parametrize("link", ["project/headrace.yaml", "project/views"])
def test_a_link_in_a_backup_is_not_followed(link: str, made: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (made / link).rename(elsewhere)
    (made / link).symlink_to(elsewhere)
    assert "a link" in refused(made).why


@pytest.mark.parametrize("of", [["7", 0], [1.5, 0], None])
def test_a_size_that_is_no_number_is_refused(of: Any, made: Path) -> None:
    told(made, lambda files: files.update({"project/headrace.yaml": of}))
    assert "cannot be read" in refused(made).why


def test_what_is_restored_has_the_rights_that_we_give_and_its_code_is_told(made: Path) -> None:
    for path in made.rglob("*"):
        if path.is_file():
            path.chmod(0o4777)
    answer = restored(made)
    assert (answer["functions"], answer["code"]) == (["rates"], False)
    folder = made.with_name("restored")
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.is_file()}
    kept = {path for path in modes if folder / ".headrace" in path.parents}
    assert {modes[path] for path in kept} == {0o600} and {modes[path] for path in modes.keys() - kept} == {0o644}
    assert stat.S_IMODE((folder / ".headrace").stat().st_mode) == stat.S_IMODE(folder.stat().st_mode) == 0o700
