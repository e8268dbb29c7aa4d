"""Goal: a table that is given other columns is made anew, and views that do not use what changed go on as they were.

Method: pipelines stepped by hand, whose source is declared otherwise; Spark batch over the log is the judge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from failing_case import reason, rows, state
from running_case import SOURCE, Case, Running, running

from headrace.model.altered import ALTERED
from headrace.model.definition import SourceDefinition
from headrace.model.errors import HeadraceError
from headrace.model.transaction import INSERT, TransactionBatch, TransactionOrigin
from headrace.serve import snapshot

pytestmark = pytest.mark.spark

COLUMNS = {"id": "int not null", "junk": "int", "owner": "string"}


def declare(shop: Running, columns: Mapping[str, str]) -> None:
    tables: dict[str, Mapping[str, Any]] = {"t": {"columns": dict(columns), "key": "id"}}
    shop.case = replace(shop.case, tables=tables)
    source = SourceDefinition(SOURCE, "http", {"listen": False, "tables": tables})
    shop.project = replace(shop.project, sources=(source,))


def test_columns_that_go_come_and_move_leave_the_other_views_as_they_are(spark: Any, tmp_path: Path) -> None:
    case = Case("altered", {"t": {"columns": COLUMNS, "key": "id"}}, {}, (), {})
    with running(case, tmp_path / "altered") as shop:
        views = {
            "owned": "SELECT id, owner FROM t",
            "paired": "SELECT a.id, b.owner FROM t a JOIN t b ON a.id = b.id",
            "twice": "SELECT owner, count(*) AS n FROM t GROUP BY owner",
        }
        shop.define(views)
        shop.push({"t": {"insert": [[1, 7, "a"], [2, 8, "b"]]}})
        shop.push({"t": {"update": [{"id": 1, "owner": "c"}]}})
        shop.step()
        declare(shop, {"id": "int not null", "owner": "string", "extra": "bigint"})
        shop.define()
        assert [r.schema.version for r in shop.pipeline.catalog.views().values()] == [1, 1, 1]
        assert shop.contents("owned") == rows((1, "c"), (2, "b"))
        shop.push({"t": {"update": [{"id": 2, "extra": 5}], "insert": [[3, "d", 6]]}})
        shop.step()
        assert shop.contents("owned") == shop.contents("paired") == rows((1, "c"), (2, "b"), (3, "d"))
        shop.verify()
        shop.reopen()
        shop.define({**views, "extras": "SELECT id, extra FROM t"})
        assert shop.contents("extras") == rows((1, None), (2, 5), (3, 6))
        shop.push({"t": {"delete": [[1]], "update": [{"id": 3, "owner": "e"}]}})
        shop.step()
        assert shop.contents("extras") == rows((2, 5), (3, 6))
        assert shop.contents("twice") == rows(("b", 1), ("e", 1))
        shop.verify()


def test_a_type_becomes_wider_but_no_other(spark: Any, tmp_path: Path) -> None:
    with running(Case("altered", {"t": {"columns": COLUMNS, "key": "id"}}, {}, (), {}), tmp_path / "altered") as shop:
        shop.define({"sums": "SELECT owner, sum(junk) AS n FROM t GROUP BY owner"})
        shop.push({"t": {"insert": [[1, 7, "a"], [2, 8, "a"]]}})
        shop.step()
        declare(shop, {**COLUMNS, "owner": "int"})
        with pytest.raises(HeadraceError, match="column owner was string and cannot become int"):
            shop.define()
        declare(shop, {**COLUMNS, "junk": "bigint"})
        shop.define()
        shop.push({"t": {"insert": [[3, 2**40, "a"]]}})
        shop.step()
        assert shop.contents("sums") == rows(("a", 2**40 + 15))
        shop.verify()


def tell(shop: Running, *rows_of: tuple[str, str]) -> int:
    """A commit in which table t loses columns, as a source would write it: (column, statement)."""
    head = {"_t": pa.array([0] * len(rows_of), pa.int32()), "_op": pa.array([INSERT] * len(rows_of), pa.int8())}
    values = (["t"] * len(rows_of), [c for c, _ in rows_of], [s for _, s in rows_of])
    columns = {c.name: pa.array(v) for c, v in zip(ALTERED.columns, values, strict=True)}
    batch = TransactionBatch(
        (TransactionOrigin("server", "altered", 0),), {ALTERED.name: pa.table({**head, **columns})}
    )
    return shop.pipeline.log.append(batch)


def test_views_that_use_what_is_lost_stop_at_its_commit_and_come_back_with_it(spark: Any, tmp_path: Path) -> None:
    """Killed after each step; also with commits before and after in one step's worth of log."""
    with running(Case("altered", {"t": {"columns": COLUMNS, "key": "id"}}, {}, (), {}), tmp_path / "altered") as shop:
        views = {
            "owned": "SELECT id, owner FROM t",
            "junked": "SELECT junk, count(*) AS n FROM t GROUP BY junk",
            "above": "SELECT sum(n) AS n FROM junked",
        }
        shop.define(views)
        shop.push({"t": {"insert": [[1, 7, "a"]]}})
        shop.step()
        before = shop.push({"t": {"insert": [[2, 8, "b"]]}})
        at = tell(shop, ("junk", "table t changed: column junk is gone (by ALTER TABLE t DROP COLUMN junk)"))
        shop.push({"t": {"insert": [[3, None, "c"]]}})
        while shop.pipeline.maintainer.step():
            pass
        assert [(s.after, s.upto) for s in shop.pipeline.catalog.steps()][-2:] == [
            (before - 1, before),
            (before, at + 1),
        ]
        for restarted in (False, True):
            if restarted:
                shop.reopen()
            assert state(shop) == {"owned": "live", "junked": "failed", "above": "failed"}
            assert shop.contents("owned") == rows((1, "a"), (2, "b"), (3, "c"))
            assert shop.contents("junked") == rows((7, 1), (8, 1))
            assert shop.contents("above") == rows((2,))
            assert "junked is stopped: table t changed: column junk is gone (by ALTER TABLE" in reason(shop, "junked")
            assert "it reads junked" in reason(shop, "above")
            assert {v["name"]: v["commit"] for v in snapshot.views(shop.folder)} == {
                "owned": at + 1, "junked": before, "above": before
            }  # fmt: skip
            shop.pipeline.apply(shop.project)  # somebody asks: it must not come back without its column
            at = shop.pipeline.maintainer.frontier - 1
            assert state(shop)["junked"] == "failed"
        shop.push({"t": {"insert": [[4, 9, "d"]], "update": [{"id": 3, "junk": 8}]}})
        tell(shop, ("", ""))
        while shop.pipeline.maintainer.step():
            pass
        assert set(state(shop).values()) == {"live"}
        assert shop.contents("junked") == rows((7, 1), (8, 2), (9, 1))
        assert shop.contents("above") == rows((4,))
        shop.verify()
        shop.reopen()
        shop.verify()


def test_an_edited_view_goes_on_without_what_is_lost(spark: Any, tmp_path: Path) -> None:
    with running(Case("altered", {"t": {"columns": COLUMNS, "key": "id"}}, {}, (), {}), tmp_path / "altered") as shop:
        shop.define({"owned": "SELECT id, owner FROM t", "junked": "SELECT id, junk FROM t"})
        shop.push({"t": {"insert": [[1, 7, "a"]]}})
        shop.step()
        tell(shop, ("junk", "table t changed: column junk is gone"))
        shop.step()
        declare(shop, {"id": "int not null", "owner": "string"})
        shop.pipeline.apply(shop.project)
        assert state(shop) == {"owned": "live", "junked": "failed"}
        assert "column junk is gone" in reason(shop, "junked")
        shop.push({"t": {"insert": [[2, "b"]]}})
        shop.step()
        shop.reopen()
        assert state(shop) == {"owned": "live", "junked": "failed"}
        shop.define({"owned": "SELECT id, owner FROM t", "junked": "SELECT id, upper(owner) AS junk FROM t"})
        assert state(shop) == {"owned": "live", "junked": "live"}
        assert shop.contents("junked") == rows((1, "A"), (2, "B"))
        shop.verify()
