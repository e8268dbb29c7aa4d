"""Goal: views that read the clock equal batch at the last tick after every commit. Method: see side_by_side.py.

The clock is the table that all cases share; its row only ever moves forward, through the times of the other tables.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from histories import Change, History, Schedule, Table
from side_by_side import hold_side_by_side, told

from headrace.circuit.node import Threshold
from headrace.engine.compile import Compiler
from headrace.model.clock import CLOCK
from headrace.model.definition import ViewDefinition
from headrace.model.transaction import INSERT

START, HOUR = datetime.datetime(2030, 1, 1, 12), datetime.timedelta(hours=1)
TIMES = (None, *(START + HOUR * half / 2 for half in range(-20, 21)))
DAYS = (None, *(START.date() + datetime.timedelta(days=n) for n in (-1, 0, 1)))

EVENTS = Table(
    "events", {"id": "int", "k": "int", "ts": "timestamp", "d": "date", "n": "timestamp_ntz"},
    {"id": range(6), "k": (None, 0, 1), "ts": TIMES, "d": DAYS, "n": TIMES}, ("id",),
)  # fmt: skip
SEEN = Table("seen", {"k": "int", "ts": "timestamp"}, {"k": (None, 0, 1), "ts": TIMES[::4]})
NOW = Table(CLOCK.name, {"one": "int", "now": "timestamp"}, {"one": (0,), "now": (START,)}, ("one",), cased=False)

Told = Callable[[str], str]
# (equality of an alias's case, the clock beside an alias) -> SQL
TEMPLATES: dict[str, Callable[[Told, Told], str]] = {
    "younger": lambda same, now: f"select case_id, id, ts from events i where ts > {now('i')} - interval 1 hour",
    "from_now": lambda same, now: f"select case_id, id, ts from events i where ts >= {now('i')}",
    "past_its_time": lambda same, now: f"select case_id, k, ts from seen i where ts + interval 30 minutes <= {now('i')}",
    "before": lambda same, now: f"select case_id, k, ts from seen i where {now('i')} > ts",
    "around": lambda same, now: (
        f"""select case_id, id from events i
        where ts between {now('i')} - interval 1 hour and {now('i')} + interval 45 minutes"""
    ),
    "today": lambda same, now: f"select case_id, id from events i where d = cast({now('i')} as date)",
    "by_day": lambda same, now: f"select case_id, id from events i where cast(ts as date) = cast({now('i')} as date)",
    "until_today": lambda same, now: f"select case_id, id from events i where d <= cast({now('i')} as date)",
    "of_this_hour": lambda same, now: f"select case_id, id from events i where ts >= date_trunc('hour', {now('i')})",
    "age": lambda same, now: f"select case_id, id from events i where {now('i')} - ts < interval 1 hour",
    "age_in_days": lambda same, now: f"select case_id, id from events i where datediff(cast({now('i')} as date), d) > 0",
    "age_by_dates": lambda same, now: (
        f"select case_id, id from events i where cast({now('i')} as date) - d < interval 1 day"
    ),
    "dates_to_come": lambda same, now: (
        f"select case_id, id from events i where interval 0 day <= d - cast({now('i')} as date)"
    ),
    "until": lambda same, now: f"select case_id, id from events i where ts - {now('i')} <= interval 30 minutes",
    "a_month_ago": lambda same, now: f"select case_id, id from events i where ts >= {now('i')} - interval 1 month",
    "local": lambda same, now: f"select case_id, id from events i where n < cast({now('i')} as timestamp_ntz)",
    "from_a_day_on": lambda same, now: (
        f"select case_id, id from events i where {now('i')} > timestamp'2030-01-01 15:00:00'"
    ),
    "counted": lambda same, now: (
        f"select case_id, k, count(*) c, max(ts) m from events i where ts >= {now('i')} group by case_id, k"
    ),
    "quiet": lambda same, now: (
        f"""select case_id, k, m from (select case_id, k, max(ts) m from events group by case_id, k) i
        where m < {now('i')} - interval 1 hour"""
    ),
    "joined": lambda same, now: (
        f"""select i.case_id, i.id, b.ts from events i join seen b on i.k = b.k and {same('b')}
        where b.ts > {now('i')} - interval 1 hour and i.ts <= {now('i')}"""
    ),
    "of_both": lambda same, now: (
        f"""select i.case_id, i.id from events i join seen b on i.k = b.k and {same('b')}
        where i.ts + (b.ts - i.ts) * 2 > {now('i')}"""
    ),
    "twice": lambda same, now: (
        f"""select case_id, id from events i where ts > {now('i')} and
        d >= cast({now('i')} as date) and k is not null"""
    ),
}  # fmt: skip


def ticks(rng: random.Random, plan: Schedule) -> History:
    """One in most commits, from the times' beginning to past their end, often at one of them."""
    now, steps = START - 9 * HOUR, []
    for step in plan:
        transactions = []
        for _ in step.truncates:
            moves = not steps or rng.random() < 0.8
            now += HOUR * rng.choice((0, 0, 0.25, 0.5, 0.5, 1, 1, 2))
            transactions.append((Change(NOW.name, INSERT, (0, now)),) if moves else ())
        steps.append(tuple(transactions))
    return tuple(steps)


def written(judged: bool) -> Mapping[str, str]:
    def same(alias: str) -> str:
        return f"{alias}.case_id = i.case_id"

    def now(alias: str) -> str:
        return f"(select c.now from `{CLOCK.name}` c where c.one = {told(alias)})" if judged else "current_timestamp()"

    return {name: template(same, now) for name, template in TEMPLATES.items()}


@pytest.mark.spark
def test_views_of_the_clock_equal_batch_at_the_last_tick(spark: Any, tmp_path: Path) -> None:
    templates = {name: (lambda judged, name=name: written(judged)[name]) for name in TEMPLATES}
    hold_side_by_side(spark, tmp_path, "clock", (EVENTS, SEEN), NOW, ticks, templates)


KEPT = {"today": 0, "by_day": 0, "from_a_day_on": 1}  # how many thresholds keep what they pass; others none


@pytest.mark.spark
def test_what_the_clock_has_passed_is_not_kept(spark: Any) -> None:
    views = [ViewDefinition(name, sql) for name, sql in written(judged=False).items()]
    found = Compiler(spark).compile({t.name: t.relation for t in (EVENTS, SEEN)}, views, {}).views
    for name, view in found.items():
        thresholds = [n for n in view.root.walk() if isinstance(n, Threshold)]
        assert sum(not n.passes for n in thresholds) == KEPT.get(name, 0), name
        assert bool(thresholds) == (name not in ("today", "by_day")), name
