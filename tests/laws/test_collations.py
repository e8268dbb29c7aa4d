"""Goal: collated text is grouped, joined and ordered as its collation says, after every commit. Batch is asked without
any collation: by lower(), whose equality and order are those of UTF8_LCASE. See harness.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from harness import Operator, hold
from histories import Table

SPELLINGS = (None, "", "a", "A", "b", "B", "é", "É", "ab", "aB")
WORDS = Table(
    "words", {"id": "int", "s": "string", "n": "int"},
    {"id": range(6), "s": SPELLINGS, "n": (None, 0, 1, 2)}, ("id",),
)  # fmt: skip
OTHERS = Table("others", {"s": "string", "v": "int"}, {"s": SPELLINGS, "v": (None, 1, 2)})

# Name -> SQL; {x} of a text is the text with the collation, and for batch its lower case.
ALIKE = {
    "join": "select w.case_id, w.id, o.v from words w join others o on w.case_id = o.case_id and {w.s} = {o.s}",
    "left_join": """
        select w.case_id, w.id, w.s, o.s as t, o.v from words w
        left join others o on w.case_id = o.case_id and {w.s} <=> {o.s} and w.n < o.v""",
    "anti_join": """
        select case_id, id, s from words w where not exists (
        select 1 from others o where o.case_id = w.case_id and {o.s} = {w.s})""",
    "compared": "select case_id, id, {s} < 'b' as less, {s} = 'AB' as same, {s} in ('A', 'é') as listed from words",
    "ranked": """
        select case_id, id, s from words
        qualify row_number() over (partition by case_id order by {s} desc, id) <= 2""",
    "windowed": """
        select case_id, id, count(*) over (partition by case_id, {s}) n, rank() over (partition by case_id order by {s}) r
        from words""",
    "counted": """
        select case_id, count(distinct {s}) n, count({s}) c, max_by(id, {s}) m, count(distinct n) d
        from words group by case_id""",
    "as_of": """
        select w.case_id, w.id, o.v, o.s as t from words w left asof join others o match_condition ({w.s} >= {o.s})
        on w.case_id = o.case_id""",
}
SHOWN = {
    "grouped": (
        "select case_id, s collate UTF8_LCASE w, count(*) c, sum(n) t from words group by case_id, s collate UTF8_LCASE",
        "select case_id, min(s), count(*), sum(n) from words group by case_id, lower(s)",
    ),
    "cubed": (
        """select case_id, s collate UTF8_LCASE w, n, count(*) c from words
        group by case_id, cube(s collate UTF8_LCASE, n)""",
        "select case_id, min(if(grouping(w) = 0, s, null)), n, count(*) from (select *, lower(s) w from words) "
        "group by case_id, cube(w, n)",
    ),
    "extremes": (
        "select case_id, min(s collate UTF8_LCASE) a, max(s collate UTF8_LCASE) z from words group by case_id",
        """select case_id, min(if(s is null, null, struct(lower(s), s as t))).t,
        max(if(s is null, null, struct(lower(s), s as t))).t from words group by case_id""",
    ),
    "extremes_beside": (
        """select case_id, id, min(s collate UTF8_LCASE) over w a, max(s collate UTF8_LCASE) over (partition by case_id) z,
        lag(s collate UTF8_LCASE) over w p, first_value(s collate UTF8_LCASE) over w f
        from words window w as (partition by case_id order by id)""",
        """select case_id, id, (min(if(s is null, null, struct(lower(s), s as t))) over w).t,
        (max(if(s is null, null, struct(lower(s), s as t))) over (partition by case_id)).t, lag(s) over w, first_value(s) over w
        from words window w as (partition by case_id order by id)""",
    ),
    "either": (
        "select case_id, s collate UTF8_LCASE s from words union select case_id, s collate UTF8_LCASE from others",
        """select case_id, min(s) from (select case_id, s from words union all select case_id, s from others)
        group by case_id, lower(s)""",
    ),
    "of_a_query": (
        """select case_id, w, n from (select case_id, s collate UTF8_LCASE w, count(*) n from words
        group by case_id, s collate UTF8_LCASE) where w = 'A' or n > 1""",
        """select case_id, min(s), count(*) from words group by case_id, lower(s)
        having count(*) > 1 or lower(s) = 'a'""",
    ),
}


def spelled(sql: str, form: str) -> str:
    for name in ("w.s", "o.s", "s"):
        sql = sql.replace("{" + name + "}", form.format(name))
    return sql


LOWER = {name: spelled(sql.replace("'AB'", "'ab'").replace("'A'", "'a'"), "lower({})") for name, sql in ALIKE.items()}
QUERIES = {name: spelled(sql, "({} collate UTF8_LCASE)") for name, sql in ALIKE.items()}
OPERATOR = Operator(
    "collations", (WORDS, OTHERS), QUERIES | {name: asked for name, (asked, _) in SHOWN.items()},
    judges=LOWER | {name: judge for name, (_, judge) in SHOWN.items()},
)  # fmt: skip


@pytest.mark.spark
def test_collated_text_equals_batch(spark: Any, tmp_path: Path) -> None:
    hold(spark, tmp_path, OPERATOR)
