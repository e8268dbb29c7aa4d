"""``headrace test``: the files of a project, what they may say, and what is told of a view that is not as expected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.catalog.examples import read_examples
from headrace.catalog.project import read
from headrace.control.init import Template
from headrace.control.init import run as init
from headrace.control.test import chosen, outcomes
from headrace.model.errors import HeadraceError
from headrace.testing.ports import free_port
from project_folder import ProjectFolder

SHOP = """
type: http
listen: false
tables:
  customers: {columns: {id: bigint, region: string}, key: [id]}
  orders: {columns: {id: bigint, customer: bigint, amount: "decimal(12,2)", at: timestamp}, key: [id]}
"""
VIEWS = {
    "revenue": "select c.region, sum(o.amount) revenue from orders o join customers c on c.id = o.customer group by 1",
    "north": "select revenue from revenue where region = 'north'",
    "shares": "select id, 100 / amount share from orders",
    "recent": "select id from orders where at > current_timestamp() - interval 1 hour",
    "refused": "select rand() r from orders",
}
GOOD = """
now: 2026-03-01T10:00:00Z
steps:
  - name: two regions
    given:
      customers: [{id: 1, region: north}, {id: 2, region: south}]
      orders:
        - {id: 1, customer: 1, amount: 2.50, at: 2026-03-01T09:30:00Z}
        - {id: 2, customer: 2, amount: "4"}
    expect:
      revenue: [{region: south, revenue: 4}, {region: north, revenue: 2.5}]
      north: [{revenue: 2.5}]
      recent: [{id: 1}]
  - given:
      - {orders: [{id: 3, customer: 1, amount: 0}]}
      - {orders: [{id: 2, _w: -1}]}
    failing: [shares]
    expect:
      revenue: [{region: north, revenue: 2.5}]
      shares: [{id: 1, share: 40}, {id: 2, share: 25}]
  - restart: true
    now: 2026-03-01 11:00:00
    given: {orders: [{id: 3, customer: 1, amount: 10}]}
    expect:
      shares: [{id: 1, share: 40}, {id: 3, share: 10}]
      recent: []
"""
WRONG = """
steps:
  - name: forgotten
    given: {customers: [{id: 1, region: north}], orders: [{id: 1, customer: 1, amount: 2}]}
    expect:
      revenue:
        - {region: north, revenue: 3}
        - {region: null, _w: 2}
  - name: as it is
    expect:
      revenue: [{region: north, revenue: 2}]
  - name: it throws
    given: {orders: [{id: 2, customer: 1, amount: 0}]}
    expect: {shares: []}
"""
BACK = """
now: 2026-03-01T10:00:00Z
steps:
  - given: {orders: [{id: 1, at: 2026-03-01T09:30:00Z}]}
    expect: {recent: [{id: 1}]}
  - now: 2026-03-01T09:59:00Z
    expect: {recent: [{id: 1}]}
"""
DECLARED = """
tables: {payments: "id bigint, amount int"}
keys: {payments: id}
steps:
  - given: {payments: [{id: 1, amount: 2}, {id: 1, amount: 3}]}
    expect: {paid: [{amount: 3}]}
"""
PAYING = """
from decimal import Decimal

from headrace import function

@function(returns="decimal(4,1)")
def half(amount: int) -> Decimal:
    return Decimal(amount) / 2
"""


@pytest.fixture
def shop(project: ProjectFolder) -> ProjectFolder:
    project.write("sources/shop.yaml", SHOP)
    for name, sql in VIEWS.items():
        project.write(f"views/{name}.sql", sql)
    return project


def outcome(path: Path, spark: Any, *names: str) -> dict[str, Any]:
    project = read(path)
    return outcomes(project, chosen(project, names), lambda event: None, spark)


def test_given_and_expected_rows(shop: ProjectFolder, spark: Any) -> None:
    shop.write("tests/good.yaml", GOOD)
    shop.write("tests/wrong.yaml", WRONG)
    shop.write("functions/paying.py", PAYING)
    shop.write("views/paid.sql", "select half(amount) * 2 amount from payments")
    shop.write("tests/declared.yaml", DECLARED)
    shop.write("tests/bad.yaml", "steps:\n  - given:\n      orders:\n        - {id: 1}\n        - {idd: 2}\n")
    shop.write("tests/unknown.yaml", "steps:\n  - given:\n      ordrs: []\n")
    shop.write("tests/no.yaml", "steps:\n  - expect: {refused: []}\n")
    shop.write("tests/back.yaml", BACK)
    shop.settings(code=True, step_rows=2)
    answer = outcome(shop.path, spark)
    tests = {test["test"]: test for test in answer["tests"]}
    assert {name: (test["passed"], test["error"] and test["error"]["code"]) for name, test in tests.items()} == {
        "good": (True, None), "wrong": (False, None), "declared": (True, None), "bad": (False, "source.row"),
        "unknown": (False, "source.no_table"), "no": (False, "sql.not_deterministic"),
        "back": (False, "config.invalid"),
    }  # fmt: skip
    assert (answer["passed"], answer["failed"]) == (2, 5)
    assert tests["back"]["error"]["where"] == "tests/back.yaml:6"
    assert "before what the clock has shown" in tests["back"]["error"]["what"]
    assert [step["step"] for step in tests["good"]["steps"]] == ["two regions", "step 2", "step 3"]

    forgotten, as_it_is, throws = tests["wrong"]["steps"]
    assert (forgotten["where"], forgotten["passed"]) == ("tests/wrong.yaml:3", False)
    assert forgotten["views"] == [{
        "view": "revenue", "passed": False, "error": None,
        "missing": [{"row": {"region": None, "revenue": None}, "times": 2},
                    {"row": {"region": "north", "revenue": "3.00"}, "times": 1}],
        "unexpected": [{"row": {"region": "north", "revenue": "2.00"}, "times": 1}],
    }]  # fmt: skip
    assert as_it_is["passed"]
    (view,) = throws["views"]
    assert (
        "DIVIDE_BY_ZERO" in view["error"]
        and "fails on table orders" in view["error"]
        and "row {id: 2," in view["error"]
    )
    assert tests["bad"]["error"]["where"] == "tests/bad.yaml:2, table orders, row 1"
    assert "did you mean 'id'" in tests["bad"]["error"]["what"]
    assert tests["unknown"]["error"]["where"] == "tests/unknown.yaml:3"
    assert tests["unknown"]["error"]["next"] == "did you mean 'orders'?"
    assert [test["test"] for test in outcome(shop.path, spark, "declared")["tests"]] == ["declared"]


def test_a_source_that_cannot_be_asked_is_named_before_what_may_be_its_table(shop: ProjectFolder, spark: Any) -> None:
    """Also of a view that reads it; what does not need its tables is tested all the same."""
    nobody = f"postgresql://nobody@127.0.0.1:{free_port()}/bank"
    shop.source("bank", type="postgres", dsn=nobody)
    shop.source("abroad", type="postgres", dsn=nobody, tables={"branches": "public.branches"})  # and no other
    shop.view("owed", "select id from accounts")
    shop.write("tests/given.yaml", "steps:\n  - given:\n      accounts: []\n")
    shop.write("tests/read.yaml", "steps:\n  - expect: {owed: []}\n")
    shop.write("tests/other.yaml", "steps:\n  - expect: {north: []}\n")
    tests = {test["test"]: test for test in outcome(shop.path, spark)["tests"]}
    assert tests["other"]["passed"]
    for name, where, said in (
        ("given", "tests/given.yaml:3", "there is no table 'accounts'"),
        ("read", "views/owed.sql:1:16", "there is no table or view 'accounts'"),
    ):
        error = tests[name]["error"]
        assert (error["code"], error["where"]) == ("source.connect", where)
        assert error["what"] == "source bank could not be asked for its tables: PostgreSQL cannot be reached"
        assert (
            "refused" in error["why"]
            and "abroad" not in error["why"]
            and error["why"].endswith(f"; of those that are known, {said}")
        )
    assert tests["given"]["error"]["next"].startswith("declare it here, under `tables:`: accounts:")


@pytest.mark.parametrize("template", list(Template))
def test_the_test_of_a_template_passes(template: Template, tmp_path: Path, spark: Any) -> None:
    init(tmp_path / "shop", template)
    answer = outcome(tmp_path / "shop", spark)
    assert (answer["passed"], answer["failed"]) == (1, 0), answer


BAD = [
    ("stesp: []", "config.unknown_key", "tests/t.yaml:1", "did you mean 'steps'"),
    ("steps: {}", "config.invalid", "tests/t.yaml:1", "'steps' must be a list"),
    ("steps:\n  - given: {}\n  - expct: {}", "config.unknown_key", "tests/t.yaml:3", "did you mean 'expect'"),
    ("steps:\n  - 3", "config.invalid", "tests/t.yaml:2", "must be a mapping"),
    ("steps:\n  - expect:\n      revenu: []", "view.unknown", "tests/t.yaml:3", "did you mean 'revenue'"),
    ("steps:\n  - failing: revenu", "view.unknown", "tests/t.yaml:2", "did you mean 'revenue'"),
    ("steps:\n  - expect:\n      revenue: {region: a}", "config.invalid", "tests/t.yaml:3", "list of mappings"),
    ("steps:\n  - given:\n      orders: [[1]]", "config.invalid", "tests/t.yaml:3", "list of mappings"),
    ("steps:\n  - restart: 3", "config.invalid", "tests/t.yaml:2", "true or false"),
    ("tables: {a: 3}\nsteps: [{}]", "config.invalid", "tests/t.yaml:1", "must be text"),
    ("tables: {pay: id int}\nkeys: {pays: id}\nsteps: [{}]", "config.invalid", "tests/t.yaml:2", "did you mean 'pay'"),
]


@pytest.mark.parametrize(("text", "code", "where", "part"), BAD)
def test_a_file_that_is_wrong_is_refused_with_its_line(
    shop: ProjectFolder, text: str, code: str, where: str, part: str
) -> None:
    shop.write("tests/t.yaml", text)
    with pytest.raises(HeadraceError) as caught:
        read_examples(read(shop.path))
    assert (caught.value.code, caught.value.where) == (code, where)
    assert part in str(caught.value)


def test_names_that_are_no_test(shop: ProjectFolder) -> None:
    with pytest.raises(HeadraceError, match="the project has no tests"):
        outcome(shop.path, None)
    shop.write("tests/good.yaml", GOOD)
    with pytest.raises(HeadraceError, match="did you mean 'good'"):
        outcome(shop.path, None, "god")
