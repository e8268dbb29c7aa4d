"""Goal: session windows equal batch after every commit, sessions joined and split. See harness.py."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from harness import Operator, hold
from histories import Table

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


@pytest.mark.spark
def test_sessions_equal_batch(spark: Any, tmp_path: Path) -> None:
    hold(spark, tmp_path, OPERATOR)
