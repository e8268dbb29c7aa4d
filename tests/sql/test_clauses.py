"""Goal: clauses and types of SQL that no operator is about stay equal to batch. Method: views over one table with a
column of each kind, stepped with inserts, updates, deletes and NULLs, compared with batch after every step: all after
the last, in the usual run every third after those before it.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from headrace.testing import Pipeline
from sampled import sampled

TABLES = {
    "items": "id bigint not null, k string, n int, d decimal(12,2), ts timestamp, js string, arr array<int>,"
    " m map<string,int>, st struct<a:int,b:string>",
    "other": "k string, v int",
}
VIEWS = {
    "generated": """
        select id, e, p, x, kk, a from items lateral view outer explode(arr) t as e
        lateral view outer posexplode(arr) u as p, x lateral view outer explode(m) w as kk, vv
        lateral view json_tuple(js, 'a') j as a""",
    "stacked": "select id, stack(2, k, n, 'x', n + 1) as (a, b) from items",
    "of_json": """
        select id, from_json(js, 'a int, c struct<d:double>') j, get_json_object(js, '$.b[0]') b, to_json(st) s,
        variant_get(try_parse_json(js), '$.a', 'string') v, try_parse_json(js):c.d::double w from items""",
    "of_maps": """
        select id, m, map_filter(m, (a, b) -> b > 1) f, transform_keys(m, (a, b) -> upper(a)) u, m['x'] x,
        transform(arr, x -> x * 2) t, filter(arr, x -> x > 2) g, array_sort(arr) s, st.* from items""",
    "made_maps": """
        select id, k, map(concat(coalesce(k, ''), '1'), n, 'A', id, 'b', 0) m, map_from_arrays(array(2, 10, 1), array(k, js, 'c')) a,
        str_to_map('z:1,b:2') s, cast(map_from_entries(array(struct('10', id + 0), struct('9', id + 1))) as map<int,string>) c,
        from_json('{"r": {"z": {"b": 1, "a": 2}, "y": null}, "q": [{"d": 1, "c": 2}, null]}',
        'r map<string,map<string,int>>, `q r` int, q array<map<string,int>>') j from items""",
    "read_maps": """
        select v.id, map_keys(m) mk, map_values(a) av, to_json(named_struct('s', s, 'c', c)) t, cast(m as string) x, map_entries(c) e,
        to_json(j) deep, j.r['z'] y, map_keys(map_concat(map('q', v.id), m)) q, map_keys(transform_keys(a, (p, q) -> -p)) neg,
        map_keys(map_zip_with(a, c, (p, q, r) -> r)) z, o.v
        from made_maps v left join other o on v.k = o.k where array_size(map_keys(m)) > 0""",
    "exploded_maps": "select id, p, mk, mv from made_maps lateral view posexplode(m) as p, mk, mv",
    "grouped_maps": "select mk, count(*) c, max(x) x from (select id, map_keys(m) mk, cast(a as string) x from made_maps) group by mk",
    "by_struct": "select st, count(*) c, max(arr) a, array_agg(n) l from items group by st",
    "by_array": "select arr, count(distinct st.b) c, listagg(k, ',') l from items group by all",
    "times": """
        select id, ts - timestamp'2026-01-01 00:00:00' i, date_trunc('hour', cast(ts as timestamp_ntz)) h,
        sum(n) over (partition by k order by ts range between interval 30 minutes preceding and current row) s
        from items""",
    "cubed": "select k, n, grouping_id() g, sum(d) s, count(*) filter (where id > 2) c from items group by cube(k, n)",
    "pivoted": "select * from (select k, n, id from items) pivot (sum(id) s, count(*) c for n in (1 as one, 2 as two))",
    "unpivoted": "select * from (select id, n, int(d) d from items) unpivot include nulls (v for name in (n, d))",
    "piped": """
        from items |> where n > 0 |> extend n * 2 as m2 |> aggregate sum(m2) s, count(*) c group by k
        |> where c > 0 |> select k, s""",
    "sets": "(select k from items except all select k from other) union all (select k from items intersect select k from other)",
    "nested": """
        select id, (select v from other order by v desc nulls last limit 1 offset 1) second,
        (select o.v from other o where o.k = i.k order by o.v desc limit 1) best, x.earlier
        from items i left join lateral (select max(j.id) earlier from items j where j.n < i.n) x
        where exists (select 1 from other o where o.k = i.k limit 1) or n not in (select v from other where v is not null)""",
    "distinct_levels": """
        with recursive r as (select k, 0 l from items union all select distinct o.k, l + 1 from r join other o
        on upper(r.k) = upper(o.k) where l < 2) select k, l from r""",
    "windows_of_the_correlated": """
        select i.id, l.m, l.r, (select sum(o.v) over (order by o.v) from other o where o.k = i.k order by o.v desc limit 1) s
        from items i, lateral (select max(v) over (partition by k) m, row_number() over (order by v) r from other where k = i.k) l""",
    "aliased": "select id, n + 1 as a, a * 2 as b, * except (id, m, st, js, arr, ts) from items",
}


def row(number: int, k: Any = None, n: Any = None, d: Any = None, minutes: Any = None, **others: Any) -> dict[str, Any]:
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    ts = None if minutes is None else start + dt.timedelta(minutes=minutes)
    return {"id": number, "k": k, "n": n, "d": d, "ts": ts, **others}


STEPS: list[dict[str, Any]] = [
    {
        "items": [
            row(1, "a", 1, "1.50", 1, js='{"a":1,"b":["x"],"c":{"d":2.5}}', arr=[1, 2, None], m={"x": 1, "y": None},
                st={"a": 1, "b": "p"}),
            row(2, "A", 2, "2.50", 2, js='{"a":2}', arr=[], m={}, st={"a": None, "b": "q"}),
            row(3, "b", 3, None, 70, js="not json"),
            row(4, None, 1, "-3.25", arr=[3, 3], m={"x": 2}, st={"a": 1, "b": "p"}),
            row(5, "b", 3, "7.00", 1500, js='{"a":null,"b":[]}', arr=[5], m={"z": 9}, st={"a": 2, "b": None}),
        ],
        "other": [{"k": "a", "v": 1}, {"k": "a", "v": 1}, {"k": "b", "v": None}, {"k": None, "v": 4}],
    },
    {
        "items": [
            row(3, "b", 5, "9.99", 3, js='{"a":"7"}', arr=[1], m={"x": 7}, st={"a": 3, "b": "p"}),
            {"id": 1, "_w": -1},
            row(6, "a", 2, "0.10", 75, js='{"a":9,"c":{"d":1}}', arr=[4, None], m={"y": 3, "x": 1}),
        ],
        "other": [{"k": "a", "v": 1, "_w": -1}, {"k": "é", "v": 3}, {"k": "A", "v": 8}],
    },
    {
        "items": [{"id": 5, "_w": -1}, row(2, "B", 2, "2.50", 2, js="{}", m={"q": 4}), row(4, "b", 4, None, 76, arr=[])],
        "other": [{"k": "b", "v": None, "_w": -1}, {"k": None, "v": 4, "_w": -1}, {"k": "B", "v": 2}],
    },
]  # fmt: skip


@pytest.mark.spark
def test_each_clause_equals_batch(spark: Any) -> None:
    with Pipeline(TABLES, VIEWS, {"items": ["id"]}, spark=spark) as p:
        for number, changes in enumerate(STEPS):
            p.step(changes)
            for view in VIEWS:
                assert p.read(view).num_rows, f"{view} after step {number}"
            for view in VIEWS if changes is STEPS[-1] else sampled(VIEWS, 3):
                p.expect(view, p.batch(view))


@pytest.mark.spark
def test_rows_with_maps_go_as_they_came_whatever_the_order_of_their_entries(spark: Any) -> None:
    """In a table with a key and in one without, whose rows have no hash of their own; over runs and a restart."""
    views = {
        "shown": "select id, map_keys(m) k, to_json(m) j from keyed",
        "counted": "select map_keys(m) k, count(*) c from bag group by 1",
        "grouped": "select m, count(*) c from bag group by m",
    }
    tables = {"keyed": "id int, m map<string,int>", "bag": "m map<string,int>"}
    with Pipeline(tables, views, {"keyed": ["id"]}, spark=spark) as p:
        m: list[Any] = [{"m": {"y": 1, "x": 2}}, {"m": {"b": 1, "a": 2}}]
        p.step({"keyed": [{"id": i, **row} for i, row in enumerate(m)], "bag": [*m, m[0]]})
        p.step({"keyed": [{"id": 2, **m[0]}], "bag": [m[1], {"m": {"z": None}}, {"m": {"z": 0}}, {"m": {"z": None}}]})
        p.restart()
        p.step({"keyed": [{"id": 0, "_w": -1}, {"id": 1, **m[0]}], "bag": [{"m": {"x": 2, "y": 1}, "_w": -1}]})
        p.expect("shown", [{"id": i, "k": ["x", "y"], "j": '{"x":2,"y":1}'} for i in (1, 2)])
        p.expect("counted", [{"k": ["x", "y"], "c": 1}, {"k": ["a", "b"], "c": 2}, {"k": ["z"], "c": 3}])
        groups = [({"x": 2, "y": 1}, 1), ({"a": 2, "b": 1}, 2), ({"z": None}, 2), ({"z": 0}, 1)]
        p.expect("grouped", [{"m": m, "c": c} for m, c in groups])
        for view in views:
            p.expect(view, p.batch(view))


@pytest.mark.spark
def test_without_ansi_a_sum_that_does_not_fit_is_what_it_is_to_spark(spark: Any) -> None:
    """A bigint keeps its lowest 64 bits, a decimal has no value; and the view goes on."""
    views = {
        "grouped": "select k, sum(n) n, sum(d) d, avg(d) a, avg(n) m from t group by k",
        "distinct_values": "select k, sum(distinct n) n, sum(distinct d) d from t group by k",
        "recomputed": "select k, sum(n) n, sum(d) d, collect_list(id) l from t group by k",
        "whole": "select id, sum(n) over (partition by k) n, sum(d) over (partition by k) d from t",
        "running": "select id, sum(n) over w n, sum(d) over w d from t window w as (partition by k order by id)",
    }
    tables, most, nines = {"t": "id int, k int, n bigint, d decimal(38,2)"}, (1 << 63) - 1, "9" * 36 + ".99"
    with Pipeline(tables, views, {"t": ["id"]}, spark=spark, settings={"ansi": False}) as p:
        first = {"id": 1, "k": 0, "n": most, "d": nines}
        p.step({"t": [first, {"id": 2, "k": 0, "n": 2, "d": "0.01"}, {"id": 3, "k": 1, "n": 5, "d": "1.00"}]})
        wrapped = {"n": 1 - (1 << 63), "d": None}
        other, third = {"k": 1, "n": 5, "d": "1.00"}, {"id": 3, "n": 5, "d": "1.00"}
        p.expect("grouped", [{"k": 0, **wrapped, "a": None, "m": 2.0**62}, {**other, "a": "1", "m": 5.0}])
        p.expect("distinct_values", [{"k": 0, **wrapped}, other])
        p.expect("recomputed", [{"k": 0, **wrapped, "l": [1, 2]}, {**other, "l": [3]}])
        p.expect("whole", [{"id": 1, **wrapped}, {"id": 2, **wrapped}, third])
        p.expect("running", [{"id": 1, "n": most, "d": nines}, {"id": 2, **wrapped}, third])
        for view in views:
            p.expect(view, p.batch(view))
        p.step({"t": [{"id": 2, "_w": -1}, {"id": 4, "k": 1, "n": -7, "d": "-3.00"}]})
        rows = [{"k": 0, "n": most, "d": nines}, {"k": 1, "n": -2, "d": "-2.00"}]
        p.expect("distinct_values", rows)
        p.expect("recomputed", [{**row, "l": ids} for row, ids in zip(rows, ([1], [3, 4]), strict=True)])
        for view in views:
            p.expect(view, p.batch(view))


@pytest.mark.spark
def test_names_that_spark_would_take_apart(spark: Any) -> None:
    """A header of `user.name`, or with a backquote in it, is a column; PySpark looks for a field of that name."""
    views = {"named": "select `user.id` `the.id`, max(`a``b`) `m``x`, count(*) n from visits group by 1"}
    with Pipeline({"visits": "`user.id` int, `a``b` string"}, views, spark=spark) as p:
        p.step({"visits": [{"user.id": 1, "a`b": "x"}, {"user.id": 2, "a`b": "y"}]})
        p.step({"visits": [{"user.id": 1, "a`b": "z"}, {"user.id": 2, "a`b": "y", "_w": -1}]})
        assert p.read("named").to_pylist() == [{"the.id": 1, "m`x": "z", "n": 2}]
        p.expect("named", p.batch("named"))
