"""Goal: of a damaged catalogue all that is as it was written is taken over, nothing else, and what is lost is said.

Method: one bit of a value of a table is flipped, so that SQLite does not notice it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.catalog.quarantine import Change, Left
from headrace.catalog.salvage import salvage
from headrace.catalog.store import ANEW, Catalog, Output, StepShape, ViewRecord
from headrace.engine import rebuild
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column, Relation, ViewSchema
from headrace.model.transaction import RefusedRow

SHOP = Relation("orders", (Column("id", "bigint", nullable=False),), ("id",))
VIEWS = [
    ViewRecord(ViewSchema(name, 3, SHOP.columns, ("id",)), "SELECT id FROM orders", "f", "live", "", 5)
    for name in ("counts", "pages")
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".headrace").mkdir()
    (tmp_path / ".headrace/history").write_text("before\n")
    catalog = Catalog(tmp_path / ".headrace/catalog.db")
    catalog.put_relation("shop", SHOP)
    for record in VIEWS:
        catalog.put_view(record)
    catalog.set_meta(ANEW + "shop", "yes")
    catalog.settle([Change("orders", 7, 1)], 9)
    catalog.keep_refused("shop", [RefusedRow("orders", "f:1", "no number", b"{}", "json")], 6)
    catalog.record_step(1, 0, 7, StepShape(), 5)
    catalog.publish(1, [Output(1, "pages@3", "state/1/out", 2, "0000004d")], 6)
    catalog.put_checkpoint(1, {"table:orders": [["state/1/run", 2, 100, "00000005"]]})
    catalog.close()
    return tmp_path


def flipped(project: Path, before: bytes, after: bytes) -> Path:
    path = project / ".headrace/catalog.db"
    whole = path.read_bytes()
    assert before in whole
    path.write_bytes(whole.replace(before, after))
    with pytest.raises(HeadraceError, match=r"headrace rebuild --all"):
        Catalog(path)
    return path


def test_a_view_is_built_again_by_the_next_start(project: Path) -> None:
    assert rebuild.views(project, ["pages"])["views"] == ["pages"]
    catalog = Catalog(project / ".headrace/catalog.db")
    assert {name: record.fingerprint for name, record in catalog.views().items()} == {"counts": "f", "pages": ""}
    assert catalog.checkpoint() is not None
    catalog.close()
    with pytest.raises(HeadraceError, match="did you mean 'pages'"):
        rebuild.views(project, ["page"])


def test_all_of_a_sound_catalogue_forgets_the_state_alone(project: Path) -> None:
    answer = rebuild.everything(project)
    assert answer == {"views": ["counts", "pages"], "catalogue": False, "lost": []}
    catalog = Catalog(project / ".headrace/catalog.db")
    assert catalog.checkpoint() == (1, {})  # nothing, as of where the views stand
    assert {record.fingerprint for record in catalog.views().values()} == {""}
    assert [step.number for step in catalog.steps()] == [1]  # where the views stand
    assert (project / ".headrace/history").exists()
    catalog.close()


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [(b"state/1/out", b"state/1/oup", []), (b"SELECT id FROM", b"SELECT if FROM", ["view", "version"]), (b"no number", b"no numbez", ["refused"])],
)  # fmt: skip
def test_a_damaged_catalogue_is_made_anew_of_what_is_sound(
    project: Path, before: bytes, after: bytes, lost: list[str]
) -> None:
    path = flipped(project, before, after)
    answer = rebuild.everything(project)
    assert (answer["catalogue"], answer["lost"]) == (True, lost)
    assert not (project / ".headrace/history").exists()  # sinks come anew
    (aside,) = project.glob(".headrace/catalog.damaged.*/catalog.db")
    assert after in aside.read_bytes()
    catalog = Catalog(path)
    assert catalog.relations() == {"orders": ("shop", SHOP)}
    assert {n: (r.schema.version, r.fingerprint) for n, r in catalog.views().items()} == (
        {} if "view" in lost else {"counts": (3, ""), "pages": (3, "")}
    )
    assert catalog.left(Change("orders", 7, 1)) == Left(9, None)
    assert catalog.meta(ANEW + "shop") == "yes"
    assert len(catalog.refused()) == (0 if "refused" in lost else 1)
    assert (catalog.steps(), catalog.outputs(-1, 9), catalog.checkpoint()) == ([], [], None)
    catalog.close()
    Catalog(path).close()  # and it is sound


@pytest.mark.parametrize("died_at", range(5))
def test_killed_at_any_rename_it_is_all_there_after(
    project: Path, monkeypatch: pytest.MonkeyPatch, died_at: int
) -> None:
    path = flipped(project, b"no number", b"no numbez")
    rename, renames = Path.rename, 0

    def killed(self: Path, target: Path) -> Path:
        nonlocal renames
        renames += 1
        if renames > died_at:
            raise InterruptedError
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", killed)
        with pytest.raises(InterruptedError):
            rebuild.everything(project)
    assert not (project / ".headrace/history").exists()  # sinks come anew, whatever happens
    rebuild.everything(project)
    catalog = Catalog(path)
    assert sorted(catalog.views()) == ["counts", "pages"]
    assert (catalog.meta(ANEW + "shop"), catalog.refused()) == ("yes", [])
    catalog.close()
    (aside,) = project.glob(".headrace/catalog.damaged.*/catalog.db")
    assert b"no numbez" in aside.read_bytes()
    assert not list(project.glob(".headrace/*.catalog*"))


def test_what_is_no_database_any_more_is_all_lost(project: Path) -> None:
    path = project / ".headrace/catalog.db"
    path.write_bytes(b"\0" * 8192)
    assert len(salvage(path)) == 8
    Catalog(path).close()
