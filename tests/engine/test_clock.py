"""Goal: the clock is moved when a view needs it, and only then; what cannot follow it at the cost of a change is refused.

Method: pipelines stepped by hand with a present time of the test's own, verified against batch after each step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from running_case import Case, Running, microseconds, running

from headrace.circuit.node import Threshold
from headrace.circuit.operators.threshold import Ordered
from headrace.engine.clock import last_tick
from headrace.engine.compile import Compiled, Compiler
from headrace.model.definition import ViewDefinition
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column, Relation
from headrace.state.run import open_run

pytestmark = pytest.mark.spark

TABLES = {
    "events": {"columns": {"id": "int not null", "at": "timestamp", "month": "string"}, "key": "id"},
    "notes": {"columns": {"id": "int not null", "text": "string"}, "key": "id"},
}
VIEWS = {
    "young": "SELECT id FROM events WHERE at > now() - INTERVAL 1 HOUR",
    "of_young": "SELECT count(*) AS n FROM young",
    "of_today": "SELECT id FROM events WHERE to_date(at) = current_date()",
    "of_this_month": "SELECT id FROM events WHERE month <= date_format(now(), 'yyyy-MM')",
    "noted": "SELECT text FROM notes",
    "by_either": "-- on_change: recompute\nSELECT id FROM events WHERE id > 5 OR at > now()",
}
START = "2030-01-01 12:00:00"


@pytest.fixture
def at_work(request: pytest.FixtureRequest, spark: Any, tmp_path: Path) -> Iterator[Running]:
    names = getattr(request, "param", list(VIEWS))
    case = Case("clock", TABLES, {n: VIEWS[n] for n in names}, (), {}, microseconds(START))
    with running(case, tmp_path / "p") as made:
        made.define()
        yield made


def passes(at_work: Running, to: str) -> bool:
    """The present time becomes this one; whether a step follows by itself."""
    at_work.now_us = microseconds(to)
    return bool(at_work.pipeline.maintainer.step())


def shown(at_work: Running, view: str) -> set[str]:
    return {row[0] for row in at_work.contents(view)}


def kept(at_work: Running, view: str) -> set[int]:
    """The ids of the rows that a view's threshold keeps."""
    maintainer = at_work.pipeline.maintainer
    [threshold] = [n for n in maintainer.views[view].root.walk() if isinstance(n, Threshold)]
    path = maintainer.kept.whole(Ordered.of(threshold).name)
    return set() if path is None else set(open_run(path)["c0"].to_pylist())


@pytest.mark.parametrize("at_work", [["young", "of_young", "noted"]], indirect=True)
def test_a_tick_comes_when_rows_are_due_or_a_view_of_the_clock_has_news(at_work: Running) -> None:
    log = at_work.pipeline.log
    assert last_tick(log) == microseconds(START)
    end = log.end
    assert not passes(at_work, "2030-01-01 12:10:00") and log.end == end

    at_work.push({"notes": {"insert": [[1, "of no clock"]]}})
    at_work.step()
    assert last_tick(log) == microseconds(START)

    at_work.push({"events": {"insert": [[1, "2030-01-01T11:50:00", None], [2, "2030-01-01T12:05:00", None]]}})
    at_work.step()
    assert last_tick(log) == microseconds("2030-01-01 12:10:00")
    assert shown(at_work, "young") == {"1", "2"}

    end = log.end
    assert not passes(at_work, "2030-01-01 12:49:59") and log.end == end
    assert passes(at_work, "2030-01-01 12:50:00") and log.end == end + 1
    assert shown(at_work, "young") == {"2"} and shown(at_work, "of_young") == {"1"}
    at_work.verify()

    for back in ("2030-01-01 12:00:00", "2020-01-01 00:00:00"):  # the system's clock was set back
        assert not passes(at_work, back)
        at_work.push({"events": {"insert": [[3, "2030-01-01T12:00:00", None]]}})
        at_work.step()
        assert last_tick(log) == microseconds("2030-01-01 12:50:00")
        at_work.verify()

    at_work.reopen()
    assert last_tick(at_work.pipeline.log) == microseconds("2030-01-01 12:50:00")
    assert passes(at_work, "2030-01-01 13:00:00")  # 3 leaves
    assert shown(at_work, "young") == {"2"}
    at_work.verify()
    assert kept(at_work, "young") == {2}  # of 1 and 3 nothing is left, as they cannot come back

    at_work.define({"noted": VIEWS["noted"]})  # no view of the clock any more
    at_work.push({"notes": {"insert": [[2, "later"]]}})
    assert passes(at_work, "2030-01-02 00:00:00")
    assert last_tick(at_work.pipeline.log) == microseconds("2030-01-01 13:00:00")


@pytest.mark.parametrize("at_work", [["of_today", "of_this_month", "by_either"]], indirect=True)
def test_what_is_no_threshold_is_looked_at_when_its_value_changes(at_work: Running) -> None:
    rows = [[1, "2030-01-01T18:00:00", "2030-01"], [2, "2030-01-02T06:00:00", "2030-02"], [7, None, None]]
    at_work.push({"events": {"insert": rows}})
    at_work.step()
    found = {view: shown(at_work, view) for view in at_work.case.views}
    assert found == {"of_today": {"1"}, "of_this_month": {"1"}, "by_either": {"1", "2", "7"}}
    assert passes(at_work, "2030-01-02 00:00:00")
    found = {view: shown(at_work, view) for view in at_work.case.views}
    assert found == {"of_today": {"2"}, "of_this_month": {"1"}, "by_either": {"2", "7"}}
    at_work.verify()
    at_work.define({n: VIEWS[n] for n in ("of_today", "of_this_month")})
    assert not passes(at_work, "2030-01-02 23:59:59")
    assert passes(at_work, "2030-02-01 00:00:00")
    assert shown(at_work, "of_today") == set() and shown(at_work, "of_this_month") == {"1", "2"}
    at_work.verify()


EVENTS = Relation("events", (Column("id", "int", False), Column("at", "timestamp"), Column("d", "date")), ("id",))


def compiled(spark: Any, sql: str) -> Compiled | HeadraceError:
    found = Compiler(spark).compile({"events": EVENTS}, [ViewDefinition("v", sql)], {})
    return found.refused["v"] if found.refused else found.views["v"]


REFUSED: Mapping[str, tuple[str, str]] = {
    "SELECT id, now() FROM events": ("SELECT list", "WHERE ts > now()"),
    "SELECT CASE WHEN at > now() THEN 'new' ELSE 'old' END AS age FROM events": ("SELECT list", "UNION ALL"),
    "SELECT date_trunc('hour', now()) AS h, count(*) FROM events GROUP BY 1": ("SELECT list", "WHERE"),
    "SELECT count(*) FILTER (WHERE at > now()) FROM events": ("an aggregate or GROUP BY", "WHERE"),
    "SELECT a.id FROM events a LEFT JOIN events b ON a.id = b.id AND a.at > now()": ("ON of an outer join", "WHERE"),
    "SELECT id FROM events WHERE at > now() OR id = 1": ("this condition on the clock", "on_change: recompute"),
    "SELECT id FROM events WHERE hour(at) + hour(now()) > 3": ("this condition on the clock", "on_change: recompute"),
    "SELECT id FROM events ORDER BY at > now() LIMIT 1": ("in this place", "WHERE"),
}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_each_tick_would_change_or_scan_is_refused(spark: Any, sql: str) -> None:
    error = compiled(spark, sql)
    assert isinstance(error, HeadraceError)
    clause, rewrite = REFUSED[sql]
    assert error.code == "sql.not_incremental" and clause in str(error) and rewrite in error.next


@pytest.mark.parametrize(("zone", "passing"), [("UTC", True), ("+05:30", True), ("Europe/Berlin", False)])
def test_where_local_time_may_go_back_rows_stay(spark: Any, zone: str, passing: bool) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    for condition in ("at > now() - INTERVAL 1 DAY", "d >= current_date()"):
        view = compiled(session, f"SELECT id FROM events WHERE {condition}")
        assert isinstance(view, Compiled)
        assert [n.passes for n in view.root.walk() if isinstance(n, Threshold)] == [passing]
    view = compiled(session, "SELECT id FROM events WHERE now() - at < INTERVAL 1 DAY")
    assert isinstance(view, Compiled) == passing  # Berlin has days of 23 hours
