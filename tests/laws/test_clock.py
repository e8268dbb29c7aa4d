"""Goal: views that read the clock equal batch at the last tick after every commit. Method: see chained.py.

The clock is a table of the histories whose row only ever moves forward; the times of the other tables lie around it.
Batch reads the same row by a subquery, told apart by the commit's number like all others.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chained import COMMITS, chain, hold_history
from harness import HISTORIES, SEED, Operator
from histories import Change, History, Table, history

from headrace.circuit.node import Threshold
from headrace.engine.compile import Compiler
from headrace.model.clock import CLOCK
from headrace.model.definition import ViewDefinition
from headrace.model.transaction import INSERT

START, HOUR = datetime.datetime(2030, 1, 1, 12), datetime.timedelta(hours=1)
PERIOD = datetime.timedelta(days=2)  # a history lives in its own
TIMES = (None, *(START + HOUR * quarter / 4 for quarter in range(-12, 13)))
DAYS = (None, *(START.date() + datetime.timedelta(days=n) for n in (-1, 0, 1)))

EVENTS = Table(
    "events", {"id": "int", "k": "int", "ts": "timestamp", "d": "date", "n": "timestamp_ntz"},
    {"id": range(6), "k": (None, 0, 1), "ts": TIMES, "d": DAYS, "n": TIMES}, ("id",),
)  # fmt: skip
SEEN = Table("seen", {"k": "int", "ts": "timestamp"}, {"k": (None, 0, 1), "ts": TIMES[::3]})
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
    "until": lambda same, now: f"select case_id, id from events i where ts - {now('i')} <= interval 30 minutes",
    "a_month_ago": lambda same, now: f"select case_id, id from events i where ts >= {now('i')} - interval 1 month",
    "local": lambda same, now: f"select case_id, id from events i where n < cast({now('i')} as timestamp_ntz)",
    "from_a_day_on": lambda same, now: (
        f"select case_id, id from events i where {now('i')} > timestamp'2030-07-01 12:00:00'"
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


def moving(rng: random.Random, steps: History) -> History:
    """The history with each of its commits in its time: rows about their history's noon, the clock never going back."""
    last, commit = START, 0
    moved = []
    for step in steps:
        transactions = []
        for transaction in step:
            base = PERIOD * (commit // COMMITS)
            changes = []
            for change in transaction:
                if change.table != NOW.name:
                    row = tuple(v + base if isinstance(v, datetime.date) else v for v in change.row)
                    changes.append(replace(change, row=row))
                    continue
                last = max(last, START + base + HOUR * rng.randint(-8, 8) / 4)
                changes.append(Change(NOW.name, INSERT, (0, last)))
            transactions.append(tuple(changes))
            commit += 1
        moved.append(tuple(transactions))
    return tuple(moved)


def written(judged: bool) -> Mapping[str, str]:
    def same(alias: str) -> str:
        return f"{alias}.case_id = i.case_id" if judged else "true"

    def now(alias: str) -> str:
        return (
            f"(select c.now from `{CLOCK.name}` c where c.one = {alias}.case_id)" if judged else "current_timestamp()"
        )

    return {name: template(same, now) for name, template in TEMPLATES.items()}


@pytest.mark.spark
def test_views_of_the_clock_equal_batch_at_the_last_tick(spark: Any, tmp_path: Path) -> None:
    tables = (EVENTS, SEEN, NOW)
    queries = written(judged=False)
    rng = random.Random(f"{SEED}/clock")
    plan = chain(rng, (EVENTS.name, SEEN.name), HISTORIES)
    steps = moving(rng, history(rng, (EVENTS, SEEN, NOW, NOW), plan))
    hold_history(spark, tmp_path, Operator("clock", tables, queries, judges=written(judged=True)), plan, steps)


KEPT = {"today": 0, "by_day": 0, "from_a_day_on": 1}  # how many thresholds keep what they pass; others none


@pytest.mark.spark
def test_what_the_clock_has_passed_is_not_kept(spark: Any) -> None:
    views = [ViewDefinition(name, sql) for name, sql in written(judged=False).items()]
    found = Compiler(spark).compile({t.name: t.relation for t in (EVENTS, SEEN)}, views, {}).views
    for name, view in found.items():
        thresholds = [n for n in view.root.walk() if isinstance(n, Threshold)]
        assert sum(not n.passes for n in thresholds) == KEPT.get(name, 0), name
        assert bool(thresholds) == (name not in ("today", "by_day")), name
