"""Goal: the files of functions/ run only where code is allowed, and an edited function is an edited view."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from running_case import Case, Running, functions_in, running

from headrace.model.errors import HeadraceError

pytestmark = pytest.mark.spark

TABLES = {"t": {"columns": {"id": "int not null", "v": "int"}, "key": "id"}}
VIEWS = {
    "shown": "SELECT id, change(v) AS v FROM t",
    "plain": "SELECT count(*) AS n FROM t",
    "above": "SELECT sum(v) AS s FROM shown",
}
TEXT = """
from headrace import function

@function
def change(v: int) -> int:
    return v + STEP

@function(returns="int")
def other(v: int) -> int:
    return v

STEP = 1
"""


@pytest.fixture
def project(spark: Any, tmp_path: Path) -> Iterator[Running]:
    with running(Case("project", TABLES, VIEWS, (), {}, functions=TEXT), tmp_path / "project") as at_work:
        yield at_work


def edited(project: Running, text: str, *, code: bool = True) -> None:
    functions = functions_in(text, project.folder)
    project.project = replace(
        project.project, functions=functions, settings=replace(project.project.settings, code=code)
    )


def versions(project: Running) -> dict[str, int]:
    return {name: record.schema.version for name, record in project.pipeline.catalog.views().items()}


def contents(project: Running) -> dict[str, list[tuple[str, ...]]]:
    return {view: sorted(project.contents(view).elements()) for view in VIEWS}


FIRST = {"shown": [("1", "11"), ("2", "21")], "plain": [("2",)], "above": [("32",)]}
EDITED = {"shown": [("1", "15"), ("2", "25")], "plain": [("2",)], "above": [("40",)]}


def test_an_edited_function_is_an_edited_view(project: Running) -> None:
    answer = project.define()
    assert answer["functions"] == [
        {"name": "change", "file": "functions/declared.py", "allowed": True, "views": ["shown"]},
        {"name": "other", "file": "functions/declared.py", "allowed": True, "views": []},
    ]
    assert "project  t.id, change(t.v)\n" in project.pipeline.explain("shown")["text"]
    project.push({"t": {"insert": [[1, 10], [2, 20]]}})
    project.step()
    assert contents(project) == FIRST
    project.verify()
    assert project.pipeline.sql("SELECT change(v) + other(0) AS v FROM shown").to_pylist() == [{"v": 12}, {"v": 22}]

    before = project.project
    edited(project, TEXT.replace("STEP = 1", "STEP = 5"))
    planned = project.pipeline.plan(project.project)
    assert {c["name"]: c["action"] for c in planned["changes"] if c["kind"] == "view"} == {
        "shown": "replace", "plain": "keep", "above": "replace",
    }  # fmt: skip
    # A plan changes nothing, for queries and checks either.
    assert project.pipeline.sql("SELECT change(v) AS v FROM t").to_pylist() == [{"v": 11}, {"v": 21}]
    project.verify()
    assert contents(project) == FIRST

    project.pipeline.apply(project.project)
    assert (contents(project), versions(project)) == (EDITED, {"shown": 2, "plain": 1, "above": 2})
    project.verify()
    project.push({"t": {"delete": [[1]]}})
    project.step()
    assert project.contents("shown").keys() == {("2", "25")}

    # Edited while nothing ran.
    project.project = before
    project.reopen()
    assert project.contents("shown").keys() == {("2", "21")}
    assert versions(project) == {"shown": 3, "plain": 1, "above": 3}
    project.reopen()
    assert versions(project) == {"shown": 3, "plain": 1, "above": 3}
    project.push({"t": {"insert": [[3, 30]], "delete": [[2]]}})
    project.step()
    assert project.contents("above").keys() == {("31",)}
    project.verify()


def test_code_that_is_not_allowed_does_not_run(project: Running) -> None:
    edited(project, f"raise SystemExit('it ran')\n{TEXT}", code=False)
    planned = project.pipeline.plan(project.project)
    assert [f["allowed"] for f in planned["functions"]] == [False, False]
    refused = {view["name"]: view["refused"] for view in planned["views"]}
    assert refused["plain"] is None
    assert refused["shown"]["code"] == "function.not_allowed"
    assert "functions/declared.py" in refused["shown"]["why"]
    assert "code: true" in refused["shown"]["next"]
    with pytest.raises(HeadraceError, match="does not run: SystemExit: it ran"):
        edited(project, f"raise SystemExit('it ran')\n{TEXT}")
        project.pipeline.plan(project.project)


def test_a_view_whose_function_is_taken_away_fails_alone_and_comes_back_with_it(project: Running) -> None:
    project.define()
    project.push({"t": {"insert": [[1, 10], [2, 20]]}})
    project.step()
    edited(project, TEXT, code=False)
    project.reopen()
    shown = project.pipeline.catalog.views()["shown"]
    assert shown.state == "failed"
    assert "change is not allowed to run" in shown.reason
    project.push({"t": {"insert": [[3, 30]]}})
    project.step()
    assert project.contents("plain").keys() == {("3",)}
    assert contents(project)["shown"] == FIRST["shown"]
    edited(project, TEXT)
    project.pipeline.apply(project.project)
    assert project.contents("above").keys() == {("63",)}
    project.verify()


BROKEN = [
    ("import nowhere_to_be_found\n", "function.invalid", "does not run: ModuleNotFoundError"),
    ("change = 3\n", "function.invalid", "3 has its name in the end"),
    ("@function\ndef upper(v: str) -> str:\n    return v\n", "function.invalid", "Spark has a function of that name"),
    ("@function\ndef bare(v):\n    return v\n", "function.invalid", "the type of its result is not known"),
]


@pytest.mark.parametrize(("more", "code", "text"), BROKEN)
def test_a_file_that_cannot_be_used_is_refused_with_its_place(
    project: Running, more: str, code: str, text: str
) -> None:
    edited(project, TEXT + more)
    with pytest.raises(HeadraceError) as caught:
        project.pipeline.plan(project.project)
    assert caught.value.code == code
    assert text in caught.value.what
    assert caught.value.where.startswith("functions/declared.py")
