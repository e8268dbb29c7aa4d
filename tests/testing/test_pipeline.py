"""The public test kit: every promise of ``headrace.testing.Pipeline``, with values."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.engine import maintain
from headrace.engine.program import Frames
from headrace.model.errors import HeadraceError
from headrace.testing import Pipeline

ORDERS = "id bigint, customer bigint, amount decimal(12,2)"
CUSTOMERS = "id bigint, region string"
JOINED = "select c.region, count(*) orders from orders o join customers c on c.id = o.customer group by c.region"


def rows(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(str(value) for value in row.values()) for row in table.to_pylist())


def bag(*given: Sequence[Any]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(map(str, row)) for row in given)


def assert_batch(p: Pipeline, *views: str) -> None:
    for view in views:
        assert rows(p.read(view)) == rows(p.batch(view)), view


@contextmanager
def refuses(code: str, *texts: str) -> Iterator[None]:
    with pytest.raises(HeadraceError) as caught:
        yield
    assert caught.value.code == code
    for text in texts:
        assert text in str(caught.value)


def test_the_kit_is_imported_without_spark() -> None:
    program = "import sys\nfrom headrace.testing import Pipeline\nassert not {'pyspark', 'py4j'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_transactions_step_by_step(spark: Any) -> None:
    with Pipeline(
        tables={"orders": ORDERS, "customers": CUSTOMERS},
        keys={"orders": ["id"], "customers": "id"},
        views={
            "by_customer": "select customer, sum(amount) total from orders group by customer",
            "by_region": JOINED,
            "large": "select customer from by_customer where total > 10",
            "orders_ever": "select count(*) n from orders",
        },
        spark=spark,
    ) as p:
        assert rows(p.read("orders_ever")) == bag([0])  # a view's first step, over nothing
        given = pa.table({"id": [1, 2], "customer": [7, 8], "amount": pa.array([Decimal("9.50"), Decimal(3)])})
        delta = p.step({"orders": given, "customers": [{"id": 7, "region": "north"}]})
        assert {view: rows(d) for view, d in delta.items()} == {
            "by_customer": bag([7, "9.50", 1], [8, "3.00", 1]),
            "by_region": bag(["north", 1, 1]),
            "large": bag(),
            "orders_ever": bag([0, -1], [2, 1]),
        }
        assert delta["by_customer"].schema.names == ["customer", "total", "_w"]

        # With a key an upsert is given by its new row, and a delete by its key; -1 and +1 of a key replace its row.
        delta = p.step({"orders": [{"id": 1, "customer": 7, "amount": "12.25"}, {"id": 2, "_w": -1}]})
        assert rows(delta["by_customer"]) == bag([7, "9.50", -1], [7, "12.25", 1], [8, "3.00", -1])
        assert rows(delta["large"]) == bag([7, 1])
        same = {"id": 1, "customer": 7, "amount": "12.25"}
        assert rows(p.step({"orders": [same, {**same, "_w": -1}]})["by_customer"]) == bag()

        p.restart()
        assert rows(p.read("by_customer")) == bag([7, "12.25"])

        # Several transactions in one step, each its own instant.
        first, second, third, fourth = p.steps([
            {"orders": [{"id": 1, "_w": -1}]},
            {"orders": [{"id": 3, "customer": 7, "amount": 20}], "customers": [{"id": 7, "region": "south"}]},
            {},
            {"orders": [{"id": 3, "customer": 7, "amount": 1}]},
        ])  # fmt: skip
        assert rows(first["by_region"]) == bag(["north", 1, -1])
        assert rows(second["by_region"]) == bag(["south", 1, 1])
        assert rows(second["large"]) == bag([7, 1])
        assert all(d.num_rows == 0 for d in third.values())
        assert rows(fourth["by_customer"]) == bag([7, "20.00", -1], [7, "1.00", 1])
        assert rows(fourth["large"]) == bag([7, -1])

        p.restart()  # the step is recorded as it ran, and runs again to the same bytes
        p.restart()
        assert_batch(p, "by_customer", "by_region", "large", "orders_ever")
        p.step({"orders": [{"id": 4, "customer": 7, "amount": 30}]})
        p.expect("by_customer", [{"customer": 7, "total": 31}])
        p.expect("large", pa.table({"customer": [7]}))
        with pytest.raises(AssertionError) as caught:
            p.expect("by_customer", [{"customer": 7, "total": 30}, {"customer": None, "total": None, "_w": 2}])
        assert str(caught.value).splitlines() == [
            "view by_customer is not as expected: 3 missing, 1 unexpected",
            "  - customer: NULL, total: NULL  (2 times)",
            "  - customer: 7, total: 30.00",
            "  + customer: 7, total: 31.00",
        ]
        assert p.steps([]) == []
        assert p.errors() == {}


def test_a_failed_view_names_its_rows_and_comes_back(spark: Any) -> None:
    views = {
        "shares": "select o.id, 100 div (o.amount * c.rate) share from orders o join customers c on c.id = o.customer",
        "readers": "select sum(share) total from shares",
        "counted": "select count(*) n from orders",
    }
    tables = {"orders": "id int, customer int, amount int", "customers": "id int, rate int"}
    with Pipeline(tables, views, {"orders": ["id"], "customers": ["id"]}, spark=spark) as p:
        p.step({"orders": [{"id": 1, "customer": 1, "amount": 5}], "customers": [{"id": 1, "rate": 1}]})
        delta = p.step({"orders": [{"id": 2, "customer": 1, "amount": 0}]})
        assert delta["shares"].num_rows == 0
        assert rows(delta["counted"]) == bag([1, -1], [2, 1])
        errors = p.errors()
        assert errors.keys() == {"shares", "readers"}
        assert [(e["table"], e["row"], e["weight"]) for e in errors["shares"]] == [
            ("orders", {"id": 2, "customer": 1, "amount": 0}, 1)
        ]
        assert "DIVIDE_BY_ZERO" in errors["shares"][0]["message"]
        assert [(e["view"], e["row"]) for e in errors["readers"]] == [("shares", None)]
        assert rows(p.read("shares")) == bag([1, 20])  # as it stood
        with refuses("view.failed", "DIVIDE_BY_ZERO"):
            p.batch("shares")
        with pytest.raises(AssertionError, match=r"view shares fails on table orders, row \{id: 2"):
            p.expect("shares", [{"id": 1, "share": 20}])
        assert p.failure("counted") is None

        p.restart()
        assert p.errors()["shares"][0]["row"] == {"id": 2, "customer": 1, "amount": 0}
        assert rows(p.read("shares")) == bag([1, 20])

        # Put right, with other transactions around it: the view is back at the end of the step.
        deltas = p.steps([{"orders": [{"id": 2, "customer": 1, "amount": 4}]}, {"orders": [{"id": 1, "_w": -1}]}])
        assert [rows(d["shares"]) for d in deltas] == [bag(), bag([1, 20, -1], [2, 25, 1])]
        assert p.errors() == {}
        assert_batch(p, "shares", "readers", "counted")

        # Through the other input: it is tried in every step, so no pause of the clock decides.
        p.step({"customers": [{"id": 1, "rate": 0}]})
        assert "shares" in p.errors()
        p.step({"customers": [{"id": 1, "rate": 2}]})
        assert p.errors() == {}
        assert_batch(p, "shares", "readers")


def test_tables_without_a_key_and_the_settings(spark: Any) -> None:
    views = {
        "days": "select to_date(at) day, count(*) clicks from clicks group by 1",
        "tags": "select tag, count(*) n from clicks lateral view explode(tags) as tag group by tag",
        "every": "select page from clicks",
    }
    tables = {"clicks": "page string, at timestamp, tags array<string>"}
    with Pipeline(tables, views, spark=spark, settings={"time_zone": "Asia/Tokyo", "partitions": 1}) as p:
        late = dt.datetime(2026, 3, 1, 20, tzinfo=dt.UTC)
        a = {"page": "a", "at": late, "tags": ["x", "y"]}
        b = {"page": "b", "at": "2026-03-01T08:00:00Z", "tags": []}
        delta = p.step({"clicks": [{**a, "_w": 3}, b]})
        assert rows(delta["days"]) == bag(["2026-03-02", 3, 1], ["2026-03-01", 1, 1])
        assert p.read("every").column("page").to_pylist() == ["a", "a", "a", "b"]
        # What comes and what goes of a row is one sum, in whatever order it is given.
        delta = p.step({"clicks": [{**b, "_w": -2}, b, {**a, "_w": -1}, {"page": None}]})
        assert rows(delta["tags"]) == bag(["x", 3, -1], ["x", 2, 1], ["y", 3, -1], ["y", 2, 1])
        assert rows(delta["every"]) == bag(["a", -1], ["b", -1], [None, 1])
        assert p.refused() == {}
        p.step({"clicks": [{**b, "_w": -1}]})
        assert p.refused()["clicks"].column("page").to_pylist() == ["b"]
        assert_batch(p, "days", "tags", "every")
        p.restart()
        assert_batch(p, "days", "tags", "every")


def test_the_clock_stands_where_it_is_put(spark: Any) -> None:
    views = {
        "recent": "select id from events where at > current_timestamp() - interval 1 hour",
        "counted": "select count(*) n from events",
    }
    start = dt.datetime(2026, 3, 1, 10, tzinfo=dt.UTC)
    given = [{"id": n, "at": start - dt.timedelta(minutes=20 * n)} for n in range(6)]
    with Pipeline({"events": "id int, at timestamp"}, views, {"events": ["id"]}, spark=spark, now=start) as p:
        assert rows(p.step({"events": given})["recent"]) == bag([0, 1], [1, 1], [2, 1])
        assert_batch(p, "recent")
        delta = p.step({}, now="2026-03-01T10:30:00Z")  # time passes, and nothing else
        assert (rows(delta["recent"]), rows(delta["counted"])) == (bag([2, -1]), bag())
        assert_batch(p, "recent")
        p.restart()
        assert rows(p.read("recent")) == bag([0], [1])
        late = {"id": 6, "at": start + dt.timedelta(minutes=5)}
        # What leaves by the clock leaves with the first transaction.
        first, second = p.steps([{"events": [late]}, {"events": [{"id": 6, "_w": -1}]}], now="2026-03-01T10:45:00")
        assert rows(first["recent"]) == bag([1, -1], [6, 1])
        assert rows(second["recent"]) == bag([6, -1])
        assert_batch(p, "recent", "counted")
        with pytest.raises(ValueError, match="never goes back"):
            p.step({}, now=start)
        with pytest.raises(ValueError, match="must be a timestamp"):
            p.step({}, now="soon")
        with pytest.raises(TypeError, match="datetime"):
            p.step({}, now=3)  # type: ignore[arg-type]
        assert rows(p.step({})["recent"]) == bag()


def test_without_now_the_clock_goes(spark: Any) -> None:
    view = "select id from events where at > current_timestamp() - interval 1 hour"
    with Pipeline({"events": "id int, at timestamp"}, {"recent": view}, spark=spark) as p:
        now = dt.datetime.now(dt.UTC)
        p.step({"events": [{"id": 1, "at": now}, {"id": 2, "at": now - dt.timedelta(hours=2)}]})
        p.expect("recent", [{"id": 1}])


VIEWS = {
    "joined": JOINED,
    "extremes": "select customer, min(amount) low, max(amount) high from orders group by customer",
    "best": "select * from (select *, row_number() over (partition by customer order by amount desc) r from orders)"
    " where r <= 3",
    "different": "select count(distinct amount) n from orders",
    "spark_alone": "select region, initcap(region) i from customers where region rlike '^r.*7$'",
}


def many(count: int) -> dict[str, pa.Table]:
    ids = np.arange(count)
    amounts = pa.array((ids * 7919 % 50_021).astype(np.int32)).cast(pa.decimal128(12, 2))
    orders = pa.table({"id": ids, "customer": ids % 500, "amount": amounts})
    customers = pa.table({"id": np.arange(500), "region": [f"r{n % 50}" for n in range(500)]})
    return {"orders": orders, "customers": customers}


CHANGE = {
    "orders": [{"id": 17, "customer": 17, "amount": "1000000"}],
    "customers": [{"id": n, "region": f"r{n}"} for n in range(1000, 1010)],
}


def test_the_work_of_a_step(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    count, tables, keys = 20_000, {"orders": ORDERS, "customers": CUSTOMERS}, {"orders": ["id"], "customers": ["id"]}

    def stepped() -> tuple[dict[str, Any], dict[str, Any]]:
        with Pipeline(tables, VIEWS, keys, spark=spark) as p:
            p.step(many(count))
            first = p.work()
            p.step(CHANGE)
            return first, p.work()

    first, after = stepped()
    assert first["joined"]["upsert orders"] == {
        "rows_in": count, "rows_out": count, "rows_probed": 0, "state_rows": count
    }  # fmt: skip
    assert first["joined"]["inner join"]["rows_in"] == count + 500
    assert first["joined"]["inner join"]["rows_out"] == count
    joined = after["joined"]
    assert list(joined)[:2] == ["upsert customers", "upsert orders"]
    # One order is replaced, ten customers come: -1 and +1 of the order meet one kept customer each way.
    assert joined["upsert orders"] == {"rows_in": 1, "rows_out": 2, "rows_probed": 1, "state_rows": count}
    assert joined["upsert customers"] == {"rows_in": 10, "rows_out": 10, "rows_probed": 0, "state_rows": 510}
    assert joined["inner join"]["rows_in"] == joined["read orders"]["rows_out"] + joined["read customers"]["rows_out"]
    assert joined["inner join"]["state_rows"] == count + 510
    assert joined["aggregate"]["state_rows"] == 50
    # The least and the greatest of 40 values, three best of 40 rows, one of 20,000 values: found, not read through.
    assert after["extremes"]["ordered aggregate"]["rows_in"] == 2
    assert after["extremes"]["ordered aggregate"]["state_rows"] == count + 500
    for view, operators in after.items():
        for name, work in operators.items():
            assert work["rows_probed"] <= 100, (view, name, work)
            assert work["rows_in"] <= 20, (view, name, work)
    # A filter that only Spark can evaluate counts as well.
    assert after["spark_alone"]["filter"]["rows_in"] == 10
    assert after["spark_alone"]["filter"]["rows_out"] == 1
    assert first["spark_alone"]["filter"]["rows_out"] == 50

    monkeypatch.setattr(maintain, "WIDE_ROWS", 1)
    monkeypatch.setattr(Frames, "deal_all", True)
    for narrow, wide in zip((first, after), stepped(), strict=True):
        flow = ("rows_in", "rows_out", "state_rows")
        assert {(v, o): [w[f] for f in flow] for v, os in wide.items() for o, w in os.items()} == {
            (v, o): [w[f] for f in flow] for v, os in narrow.items() for o, w in os.items()
        }


def test_work_names_every_operator_and_shared_subqueries(spark: Any) -> None:
    grouped = "(select customer, sum(amount) total from orders group by customer)"
    views = {
        "above": f"select a.customer, a.total + b.total t from {grouped} a join {grouped} b on b.customer = a.customer + 1",
        "twice": "select id from orders where amount > 5 union all select id from orders where amount > 5",
    }
    with Pipeline({"orders": ORDERS}, views, {"orders": ["id"]}, spark=spark) as p:
        p.step({"orders": [{"id": n, "customer": n % 4, "amount": n} for n in range(20)]})
        above, twice = p.work()["above"], p.work()["twice"]
        assert above["aggregate"] == {"rows_in": 20, "rows_out": 4, "rows_probed": 0, "state_rows": 4}
        assert above["read of a shared subquery"]["rows_out"] == 4
        assert above["read of a shared subquery 2"]["rows_out"] == 4
        assert twice["filter"]["rows_out"] == twice["filter 2"]["rows_out"] == 14
        assert twice["union"]["rows_in"] == 28
        p.step({"orders": [{"id": 0, "customer": 0, "amount": 0}]})  # nothing changes: nothing is passed on
        assert {w["rows_out"] for operators in p.work().values() for w in operators.values()} == {0}


MADE: list[tuple[Mapping[str, Any], str, tuple[str, ...]]] = [
    ({"tables": {"t": "a bigint,, b int"}}, "config.invalid", ("table t", "CREATE TABLE")),
    ({"tables": {"t": "a time(3) with zone"}}, "config.invalid", ("table t",)),
    ({"keys": {"orders": ["idd"]}}, "config.invalid", ("key of table orders", "did you mean 'id'")),
    ({"keys": {"order": ["id"]}}, "source.no_table", ("did you mean 'orders'",)),
    ({"settings": {"timezone": "UTC"}}, "config.unknown_key", ("did you mean 'time_zone'",)),
    ({"tables": {"or ders": "id int"}}, "config.invalid", ("'or ders' cannot be a name", "e.g. to or_ders")),
    ({"views": {"1st": "select 1 one"}}, "config.invalid", ("'1st' cannot be a name", "e.g. to _1st")),
    ({"views": {"v": "select rand() r from orders"}}, "sql.not_deterministic", ("rand",)),
    (
        {"views": {"v": "select id, ntile(4) over (order by id) n from orders"}},
        "sql.not_incremental",
        ("without PARTITION BY", "on_change: recompute"),
    ),
    (
        {"views": {"v": "select id, time'12:30:00' t from orders"}},
        "sql.not_incremental",
        ("a column of type time(6)", "CAST(... AS STRING)"),
    ),
    ({"views": {"v": "select id from ordes"}}, "sql.unknown_relation", ("ordes",)),
    ({"views": {"v": "select idd from orders"}}, "sql.unknown_column", ("idd",)),
]


@pytest.mark.parametrize(("arguments", "code", "texts"), MADE)
def test_what_is_wrong_is_refused_with_its_place(
    spark: Any, arguments: Mapping[str, Any], code: str, texts: tuple[str, ...]
) -> None:
    with refuses(code, *texts):
        Pipeline(**{"tables": {"orders": ORDERS}, "views": {}, "spark": spark, **arguments})


def test_bad_rows_are_refused_and_nothing_of_them_is_taken(spark: Any) -> None:
    tables = {"orders": "id bigint, amount decimal(12,2) not null", "clicks": "page string not null"}
    views = {"total": "select sum(amount) total from orders", "clicks_ever": "select count(*) n from clicks"}
    good = {"id": 1, "amount": 1}
    cases: list[tuple[Callable[[], Any], str, tuple[str, ...]]] = [
        (lambda: p.step({"order": [good]}), "source.no_table", ("did you mean 'orders'",)),
        (lambda: p.step({"orders": [good, {"id": 2, "amout": 3}]}), "source.row",
         ("table orders, row 1", "'amout'", "did you mean 'amount'")),
        (lambda: p.step({"orders": [{"id": "x", "amount": 1}]}), "source.row", ("row 0", "'id' (bigint)")),
        (lambda: p.step({"orders": [{"id": 1, "amount": "0.001"}]}), "source.row", ("2 digits after the point",)),
        (lambda: p.step({"orders": [{"id": 1}]}), "source.row", ("'amount' is missing",)),
        (lambda: p.step({"orders": [{"amount": 1}]}), "source.row", ("'id' of the key",)),
        (lambda: p.step({"orders": [{**good, "_w": 2}]}), "source.row", ("'_w' is 2",)),
        (lambda: p.step({"orders": [{**good, "_w": None}]}), "source.row", ("'_w' must not be NULL",)),
        (lambda: p.step({"clicks": [{"page": None, "_w": -1}]}), "source.row", ("'page' is missing",)),
        (lambda: p.step({"orders": pa.table({"id": [1], "amount": ["x"]})}), "source.row", ("column 'amount'",)),
        (lambda: p.step({"orders": pa.table({"id": [1], "amuont": [1]})}), "source.row", ("did you mean 'amount'",)),
        (lambda: p.steps([{"orders": [good]}, {"clicks": [{}]}]), "source.row", ("table clicks, row 0",)),
        (lambda: p.read("totl"), "view.unknown", ("did you mean 'total'",)),
        (lambda: p.batch("totl"), "view.unknown", ("did you mean 'total'",)),
        (lambda: p.expect("total", [{"totl": 1}]), "source.row", ("expected rows of total", "did you mean 'total'")),
    ]  # fmt: skip
    with Pipeline(tables, views, {"orders": ["id"]}, spark=spark) as p:
        for call, code, texts in cases:
            with refuses(code, *texts):
                call()
        for given in ({"orders": "x"}, {"orders": {"id": 1}}, {"orders": [(1, 2)]}):
            with pytest.raises(TypeError, match="table orders"):
                p.step(given)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="list of transactions"):
            p.steps({"orders": [good]})  # type: ignore[arg-type]
        p.expect("total", [{"total": None}])
        p.expect("clicks_ever", [{"n": 0}])
        p.step({"orders": [good]})
        p.expect("total", [{"total": 1}])
    p.close()
    with pytest.raises(ValueError, match="closed"):
        p.step({"orders": [good]})
