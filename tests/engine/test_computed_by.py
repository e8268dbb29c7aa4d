"""Goal: state that another Spark, other settings or other operators have made is never taken for one's own.

Method: pipelines that are closed and opened again as something else; their views are built anew, by a plan that says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from failing_case import rows, stepped
from running_case import Case, Running, running

from headrace.engine import session
from headrace.engine.session import open_session
from headrace.model.definition import Settings

pytestmark = pytest.mark.spark

TABLES = {"visits": {"columns": {"id": "int not null", "at": "timestamp"}, "key": "id"}}
VIEWS = {
    "hours": "SELECT hour(at) AS h, count(*) AS n FROM visits GROUP BY hour(at)",
    "busiest": "SELECT max(n) AS n FROM hours",
}
REASON = "built by another version of Spark or Headrace, or with another time_zone or ansi"


@pytest.fixture
def visits(spark: Any, tmp_path: Path) -> Iterator[Running]:
    with running(Case("visits", TABLES, {}, (), {}), tmp_path / "visits") as at_work:
        at_work.define(VIEWS)
        stepped(at_work, {"visits": {"insert": [[1, "2026-01-01T00:10:00Z"], [2, "2026-01-01T00:20:00Z"]]}})
        yield at_work
    open_session(Settings())  # the one session of the tests as it was


def again(at_work: Running, **settings: Any) -> dict[str, str]:
    """Open the project with other settings; why views are replaced."""
    at_work.kill()
    at_work.project = replace(at_work.project, settings=replace(at_work.project.settings, **settings))
    at_work.pipeline = at_work.opened()
    changes = at_work.pipeline.definitions.carry_out(at_work.project)["changes"]
    return {c["name"]: c["reason"] for c in changes if c["kind"] == "view" and c["action"] == "replace"}


def versions(at_work: Running) -> set[int]:
    return {record.schema.version for record in at_work.pipeline.catalog.views().values()}


def test_another_time_zone_builds_views_anew(visits: Running) -> None:
    assert visits.contents("hours") == rows((0, 2))
    assert again(visits) == {}
    assert again(visits, time_zone="Asia/Tokyo").keys() == VIEWS.keys()
    assert versions(visits) == {2}
    stepped(visits, {"visits": {"insert": [[3, "2026-01-01T03:00:00Z"]], "delete": [[1]]}})
    assert visits.contents("hours") == rows((9, 1), (12, 1))
    assert visits.contents("busiest") == rows((1,))
    assert again(visits) == {}


def test_other_operators_build_views_anew(visits: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "REVISION", session.REVISION + 1)
    assert again(visits)["hours"] == REASON
    assert versions(visits) == {2}
    stepped(visits, {"visits": {"delete": [[2]]}})
    assert visits.contents("hours") == rows((0, 1))
    visits.verify()


def test_who_only_looks_with_another_setting_loses_nothing(visits: Running) -> None:
    visits.kill()
    project = visits.project
    visits.project = replace(project, settings=replace(project.settings, time_zone="Asia/Tokyo"))
    looking = visits.opened()
    assert [c["action"] for c in looking.plan()["changes"] if c["kind"] == "view"] == ["replace", "replace"]
    del looking.spark  # which is everybody's here
    looking.stop()
    visits.project = project
    visits.pipeline = visits.opened()
    assert again(visits) == {}
    stepped(visits, {"visits": {"delete": [[1]]}})
    assert versions(visits) == {1}
    assert visits.contents("hours") == rows((0, 1))
    visits.verify()
