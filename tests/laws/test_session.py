"""Goal: session windows equal batch after every commit, sessions joined and split. See harness.py."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from harness import Circuits, Operator, hold
from histories import Table

from headrace.circuit.appended import AppendSessions
from headrace.circuit.node import Sessions

START = datetime(2024, 3, 1, tzinfo=UTC)
CLICKS = Table(
    "clicks",
    {"id": "int", "k": "int", "ts": "timestamp", "n": "int"},
    {"id": range(7), "k": (None, 0, 1), "ts": (None, *(START + timedelta(seconds=s) for s in (0, 3, 5, 8, 13, 30))),
     "n": (None, 1, 2)},
    ("id",),
)  # fmt: skip
QUERIES = {
    "by_key": """select case_id, k, session_window.start s, session_window.end e, count(*) c, sum(n) t
        from clicks group by case_id, k, session_window(ts, '5 seconds')""",
    "of_all": """select case_id, session_window(ts, '4 seconds') w, max(n) m, collect_list(id) l from clicks
        group by case_id, session_window(ts, '4 seconds')""",
    "gap_by_row": """select case_id, session_window(ts, case when n = 1 then '2 seconds' else '9 seconds' end) w, count(k) c
        from clicks group by 1, 2""",
    "then_joined": """select a.case_id, a.c, b.id from (select case_id, min(id) least, count(*) c from clicks
        group by case_id, session_window(ts, '5 seconds')) a join clicks b on a.case_id = b.case_id and a.least = b.id""",
}
OPERATOR = Operator("session", (CLICKS,), QUERIES)

# Rows that only come: far apart and close together, so that new ones meet none, one or several kept sessions.
VISITS = Table(
    "visits",
    {"k": "int", "ts": "timestamp", "n": "int", "f": "double", "s": "string", "d": "decimal(9,2)"},
    {"k": (None, 0, 1), "ts": (None, *(START + timedelta(seconds=s) for s in (-90, 0, 3, 5, 8, 13, 18, 30, 41))),
     "n": (None, 1, 2, 2**31 - 1), "f": (None, 0.1, -0.0, 1e16), "s": (None, "", "a", "b"),
     "d": (None, Decimal("0.01"), Decimal("-5.00"))},
    append_only=True,
)  # fmt: skip
OF_VISITS = {
    "sums": """select case_id, k, session_window.start s, session_window.end e, count(*) c, sum(n) t, avg(f) a, sum(d) d
        from visits group by case_id, k, session_window(ts, '5 seconds')""",
    "extremes": """select case_id, session_window(ts, '4 seconds') w, max(n) m, min(s) a, max(ts) filter (where n > 1) b
        from visits group by case_id, session_window(ts, '4 seconds')""",
    "visits_gap_by_row": """select case_id, s, session_window(ts, case when n = 1 then '2 seconds' else '9 seconds' end) w,
        count(k) c from visits group by 1, 2, 3""",
    "by_double": """select case_id, f, session_window(ts, '5 seconds') w, count(*) c
        from visits group by case_id, f, session_window(ts, '5 seconds')""",
    "only_sessions": "select case_id, session_window(ts, '10 seconds').end e from visits group by case_id, k, session_window(ts, '10 seconds')",
    "longest": """select case_id, k, max(c) c, max(unix_millis(e) - unix_millis(s)) ms from (select case_id, k,
        session_window.start s, session_window.end e, count(*) c from visits
        group by case_id, k, session_window(ts, '5 seconds')) group by case_id, k""",
    "listed": """select case_id, k, sort_array(collect_list(n)) l from visits
        group by case_id, k, session_window(ts, '5 seconds')""",
    "in_doubles": """select case_id, session_window(ts, '5 seconds') w, max(f) m from visits
        group by case_id, session_window(ts, '5 seconds')""",
}
KEEP_ROWS = {"listed", "in_doubles"}
ONLY_COMES = Operator("append_session", (VISITS,), OF_VISITS)


@pytest.mark.spark
def test_sessions_equal_batch(spark: Any, tmp_path: Path) -> None:
    hold(spark, tmp_path, OPERATOR)


@pytest.mark.spark
def test_sessions_of_what_only_comes_equal_batch(spark: Any, tmp_path: Path) -> None:
    hold(spark, tmp_path, ONLY_COMES)


@pytest.mark.spark
def test_which_sessions_keep_no_rows(spark: Any, tmp_path: Path) -> None:
    views = Circuits(spark, ONLY_COMES, tmp_path).compilation.views
    kinds = {name: {type(node) for node in view.root.walk()} for name, view in views.items()}
    assert {name for name, found in kinds.items() if Sessions in found} == KEEP_ROWS
    assert {name for name, found in kinds.items() if AppendSessions in found} == OF_VISITS.keys() - KEEP_ROWS
