"""Goal: `headrace series` and `headrace.series` tell the buckets that the API does, without a JVM.

Method: a view published by hand, small enough that the answers are written down.
"""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import typer
from benchmarks.published import PublishedView

import headrace
import warm_command
from headrace.cli.commands import series as command
from headrace.model.errors import HeadraceError

COMMAND = Path(sys.executable).with_name("headrace")
BY_HOUR = ("series", "Sales", "--time", "at", "--every", "1h")


def at(day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 3, day, hour, minute, tzinfo=UTC)


@pytest.fixture(scope="module")
def sales(tmp_path_factory: pytest.TempPathFactory) -> PublishedView:
    columns = {"id": "bigint", "at": "timestamp", "region": "string", "amount": "decimal(9,2)"}
    made = PublishedView(tmp_path_factory.mktemp("series") / "shop", "sales", columns, ("id",))
    made.publish([
        ((1, at(1, 8), "north", Decimal("1.00")), 1), ((2, at(1, 8, 30), "north", Decimal("2.50")), 1),
        ((3, at(1, 10), "south", Decimal("4.00")), 1), ((4, at(2, 8), "north", Decimal("8.00")), 1),
    ])  # fmt: skip
    made.publish([((5, at(1, 10, 59), "north", Decimal("16.00")), 1)])
    return made


def run(sales: PublishedView, *arguments: str) -> subprocess.CompletedProcess[str]:
    return warm_command.run(sales.folder, *arguments)


def told(sales: PublishedView, *arguments: str) -> dict[str, Any]:
    done = run(sales, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_buckets_are_filled_and_filtered_and_compared(sales: PublishedView) -> None:
    first = told(sales, *BY_HOUR, "--value", "sum(amount)", "--to", "2026-03-01T12:00", "--fill", "zero")
    assert (first["commit"], first["more"], first["stale"]) == (20, False, {})
    assert [(column["name"], column["type"]) for column in first["columns"]] == [
        ("time", "timestamp"), ("value", "decimal(38,2)"),
    ]  # fmt: skip
    hours = [("2026-03-01T08:00:00Z", "3.50"), ("2026-03-01T09:00:00Z", "0.00"), ("2026-03-01T10:00:00Z", "20.00")]
    assert [tuple(row) for row in first["rows"]] == [*hours, ("2026-03-01T11:00:00Z", "0.00")]
    days = ("series", "sales", "--time", "at", "--every", "1d", "--by", "region", "--compare", "1d")
    assert told(sales, *days, "--at", "10")["rows"] == [
        ["2026-03-01T00:00:00Z", "north", 2, None], ["2026-03-01T00:00:00Z", "south", 1, None],
        ["2026-03-02T00:00:00Z", "north", 1, 2], ["2026-03-02T00:00:00Z", "south", None, 1],
    ]  # fmt: skip
    north = told(sales, *BY_HOUR, "--where", "region=eq.north", "--where", "amount=lt.8", "--fill", "none")
    assert north["rows"] == [["2026-03-01T08:00:00Z", 2]]
    berlin = told(sales, "series", "sales", "--time", "at", "--every", "1d", "--zone", "Europe/Berlin", "--limit", "1")
    assert (berlin["rows"], berlin["more"]) == ([["2026-02-28T23:00:00Z", 4]], True)


def test_a_table_and_csv(sales: PublishedView) -> None:
    lines = run(sales, *BY_HOUR, "--fill", "none", "--limit", "2").stdout.splitlines()
    assert lines[0] == "sales at commit 20, by 1h in UTC"
    assert lines[-1] == "2 rows (--limit shows more)"
    csv = run(sales, *BY_HOUR, "--fill", "none", "--csv").stdout.splitlines()
    assert csv == ["time,value", "2026-03-01T08:00:00Z,2", "2026-03-01T10:00:00Z,2", "2026-03-02T08:00:00Z,1"]


def test_a_view_that_has_failed_is_said_to_have(sales: PublishedView) -> None:
    sales.catalog.set_view_state("sales", 1, "failed", "it threw")
    try:
        assert run(sales, *BY_HOUR).stdout.splitlines()[-1] == "view sales has failed: it threw"
    finally:
        sales.catalog.set_view_state("sales", 1, "live")


def test_what_is_wrong_is_told(sales: PublishedView) -> None:
    wrong: tuple[tuple[dict[str, Any], type[Exception], str], ...] = (
        ({"every": "7h"}, HeadraceError, "a day cannot be cut into buckets of 7h"),
        ({"value": "sum(amounts)"}, HeadraceError, "did you mean 'amount'?"),
        ({"where": ["region"]}, typer.BadParameter, "is no COLUMN=OP.VALUE"),
        ({"where": ["region=is"]}, HeadraceError, "is no filter"),
        ({"zone": "Europe/Berlín"}, HeadraceError, "there is no time zone"),
        ({"csv": True, "json": True}, typer.BadParameter, "cannot be given together"),
        ({"view": "sale"}, HeadraceError, "did you mean 'sales'?"),
    )
    for given, kind, text in wrong:
        with pytest.raises(kind) as error:
            command.run(**{"view": "sales", "time": "at", "every": "1h", "project": sales.folder, **given})
        assert text in str(error.value)
    assert run(sales, *BY_HOUR, "--fill", "none", "--every", "7h").returncode == 1


def test_the_same_from_python(sales: PublishedView) -> None:
    found = headrace.series(
        "sales", "at", "1d", "avg(amount)", where={"region": "eq.north"}, compare="1d", project=sales.folder
    )
    assert found.to_pylist() == [
        {"time": at(1, 0), "value": pytest.approx(6.5), "before": None},
        {"time": at(2, 0), "value": 8.0, "before": pytest.approx(6.5)},
    ]
    assert headrace.series("sales", "at", "1y", at=10, project=sales.folder)["value"].to_pylist() == [4]
    with pytest.raises(HeadraceError) as error:
        headrace.series("sales", "id", "1d", project=sales.folder)
    assert error.value.code == "query.filter"
