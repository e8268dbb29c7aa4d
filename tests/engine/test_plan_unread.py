"""Goal: a plan with a source that does not say its tables tells that, and of the views all that can be told without it.

Method: a project with tables pushed over HTTP and a source of type postgres at a port that nobody listens at.
"""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from failing_case import TABLES
from running_case import Case, running

from headrace.engine.plan import waits
from headrace.model.definition import SourceDefinition, ViewDefinition
from headrace.model.errors import HeadraceError
from headrace.model.schema import Column, Relation

pytestmark = pytest.mark.spark

VIEWS = {
    "sound": "SELECT customer, count(*) AS n FROM orders GROUP BY customer",
    "wrong": "SELECT * FORM orders",
    "random": "SELECT rand() AS r FROM orders",
    "away": "SELECT * FROM accounts",
    "above": "SELECT count(*) AS n FROM away",
    "unknown_column": "SELECT customr FROM orders",
}


def test_views_are_planned_beside_a_source_that_cannot_be_reached(spark: Any, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        dsn = f"postgresql://nobody@127.0.0.1:{taken.getsockname()[1]}/bank"
        (tmp_path / "headrace.yaml").write_text("")
        with running(Case("shop", TABLES, {}, (), {}), tmp_path) as shop:
            bank = SourceDefinition("bank", "postgres", {"dsn": dsn})
            abroad = SourceDefinition("abroad", "postgres", {"dsn": dsn, "tables": {"branches": "public.branches"}})
            views = tuple(ViewDefinition(name, sql) for name, sql in VIEWS.items())
            wanted = replace(shop.project, sources=(*shop.project.sources, bank), views=views)
            plan = shop.pipeline.plan(wanted)
            named = shop.pipeline.plan(replace(wanted, sources=(*shop.project.sources, abroad)))
            with pytest.raises(HeadraceError, match=r"source\.connect"):
                shop.pipeline.apply(wanted)
            # One that has been read before holds up nobody; of what it has besides nothing is known.
            shop.pipeline.catalog.put_relation("bank", Relation("entries", (Column("id", "int"),), ("id",)))
            taken_up = shop.pipeline.apply(wanted)
            refused = shop.pipeline.refused["away"]
    assert plan["unread"].keys() == {"bank"}
    assert plan["unread"]["bank"]["code"] == "source.connect"
    told = {view["name"]: view["refused"] for view in plan["views"]}
    assert told["sound"] is None
    assert [told[name]["code"] for name in ("wrong", "random", "unknown_column", "above")] == [
        "sql.syntax", "sql.not_deterministic", "sql.unknown_column", "sql.analysis",
    ]  # fmt: skip
    away, elsewhere = told["away"], {view["name"]: view["refused"] for view in named["views"]}["away"]
    assert (elsewhere["code"], elsewhere["what"]) == ("sql.unknown_relation", "there is no table or view 'accounts'")
    assert (away["code"], away["what"], away["where"]) == (
        "source.connect", "source bank could not be asked for its tables: PostgreSQL cannot be reached",
        "view away:1:15",
    )  # fmt: skip
    assert "refused; Is the server" in away["why"] and away["why"].endswith(
        "; of those that are known, there is no table or view 'accounts'"
    )
    assert {view["name"]: view["refused"] for view in taken_up["views"]}["away"] == refused.as_dict() == away
    assert waits(refused) and not waits(HeadraceError("sql.syntax", "no"))
    assert {c["name"]: c["action"] for c in plan["changes"] if c["kind"] == "source"}["bank"] == "create"
