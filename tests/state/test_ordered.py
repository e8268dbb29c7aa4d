"""Goal: every operation on an ordered arrangement answers as a sorted list of all rows would. Oracle: that list.

Random histories of inserts and deletes, one run a step and random merges, looked at after every step. Rows of one
place have no order of their own: ``between`` shows which one there is; it must be sorted and hold the right rows,
and all other operations must be slices of it. Each history also runs with hashes that nearly always collide and
with rows read one at a time.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import random
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from test_order import compare_rows

from headrace.state import ordered_run, ordered_search
from headrace.state.order import Bounds, Order, SortColumn
from headrace.state.ordered import Groups, OrderedArrangement, merge_runs
from headrace.state.ordered_run import Layout, arrange, is_ordered, merge_ordered, write_ordered
from headrace.state.run import open_run, write_run

Row = tuple[Any, ...]  # key, sort values, a payload
NAN = float("nan")
LARGE = Decimal(10**37) + Decimal(7)

SORTS: dict[str, tuple[list[SortColumn], list[list[Any]]]] = {
    "bigint": ([SortColumn(pa.int64(), nullable=False)], [[-(2**63), -1, 0, 1, 2, 3, 2**63 - 1]]),
    "int desc": ([SortColumn(pa.int32(), descending=True, nulls_last=True)], [[None, -5, 0, 1, 2, 3, 4, 5]]),
    "double": (
        [SortColumn(pa.float64(), nulls_last=True), SortColumn(pa.int64())],
        [[None, NAN, -NAN, 0.0, -0.0, 1.5, float("inf")], [None, -1, 0, 7]],
    ),
    "text": (
        [SortColumn(pa.string(), descending=True), SortColumn(pa.int32())],
        [[None, "", "\0", "a", "a\0", "a" * 9, "a" * 40, "b"], [None, 0, 1]],
    ),
    "long text": ([SortColumn(pa.string())], [[None, "x" * 100, "x" * 100 + "\0", "x" * 101, "x"]]),
    "decimal": ([SortColumn(pa.decimal128(38, 2), nullable=False)], [[Decimal(-1), Decimal(0), LARGE / 100]]),
}
PAYLOADS = [None, NAN, 0.0, -0.0, 1.0]
AMOUNTS = [None, -(2**63), 2**63 - 1, 5, -7]
PRICES = [None, LARGE, -LARGE, Decimal(3)]
KEYS = [None, "a", "b", "c", "d"]


class Judge:
    """A sorted list of the rows of each key, and the runs that should say the same."""

    def __init__(self, folder: Path, chooser: random.Random, sorts: list[SortColumn], values: list[list[Any]]) -> None:
        self.folder, self.chooser, self.sorts, self.values = folder, chooser, sorts, values
        self.names = [f"s{n}" for n in range(len(sorts))]
        content = [("k", pa.string()), *((n, s.type) for n, s in zip(self.names, sorts, strict=True))]
        content += [("p", pa.float64()), ("n", pa.int64()), ("d", pa.decimal128(38, 0)), ("q", pa.int16())]
        self.layout = Layout(pa.schema(content), Order(tuple(sorts)), ("k",))
        self.live: list[Row] = []
        self.paths: list[str] = []
        self.files = 0

    def row(self) -> Row:
        pick = self.chooser.choice
        sort = [
            pick([v for v in vs if v is not None or s.nullable]) for vs, s in zip(self.values, self.sorts, strict=True)
        ]
        return (pick(KEYS), *sort, pick(PAYLOADS), pick(AMOUNTS), pick(PRICES), pick([None, 1, -2]))

    def changes(self) -> list[tuple[Row, int]]:
        """Some inserts and deletes, applied to the list."""
        found: list[tuple[Row, int]] = []
        for _ in range(self.chooser.choice([0, 1, 3, 10, 25])):
            if self.live and self.chooser.random() < 0.45:
                found.append((self.live.pop(self.chooser.randrange(len(self.live))), -1))
            else:
                row = self.chooser.choice(self.live) if self.live and self.chooser.random() < 0.3 else self.row()
                copies = self.chooser.choice([1, 1, 1, 3])
                self.live += [row] * copies
                found.append((row, copies))
        return found

    def table(self, changes: list[tuple[Row, int]]) -> pa.Table:
        columns = [pa.array([row[n] for row, _ in changes], f.type) for n, f in enumerate(self.layout.content)]
        table = pa.table(columns, schema=self.layout.content)
        hashes = [self.hash(row[0]) for row, _ in changes]
        places = self.layout.order.encode([table[name] for name in self.names])
        own = {"_o": places, "_w": pa.array([w for _, w in changes], pa.int64()), "_h": pa.array(hashes, pa.int64())}
        for name, column in own.items():
            table = table.append_column(name, column)
        for name, values in self.added(changes).items():
            if any(values):  # a table has what it needs
                table = table.append_column(name, pa.array(values, pa.int64()))
        return table

    @staticmethod
    def added(changes: list[tuple[Row, int]]) -> dict[str, list[int]]:
        """What is added up: how often the second last but one value is there, and the last one."""
        counts = [w * (row[-3] is not None) for row, w in changes]
        return {"_s0": counts, "_s1": [w * (row[-1] or 0) for row, w in changes]}

    @staticmethod
    def hash(key: str | None) -> int:
        return -5 if key in (None, "a", "b") else 3  # keys collide, always

    def path(self) -> Path:
        self.files += 1
        return self.folder / f"{self.files}.arrow"

    def keep(self, changes: list[tuple[Row, int]]) -> None:
        path = self.path()
        if write_ordered(path, self.table(changes), self.layout) or self.chooser.random() < 0.5:
            self.paths.append(str(path))
        if len(self.paths) > 1 and self.chooser.random() < 0.5:
            start = self.chooser.randrange(len(self.paths) - 1)
            merged = merge_runs([open_run(path) for path in self.paths[start:]])
            path = self.path()
            write_run(path, merged)
            self.paths[start:] = [str(path)]

    def groups(self, keys: list[str | None], more: pa.Table | None = None) -> Groups:
        hashes = np.array([self.hash(key) for key in keys], np.int64)
        return OrderedArrangement(self.paths, self.layout, "").groups(hashes, [pa.array(keys, pa.string())], more)

    def sort_values(self, row: Row) -> Row:
        return row[1 : 1 + len(self.sorts)]

    def compare(self, a: Row, b: Row) -> int:
        return compare_rows(self.sort_values(a), self.sort_values(b), self.sorts)


def rows_of(found: ordered_search.Found, size: int) -> list[list[Row]]:
    """The rows of each query, each as often as its weight says; NaN and -0.0 as texts that can be compared."""
    result: list[list[Row]] = [[] for _ in range(size)]
    for query, weight, row in zip(found.queries, found.weights, found.rows.to_pylist(), strict=True):
        assert weight > 0
        result[query] += [comparable(tuple(row.values()))] * int(weight)
    assert (np.diff(found.queries) >= 0).all()
    return result


def comparable(row: Row) -> Row:
    return tuple(repr(abs(v) if v != v else v) if isinstance(v, float) else v for v in row)


def check(judge: Judge, expected: list[list[Row]], groups: Groups) -> None:
    """All operations at once; ``expected[i]`` are the rows that query i should see, in any order."""
    chooser, size = judge.chooser, len(expected)
    whole = groups.between()
    shown = rows_of(whole, size)
    assert [Counter(rows) for rows in shown] == [Counter(map(comparable, rows)) for rows in expected]
    plain: list[list[Row]] = [[] for _ in expected]
    for query, weight, row in zip(whole.queries, whole.weights, whole.rows.to_pylist(), strict=True):
        plain[query] += [tuple(row.values())] * int(weight)
    for rows in plain:
        assert all(judge.compare(a, b) <= 0 for a, b in itertools.pairwise(rows))
    assert groups.count().tolist() == [len(rows) for rows in expected]
    for k in (1, 2, chooser.randrange(1, 30)):
        assert rows_of(groups.first(k), size) == [rows[:k] for rows in shown]
        assert rows_of(groups.last(k), size) == [rows[::-1][:k] for rows in shown]
    some = np.array([chooser.randrange(0, 6) for _ in expected])
    assert rows_of(groups.first(some), size) == [rows[:k] for rows, k in zip(shown, some, strict=True)]
    positions = np.array([chooser.randrange(-1, 12) for _ in expected])
    assert rows_of(groups.select(positions), size) == [
        rows[p : p + 1] if p >= 0 else [] for rows, p in zip(shown, positions, strict=True)
    ]
    low, lows = bounds(judge, plain)
    high, highs = bounds(judge, plain)
    assert groups.rank(low).tolist() == lows
    ends = [max(a, b) for a, b in zip(lows, highs, strict=True)]
    slices = [rows[a:b] for rows, a, b in zip(shown, lows, ends, strict=True)]
    assert rows_of(groups.between(low, high), size) == slices
    assert rows_of(groups.between(low), size) == [rows[a:] for rows, a in zip(shown, lows, strict=True)]
    assert groups.count(low, high).tolist() == [len(rows) for rows in slices]
    k = chooser.randrange(1, 8)
    assert rows_of(groups.after(low, k), size) == [rows[a : a + k] for rows, a in zip(shown, lows, strict=True)]
    assert rows_of(groups.before(low, k), size) == [rows[:a][::-1][:k] for rows, a in zip(shown, lows, strict=True)]
    check_totals(groups.totals(low, high), [rows[a:b] for rows, a, b in zip(plain, lows, ends, strict=True)])
    check_totals(groups.totals(), plain)


def bounds(judge: Judge, plain: list[list[Row]]) -> tuple[Bounds, list[int]]:
    """A random cut for each query (of the first or all sort columns), and how many rows lie before it."""
    drawn = [judge.row() for _ in plain]
    length = judge.chooser.randrange(1, len(judge.sorts) + 1)
    after = np.array([judge.chooser.random() < 0.5 for _ in plain])
    columns = [pa.array([row[1 + n] for row in drawn], judge.sorts[n].type) for n in range(length)]
    order = functools.cmp_to_key(lambda a, b: compare_rows(a[:length], b[:length], judge.sorts))
    ranks = []
    for rows, bound, behind in zip(plain, drawn, after, strict=True):
        search: Callable[..., int] = bisect.bisect_right if behind else bisect.bisect_left
        ranks.append(search([order(judge.sort_values(r)) for r in rows], order(judge.sort_values(bound))))
    return judge.layout.order.bounds(columns, after), ranks


def check_totals(totals: dict[str, np.ndarray], slices: list[list[Row]]) -> None:
    for name in ("_s0", "_s1"):
        expected = [sum(Judge.added([(row, 1) for row in rows])[name]) for rows in slices]
        assert totals.get(name, np.zeros(len(slices), np.int64)).tolist() == expected


@pytest.fixture(params=["as it is", "colliding, row by row"])
def colliding(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once as it is, once where hashes of rows say next to nothing and runs are read row by row, bounds all at once."""
    if request.param != "as it is":
        hashes = ordered_run.row_hashes
        monkeypatch.setattr(ordered_run, "row_hashes", lambda columns, rows: hashes(columns, rows) & np.uint64(1))
        for module, name in ((ordered_search, "_LEAST_READ"), (ordered_search, "_MOST_READ"), (ordered_run, "_FEW")):
            monkeypatch.setattr(module, name, int(name != "_FEW"))


@pytest.mark.usefixtures("colliding")
@pytest.mark.parametrize("kind", SORTS)
@pytest.mark.parametrize("seed", range(2))
def test_histories(tmp_path: Path, kind: str, seed: int) -> None:
    chooser = random.Random(f"{kind} {seed}")
    judge = Judge(tmp_path, chooser, *SORTS[kind])
    for _ in range(6):
        judge.keep(judge.changes())
        keys = [chooser.choice([*KEYS, "never"]) for _ in range(chooser.randrange(0, 8))]
        check(judge, [[r for r in judge.live if r[0] == key] for key in keys], judge.groups(keys))
        before, found = list(judge.live), judge.changes()  # some queries see what is not kept yet
        sees = [chooser.random() < 0.6 for _ in keys]
        seen = [(change, q) for q, key in enumerate(keys) for change in found if sees[q] and change[0][0] == key]
        queries = pa.array([q for _, q in seen], pa.int64())
        more = judge.table([change for change, _ in seen]).append_column("_q", queries)
        contents = [judge.live if see else before for see in sees]
        expected = [[r for r in rows if r[0] == key] for rows, key in zip(contents, keys, strict=True)]
        check(judge, expected, judge.groups(keys, more))
        judge.keep(found)


def simple(order: Order, values: list[int], weights: list[int] | None = None) -> pa.Table:
    """Rows of one key, hash 7."""
    array = pa.array(values, pa.int64())
    kept = pa.array(weights or [1] * len(values), pa.int64())
    return pa.table({"v": array, "_w": kept, "_h": np.full(len(values), 7), "_o": order.encode([array])})


BIGINT = Order((SortColumn(pa.int64(), nullable=False),))
PLAIN = Layout(pa.schema([("v", pa.int64())]), BIGINT)
ONE = np.array([7])


def kept(folder: Path, tables: list[pa.Table], layout: Layout = PLAIN) -> OrderedArrangement:
    for number, table in enumerate(tables):
        write_ordered(folder / f"{number}.arrow", table, layout)
    return OrderedArrangement([str(folder / f"{number}.arrow") for number in range(len(tables))], layout, "")


def adding(table: pa.Table) -> pa.Table:
    """What each row adds up to: its value, times its weight."""
    values = table["v"].to_numpy() * table["_w"].to_numpy()
    return table.append_column("_s0", pa.array(values))


def test_a_run_says_what_it_holds(tmp_path: Path) -> None:
    run = arrange(adding(simple(BIGINT, [5, -3, 5, 4, 4], [1, 2, 1, 1, -1])), PLAIN)
    assert {name: run[name].to_pylist() for name in run.column_names if name != "_t"} == {
        "_h": [7, 7],
        "_w": [2, 2],
        "_o": [2**63 - 3, 2**63 + 5],
        "v": [-3, 5],
        "_cw": [2, 4],
        "_s0": [-6, 4],
    }
    assert is_ordered(run) and not is_ordered(pa.table({"_h": [1]}))
    path = tmp_path / "run.arrow"
    write_run(path, run)
    assert open_run(str(path)).equals(run) and is_ordered(open_run(str(path)))


def test_merging_is_arranging_what_the_runs_were_made_of() -> None:
    chooser = random.Random(4)
    values = [[chooser.randrange(9) for _ in range(20)] for _ in range(4)]
    weights = [[chooser.choice([1, 2, -1]) for _ in range(20)] for _ in range(4)]
    tables = [adding(simple(BIGINT, v, w)) for v, w in zip(values, weights, strict=True)]
    merged = merge_runs([arrange(table, PLAIN) for table in tables])
    assert merged.equals(arrange(pa.concat_tables(tables), PLAIN), check_metadata=True)
    gone = adding(simple(BIGINT, values[0], [-w for w in weights[0]]))
    assert merge_ordered([arrange(t, PLAIN) for t in (tables[0], gone)]).num_rows == 0


def test_a_run_without_what_another_adds_up_adds_nothing(tmp_path: Path) -> None:
    tables = [adding(simple(BIGINT, [1, 2])), simple(BIGINT, [0, 5])]
    assert kept(tmp_path, tables).groups(ONE).totals()["_s0"].tolist() == [3]
    merged = merge_runs([arrange(table, PLAIN) for table in tables])
    assert (merged["v"].to_pylist(), merged["_s0"].to_pylist()) == ([0, 1, 2, 5], [0, 1, 3, 3])


def test_nothing_is_kept() -> None:
    groups = OrderedArrangement([], PLAIN, "").groups(ONE)
    for found in (groups.first(3), groups.last(3), groups.between(), groups.select(np.array([0]))):
        assert (found.rows.num_rows, len(found.queries), found.rows.schema) == (0, 0, PLAIN.content)
    assert groups.first(1, ["_w", "_o", "v"]).rows.column_names == ["_w", "_o", "v"]
    assert groups.totals() == {}
    assert OrderedArrangement([], PLAIN, "").groups(np.empty(0, np.int64)).count().tolist() == []


def test_work_follows_k_also_behind_rows_that_are_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The least 60,000 of 200,000 rows were deleted by later runs; the first 10 are found by reading few rows."""
    deleted = np.arange(60_000)
    tables = [simple(BIGINT, list(range(200_000)))]
    tables += [simple(BIGINT, deleted[n::3].tolist(), [-1] * 20_000) for n in range(3)]
    groups = kept(tmp_path, tables).groups(ONE)
    read = 0
    words = ordered_run.Places.words
    one = ordered_run.Places.one

    def counted(self: ordered_run.Places, rows: np.ndarray, width: int) -> np.ndarray:
        nonlocal read
        read += len(rows)
        return words(self, rows, width)

    def counted_one(self: ordered_run.Places, row: int, width: int) -> int | bytes:
        nonlocal read
        read += 1
        return one(self, row, width)

    monkeypatch.setattr(ordered_run.Places, "words", counted)
    monkeypatch.setattr(ordered_run.Places, "one", counted_one)
    assert groups.first(10).rows["v"].to_pylist() == list(range(60_000, 60_010))
    assert read < 6_000
    read = 0
    assert groups.last(10).rows["v"].to_pylist() == list(range(199_999, 199_989, -1))
    assert read < 200
    read = 0
    cut = BIGINT.bounds([pa.array([150_000])])
    assert groups.rank(cut).tolist() == [90_000]
    assert groups.before(cut, 2).rows["v"].to_pylist() == [149_999, 149_998]
    assert read < 400
    assert groups.before(BIGINT.bounds([pa.array([60_000])]), 1).rows.num_rows == 0
    assert groups.select(np.array([70_000])).rows["v"].to_pylist() == [130_000]


def test_many_copies_of_a_row_are_one_row_read(tmp_path: Path) -> None:
    groups = kept(tmp_path, [simple(BIGINT, [1, 2], [10**15, 5]), simple(BIGINT, [1], [1 - 10**15])]).groups(ONE)
    first = groups.first(4)
    assert (first.rows["v"].to_pylist(), first.weights.tolist()) == ([1, 2], [1, 3])
    assert groups.count().tolist() == [6]


def test_what_does_not_fit_the_layout_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered_run, "_LARGEST", 1)
    with pytest.raises(OverflowError, match="rows in one run"):
        arrange(adding(simple(BIGINT, [1, 2])), PLAIN)
    with pytest.raises(TypeError, match="rows of types"):
        arrange(simple(BIGINT, [1]).set_column(0, "v", pa.array([1], pa.int32())), PLAIN)
    by_key = Layout(PLAIN.content, BIGINT, ("v",))
    with pytest.raises(TypeError, match="not those of the arrangement"):
        OrderedArrangement([], by_key, "").groups(ONE, [pa.array([1], pa.int32())])
    with pytest.raises(TypeError, match="not those of the arrangement"):
        OrderedArrangement([], by_key, "").groups(ONE)
    groups = kept(tmp_path, [simple(BIGINT, [1])]).groups(ONE)
    with pytest.raises(TypeError, match="bounds of type"):
        groups.rank(Order((SortColumn(pa.string()),)).bounds([pa.array(["a"])]))
