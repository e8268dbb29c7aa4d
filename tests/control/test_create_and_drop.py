"""Goal: a definition that is refused, or that fails while it is taken, leaves every file as it was.

Method: the verbs over a folder, with a pipeline that plans what it is told to and fails when it is told to.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from headrace.catalog.project import read
from headrace.control import create, define, drop
from headrace.control.running import PipelineVerbs, Running
from headrace.engine.heard import Heard
from headrace.model.definition import Project
from headrace.model.errors import HeadraceError
from project_folder import ProjectFolder

REFUSED = HeadraceError("sql.refused", "no", where="here", next="leave it out").as_dict()


class Planned:
    """Refuses the views in ``refuses``, cannot read the sources in ``unread``, fails at ``apply`` with ``fault``."""

    def __init__(self, project: Project) -> None:
        self.project, self.tell = project, Heard(None)
        self.refuses: set[str] = set()
        self.refused_before: set[str] = set()
        self.unread: dict[str, dict[str, str]] = {}
        self.fault: Exception | None = None
        self.changes: list[dict[str, Any]] = []
        self.views: list[dict[str, str]] = []
        self.applied: list[tuple[str, ...]] = []

    def plan(self, project: Project) -> dict[str, Any]:
        refuses = self.refused_before if project == read(project.path) else self.refuses | self.refused_before
        views = [{"name": v.name, "refused": REFUSED if v.name in refuses else None} for v in project.views]
        return {"changes": self.changes, "views": views, "warnings": ["slow"], "unread": self.unread}

    def apply(self, project: Project) -> dict[str, Any]:
        self.applied.append(tuple(each.name for each in (*project.sources, *project.views, *project.sinks)))
        if self.fault and project != self.project:
            raise self.fault
        return {}

    def drop(self, view: str) -> dict[str, Any]:
        raise HeadraceError("view.unknown", f"there is no view '{view}'")

    def status(self) -> dict[str, Any]:
        return {"views": self.views}

    def usage(self) -> dict[str, Any]:
        return {}


@pytest.fixture
def pipeline(project: ProjectFolder) -> Planned:
    project.settings()
    project.source("shop", type="files", path="in")
    project.view("sums", "SELECT 1 AS a -- mine")
    project.sink("store", type="duckdb", path="x")
    return Planned(read(project.path))


def files(folder: Path) -> dict[str, tuple[bytes, int]]:
    """All of them, also hidden ones: bytes and mode."""
    found = [path for kind in ("sources", "views", "sinks") for path in sorted((folder / kind).iterdir())]
    return {str(path): (path.read_bytes(), path.stat().st_mode & 0o777) for path in found}


def verb(run: Any, pipeline: Planned, **arguments: Any) -> dict[str, Any]:
    answer: dict[str, Any] = run(
        Running(cast(PipelineVerbs, pipeline), pipeline.project.path), arguments, lambda event: None
    )
    return answer


def made(pipeline: Planned, kind: str, name: str, text: str, **more: Any) -> dict[str, Any]:
    return verb(create.run, pipeline, kind=kind, name=name, text=text, **more)


def test_files_are_as_before_when_it_is_refused_or_fails(pipeline: Planned) -> None:
    (pipeline.project.path / "views/sums.sql").write_bytes(b"SELECT 1 AS a -- mine\r\n")
    (pipeline.project.path / "sinks/store.yaml").chmod(0o600)
    pipeline.project = read(pipeline.project.path)
    before = files(pipeline.project.path)

    def refused(code: str, run: Any) -> None:
        with pytest.raises(HeadraceError) as error:
            run()
        assert (error.value.code, files(pipeline.project.path)) == (code, before)

    pipeline.refuses = {"new"}
    refused("sql.refused", lambda: made(pipeline, "view", "new", "SELECT 2"))
    pipeline.refuses = {"sums"}
    refused("view.has_readers", lambda: made(pipeline, "source", "shop", "type: files\npath: b\n", replace=True))
    refused("view.has_readers", lambda: verb(drop.run, pipeline, source="shop"))
    pipeline.refuses, pipeline.unread = set(), {"shop": REFUSED}
    refused("sql.refused", lambda: made(pipeline, "view", "new", "SELECT 2"))
    refused("definition.exists", lambda: made(pipeline, "sink", "Store", "type: duckdb\n"))
    refused("config.invalid", lambda: made(pipeline, "source", "x", "path: x\n"))
    assert not pipeline.applied
    pipeline.unread, pipeline.fault = {}, HeadraceError("internal", "no")
    refused("internal", lambda: made(pipeline, "view", "new", "SELECT 2"))
    refused("internal", lambda: made(pipeline, "view", "SUMS", "SELECT 2", replace=True))
    refused("internal", lambda: verb(drop.run, pipeline, sink="store"))
    assert pipeline.applied == [("shop", "new", "sums", "store"), ("shop", "sums", "store"), ("shop", "sums")]


def test_a_file_keeps_its_mode_and_a_new_one_of_a_connector_is_its_owners(pipeline: Planned) -> None:
    (pipeline.project.path / "sinks/store.yaml").chmod(0o640)
    made(pipeline, "sink", "store", "type: duckdb\npath: y\n", replace=True)
    made(pipeline, "source", "x", "type: files\npath: x\n")
    modes = {path.rsplit("/", 1)[1]: mode for path, (_, mode) in files(pipeline.project.path).items()}
    assert (modes["store.yaml"], modes["x.yaml"]) == (0o640, 0o600)
    assert sorted(modes) == ["shop.yaml", "store.yaml", "sums.sql", "x.yaml"]


def test_a_file_that_appeared_meanwhile_is_not_overwritten(pipeline: Planned, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = pipeline.project.path / "views/new.sql"
    plan = pipeline.plan

    def planned(project: Project) -> dict[str, Any]:
        mine.write_text("SELECT 3")
        return plan(project)

    monkeypatch.setattr(pipeline, "plan", planned)
    with pytest.raises(HeadraceError) as error:
        made(pipeline, "view", "new", "SELECT 2")
    assert (error.value.code, mine.read_text(), pipeline.applied) == ("definition.exists", "SELECT 3", [])


def test_an_edited_source_that_cannot_be_read_holds_up_no_other(pipeline: Planned, project: ProjectFolder) -> None:
    """It is left as it is at work, or out where it is new; its own CREATE is refused."""
    project.source("shop", type="files", path="elsewhere")
    project.source("far", type="files", path="far")
    pipeline.unread = {"shop": REFUSED, "far": REFUSED}
    pipeline.changes = [
        {"action": "create", "kind": "source", "name": "far", "reason": "new"},
        {"action": "replace", "kind": "source", "name": "shop", "reason": "edited"},
    ]
    taken: list[Project] = []
    pipeline.apply = lambda project: taken.append(project) or {}  # type: ignore[method-assign, func-returns-value]
    left = ["source shop is left as it was: no: ", "source far is left as it was: no: "]
    assert made(pipeline, "view", "new", "SELECT 2\n")["notices"] == [*left, "slow"]
    assert taken[0].sources == pipeline.project.sources and [view.name for view in taken[0].views] == ["new", "sums"]
    with pytest.raises(HeadraceError, match="no"):
        made(pipeline, "source", "far", "type: files\npath: farther\n", replace=True)


def test_a_view_that_fails_on_the_rows_there_are_is_told_of(pipeline: Planned) -> None:
    pipeline.views = [
        {"name": "sums", "state": "failed", "reason": "of another"},
        {"name": "new", "state": "failed", "reason": "division by zero"},
    ]
    notices = made(pipeline, "view", "new", "SELECT 2\n")["notices"]
    assert notices == ["view new has failed: division by zero", "slow"]


def test_a_view_whose_matches_a_sink_takes_stays(pipeline: Planned, project: ProjectFolder) -> None:
    (project.path / "searches").mkdir()
    (project.path / "searches/late.yaml").write_text("view: SUMS\nquery: late\n")
    project.sink("told", type="webhook", url="http://127.0.0.1:1", searches=["late"])
    with pytest.raises(HeadraceError, match="delivered by told") as error:
        verb(drop.run, pipeline, view="sums")
    assert error.value.code == "view.has_readers" and "searches" in error.value.why


def test_a_name_is_dropped_and_created_in_another_case_at_once(pipeline: Planned, project: ProjectFolder) -> None:
    project.view("Clicks", "SELECT 1 AS a")
    pipeline.project = read(project.path)
    new = {"kind": "view", "name": "clicks", "text": "SELECT 2 AS a"}
    pipeline.fault, before = HeadraceError("internal", "no"), files(project.path)
    with pytest.raises(HeadraceError):
        verb(define.run, pipeline, changes=[{"kind": "view", "name": "CLICKS"}, new])
    assert files(project.path) == before
    pipeline.fault = None
    verb(define.run, pipeline, changes=[{"kind": "view", "name": "CLICKS"}, new])
    assert sorted(file.name for file in (project.path / "views").iterdir()) == [
        "Clicks.sql.dropped", "clicks.sql", "sums.sql",
    ]  # fmt: skip
    assert (project.path / "views/clicks.sql").read_text() == "SELECT 2 AS a"


def test_a_view_that_was_never_built_is_dropped_by_its_file(pipeline: Planned, project: ProjectFolder) -> None:
    project.view("wrong", "SELECT rand()")
    pipeline.refused_before, pipeline.views = {"wrong"}, [
        {"name": "wrong", "state": "refused"}, {"name": "sums", "state": "live"},
    ]  # fmt: skip
    answer = verb(drop.run, pipeline, view="WRONG")
    assert (answer["view"], answer["kept"]) == ("wrong", "views/wrong.sql.dropped")
    assert not (project.path / "views/wrong.sql").exists()
    assert pipeline.applied == [("shop", "sums", "store")]


def test_what_is_dropped_twice_is_kept_twice(pipeline: Planned, project: ProjectFolder) -> None:
    kept = []
    for path in ("x", "y", "z"):
        project.sink("store", type="duckdb", path=path)
        kept.append(verb(drop.run, pipeline, sink="store")["kept"])
    assert kept == [f"sinks/store.yaml.dropped{end}" for end in ("", ".2", ".3")]
    assert ["x" in (project.path / file).read_text().split()[-1] for file in kept] == [True, False, False]


def test_what_was_refused_before_or_edited_meanwhile_holds_nothing_up_and_is_told(pipeline: Planned) -> None:
    pipeline.refused_before = {"sums"}
    reason = {"reason": "why", "affects": []}
    pipeline.changes = [
        {"action": "create", "kind": "view", "name": "new", **reason},
        {"action": "create", "kind": "source", "name": "shop", **reason},
        {"action": "replace", "kind": "sink", "name": "store", **reason},
        {"action": "create", "kind": "view", "name": "edited", **reason},
    ]
    assert made(pipeline, "view", "new", "SELECT 2\n") == {
        "kind": "view", "name": "new", "done": True, "file": "views/new.sql",
        "notices": ["replace sink store: why", "create view edited: why", "slow"],
    }  # fmt: skip
    assert (pipeline.project.path / "views/new.sql").read_text() == "SELECT 2\n"


def test_a_sink_that_is_waited_for_stays(pipeline: Planned, project: ProjectFolder) -> None:
    project.source("shop", type="files", path="in", max_backlog=10, waits_for=["store"])
    project.settings(retention={"keep": "1d", "wait_for": ["store"]})
    with pytest.raises(HeadraceError) as error:
        verb(drop.run, pipeline, sink="STORE")
    assert error.value.code == "definition.in_use"
    assert error.value.where == "sources/shop.yaml, headrace.yaml: retention.wait_for"
    project.source("shop", type="files", path="in")
    project.settings()
    assert verb(drop.run, pipeline, sink="STORE")["kept"] == "sinks/store.yaml.dropped"
    assert not read(project.path).sinks


def test_several_are_planned_and_taken_as_one_or_refused_as_one(pipeline: Planned) -> None:
    def defined(*changes: dict[str, Any]) -> dict[str, Any]:
        return verb(define.run, pipeline, changes=changes)

    path = pipeline.project.path
    a, b = ({"kind": "view", "name": name, "text": f"SELECT 2 AS {name}\n"} for name in "ab")
    drop_store = {"kind": "sink", "name": "STORE"}
    before = files(path)
    for code, refuses, changes in (
        ("sql.refused", {"b"}, (a, b)),
        ("definition.exists", set(), (a, {**b, "name": "sums"})),
        ("view.unknown", set(), (a, {"kind": "view", "name": "nobody"})),
        ("view.has_readers", {"sums"}, (a, drop_store)),
    ):
        pipeline.refuses = refuses
        with pytest.raises(HeadraceError) as error:
            defined(*changes)
        assert (error.value.code, files(path), pipeline.applied) == (code, before, []), code
    pipeline.refuses, pipeline.fault = set(), HeadraceError("internal", "no")
    with pytest.raises(HeadraceError):
        defined(a, {**b, "name": "sums", "replace": True}, drop_store)
    assert files(path) == before
    pipeline.fault, pipeline.applied = None, []
    answer = defined(
        a, {"kind": "view", "name": "a"}, {**a, "text": "SELECT 3 AS a"}, b, drop_store,
        {"kind": "view", "name": "b"}, {"kind": "view", "name": "b", "existing_only": True},
    )  # fmt: skip
    assert pipeline.applied == [("shop", "a", "sums")]
    assert [told["done"] for told in answer["done"]] == [True] * 6 + [False]
    assert [told.get("kept") for told in answer["done"]] == [None] * 4 + ["sinks/store.yaml.dropped", None, None]
    assert (path / "views/a.sql").read_text() == "SELECT 3 AS a"
    assert sorted(file.name for file in path.glob("*s/*")) == ["a.sql", "shop.yaml", "store.yaml.dropped", "sums.sql"]
    assert answer["notices"] == ["slow"]
