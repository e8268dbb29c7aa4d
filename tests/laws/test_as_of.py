"""Goal: ASOF JOIN equals batch after every commit, batch being asked in words of its own: join every pair, then rank.

Few times and keys, so that right rows tie, lie between left rows, and come and go; NULLs in keys, times and columns.
See harness.py.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from harness import Circuits, Operator, hold
from histories import NAN, Table

from headrace.circuit.node import AsOf, Running
from headrace.engine.compile import Compiler
from headrace.model.definition import ViewDefinition
from headrace.testing import Pipeline

TRADES = Table(
    "trades",
    {"id": "int", "k": "int", "ts": "int", "f": "double", "s": "string"},
    {
        "id": range(5),
        "k": (None, 0, 1),
        "ts": (None, 1, 2, 3, 4, 5),
        "f": (None, 0.0, -0.0, NAN, 1.5),
        "s": (None, "", "a", "b"),
    },
    ("id",),
)
QUOTES = Table(
    "quotes",
    {"id": "int", "k": "int", "ts": "int", "f": "double", "s": "string", "p": "decimal(6,2)"},
    {**TRADES.values, "p": (None, 1, 2)},
    ("id",),
)
PRICES = Table("prices", {"k": "int", "ts": "int", "p": "int"}, {"k": (0, 1), "ts": (1, 2, 4), "p": (None, 1, 2)})

ALL = "q.id, q.k, q.ts, q.f, q.s, q.p"
# Name -> (left or inner, the time compared, the rest of the condition, right columns in their order).
JOINS = {
    "backward": ("left", "t.ts >= q.ts", "t.k = q.k", "q.k, q.p"),
    "strictly_before": ("inner", "t.ts > q.ts", "t.k = q.k", "q.k, q.ts, q.p"),
    "forward": ("left", "t.ts <= q.ts", "t.k = q.k", ALL),
    "strictly_after": ("left", "q.ts > t.ts", "t.k = q.k", "q.id, q.k, q.ts"),
    "of_every_key": ("inner", "t.ts <= q.ts", "true", "q.s, q.ts"),
    "by_text": ("left", "t.s >= q.s", "t.k <=> q.k", "q.k, q.s, q.f"),
    "by_double": ("left", "t.f >= q.f", "t.k = q.k", "q.k, q.ts, q.f"),
    "keyed_by_double": ("left", "t.ts >= q.ts", "t.f = q.f and t.k = q.k", "q.k, q.ts, q.f, q.p"),
    "by_expression": ("inner", "t.ts + 1 >= q.ts * 2", "t.k = q.k + 1 and q.s is null and t.f > 0", "q.k, q.ts, q.s"),
    "by_pair": ("left", "(t.ts, t.s) >= (q.ts, q.s)", "t.k = q.k", "q.id, q.k, q.ts, q.s"),
    "sides_alone": ("left", "t.ts >= q.ts", "t.k = q.k and q.p > 1 and t.s <> 'a'", "q.k, q.ts, q.p"),
    "compared_otherwise": ("left", "t.ts >= q.ts", "t.k = q.k and t.f < q.f", "q.k, q.ts, q.f"),
}


def asked(kind: str, time: str, rest: str, rights: str) -> str:
    named = ", ".join(f"{c} as r{i}" for i, c in enumerate(rights.split(", ")))
    return f"""
        select t.case_id, t.id, t.ts, t.s, {named}
        from trades t {kind} asof join quotes q match_condition ({time}) on t.case_id = q.case_id and {rest}"""


def judged(kind: str, time: str, rest: str, rights: str) -> str:
    """Every pair, of which the one of the nearest time is taken, then of the least right columns."""
    columns = rights.split(", ")
    nearest = time.rsplit(" ", maxsplit=1)[-1] if "(" not in time else "q.ts"
    value = {"t.ts + 1 >= q.ts * 2": "q.ts", "q.ts > t.ts": "q.ts", "(t.ts, t.s) >= (q.ts, q.s)": "struct(q.ts, q.s)"}
    nearest = value.get(time, nearest)
    down = "desc" if ">" in time and not time.startswith("q") else "asc"
    named = ", ".join(f"{c} as r{i}" for i, c in enumerate(columns))
    ties = ", ".join(f"{c}, cast({c} as string)" for c in columns)  # 0.0 and -0.0 tie, but are two rows
    return f"""
        with pairs as (
            select t.case_id, t.id, {named}, row_number() over (
                partition by t.case_id, t.id order by {nearest} {down}, {ties}) as place
            from trades t join quotes q on t.case_id = q.case_id and {time} and {rest})
        select t.case_id, t.id, t.ts, t.s, {", ".join(f"p.r{i}" for i in range(len(columns)))}
        from trades t {kind} join (select * from pairs where place = 1) p on t.case_id = p.case_id and t.id = p.id"""


QUERIES = {name: asked(*join) for name, join in JOINS.items()} | {
    "of_copies": """
        select a.case_id, a.k, a.ts, a.p, b.ts as bt, b.p as bp
        from prices a left asof join prices b match_condition (a.ts > b.ts) on a.case_id = b.case_id and a.k = b.k""",
    "of_an_aggregate": """
        select t.case_id, t.id, q.n from trades t asof join (select case_id, ts, count(*) n from quotes group by case_id, ts) q
        match_condition (t.ts >= q.ts) on t.case_id = q.case_id""",
    "by_whole_keys": """
        select t.case_id, t.id, q.ts, q.i from trades t left asof join
        (select *, make_dt_interval(id % 2) i from quotes) q
        match_condition (t.ts >= q.ts) on t.case_id = q.case_id and t.k = q.k""",
}
JUDGES = {name: judged(*join) for name, join in JOINS.items()} | {
    "of_an_aggregate": """
        select t.case_id, t.id, (select n from (select case_id, ts, count(*) n from quotes group by case_id, ts) q
        where q.case_id = t.case_id and q.ts <= t.ts order by q.ts desc limit 1) n
        from trades t where exists (select 1 from quotes q where q.case_id = t.case_id and q.ts <= t.ts)""",
}
OPERATOR = Operator("as_of", (TRADES, QUOTES, PRICES), QUERIES, truncated=("trades", "quotes"), judges=JUDGES)


@pytest.mark.spark
def test_as_of_joins_equal_batch(spark: Any, tmp_path: Path) -> None:
    hold(spark, tmp_path, OPERATOR)


@pytest.mark.spark
def test_types_without_an_order_are_windows_of_whole_keys(spark: Any, tmp_path: Path) -> None:
    found = {
        name: set(map(type, v.root.walk())) for name, v in Circuits(spark, OPERATOR, tmp_path).compilation.views.items()
    }
    assert {name for name, nodes in found.items() if Running in nodes} == {"by_whole_keys"}
    assert {name for name, nodes in found.items() if AsOf not in nodes} == {"by_whole_keys", "compared_otherwise"}


TABLES = {"trades": "id int, k int, at timestamp_ntz, size int", "quotes": "k int, at timestamp_ntz, bid double"}
PRICED = """select t.id, q.bid, q.at from trades t left asof join quotes q
    match_condition (t.at {} q.at) on t.k = q.k and q.bid > 1 and t.size > 2"""
NEXT = "select t.id, q.at as next from trades t asof join quotes q match_condition (t.at {} q.at)"
START = dt.datetime(2026, 1, 1)


def second(number: int) -> dt.datetime:
    return START + dt.timedelta(seconds=number)


@pytest.mark.spark
def test_spark_answers_the_same_where_nothing_ties(spark: Any) -> None:
    trades = [{"id": i, "k": i % 4 or None, "at": second(i * 37 % 200), "size": i % 9} for i in range(200)]
    quotes = [{"k": i % 5 or None, "at": second(i * 71 % 200), "bid": i % 7 / 2} for i in range(150)]
    asked = {f"{name}_{i}": sql.format(sign) for name, sql in (("priced", PRICED), ("next", NEXT))
             for i, sign in enumerate((">=", "<"))}  # fmt: skip
    with Pipeline(TABLES, asked, keys={"trades": ["id"]}, spark=spark) as p:
        p.step({"trades": trades[::2], "quotes": quotes[::2]})
        p.step({"trades": trades[1::2], "quotes": quotes[1::2]})
        for name, rows in (("trades", trades), ("quotes", quotes)):
            spark.createDataFrame(rows, TABLES[name]).createOrReplaceTempView(name)
        for view, sql in asked.items():
            plain = Counter(tuple(row) for row in spark.sql(sql).collect())
            assert Counter(tuple(row.values()) for row in p.read(view).to_pylist()) == plain, view
            assert len(plain) > 100


@pytest.mark.spark
def test_a_change_reads_the_rows_up_to_its_neighbours(spark: Any) -> None:
    sql = """select t.id, q.bid from trades t left asof join quotes q match_condition (t.at >= q.at)"""
    with Pipeline(TABLES, {"priced": sql}, keys={"trades": ["id"]}, spark=spark) as p:
        trades = [{"id": i, "k": 0, "at": second(i), "size": 1} for i in range(20_000)]
        quotes = [{"k": 0, "at": second(i), "bid": i / 2} for i in range(0, 20_000, 10)]
        p.step({"trades": trades, "quotes": quotes})
        for changes, expected in (
            ({"quotes": [{"k": 0, "at": second(9_995), "bid": 0.5}]}, 10),
            ({"quotes": [{"k": 0, "at": second(9_990), "bid": 9_990 / 2, "_w": -1}]}, 10),
            ({"trades": [{"id": 7, "k": 0, "at": second(19_999), "size": 1}]}, 2),
        ):  # fmt: skip
            assert p.step(changes)["priced"].num_rows == expected
            counted = next(work for name, work in p.work()["priced"].items() if name.startswith("as-of join"))
            assert counted["rows_probed"] <= 200, counted
        p.expect("priced", p.batch("priced"))


@pytest.mark.spark
def test_a_match_condition_on_one_side_is_refused_with_a_way_out(spark: Any) -> None:
    sql = "select t.id from trades t asof join quotes q match_condition (3 >= q.ts) on t.k = q.k"
    tables = {t.name: t.relation for t in (TRADES, QUOTES)}
    refused = Compiler(spark).compile(tables, [ViewDefinition("v", sql)], {}).refused["v"]
    assert "MATCH_CONDITION" in str(refused)
    assert refused.next is not None and "compare a column of each side" in refused.next
