"""Goal: a row of which a view's SQL would make more than there is room for fails that view, by its name; the others go on.

Method: a view with a call whose size is bounded, one that needs more than the heap though no call has a bound, and one
that asks for nothing. One row asks for too much; its deletion heals them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from failing_case import named, reason, rows, state, stepped, until_live
from running_case import Case, running

pytestmark = pytest.mark.spark

TABLES = {"asked": {"columns": {"id": "int not null", "n": "int"}, "key": "id"}}
VIEWS = {
    "repeated": "SELECT id, length(repeat('ab', n)) AS made FROM asked",
    "doubled": """SELECT id, length(aggregate(sequence(1, n), 'a', (text, x) -> concat(text, text))) AS made
        FROM asked WHERE n < 50""",
    "counted": "SELECT count(*) AS n FROM asked",
}


def test_a_row_that_asks_for_too_much_fails_the_views_that_would_make_it(spark: Any, tmp_path: Path) -> None:
    with running(Case("asked", TABLES, VIEWS, (), {}), tmp_path / "p") as shop:
        shop.define()
        stepped(shop, {"asked": {"insert": [[1, 3]]}})
        stepped(shop, {"asked": {"insert": [[2, 2_000_000_000], [3, 40]]}})
        assert state(shop) == {"repeated": "failed", "doubled": "failed", "counted": "live"}
        assert shop.contents("counted") == rows((3,))
        assert [row and row["id"] for view in ("repeated", "doubled") for row in named(shop, view)] == [2, 3]
        assert "would make a value of more than 16 MiB of this row" in reason(shop, "repeated")
        assert "needs more memory than `driver_memory`" in reason(shop, "doubled")
        stepped(shop, {"asked": {"delete": [[2], [3]]}})
        until_live(shop)
        shop.verify()
