"""Goal: a row that a store cannot hold stops nothing and is not lost. Method: random histories in which some texts are
not UTF-8; after every delivery the store's view is the other rows, its quarantine these, as multisets of whole rows.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from sink_histories import Row, View, delivery, plain_row, view, weighted
from sink_stores import PostgresStore, Store

from headrace.model.delivery import Delivery
from headrace.sinks.connectors.duckdb import quarantine as in_duckdb
from headrace.sinks.connectors.postgres import quarantine as in_postgres
from headrace.sinks.quarantine import sifted
from headrace.sinks.target import target
from sampled import sampled

ID = ("id", "bigint", lambda rng: rng.randrange(40))
FF = "\ue0ff"  # stands in the model for the byte FF, which no UTF-8 has
NOTE = ("note", "string", lambda rng: rng.choice(["", "a", "b\\", f"a{FF}", f"{FF}é"]))


def sent(made: Delivery) -> Delivery:
    """The delivery with that byte in it."""
    return replace(
        made,
        deltas={name: spoiled(table) for name, table in made.deltas.items()},
        replacements={name: spoiled(table) for name, table in made.replacements.items()},
    )


def spoiled(table: pa.Table) -> pa.Table:
    texts = [None if t is None else t.encode().replace(FF.encode(), b"\xff") for t in table["note"].to_pylist()]
    return table.set_column(table.column_names.index("note"), "note", pa.array(texts, pa.binary()).view(pa.string()))


def notes(key: tuple[str, ...] = (), name: str = "notes") -> View:
    return view(name, [ID, NOTE], key)


def quarantined(store: Store) -> dict[str, Counter[Row]]:
    found: dict[str, Counter[Row]] = {}
    for name, contents, copies in store.query("SELECT view, contents, copies FROM headrace_quarantine"):
        row = json.loads(contents.replace("\\udcff", FF))
        found.setdefault(name, Counter())[tuple(row.values())] += copies
    return found


def agrees(store: Store, *views: View) -> bool:
    """Whether the store's tables and its quarantine hold the views between them."""
    bad = {v.schema.name: Counter(row for row in v.rows if FF in (row[1] or "")) for v in views}
    good = {v.schema.name: Counter(plain_row(row) for row in v.rows if FF not in (row[1] or "")) for v in views}
    found = {v.schema.name: store.contents(v.schema.name) for v in views}
    return (found, quarantined(store)) == (good, {name: rows for name, rows in bad.items() if rows})


@pytest.mark.parametrize("seed", sampled([1, 2, 3], 3))
@pytest.mark.parametrize("key", [("id",), ()], ids=["a key", "rows may repeat"])
def test_the_view_and_its_quarantine_are_the_contents_after_every_delivery(store: Store, key: tuple, seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    some, sink = notes(key), store.sink()
    sink.open()
    some.change(rng, 30)
    sink.write(sent(delivery(1, [some], replacements={"notes": some.whole()})))
    assert agrees(store, some)
    for commit in range(2, 14):
        if commit == 8:  # another process goes on
            known = sink.quarantined
            sink.close()
            sink = store.sink()
            sink.open()
            assert sink.quarantined == known
        change = some.change(rng, 1500 if commit == 6 else rng.randrange(20))
        sink.write(sent(delivery(commit, [some], deltas={"notes": change})))
        assert agrees(store, some), f"after commit {commit}"
        total = sum(FF in (row[1] or "") for row in some.rows)
        assert sink.quarantined == ({"notes": total} if total else {})
    some.change(rng, 20)
    sink.write(sent(delivery(20, [some], replacements={"notes": some.whole()})))
    assert agrees(store, some)


def test_a_delivery_that_comes_again_adds_no_copies(store: Store) -> None:
    some, sink = notes(), store.sink()
    sink.open()
    sink.write(delivery(1, [some], replacements={"notes": some.whole()}))
    change = sent(delivery(2, [some], deltas={"notes": weighted(some.schema, [((1, FF), 2), ((2, "a"), 1)])}))
    sink.write(change)
    sink.write(change)
    assert quarantined(store) == {"notes": Counter({(1, FF): 2})}
    sink.close()
    sink = store.sink()
    sink.open()
    sink.write(change)
    assert quarantined(store) == {"notes": Counter({(1, FF): 2})}
    assert sink.quarantined == {"notes": 2}


def test_the_row_says_what_is_wrong_with_it(store: Store) -> None:
    some, sink = notes(("id",)), store.sink()
    sink.open()
    sink.write(sent(delivery(7, [some], replacements={"notes": weighted(some.schema, [((5, f"x{FF}"), 1)])})))
    found = store.query('SELECT project, sink, view, contents, reason, copies, "commit" FROM headrace_quarantine')
    what = '{"id": 5, "note": "x\\udcff"}'
    assert found == [("headrace", "warehouse", "notes", what, "note: the text is not valid UTF-8", 1, 7)]


def test_a_view_that_goes_takes_its_rows_along_and_a_sink_only_its_own(store: Store) -> None:
    first, second, others = notes(), notes(name="second"), notes(name="others")
    sink, other = store.sink(), store.sink(name="other")
    for where, views in ((sink, (first, second)), (other, (others,))):
        where.open()
        whole = {v.schema.name: weighted(v.schema, [((1, FF), 1)]) for v in views}
        where.write(sent(delivery(1, views, replacements=whole)))
    assert quarantined(store).keys() == {"notes", "second", "others"}
    sink.write(delivery(2, [second], dropped=frozenset({"notes"})))
    assert quarantined(store).keys() == {"second", "others"}
    assert sink.quarantined == {"second": 1}
    sink.drop()
    assert quarantined(store).keys() == {"others"}
    other.drop()
    assert "headrace_quarantine" not in store.tables()


def test_a_transaction_that_fails_leaves_the_quarantine_as_it_was(store: Store) -> None:
    some, sink = notes(), store.sink()
    sink.open()
    sink.write(sent(delivery(1, [some], replacements={"notes": weighted(some.schema, [((1, FF), 1)])})))
    before = store.snapshot()
    rows = weighted(some.schema, [((2, FF), 1), ((3, "not there"), -1)])
    with pytest.raises(Exception, match="changed by somebody else"):
        sink.write(sent(delivery(2, [some], deltas={"notes": rows})))
    assert store.snapshot() == before
    assert sink.quarantined == {"notes": 1}


@pytest.mark.parametrize("rows", [3, 2000])
def test_text_with_nul_is_kept_by_who_can_hold_it(store: Store, rows: int) -> None:
    deep = ("deep", "array<struct<x:int,t:map<string,string>>>", lambda rng: None)
    some, sink = view("some", [ID, NOTE, deep], ("id",)), store.sink()
    sink.open()
    contents: list[Row] = [(i, "fine", [{"x": 1, "t": [("k", "v")]}]) for i in range(rows)]
    contents[-1] = (rows - 1, "a\0b", None)
    contents[0] = (0, "fine", [{"x": 1, "t": None}, {"x": 2, "t": [("k", "\0")]}])
    sink.write(delivery(1, [some], replacements={"some": some.whole()}))
    sink.write(delivery(2, [some], deltas={"some": weighted(some.schema, [(row, 1) for row in contents])}))
    held = contents if store.holds_nul else contents[1:-1]
    assert {row[0] for row in store.contents("some")} == {row[0] for row in held}
    reasons = dict(store.query("SELECT contents, reason FROM headrace_quarantine"))
    why = "it contains the character NUL (U+0000)"
    first = (
        '{"id": 0, "note": "fine", "deep": [{"x": 1, "t": null}, {"x": 2, "t": [{"key": "k", "value": "\\u0000"}]}]}'
    )
    last = f'{{"id": {rows - 1}, "note": "a\\u0000b", "deep": null}}'
    assert reasons == ({} if store.holds_nul else {first: f"deep: {why}", last: f"note: {why}"})


@pytest.mark.postgres
def test_times_that_postgres_does_not_read_are_quarantined_and_the_others_kept(postgres_store: PostgresStore) -> None:
    times = view("times", [ID, ("day", "date", None), ("at", "timestamp", None), ("wall", "timestamp_ntz", None)])
    sink = postgres_store.sink()
    sink.open()
    day, second = 86_400_000_000, 1_000_000
    numbers = [-719_163, -719_162, 0, None, 11_248_737, 11_248_738, -(2**31), 2**31 - 1]  # from the year 0 to 32768
    moments = [None if n is None else n * day for n in numbers]
    edge = [None, moments[1], moments[4] + day - second, 0, 1, -(2**63), 2**63 - 1, moments[0] + day - 1]
    table = pa.table(
        {
            "id": pa.array(range(16), pa.int64()),
            "day": pa.array([*numbers, *[0] * 8], pa.int32()).cast(pa.date32()),
            "at": pa.array([*[0] * 8, *edge], pa.timestamp("us", "UTC")),
            "wall": pa.array([*[0] * 8, *edge], pa.timestamp("us")),
            "_w": pa.array([1] * 16, pa.int64()),
        }
    )
    sink.write(delivery(1, [times], replacements={"times": table}))
    held = postgres_store.query("SELECT id, day::text, wall::text FROM times ORDER BY id")
    expected = {1: "0001-01-01", 2: "1970-01-01", 3: None, 4: "32767-12-31"} | dict.fromkeys(range(8, 13), "1970-01-01")
    assert {row[0]: row[1] for row in held} == expected
    assert [row[2] for row in held[-5:]] == [
        None, "0001-01-01 00:00:00", "32767-12-31 23:59:59", "1970-01-01 00:00:00", "1970-01-01 00:00:00.000001",
    ]  # fmt: skip
    reasons = Counter(reason for (reason,) in postgres_store.query("SELECT reason FROM headrace_quarantine"))
    why = "it lies outside of the years 1 to 32767"
    assert reasons == {f"day: {why}": 4, f"at: {why}": 3}


@pytest.mark.parametrize("judge", [in_duckdb.unheld, in_postgres.unheld])
def test_rows_are_found_in_any_chunk_and_slice(judge: object) -> None:
    kinds = "array<struct<a:string>>"
    some = view("some", [("x", kinds, None)])
    texts = [[], [{"a": "é"}], None, [{"a": "k"}, {"a": None}, None], [{"a": "y"}, {"a": "z"}]] * 3
    array = pa.array([["?"], *[None if t is None else [s and s["a"] for s in t] for t in texts]], pa.list_(pa.string()))
    leaves = [t.encode() if t is not None else None for t in array.flatten().to_pylist()]
    leaves = [b"\xff" if t in (b"?", b"z", "é".encode()) else t for t in leaves]
    flat = pa.array(leaves, pa.binary()).view(pa.string())
    lists = pa.ListArray.from_arrays(array.offsets, pa.StructArray.from_arrays([flat], ["a"]), mask=array.is_null())
    column = pa.chunked_array([lists.slice(1, 4), lists.slice(5, 0), lists.slice(5)])
    table = pa.table({"x": column, "_w": pa.array(range(1, 16), pa.int64())})
    made = delivery(1, [some], deltas={"some": table})
    kept, unheld = sifted(made, {"some": target(some.schema, {})}, judge)  # type: ignore[arg-type]
    wrong = [i + 1 for i in range(15) if i % 5 in (1, 4)]
    assert [row.weight for row in unheld["some"]] == wrong
    assert kept.deltas["some"]["_w"].to_pylist() == [i for i in range(1, 16) if i not in wrong]
    assert {row.reason for row in unheld["some"]} == {"x: the text is not valid UTF-8"}
    assert np.unique([row.id for row in unheld["some"]]).size == 2
