"""Goal: first contents of more rows than a task may have in memory are made by as many tasks as it takes, and are the
same. Method: step_rows of 100 over 3,000 rows and their changes. Oracles: Spark batch; the same in one task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from running_case import Case, Running, running

from headrace.circuit.build import TABLE
from waiting import until

TABLES = {
    "orders": {"columns": {"id": "bigint", "customer": "bigint", "amount": "decimal(12,2)"}, "key": "id"},
    "customers": {"columns": {"id": "bigint", "name": "string"}, "key": "id"},
    "clicks": {"columns": {"page": "string", "seen": "bigint"}},
}
VIEWS = {
    "copied": "select id, amount * 2 twice from orders where amount > 3",
    "by_customer": "select c.name, count(*) n, sum(o.amount) total from orders o join customers c on c.id = o.customer"
    " group by c.name",
    "best": "select id, customer, amount from (select *, row_number() over (partition by customer order by amount desc, id)"
    " r from orders) where r <= 2",
    "pages": "select page, count(distinct seen) n, max(seen) last from clicks group by page",
    "missing": "select c.id from customers c left anti join orders o on o.customer = c.id",
    "all_of_it": "select count(*) n, sum(total) s from by_customer",
}
# A subquery in two places of one circuit, and one that Spark alone groups beside one that has a row over nothing.
IN_PARTS = {
    "neighbours": "with m as (select customer, max(amount) hi, count(distinct amount) n, sum(amount) total from orders"
    " group by customer) select a.customer, a.hi, b.hi other, a.total, b.n from m a join m b on b.customer = a.customer + 1",
    "met": "with m as (select id, name from customers c left semi join orders o on o.customer = c.id)"
    " select a.id, b.name from m a join m b on b.id = a.id + 1",
    "above": "select customer, sort_array(collect_list(amount)) l from orders group by customer"
    " having max(amount) > (select avg(amount) from orders)",
    "all_above": "select sort_array(collect_list(n)) l from (select customer, count(*) n from orders group by customer)",
}
ROWS = 3_000


def transactions() -> Iterator[dict[str, Any]]:
    yield {"customers": {"insert": [[n, f"name {n}"] for n in range(60)]}}
    for first in range(0, ROWS, 500):
        orders = [[n, n * 7 % 50, f"{n % 900}.25"] for n in range(first, first + 500)]
        yield {
            "orders": {"insert": orders},
            "clicks": {"insert": [[f"p{n % 40}", n % 11] for n in range(first, first + 500)]},
        }
    yield {"orders": {"delete": [[n] for n in range(0, 200, 3)], "update": [{"id": 1, "customer": 55}]}}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Running]:
    case = Case("large", TABLES, VIEWS, (), {view: Counter() for view in VIEWS}, 0, "")
    with running(case, tmp_path / "large") as made:
        made.define({})
        made.push(*transactions())
        yield made


def test_first_contents_beyond_a_task_are_those_of_one(project: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, written = project.pipeline.maintainer.kept, list[Path]()
    add = kept.add

    def noted(files: Iterable[Path]) -> None:
        written.extend(given := list(files))
        add(given)

    monkeypatch.setattr(kept, "add", noted)

    def rows(arrangement: str) -> list[int]:
        """Of each run that the tasks of a first step wrote."""
        names = [path.stem.split("~") for path in written]
        return [int(name[3]) for name in names if name[0] == arrangement]

    project.define(VIEWS)
    alone = project.all_contents()
    assert rows(TABLE + "orders") == [ROWS - 67]
    project.define({})
    written.clear()
    backfill = project.pipeline.maintainer.backfill
    backfill.settings = replace(backfill.settings, step_rows=100)
    project.define(VIEWS)
    orders = rows(TABLE + "orders")
    assert len(orders) == 8 and sum(orders) == ROWS - 67 and max(orders) < 450
    others = Counter(path.name.split("~")[0] for path in written)
    assert len([name for name, tasks in others.items() if tasks >= 8]) >= 4, others
    assert project.all_contents() == alone
    assert sum(alone["copied"].values()) > 2_900 and len(alone["best"]) == 101
    project.verify()
    project.push({"orders": {"delete": [[5]], "insert": [[9_000, 3, "17.00"]]}})
    project.step()
    project.verify()


def test_what_is_merged_meanwhile_is_on_the_disk_once(project: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, written, left = project.pipeline.maintainer.kept, list[Path](), list[Path]()
    add, filling = kept.add, kept.filling

    def noted(files: Iterable[Path]) -> None:
        written.extend(given := [path for path in files if not path.name.startswith(TABLE)])
        add(given)

    @contextmanager
    def until_merged() -> Iterator[None]:
        with filling():
            monkeypatch.setattr(kept, "add", noted)  # tables are there, and views to be made
            yield
            while kept.merge():
                pass
            until(lambda: not replaced())  # what merges beside replaced it may be about to delete
            left.extend(path for path in written if path.exists())

    def replaced() -> list[Path]:
        """What is on the disk still, and live no more."""
        live = {path for paths in kept.paths().values() for path in paths}
        return [path for path in written if path.exists() and str(path) not in live]

    monkeypatch.setattr(kept, "filling", until_merged)
    backfill = project.pipeline.maintainer.backfill
    backfill.settings = replace(backfill.settings, step_rows=100)
    project.define(VIEWS)
    assert len(written) >= len(left) + 32
    project.verify()


def test_what_the_tasks_of_a_first_step_keep_is_kept_once(project: Running) -> None:
    """Else the greatest value of a group outlives its row, and what a group was shown as its next change."""
    backfill = project.pipeline.maintainer.backfill
    backfill.settings = replace(backfill.settings, step_rows=100)
    project.define(IN_PARTS)
    project.verify()
    for first in range(ROWS - 200, ROWS, 25):
        project.push({"orders": {"delete": [[n] for n in range(first, first + 25)]}})
        project.step()
        project.verify()
    project.push({"orders": {"delete": [[n] for n in range(ROWS)]}})
    project.step()
    project.verify()
    assert project.contents("all_above") == Counter([("[]",)]) and not project.contents("above")
