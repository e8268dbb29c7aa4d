"""Goal: `explain` tells what each operator of a running view did and holds: the rows of the last step and of all, its state.

Method: a project at work in this process; oracle: the rows that the test pushes, counted by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from headrace.catalog.project import read
from headrace.control import columns
from headrace.control.running import Running
from headrace.engine.counted import Counter
from headrace.engine.pipeline import Pipeline
from headrace.model.definition import SinkDefinition
from headrace.model.errors import HeadraceError
from headrace.serve import described
from project_folder import ProjectFolder

pytestmark = pytest.mark.spark

TABLES = {
    "customers": {"columns": {"id": "int", "region": "string"}, "key": ["id"]},
    "orders": {"columns": {"id": "int", "customer": "int", "amount": "int"}, "key": ["id"]},
    "edges": {"columns": {"a": "int", "b": "int"}, "key": ["a", "b"]},
    "links": {"columns": {"a": "int", "b": "int"}, "key": ["a", "b"]},
}
TOTALS = "SELECT customer, sum(amount) AS total FROM orders GROUP BY customer"
VIEWS = {
    "revenue": "SELECT region, sum(amount) AS total FROM orders JOIN customers c ON c.id = customer GROUP BY region",
    "rich": f"SELECT customer FROM ({TOTALS}) WHERE total > 100",
    "poor": f"SELECT customer FROM ({TOTALS}) WHERE total < 10",
    "big": "SELECT region, total AS t FROM revenue WHERE total > 10",
    "many": "SELECT count(*) AS n FROM big",
    "sounds": "SELECT soundex(region) AS sound, count(*) AS n FROM customers GROUP BY soundex(region)",
    "others": "SELECT id FROM customers WHERE soundex(region) <> 'N630'",
    "known": "SELECT o.id, e.b, region FROM orders o JOIN links e ON e.a = customer JOIN customers c ON c.id = customer",
    "shown": "SELECT c.id, o.amount, e.b FROM customers c LEFT JOIN orders o ON customer = c.id LEFT JOIN links e ON e.a = c.id",
    "both": "SELECT id FROM orders UNION ALL SELECT id FROM customers",
    "reach": "WITH RECURSIVE r(a, b) AS (SELECT a, b FROM edges UNION ALL"
    " SELECT r.a, e.b FROM r JOIN edges e ON e.a = r.b) SELECT * FROM r",
}


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    project = ProjectFolder(tmp_path_factory.mktemp("counted") / "shop")
    project.settings()
    project.source("shop", "http", port=0, tables=TABLES)
    for name, sql in VIEWS.items():
        project.view(name, sql)
    made = Pipeline(read(project.path))
    made.start()
    yield made
    made.stop()


def push(pipeline: Pipeline, table: str, *rows: dict[str, Any]) -> None:
    pipeline.wait_for(pipeline.push("shop", [{"table": table, "op": "insert", "row": row} for row in rows]))


def rows(pipeline: Pipeline, view: str) -> dict[str, tuple[Any, ...]]:
    """Operator -> (in, out) of the last step, then of all."""
    told = pipeline.explain(view)["operators"]
    return {
        f"{o['name']} {o['detail'].split(':')[0]}" if o["name"] == "read" else o["name"]: tuple(
            o["rows"][way][when] for when in ("last", "sum") for way in ("in", "out")
        )
        for o in told
    }


def test_rows_and_state_of_every_operator(pipeline: Pipeline) -> None:
    untouched = pipeline.explain("revenue")
    assert untouched["counted_from"] is None
    assert {o["rows"]["out"]["sum"] for o in untouched["operators"]} == {None}

    push(pipeline, "customers", *({"id": i, "region": "north" if i < 3 else "south"} for i in range(5)))
    push(pipeline, "orders", *({"id": i, "customer": i % 5, "amount": 7} for i in range(10)))
    push(pipeline, "orders", {"id": 10, "customer": 0, "amount": 200}, {"id": 11, "customer": 99, "amount": 1})
    told = rows(pipeline, "revenue")
    assert told["read orders"] == (2, 2, 12, 12)
    assert told["read customers"] == (0, 0, 5, 5)
    assert told["inner join"] == (2, 1, 17, 11)  # nobody is customer 99
    # A group's old row goes as its new one comes.
    assert told["aggregate"] == (1, 2, 11, 4)
    assert told["read orders"][3] + told["read customers"][3] == told["inner join"][2]
    # Both read the same aggregate, which is made, and kept, once.
    for view in ("rich", "poor"):
        assert rows(pipeline, view)["aggregate"] == (2, 3, 12, 8), view
    rich, poor = rows(pipeline, "rich"), rows(pipeline, "poor")
    assert rich["filter"] == (3, 1, 8, 1)
    assert poor["filter"] == (3, 1, 8, 1)
    assert rows(pipeline, "both")["union"] == (2, 2, 17, 17)
    # Of what Spark computes a projection has as many rows as it is given; a filter's are not counted.
    assert rows(pipeline, "sounds")["aggregate"] == (5, 2, 5, 2)
    assert rows(pipeline, "others")["filter"] == (5, None, 5, None)
    assert "| rows   in 5 (5), out ? (?), read 0 (0)" in pipeline.explain("others")["text"]

    explained = pipeline.explain("revenue")
    join = next(o for o in explained["operators"] if o["name"] == "inner join")
    aggregate = next(o for o in explained["operators"] if o["name"] == "aggregate")
    assert [explained["operators"][i]["name"] for i in aggregate["inputs"]] == ["project"]
    held = {a["of"]: a["rows"] for a in join["arrangements"]}
    assert held == {"this view": 12, "table customers": 5}
    assert [(a["of"], a["bytes"] > 0) for a in aggregate["arrangements"]] == [("this view", True)]
    shared = next(o for o in pipeline.explain("rich")["operators"] if o["name"] == "aggregate")
    assert [a["of"] for a in shared["arrangements"]] == ["a shared subquery"]
    assert join["rows"]["read"] == {"last": 1, "sum": 5 + 1}  # customers found
    assert f"in 2 ({12 + 5}), out 1 (11), read" in explained["text"]
    assert "holds  5 rows," in explained["text"] and "of table customers" in explained["text"]


def test_a_recursive_query_counts_all_its_levels(pipeline: Pipeline) -> None:
    push(pipeline, "edges", *({"a": i, "b": i + 1} for i in range(3)))
    told = rows(pipeline, "reach")
    assert told["recursion"][3] == 3 + 2 + 1
    assert told["inner join"] == (6 + 3 * 3, 3, 6 + 3 * 3, 3)  # each of three levels reads the edges
    since = pipeline.explain("reach")["counted_from"]
    push(pipeline, "edges", {"a": 3, "b": 4})
    assert rows(pipeline, "reach")["recursion"] == (4, 4, 6 + 4, 6 + 4)
    assert pipeline.explain("reach")["counted_from"] == since


def test_a_join_that_is_joined_anew_reads_no_more_than_it_has(pipeline: Pipeline) -> None:
    def read(view: str) -> int:
        """Rows that the last operator but a projection read in the last step."""
        joins = [o for o in pipeline.explain(view)["operators"] if o["name"].endswith(" join")]
        return int(joins[-1]["rows"]["read"]["last"])

    push(pipeline, "orders", *({"id": i, "customer": 77, "amount": 1} for i in range(100, 105)))
    push(pipeline, "customers", {"id": 77, "region": "west"})
    assert read("known") == 0  # the customer's five orders meet no link
    push(pipeline, "links", {"a": 88, "b": 1})
    assert read("shown") == 0  # there is no such customer
    push(pipeline, "links", {"a": 77, "b": 1})
    assert read("known") == 1  # the customer, who meets them with the link
    assert read("shown") == 1 + 5
    push(pipeline, "customers", {"id": 77, "region": "east"})
    assert read("known") == 1 + 5  # the link and the orders that it meets


def test_columns_are_traced_through_views(pipeline: Pipeline) -> None:
    running, status = Running(pipeline, pipeline.project.path), {"sinks": [{"name": "store", "views": ["many"]}]}

    def ask(relation: str, reach: str = "direct") -> dict[str, Any]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pipeline, "status", lambda: status)
            return columns.run(running, {"relation": relation, "reach": reach}, lambda told: None)

    def spelled(places: list[dict[str, str]]) -> list[str]:
        return [f"{p['relation']}.{p['column']}" + (f" by {p['by']}" if "by" in p else "") for p in places]

    joined = ["customers.id", "orders.customer"]
    region, total = ask("revenue")["columns"]
    assert (region["column"], spelled(region["value"]), spelled(region["rows"])) == (
        "region",
        ["customers.region"],
        joined,
    )
    assert (total["type"], spelled(total["value"])) == ("bigint", ["orders.amount"])
    assert spelled(total["rows"]) == ["customers.id", "customers.region", "orders.customer"]
    assert spelled(total["into"]) == ["big.region by rows", "big.t by value"]
    assert (ask("revenue")["sinks"], ask("many")["sinks"]) == ([], ["store"])

    status["sinks"] = []  # nothing is delivered: what the files of the sinks say
    sinks = [SinkDefinition("all", "duckdb"), SinkDefinition("one", "duckdb", ("many",))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "project", replace(pipeline.project, sinks=tuple(sinks)))
        assert (ask("revenue")["sinks"], ask("many")["sinks"]) == (["all"], ["all", "one"])
    status["sinks"] = [{"name": "store", "views": ["many"]}]

    (n,) = ask("MANY")["columns"]
    assert (n["value"], n["rows"]) == ([], [])  # it reads no column of the view that it counts
    through = ask("many", "all")
    everything = ["customers.id", "customers.region", "orders.amount", "orders.customer"]
    assert spelled(through["columns"][0]["rows"]) == everything
    t = ask("big", "all")["columns"][1]
    assert (spelled(t["value"]), spelled(t["rows"])) == (
        ["orders.amount"],
        [p for p in everything if p != "orders.amount"],
    )

    orders = ask("orders", "all")
    amount = orders["columns"][2]
    assert (orders["kind"], orders["rows"], orders["sinks"], amount["value"]) == ("table", [], ["store"], [])
    into = set(spelled(amount["into"]))
    assert {"revenue.total by value", "big.t by value", "big.region by rows", "many.n by rows"} <= into
    assert "revenue.region by rows" not in into and "reach.a by rows" not in into
    assert spelled(ask("edges")["columns"][0]["into"]) == ["reach.a by value", "reach.b by rows"]
    with pytest.raises(HeadraceError, match=r"view\.unknown"):
        ask("orderz")


def test_an_edited_view_is_counted_anew_and_its_versions_are_told(pipeline: Pipeline) -> None:
    path = pipeline.project.path
    before = described.versions(path, "REVENUE")
    assert before["view"] == "revenue"
    assert [(v["version"], v["state"], v["sql"].strip()) for v in before["versions"]] == [(1, "live", VIEWS["revenue"])]
    edited = "SELECT region, max(amount) AS total, count(*) AS n FROM orders JOIN customers c ON c.id = customer GROUP BY region"
    ProjectFolder(path).view("revenue", edited)
    pipeline.apply(read(path))
    assert pipeline.explain("revenue")["counted_from"] is None
    push(pipeline, "orders", {"id": 12, "customer": 1, "amount": 5})
    assert rows(pipeline, "revenue")["read orders"] == (1, 1, 1, 1)
    now, first = described.versions(path, "revenue")["versions"]
    assert (now["version"], now["state"], now["sql"].strip()) == (2, "live", edited)
    assert [column["name"] for column in now["columns"]] == ["region", "total", "n"]
    assert (first["state"], first["gone_commit"], first["gone_at"]) == ("gone", now["came_commit"], now["came_at"])
    assert first["came_commit"] < now["came_commit"] and first["came_at"] < now["came_at"]
    with pytest.raises(HeadraceError, match="there is no view 'revenues'"):
        described.versions(path, "revenues")


def test_what_spark_made_uncounted_is_not_guessed() -> None:
    counter = Counter()
    counter.add(1, 5)
    counter.add(2, None)
    counter.add(3, 7)
    assert (counter.last, counter.sum) == (7, None)
