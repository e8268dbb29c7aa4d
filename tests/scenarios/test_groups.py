"""Goal: groups over a table and a view of a project at work give each pushed transaction once, and an edited view anew.

Method: the product in this process, transactions pushed into it, readers from Python and over HTTP; what they add up is held
against what was pushed.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import httpx
import pytest

import headrace
from headrace.catalog.project import read
from project_folder import ProjectFolder


def order(id: int) -> dict[str, Any]:
    return {"table": "orders", "op": "insert", "row": {"id": id, "region": id % 3, "amount": id * 10}}


@pytest.mark.spark
def test_a_table_and_a_view_of_a_project_at_work(project: ProjectFolder) -> None:
    project.settings()
    columns = {"id": "bigint", "region": "int", "amount": "bigint"}
    project.source("shop", "http", port=0, tables={"orders": {"columns": columns, "key": "id"}})
    project.view("revenue", "select region, sum(amount) total from orders group by region")
    held: Counter[tuple[int, int]] = Counter()

    def take(delivery: Any) -> None:
        if delivery.snapshot:
            held.clear()
        for change in delivery.changes:
            row = change["row"]
            held[row["region"], row.get("total", row.get("least"))] += change["weight"]

    with headrace.open(project.path) as shop:
        for id in range(1, 4):
            shop.push("shop", [order(id)])
        shop.wait_for(shop.push("shop", [order(4), order(5)]), view="revenue")
        table = shop.groups.subscribe("billing", "orders")
        view = shop.groups.subscribe("mirror", "revenue")
        first = view.read()[0]
        take(first)
        assert (first.snapshot, +held) == (True, Counter({(0, 30): 1, (1, 50): 1, (2, 70): 1}))
        assert view.ack(first) == 1
        found = table.read(10)
        assert [[change["row"]["id"] for change in d.changes] for d in found] == [[1], [2], [3], [4, 5]]
        table.ack(*found)
        shop.wait_for(shop.push("shop", [order(6)]), view="revenue")
        (step,) = view.read(10, 10)
        take(step)
        view.ack(step)
        assert +held == Counter({(0, 90): 1, (1, 50): 1, (2, 70): 1})
        source = shop.sources["shop"]
        token = (project.path / ".headrace/tokens/shop.read").read_text().strip()
        answer = httpx.post(
            f"{source.endpoint()['endpoint']}/groups/billing/read",
            json={"wait": 20}, headers={"Authorization": f"Bearer {token}"}, timeout=60,
        )  # fmt: skip
        assert [change["row"]["id"] for change in answer.json()["deliveries"][0]["changes"]] == [6]
        project.view("revenue", "select region, min(amount) least from orders group by region")
        shop.apply(read(project.path))
        (anew,) = view.read(10, 10)
        take(anew)
        assert (anew.snapshot, +held) == (True, Counter({(0, 30): 1, (1, 10): 1, (2, 20): 1}))
    with headrace.subscribe("mirror", project=project.path) as later:  # the product has stopped
        assert (later.read(), later.ack(anew)) == ([], 1)
