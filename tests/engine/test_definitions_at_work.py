"""Goal: what is at work is what was applied last and whole; a source that goes down holds up no other definition.

Method: a project with tables pushed over HTTP and, in the second, a real PostgreSQL that is stopped and started again.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from failing_case import COUNT, TABLES, rows, stepped
from running_case import Case, running

from headrace.model.definition import SourceDefinition, ViewDefinition
from headrace.model.errors import HeadraceError
from headrace.testing.postgres import PostgresServer

pytestmark = pytest.mark.spark

THROWS = "SELECT customer, CAST('x' || customer AS int) AS n FROM orders"
WAIT_S = 30.0


def test_what_was_refused_is_not_at_work(spark: Any, tmp_path: Path) -> None:
    with running(Case("shop", TABLES, {}, (), {}), tmp_path / "shop") as shop:
        shop.define({"counts": COUNT})
        stepped(shop, {"orders": {"insert": [[1, 1, 10], [2, 1, 20]]}})
        before = shop.pipeline.project
        other = SourceDefinition("other", "http", {"listen": False, "tables": {"late": {}}})
        wanted = replace(
            before, sources=(*before.sources, other), views=(ViewDefinition("counts", THROWS), ViewDefinition("x", "nope"))
        )  # fmt: skip
        with pytest.raises(HeadraceError, match="the new version of view counts fails"):
            shop.pipeline.apply(wanted)
        assert shop.pipeline.project is before
        assert shop.pipeline.sources.keys() == shop.pipeline.ingests.keys() == {s.name for s in before.sources}
        assert shop.pipeline.refused == {}
        assert [(v["name"], v["state"]) for v in shop.pipeline.status()["views"]] == [("counts", "live")]
        assert {c["action"] for c in shop.pipeline.plan()["changes"]} == {"keep"}
        stepped(shop, {"orders": {"insert": [[3, 2, 5]]}})
        assert shop.contents("counts") == rows((1, 2), (2, 1))
        shop.verify()


@pytest.mark.postgres
def test_a_source_that_goes_down_is_planned_as_it_was_last_seen(spark: Any, tmp_path: Path) -> None:
    with PostgresServer() as server, running(Case("shop", TABLES, {}, (), {}), tmp_path / "shop") as shop:
        server.psql("CREATE TABLE accounts (id int PRIMARY KEY, owner text)")
        server.psql("CREATE TABLE unused (id int PRIMARY KEY)")
        server.psql("INSERT INTO accounts VALUES (1, 'ada')")
        bank = SourceDefinition("bank", "postgres", {"dsn": server.dsn, "tables": {"accounts": "public.accounts"}})
        spare = SourceDefinition("spare", "postgres", {"dsn": server.dsn, "tables": {"unused": "public.unused"}})
        shop.project = replace(shop.project, sources=(*shop.project.sources, bank, spare))
        owners = "SELECT owner, count(*) AS n FROM accounts GROUP BY owner"
        shop.define({"owners": owners})
        ingest = shop.pipeline.ingests["bank"]
        assert ingest.caught_up.wait(WAIT_S)
        shop.step()
        server.stop(immediate=True)
        end = time.monotonic() + WAIT_S
        both = ingest, shop.pipeline.ingests["spare"]
        while not all(one.error for one in both) and time.monotonic() < end:
            time.sleep(0.05)
        assert [one.error.code for one in both if one.error] == ["source.connect", "source.connect"]

        views = {"owners": owners, "counts": COUNT}
        definitions = tuple(ViewDefinition(name, sql) for name, sql in views.items())
        wanted = replace(shop.project, views=(*definitions, ViewDefinition("away", "SELECT id FROM unused")))
        plan = shop.pipeline.plan(wanted)
        assert plan["unread"] == {}
        assert [warning.partition(":")[0] for warning in plan["warnings"]] == ["bank", "spare"]
        assert all(warning.endswith("its tables are planned as they were last seen") for warning in plan["warnings"])
        refused = {view["name"]: view["refused"] for view in plan["views"] if view["refused"]}
        assert refused.keys() == {"away"} and refused["away"]["code"] == "source.connect"
        assert refused["away"]["what"].startswith("source spare could not be asked for its tables: ")
        shop.define(views)
        shop.define({"counts": COUNT})
        shop.define(views)
        stepped(shop, {"orders": {"insert": [[1, 1, 10]]}})
        assert (shop.contents("owners"), shop.contents("counts")) == (rows(("ada", 1)), rows((1, 1)))
        assert shop.pipeline.ingests["bank"] is ingest
        shop.pipeline.apply(wanted)
        assert shop.pipeline.refused["away"].code == "source.connect"

        server.start()
        server.psql("INSERT INTO accounts VALUES (2, 'ada')")
        end = time.monotonic() + 2 * WAIT_S
        while any(one.error for one in both) and time.monotonic() < end:
            time.sleep(0.05)
        assert shop.pipeline.plan()["warnings"] == []
        while shop.contents("owners") != rows(("ada", 2)) and time.monotonic() < end:
            shop.pipeline.log.wait(shop.pipeline.maintainer.frontier, 0.2)
            shop.pipeline.maintainer.step()
        assert shop.contents("owners") == rows(("ada", 2))
        while shop.pipeline.refused and time.monotonic() < end:  # what waited for its tables is taken up by itself
            shop.pipeline.definitions.discover()
            time.sleep(0.05)
        assert shop.pipeline.refused == {} and "away" in shop.pipeline.catalog.views()
