"""Goal: rows whose key hashes collide are never mixed. Method: planted hashes, equal for different keys.

Hashes only route: everything that finds rows by hash must look at the key itself. Collisions do not come by chance
in a test, so the hash column is written by hand.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.state.arrangement import Arrangement
from headrace.state.keys import key_order, lookup, newest, same
from headrace.state.run import merge, write_run

SAME = 7  # the hash that several keys share


def rows(*entries: tuple[int, Any, str], weights: list[int] | None = None) -> pa.Table:
    """``_h``, ``_w``, ``c0`` (the key), ``c1``; sorted by hash, as runs are."""
    hashes, keys, values = zip(*entries, strict=True) if entries else ((), (), ())
    table = pa.table(
        {
            "_h": pa.array(hashes, pa.int64()),
            "_w": pa.array(weights or [1] * len(entries), pa.int64()),
            "c0": pa.array(keys, pa.string()),
            "c1": pa.array(values, pa.string()),
        }
    )
    return table.take(pa.array(np.argsort(table["_h"].to_numpy(), kind="stable")))


def arranged(folder: Path, *runs: pa.Table) -> Arrangement:
    folder.mkdir(exist_ok=True)
    paths = []
    for number, table in enumerate(runs):
        path = folder / f"{number}.arrow"
        write_run(path, table)
        paths.append(str(path))
    return Arrangement(paths, "")


def probe(arrangement: Arrangement, *hashes: int) -> Any:
    wanted = rows()
    return arrangement.probe(np.array(sorted(hashes), np.int64), wanted.column_names, wanted.schema)


def pairs(table: pa.Table) -> list[tuple[Any, Any]]:
    return sorted(zip(table["c0"].to_pylist(), table["c1"].to_pylist(), strict=True), key=repr)


def test_newest_keeps_the_other_key_of_a_shared_hash(tmp_path: Path) -> None:
    first = rows((SAME, "a", "old"), (SAME, "b", "old"), (9, "c", "old"))
    second = rows((SAME, "a", "old"), (SAME, "a", "new"), weights=[-1, 1])
    found = newest(probe(arranged(tmp_path, first, second), SAME, 9), ["c0"])
    assert pairs(found) == [("a", "new"), ("b", "old"), ("c", "old")]


def test_newest_without_collision_takes_the_newest_run_alone(tmp_path: Path) -> None:
    first = rows((1, "a", "old"), (2, "b", "old"), (3, "c", "old"))
    second = rows((1, "a", "old"), (1, "a", "new"), (2, "b", "old"), weights=[-1, 1, -1])
    found = newest(probe(arranged(tmp_path, first, second), 1, 2, 3), ["c0"])
    assert pairs(found) == [("a", "new"), ("c", "old")]


def test_newest_sees_a_removal_of_one_of_two_keys(tmp_path: Path) -> None:
    first = rows((SAME, "a", "x"), (SAME, "b", "y"))
    second = rows((SAME, "b", "y"), weights=[-1])
    found = newest(probe(arranged(tmp_path, first, second), SAME), ["c0"])
    assert pairs(found) == [("a", "x")]


def test_newest_with_a_collision_between_runs_only(tmp_path: Path) -> None:
    found = newest(probe(arranged(tmp_path, rows((SAME, "a", "x")), rows((SAME, "b", "y"))), SAME), ["c0"])
    assert pairs(found) == [("a", "x"), ("b", "y")]


@pytest.mark.parametrize("order", [["a", "b", None], [None, "b", "a"], ["b", None, "a"]])
def test_lookup_tells_keys_of_one_hash_apart(order: list[str | None]) -> None:
    kept = rows(*[(SAME, key, "kept") for key in order])
    wanted = rows((SAME, "b", ""), (SAME, None, ""), (SAME, "z", ""), (8, "a", ""))
    found = lookup(wanted, kept, ["c0"])
    assert [order[i] if i >= 0 else "nothing" for i in found] == ["b", None, "nothing", "nothing"]


def test_lookup_of_a_key_alone_under_the_hash_of_another() -> None:
    kept = rows((SAME, "a", "kept"))
    assert lookup(rows((SAME, "b", "")), kept, ["c0"]).tolist() == [-1]
    assert lookup(rows((SAME, "b", ""), (SAME, "a", "")), kept, ["c0"]).tolist() == [-1, 0]


def test_lookup_in_nothing_finds_nothing() -> None:
    assert lookup(rows((SAME, "a", ""), (9, "b", "")), rows(), ["c0"]).tolist() == [-1, -1]


def test_key_order_starts_a_new_key_within_a_hash() -> None:
    table = rows((SAME, "a", "1"), (SAME, "b", "2"), (SAME, "a", "3"), (SAME, "b", "4"), (9, "c", "5"))
    order, new = key_order(table, ["c0"], [np.arange(5)])
    sorted_rows = table.take(pa.array(order))
    groups: list[list[str]] = []
    for value, starts in zip(sorted_rows["c1"].to_pylist(), new, strict=True):
        if starts:
            groups.append([])
        groups[-1].append(value)
    assert sorted(groups) == [["1", "3"], ["2", "4"], ["5"]]


def test_key_order_keeps_the_given_order_within_a_key() -> None:
    table = rows((1, "a", "late"), (1, "a", "early"), (1, None, "null"))
    order, new = key_order(table, ["c0"], [np.array([5, 2, 3])])
    values = table["c1"].take(pa.array(order)).to_pylist()
    assert values.index("early") < values.index("late")
    assert Counter(new.tolist()) == {True: 2, False: 1}


def test_same_compares_null_with_null_and_floats_by_bits() -> None:
    left = [pa.chunked_array([[None, 1.0, 0.0, float("nan"), None]]), pa.chunked_array([["a", "a", "a", "a", "a"]])]
    right = [pa.chunked_array([[None, 1.0, -0.0, float("nan"), 1.0]]), pa.chunked_array([["a", "b", "a", "a", "a"]])]
    assert same(left, right, 5).tolist() == [True, False, False, True, False]


def test_same_looks_into_nested_values() -> None:
    nested = pa.list_(pa.struct([("x", pa.int32())]))
    left = pa.chunked_array([pa.array([[{"x": 1}], [{"x": None}], None, []], nested)])
    right = pa.chunked_array([pa.array([[{"x": 1}], [{"x": 1}], None, None], nested)])
    assert same([left], [right], 4).tolist() == [True, False, True, False]


def test_merge_does_not_cancel_rows_of_one_hash_that_differ() -> None:
    merged = merge([rows((SAME, "a", "x"), (SAME, "b", "x")), rows((SAME, "b", "x"), weights=[-1])])
    assert pairs(merged) == [("a", "x")]


def test_random_collisions_against_a_dictionary(tmp_path: Path) -> None:
    """Upserts of keys under two hashes over many runs: the newest row of every key, and no other, is found."""
    random = np.random.default_rng(5)
    live: dict[str, str] = {}
    runs = []
    for number in range(20):
        changes: dict[str, str | None] = {}
        for key in random.choice(list("abcdefg"), size=3, replace=False):
            changes[str(key)] = None if random.random() < 0.3 else f"{key}{number}"
        entries, weights = [], []
        for key, value in changes.items():
            if key in live:
                entries.append((ord(key) % 2, key, live.pop(key)))
                weights.append(-1)
            if value is not None:
                entries.append((ord(key) % 2, key, value))
                weights.append(1)
                live[key] = value
        if entries:
            table = rows(*entries, weights=weights)
            order = np.argsort([e[0] for e in entries], kind="stable")
            runs.append(table.set_column(1, "_w", pa.array(np.array(weights)[order])))
        found = newest(probe(arranged(tmp_path / str(len(runs)), *runs) if runs else Arrangement([], ""), 0, 1), ["c0"])
        assert pairs(found) == sorted(live.items()), number
