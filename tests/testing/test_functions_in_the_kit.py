"""Functions of users in ``headrace.testing.Pipeline``: what views make of them equals plain Python, step by step.

That they equal Spark batch wherever an expression may stand is a law: tests/laws/test_user_functions.py.
"""

from __future__ import annotations

import datetime as dt
import random
import threading
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from headrace import function
from headrace.model.errors import HeadraceError
from headrace.sql.user_functions import UserFunctions, user_function
from headrace.testing import Pipeline

TABLES = {"t": "id bigint, k bigint, v bigint"}
KEYS = {"t": "id"}
OFFSET = 5


def slot(v: int | None) -> int | None:
    return None if v is None else (v + OFFSET) % 3


@function(returns="decimal(12,2)")
def price(v: int | None, k: int | None) -> Decimal:
    """A price, or a penny."""
    return Decimal(v or 0) / 4 + (k or 0) if v or k else Decimal("0.01")


@function(returns="string")
def spelled(v: pd.Series) -> pd.Series:
    return v.map(lambda x: "none" if pd.isna(x) else f"<{int(x)}>")


@function
def spread(v: pd.Series, k: pd.Series) -> float:
    """Of what is there, where both are."""
    both = (v * k).dropna()
    return float(both.max() - both.min()) if len(both) else -1.0


@function(returns="string")
def listed(v: pa.Array) -> str:
    return ",".join(map(str, v.to_pylist()))


def welcome(v: int) -> int:
    if v == 13:
        raise ValueError("thirteen is not welcome")
    return v


FUNCTIONS = {"slot": slot, "price": price, "spelled": spelled, "spread": spread, "listed": listed}
VIEWS = {
    "shown": "select id, slot(v) s, price(v, k) p, spelled(k) t from t",
    "chosen": "select id from t where slot(v) = 1 and price(v, k) > 2",
    "grouped": "select slot(v) s, sum(price(v, k)) p, count(*) n from t group by slot(v)",
    "told": "select k, spread(v, k) d, listed(v) l, sum(id) s from t group by k",
    "told_of_all": "select listed(id) l, spread(v, k) d from t",
    "met": "select a.id a, b.id b from t a join t b on slot(a.v) = slot(b.k)",
}
Row = tuple[int, int | None, int | None]


def told(rows: list[Row]) -> dict[str, Counter[tuple[Any, ...]]]:
    """What the views must hold, by plain Python over the very functions."""
    whole = {s: [r for r in rows if slot(r[2]) == s] for s in (None, 0, 1, 2)}
    cents = Decimal("0.01")

    def of(r: Row) -> Decimal:
        return price(r[2], r[1]).quantize(cents)

    keys = {k: [r for r in rows if r[1] == k] for k in {r[1] for r in rows}}

    def spread_of(part: list[Row]) -> float:
        both = [r[1] * r[2] for r in part if r[1] is not None and r[2] is not None]
        return float(max(both) - min(both)) if both else -1.0

    def listed_of(part: list[Row], place: int) -> str:
        return ",".join(str(r[place]) for r in sorted(part, key=lambda r: (r[place] is not None, r[place])))

    def text(k: int | None) -> str:
        return "none" if k is None else f"<{k}>"

    return {
        "shown": Counter((r[0], slot(r[2]), of(r), text(r[1])) for r in rows),
        "chosen": Counter((r[0],) for r in rows if slot(r[2]) == 1 and of(r) > 2),
        "grouped": Counter((s, sum((of(r) for r in part), Decimal()), len(part)) for s, part in whole.items() if part),
        "told": Counter((k, spread_of(part), listed_of(part, 2), sum(r[0] for r in part)) for k, part in keys.items()),
        "told_of_all": Counter([(listed_of(rows, 0), spread_of(rows)) if rows else (None, None)]),
        "met": Counter((a[0], b[0]) for a in rows for b in rows if a[2] is not None and slot(a[2]) == slot(b[1])),
    }


def held(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.spark
def test_views_equal_plain_python_over_a_random_history(spark: Any) -> None:
    rng = random.Random(4)
    kept: dict[int, Row] = {}
    with Pipeline(TABLES, VIEWS, KEYS, functions=FUNCTIONS, spark=spark) as p:
        for number in range(6):
            changes = []
            for key in rng.sample(range(12), 5):
                if key in kept and rng.random() < 0.4:
                    del kept[key]
                    changes.append({"id": key, "_w": -1})
                else:
                    kept[key] = (key, rng.choice([None, 0, 1, 2, 7]), rng.choice([None, -4, 0, 1, 8, 13, 2**30]))
                    changes.append(dict(zip(("id", "k", "v"), kept[key], strict=True)))
            if number == 3:
                p.restart()
                p.steps([{"t": changes[:2]}, {"t": changes[2:]}])
            else:
                p.step({"t": changes})
            for view, expected in told(list(kept.values())).items():
                assert held(p.read(view)) == expected, (number, view)
                assert held(p.batch(view)) == expected, (number, view)


NOON = dt.datetime(2026, 7, 1, 12, tzinfo=dt.UTC)
OF_TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bigint": (pa.int64(), [3, None, 7, None]),
    "decimal(10,2)": (pa.decimal128(10, 2), [Decimal("1.50"), None, Decimal("2.25"), None]),
    "double": (pa.float64(), [0.5, None, -1.0, None]),
    "timestamp": (pa.timestamp("us", "UTC"), [dt.datetime(2026, 3, 29, 0, 30, tzinfo=dt.UTC), None, NOON, None]),
    "date": (pa.date32(), [dt.date(2026, 3, 29), None, dt.date(1969, 12, 31), None]),
    "string": (pa.string(), ["x", None, "", None]),
    "boolean": (pa.bool_(), [True, None, False, None]),
    "array<int>": (pa.list_(pa.int32()), [[1, None], None, [], None]),
    "array<timestamp>": (pa.list_(pa.timestamp("us", "UTC")), [[NOON, None], None, [], None]),
}


def greatest(v: pd.Series) -> Any:
    known = [x for x in v if isinstance(x, list) or not pd.isna(x)]
    return max(known) if known else None


def seen(v: pd.Series) -> str:
    return f"{v.dtype} {sorted(map(repr, v))}"


@pytest.mark.spark
def test_groups_are_given_and_give_what_spark_converts(spark: Any) -> None:
    """Spark's own grouped functions over the same rows, of every type, in a time zone of its own."""
    columns = {f"c{i}": (kind, *of) for i, (kind, of) in enumerate(OF_TYPES.items())}
    given = {"id": pa.array([1, 2, 3, 4]), "g": pa.array([1, 1, 2, 3])}
    rows = pa.table(given | {name: pa.array(values, of) for name, (_, of, values) in columns.items()})
    tables = {"t": ", ".join(["id bigint", "g bigint", *(f"{name} {kind}" for name, (kind, _, _) in columns.items())])}
    giving = {
        f"greatest_{name}": F.pandas_udf(greatest, kind) for name, (kind, *_) in columns.items() if "<" not in kind
    }
    functions = {**giving, "seen": F.pandas_udf(seen, "string")}
    calls = [f"{name}({name.removeprefix('greatest_')}) x{i}" for i, name in enumerate(giving)]
    calls += [f"seen({name}) y{name}" for name in columns]
    sql = f"select g, {', '.join(calls)} from t group by g"
    zone = {"time_zone": "Europe/Berlin"}
    with Pipeline(tables, {"v": sql}, {"t": "id"}, functions=functions, spark=spark, settings=zone) as p:
        p.step({"t": rows})
        plain = spark.newSession()
        plain.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
        UserFunctions.of(user_function(name, made) for name, made in functions.items()).register(plain)
        plain.createDataFrame(rows).createOrReplaceTempView("t")
        expected = held(plain.sql(sql).toArrow())
        assert held(p.read("v")) == expected
        assert held(p.batch("v")) == expected


@pytest.mark.spark
def test_a_view_whose_function_throws_names_the_row_and_comes_back(spark: Any) -> None:
    with Pipeline(
        TABLES, {"v": "select id, welcome(v) w from t"}, KEYS, functions={"welcome": welcome}, spark=spark
    ) as p:
        p.step({"t": [{"id": 1, "v": 12}]})
        p.step({"t": [{"id": 2, "v": 13}, {"id": 3, "v": 14}]})
        (error,) = p.errors()["v"]
        assert (error["table"], error["row"]["id"]) == ("t", 2)
        assert error["message"] == "ValueError: thirteen is not welcome"
        p.step({"t": [{"id": 2, "v": 15}]})
        p.expect("v", [{"id": 1, "w": 12}, {"id": 2, "w": 15}, {"id": 3, "w": 14}])


def number(v: int) -> int:
    return {1: "one", 2: 2**70}.get(v, v)  # type: ignore[return-value]


@pytest.mark.spark
def test_a_result_of_another_type_is_an_error_and_never_null(spark: Any) -> None:
    with Pipeline(TABLES, {"v": "select id, number(v) n from t"}, KEYS, functions={"number": number}, spark=spark) as p:
        for v, told in ((1, "ArrowInvalid: Failed to parse string: 'one'"), (2, "OverflowError: Python int too large")):
            p.step({"t": [{"id": 1, "v": v}]})
            (error,) = p.errors()["v"]
            assert told in error["message"]
        p.step({"t": [{"id": 1, "v": 3}]})
        p.expect("v", [{"id": 1, "n": 3}])


def test_a_declared_function_is_called_as_before() -> None:
    assert price(8, 1) == Decimal(3)
    assert (price.__name__, price.__doc__) == ("price", "A price, or a penny.")


LOCK = threading.Lock()


def untold(v):  # type: ignore[no-untyped-def]
    return v


def exact(v: int) -> Decimal:
    return Decimal(v)


def locked(v: int) -> int:
    with LOCK:
        return v


INVALID: list[tuple[str, Callable[[], Any], str]] = [
    ("upper", lambda: slot, "Spark has a function of that name"),
    ("f", lambda: F.udf(slot, LongType(), useArrow=False).asNondeterministic(), "it is declared nondeterministic"),
    ("f", lambda: untold, "the type of its result is not known"),
    ("f", lambda: exact, '@function(returns="decimal(10,2)")'),
    ("f", lambda: function(untold, returns="decimal(4,)"), "decimal(4,) is no type that Spark SQL has"),
    ("f", lambda: locked, "it refers to something of this process alone"),
    ("f", lambda: 3, "3 is no function"),
]


@pytest.mark.spark
@pytest.mark.parametrize(("name", "given", "text"), INVALID)
def test_what_cannot_be_a_function_is_refused(spark: Any, name: str, given: Callable[[], Any], text: str) -> None:
    with pytest.raises(HeadraceError) as caught:
        Pipeline(TABLES, {}, functions={name: given()}, spark=spark)
    assert caught.value.code == "function.invalid"
    assert f"function {name} " in str(caught.value)
    assert text in str(caught.value)
    assert caught.value.next


@pytest.mark.spark
def test_two_functions_of_one_name_are_refused(spark: Any) -> None:
    with pytest.raises(HeadraceError, match="the name stands twice"):
        Pipeline(TABLES, {}, functions={"f": slot, "F": slot}, spark=spark)


REFUSED = [
    ("select slott(v) x from t", "sql.refused", "did you mean 'slot'?"),
    ("select default.slot(v) x from t", "sql.refused", "default.slot"),
    ("select transform(array(v), x -> slot(x)) x from t", "sql.analysis", "explode it first"),
    ("select a.id from t a left join t b on slot(a.v + b.v) = 1", "sql.analysis", "compute it in a subquery"),
    ("select slot(v) over (partition by k) x from t", "sql.analysis", "window"),
    ("select listed(distinct v) x from t", "sql.analysis", "in a subquery below"),
    ("select listed(v) filter (where v > 1) x from t", "sql.analysis", "in a subquery below"),
    ("select listed(v => v) x from t", "sql.refused", "give it its arguments by place"),
    ("select listed(map(k, v)) x from t", "sql.not_deterministic", "have no order"),
    ("select id from t where slot(unix_seconds(now())) = id", "sql.not_incremental", "the clock"),
]


@pytest.mark.spark
@pytest.mark.parametrize(("sql", "code", "text"), REFUSED)
def test_where_a_function_cannot_stand_the_query_is_refused(spark: Any, sql: str, code: str, text: str) -> None:
    with pytest.raises(HeadraceError) as caught:
        Pipeline(TABLES, {"v": sql}, functions=FUNCTIONS, spark=spark)
    assert caught.value.code == code
    assert text in str(caught.value)
