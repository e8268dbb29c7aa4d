"""The rows of a view are shown exact, in one order, with copies written out, and cannot steer a terminal.

Method: Arrow tables and expected values written by hand; for a view's own order a project that is run.
"""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import typer

import warm_command
from headrace.cli import contents, display
from headrace.cli.commands import watch
from headrace.formats.json_tables import table_json, value
from headrace.model.schema import Column, ViewSchema
from headrace.model.view_step import ViewStep
from headrace.serve.watched import changes

COLUMNS = (Column("region", "string"), Column("n", "bigint"), Column("tags", "array<string>"))
TABLE = pa.table({
    "region": ["south", None, "north", "north"],
    "n": [1, 2, 3, None],
    "tags": [["a"], None, [], ["b", "c"]],
    "_w": [1, 1, 3, 1],
})  # fmt: skip
NONE: list[str] = []


def shown(order_by: list[str], limit: int | None = None, key: Any = (), order: Any = ()) -> list[tuple[Any, Any]]:
    rows, total = contents.ordered(TABLE, ViewSchema("v", 1, COLUMNS, key, order), order_by, limit)
    assert total == 6
    assert rows.column_names == ["region", "n", "tags"]
    return list(zip(rows["region"].to_pylist(), rows["n"].to_pylist(), strict=True))


def test_copies_are_written_out_in_the_order_of_the_columns() -> None:
    assert shown(NONE) == [(None, 2), ("north", None), ("north", 3), ("north", 3), ("north", 3), ("south", 1)]


def test_the_order_asked_for_wins_over_the_views_own_and_that_over_its_key() -> None:
    assert [n for _, n in shown(["n:desc"])] == [3, 3, 3, 2, 1, None]
    assert [n for _, n in shown(["REGION:desc", "n"])] == [1, None, 3, 3, 3, 2]
    assert [n for _, n in shown(NONE, order=("n desc nulls last",))] == [3, 3, 3, 2, 1, None]
    assert [n for _, n in shown(NONE, order=("n desc nulls first",))] == [None, 3, 3, 3, 2, 1]
    assert [n for _, n in shown(NONE, order=("REGION asc nulls last", "n asc nulls last"))] == [3, 3, 3, None, 1, 2]
    assert shown(NONE, order=("hidden asc nulls first", "n desc nulls last")) == shown(NONE)
    assert [n for _, n in shown(NONE, key=("n",))] == [None, 1, 2, 3, 3, 3]


@pytest.mark.spark
def test_a_view_that_ends_in_an_order_is_shown_in_it(tmp_path: Path) -> None:
    expected: dict[str, list[int | None]] = {
        "s DESC": [95, 40, 12, None],
        "2": [None, 12, 40, 95],
        "s NULLS LAST": [12, 40, 95, None],
        "s DESC NULLS FIRST": [None, 95, 40, 12],
    }
    assert warm_command.run(tmp_path, "init", "--template", "files").returncode == 0
    for number, order in enumerate(expected):
        text = f"SELECT page, nullif(seconds, 7) AS s FROM visits ORDER BY {order}"
        (tmp_path / f"views/v{number}.sql").write_text(text)
    done = warm_command.run(tmp_path, "up", "--once")
    assert done.returncode == 0, done.stdout + done.stderr
    for number, (order, values) in enumerate(expected.items()):
        done = warm_command.run(tmp_path, "show", f"v{number}", "--json")
        assert done.returncode == 0, done.stderr
        assert [s for _, s in json.loads(done.stdout)["rows"]] == values, order


def test_a_limit_counts_copies() -> None:
    assert shown(["n:desc"], limit=4) == [("north", 3), ("north", 3), ("north", 3), (None, 2)]
    assert shown(NONE, limit=0) == []


def test_many_copies_beyond_a_limit_are_not_written_out() -> None:
    table = TABLE.set_column(3, "_w", pa.array([1, 1, 1 << 50, 1], pa.int64()))
    rows, total = contents.ordered(table, ViewSchema("v", 1, COLUMNS, ()), NONE, 4)
    assert (rows["n"].to_pylist(), total) == ([2, None, 3, 3], (1 << 50) + 3)


def test_the_same_contents_look_the_same_in_whatever_order_they_come() -> None:
    schema = ViewSchema("v", 1, COLUMNS)
    one, _ = contents.ordered(TABLE, schema, ["region"], None)
    other, _ = contents.ordered(TABLE.take([3, 1, 0, 2]), schema, ["region"], None)
    assert one.to_pylist() == other.to_pylist()


def test_null_nan_and_infinities_stand_where_spark_puts_them() -> None:
    values = [1.0, float("nan"), None, float("-inf"), float("inf")]
    table = pa.table({"x": values, "_w": [1] * 5})
    schema = ViewSchema("v", 1, (Column("x", "double"),))
    up = [str(x) for x in contents.ordered(table, schema, ["x"], None)[0]["x"].to_pylist()]
    assert up == ["None", "-inf", "1.0", "inf", "nan"]
    down = [str(x) for x in contents.ordered(table, schema, ["x:desc"], None)[0]["x"].to_pylist()]
    assert down == up[::-1]


def test_an_empty_view_has_its_columns() -> None:
    rows, total = contents.ordered(TABLE.slice(0, 0), ViewSchema("v", 1, COLUMNS), NONE, None)
    assert (rows.num_rows, rows.column_names, total) == (0, ["region", "n", "tags"], 0)


@pytest.mark.parametrize(("text", "said"), [("regoin", "did you mean 'region'?"), ("n:down", "COLUMN:desc")])
def test_a_wrong_order_is_named(text: str, said: str) -> None:
    with pytest.raises(typer.BadParameter, match=said.replace("?", r"\?")):
        shown([text])


def test_csv_has_the_same_text_for_a_value_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    table = pa.table({
        "text": ['say "hi"\nthere, all', None, ""],
        "d": pa.array([Decimal("1.50"), None, Decimal("-0.25")]),
        "b": [True, False, None],
        "l": [["x"], None, []],
    })  # fmt: skip
    contents.write_csv(table)
    assert list(csv.reader(io.StringIO(capsys.readouterr().out))) == [
        ["text", "d", "b", "l"],
        ['say "hi"\nthere, all', "1.50", "true", '["x"]'],
        ["", "", "false", ""],
        ["", "-0.25", "", "[]"],
    ]


def test_csv_keeps_line_ends_of_every_kind_in_their_cell(capsys: pytest.CaptureFixture[str]) -> None:
    cells = ["a\rb", "a\r\nb", "a\nb", "\r", "plain"]
    contents.write_csv(pa.table({"text": cells, "n": range(len(cells))}))
    out = capsys.readouterr().out
    assert [row[0] for row in csv.reader(io.StringIO(out, newline=""))] == ["text", *cells]
    assert out.startswith("text,n\n") and out.endswith("plain,4\n")


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (Decimal("1E+3"), "1000"),
        (Decimal("0.000000001"), "0.000000001"),
        (2**62, 2**62),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (0.1, 0.1),
        (True, True),
        (datetime(2026, 3, 1, 8, 0, 0, 5, tzinfo=UTC), "2026-03-01T08:00:00.000005Z"),
        (datetime(2026, 3, 1, 8), "2026-03-01T08:00:00"),
        (date(1, 1, 1), "0001-01-01"),
        (timedelta(days=1, seconds=2, microseconds=500_000), "P1DT2.5S"),
        (timedelta(0), "PT0S"),
        (timedelta(days=-2), "-P2D"),
        (b"\x00\xff", "AP8="),
        ({"a": Decimal("1.0"), "b": [float("inf")]}, {"a": "1.0", "b": ["Infinity"]}),
        ([(1, Decimal(2))], [[1, "2"]]),
    ],
)
def test_json_values_lose_nothing(cell: Any, expected: Any) -> None:
    assert value(cell) == expected
    assert json.loads(json.dumps(value(cell), allow_nan=False)) == expected


def test_a_table_as_json_keeps_columns_of_the_same_name() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array(["x"])], names=["a", "a"])
    assert table_json(table) == {
        "columns": [{"name": "a", "type": "bigint"}, {"name": "a", "type": "string"}],
        "rows": [[1, "x"]],
    }


def test_text_cannot_steer_the_terminal() -> None:
    assert display.plain("a\x1b[31m\x07\n\u202eb\x9b") == "a\\u001b[31m\\u0007\\n\\u202eb\\u009b"
    assert display.cell({"k": "\x1b"}) == '{"k": "\\u001b"}'


def test_a_change_is_a_line_and_what_goes_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    delta = pa.table({"region": ["north", "north", "s\nth"], "n": [4, 3, None], "_w": [1, -1, 2]})
    watch._tell(ViewStep("change", 1042, changes(delta)), json=False)
    assert capsys.readouterr().out.splitlines() == [
        "    1042 - region=north  n=3",
        "    1042 + region=north  n=4",
        "    1042 + region=s\\nth  n=NULL  (x2)",
    ]
    watch._tell(ViewStep("change", 1042, changes(delta)), json=True)
    assert json.loads(capsys.readouterr().out) == {
        "commit": 1042,
        "snapshot": False,
        "changes": [
            {"weight": -1, "row": {"region": "north", "n": 3}},
            {"weight": 1, "row": {"region": "north", "n": 4}},
            {"weight": 2, "row": {"region": "s\nth", "n": None}},
        ],
    }
