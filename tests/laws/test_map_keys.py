"""Goal: rows grouped by maps, and maps counted once each, equal batch after every commit. See harness.py.

Batch itself is held to DuckDB and to plain Spark below.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
from harness import Operator, hold
from histories import NAN, Table, rows_table

from headrace.engine.batch import Batch

# The same entries in another order, a NULL beside 0, an empty map beside none.
COUNTS = (
    None, [], [("a", 1)], [("a", None)], [("a", 0)], [("a", 1), ("b", None)], [("b", None), ("a", 1)],
    [("a", 1), ("b", 2)], [("b", 2), ("a", 1)],
)  # fmt: skip
SHARES = (
    None, [("x", 0.0)], [("x", -0.0)], [("x", None)], [("x", NAN), ("y", 1.0)], [("y", 1.0), ("x", NAN)],
)  # fmt: skip
MAPS = Table(
    "maps",
    {"id": "int", "k": "int", "s": "string", "m": "map<string,int>", "d": "map<string,double>", "j": "string"},
    {
        "id": range(5),
        "k": (None, 0, 1),
        "s": (None, "a", "b"),
        "m": COUNTS,
        "d": SHARES,
        "j": (None, "{}", '{"a": 1, "b": null}', '{"b": null, "a": 1}', '{"b": 0}', "a"),
    },
    ("id",),
)
BAG = Table("bag", {"k": "int", "m": "map<string,int>"}, {"k": (None, 0, 1), "m": COUNTS[:7]})

QUERIES = {
    "by_a_map": "select case_id, m, count(*) n, sum(k) t, avg(id) a from maps group by case_id, m",
    "of_doubles": "select case_id, d, count(*) n, min(id) i from maps group by case_id, d",
    "of_a_multiset": "select case_id, m, count(*) n, count(distinct k) d from bag group by case_id, m",
    "the_multiset": "select * from bag",
    "counted_once": """
        select case_id, k, count(distinct m) a, count(distinct d) b, count(distinct m, s) c, count(distinct s) e, count(m) n
        from maps group by case_id, k""",
    "one_counted_once": "select case_id, count(distinct m) n from maps group by case_id",
    "some_counted_once": """
        select case_id, count(distinct m) filter (where k = 1) a, count(distinct struct(m, d)) b, count(distinct array(m)) c
        from maps group by case_id""",
    "recomputed": "select case_id, m, collect_list(id) l, collect_set(s) c from maps group by case_id, m",
    "made": """
        select case_id, x, count(*) n from (
            select case_id, if(id % 2 = 0, map('p', k, 'q', 1), map('q', 1, 'p', k)) x from maps)
        group by case_id, x""",
    "concatenated": """
        select case_id, map_concat(map('z', k), if(id % 2 = 0, map('y', 1), map('x', 1))) x, max(s) s
        from maps group by 1, 2""",
    "parsed": "select case_id, from_json(j, 'map<string,int>') x, count(*) n from maps group by 1, 2",
    "in_a_struct": "select case_id, struct(k, m) x, count(*) n, max(id) i from maps group by 1, 2",
    "in_an_array": "select case_id, if(s = 'a', null, array(m, map('c', k, 'b', 2))) x, count(*) n from maps group by 1, 2",
    "in_a_map": "select case_id, map('n', map('k', k), 'm', m) x, count(*) n, sum(id) i from maps group by 1, 2",
    "rolled_up": """
        select case_id, m, k, count(*) n, grouping(m) g, count(distinct d) d from maps
        group by grouping sets ((case_id, m, k), (case_id, m), (case_id))""",
    "crossed": "select case_id, m, d, count(*) n from maps group by case_id, cube(m, d)",
    "shown": """
        select case_id, m['a'] a, map_keys(m) k, cast(m as string) t, size(m) z, count(*) n from maps
        group by case_id, m having count(*) > 1 or m['a'] = 1""",
    "grouped_again": """
        select case_id, n, count(distinct m) d, count(*) c from (
            select case_id, m, s, count(*) n from maps group by case_id, m, s)
        group by case_id, n""",
    "joined": """
        with c as (select case_id, m, count(*) n, max(k) k from maps group by case_id, m)
        select a.case_id, a.m, b.m o, b.k from c a left join c b on a.case_id = b.case_id and a.n = b.n + 1""",
    "sessions": """
        select case_id, session_window.start t, m, count(*) n from maps
        group by case_id, session_window(timestamp_seconds(id * 10), '15 seconds'), m""",
    "pivoted": "select * from (select case_id, m, k, id from maps) pivot (sum(id) t, count(distinct m) n for k in (0, 1))",
}
OPERATOR = Operator("map_keys", (MAPS, BAG), QUERIES, truncated=("bag",), judged=True)


@pytest.mark.spark
def test_groups_by_maps_equal_batch(spark: Any, tmp_path: Path) -> None:
    hold(spark, tmp_path, OPERATOR)


def multiset(rows: Any) -> list[str]:
    return sorted(repr([sorted(v.items()) if isinstance(v, dict) else v for v in row]) for row in rows)


@pytest.mark.spark
def test_batch_groups_maps_as_duckdb_and_spark_do(spark: Any) -> None:
    rows = [(0, i, i % 2, "b", m, SHARES[i % len(SHARES)], None) for i, m in enumerate([*COUNTS, *COUNTS])]
    store, judge = duckdb.connect(), Batch(spark)
    store.register("maps", rows_table(MAPS.relation, [(r[0], *MAPS.in_order(r[1:])) for r in rows]))
    judge.spark.createDataFrame(rows_table(MAPS.relation, rows)).createOrReplaceTempView("given")
    made = "(select k, id, map_concat(m, map()) m, map_concat(d, map()) d from given)"
    for sql in (
        "select m, count(*) n, sum(id) i from maps group by m",
        "select k, count(distinct m) n from maps group by k",
        "select m, k, count(*) n from maps group by rollup(m, k)",
        "select m['a'] a, count(*) n from maps group by m having count(*) > 2",
    ):
        assert multiset(judge.frame(sql.replace("maps", made)).collect()) == multiset(store.sql(sql).fetchall()), sql
    constants = "(values (map('b', 1D, 'a', 2D)), (map('a', 2D, 'b', 1D))) v(m)"
    # Of primitive values Spark's own MapSort loses the NULLs.
    words = f"(select k, id, transform_values(m, (k, v) -> cast(v as string)) m, d from {made} where id % 6 <> 3)"
    for sql in (
        "select m, count(*) n from maps group by m",
        "select d, count(*) n, count(distinct m) o from maps group by d",
        "select struct(m, d) s, array(m) a, count(*) n from maps group by cube(struct(m, d), array(m))",
        "select map('x', m) x, count(distinct d, k) n, count(distinct m) o from maps group by map('x', m)",
        f"select m, count(*) n from {constants} group by m",
    ):
        of_words = sql.replace("maps", words)
        assert multiset(judge.frame(of_words).collect()) == multiset(judge.spark.sql(of_words).collect()), sql
