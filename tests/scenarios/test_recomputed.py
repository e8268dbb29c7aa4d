"""Goal: `headrace show VIEW --at` answers for any commit of the log, beside a running project and without one, and says how.

Method: the commands. Transactions are pushed over HTTP and kept in plain dicts, one a commit; a view that is made
later, and edited, is asked for what its query gives over each of them.
"""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest
from test_retention import headrace, up

import warm_command
from project_folder import ProjectFolder

TABLES = {"orders": {"columns": {"id": "int not null", "region": "string", "amount": "int"}, "key": "id"}}
SUMS = "SELECT region, sum(amount) AS t FROM orders GROUP BY region"


def sums(orders: dict[int, tuple[str, int]], more: int = 0) -> list[list[Any]]:
    regions = sorted({region for region, _ in orders.values()})
    return [[r, sum(amount + more for region, amount in orders.values() if region == r)] for r in regions]


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_view_as_of_commits_before_it_was_made(project: ProjectFolder) -> None:
    project.source("shop", "http", port=0, tables=TABLES)
    project.view("all_orders", "SELECT * FROM orders")
    orders: dict[int, tuple[str, int]] = {}
    held: dict[int, dict[int, tuple[str, int]]] = {}
    asked = ["show", "sums", "--order-by", "region", "--at"]
    with up(project.path) as (endpoint, _):
        token = (project.path / ".headrace/tokens/shop").read_text().strip()
        for n in range(6):
            orders[n % 4] = ("ab"[n % 2], 10 * n)
            row = {"id": n % 4, "region": orders[n % 4][0], "amount": orders[n % 4][1]}
            body = json.dumps({"changes": [{"table": "orders", "op": "upsert", "row": row}]}).encode()
            request = urllib.request.Request(f"{endpoint}/transactions", body, {"Authorization": f"Bearer {token}"})
            with urllib.request.urlopen(request, timeout=30) as answer:
                held[int(json.loads(answer.read())["commit"])] = dict(orders)
        headrace(project.path, "wait", "--token", str(max(held)), "--timeout", "180")
        project.view("sums", SUMS)
        headrace(project.path, "apply")
        for commit in (min(held), max(held) - 1):
            found = headrace(project.path, *asked, str(commit))
            assert (found["rows"], found["commit"], found["recomputed"]) == (sums(held[commit]), commit, True)
            assert (found["clock"], found["version"]) == (None, 1)
        made = headrace(project.path, "show", "sums")["commit"]  # the definition is a commit of its own
        now = headrace(project.path, *asked, str(made))
        assert (now["rows"], "recomputed" in now) == (sums(held[max(held)]), False)
        project.view("sums", SUMS.replace("sum(amount)", "sum(amount + 1)"))
        headrace(project.path, "apply")
    first, last = min(held), max(held)
    done = warm_command.run(project.path, *asked, first + 2, "--csv")
    wanted = sums(held[first + 2], more=1)
    assert done.stdout.splitlines() == ["region,t", *(f"{region},{total}" for region, total in wanted)]
    assert f"recomputed: sums as it is defined now, over the log up to commit {first + 2} (" in done.stderr
    assert headrace(project.path, *asked, str(last + 99), status=1)["error"]["code"] == "view.not_at"
    assert headrace(project.path, "verify")["differences"] == 0
