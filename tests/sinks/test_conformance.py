"""Goal: every sink keeps its promise. Method: the same deliveries to each store, then its contents, read through its
normal client, compared as multisets of whole rows with a model in plain Python. Random histories print their seed.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sink_histories import EVERY_TYPE, Row, View, delivery, plain_row, transfers, view, weighted
from sink_stores import Store

from headrace.model.errors import HeadraceError
from headrace.model.schema import Column
from headrace.model.transaction import TransactionOrigin
from headrace.sinks.base import Sink
from sampled import sampled

KEY = ("id", "bigint", lambda rng: rng.randrange(60))
PLACE = ("place", "string", lambda rng: rng.choice(["", "a", "b", "ü☃"]))
TOTAL = ("total", "decimal(12,2)", EVERY_TYPE[7][2])
NOTE = ("note", "string", EVERY_TYPE[9][2])
COMMITTED_US = 1_700_000_000_123_456


def opened(store: Store, keys: dict[str, tuple[str, ...]] | None = None) -> Sink:
    sink = store.sink(keys)
    sink.open()
    return sink


def fill(store: Store, *views: View, commit: int = 1) -> Sink:
    """An open sink that holds these views."""
    sink = opened(store)
    sink.write(delivery(commit, views, replacements={v.schema.name: v.whole() for v in views}))
    return sink


def sales(*rows: Row, key: tuple[str, ...] = ("id",), name: str = "sales", version: int = 1) -> View:
    made = view(name, [KEY, NOTE], key, version)
    made.rows = list(rows)
    return made


def code_of(caught: pytest.ExceptionInfo[HeadraceError]) -> str:
    return caught.value.code


# ---- contents


@pytest.mark.parametrize("seed", sampled([1, 2], 2))
@pytest.mark.parametrize(
    ("columns", "key"),
    [
        pytest.param([KEY, *EVERY_TYPE], ("id",), id="a key, every type"),
        pytest.param([PLACE, KEY, TOTAL], ("place", "id"), id="a key of two columns that may be null"),
        pytest.param([PLACE, NOTE, TOTAL], (), id="rows that may repeat"),
        pytest.param(EVERY_TYPE, (), id="every type, rows may repeat"),
        pytest.param([NOTE], (), id="one column, rows may repeat"),
        pytest.param([KEY], ("id",), id="nothing but a key"),
    ],
)
def test_a_random_history_gives_the_contents_of_the_model(store: Store, columns: list, key: tuple, seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    changing = view("changing", columns, key)
    sink = opened(store)
    changing.change(rng, 40)
    sink.write(delivery(1, [changing], replacements={"changing": changing.whole()}))
    assert store.holds(changing)
    for commit in range(2, 14):
        if commit == 8:  # another process goes on
            sink.close()
            sink = store.sink()
            assert sink.open() == 7
            assert sink.held() == {"changing": 1}
        size = 900 if commit == 6 else rng.randrange(40)
        sink.write(delivery(commit, [changing], deltas={"changing": changing.change(rng, size)}))
        assert store.holds(changing), f"after commit {commit}"
    changing.change(rng, 30)
    sink.write(delivery(20, [changing], replacements={"changing": changing.whole()}))
    assert store.holds(changing)
    sink.write(delivery(21, [changing], deltas={"changing": changing.change(rng, 30)}))
    assert store.holds(changing)
    assert store.frontier() == 21


def test_copies_of_a_row_come_and_go_by_weight(store: Store) -> None:
    several = sales((1, "a"), (1, "a"), (1, "a"), (None, None), key=())
    sink = fill(store, several)
    assert store.contents("sales") == Counter({(1, "a"): 3, (None, None): 1})
    change = [((1, "a"), -2), ((None, None), 4), ((2, ""), 2), ((2, None), 1)]
    sink.write(delivery(2, [several], deltas={"sales": weighted(several.schema, change)}))
    assert store.contents("sales") == Counter({(1, "a"): 1, (None, None): 5, (2, ""): 2, (2, None): 1})


def test_rows_that_differ_in_the_sign_of_zero_are_two_rows(store: Store) -> None:
    zeros = view("zeros", [("x", "double", lambda rng: 0.0)])
    zeros.rows = [(0.0,), (-0.0,)]
    sink = fill(store, zeros)
    sink.write(delivery(2, [zeros], deltas={"zeros": weighted(zeros.schema, [((-0.0,), -1)])}))
    assert store.contents("zeros") == Counter({plain_row((0.0,)): 1})


def test_contents_that_come_anew_are_taken_to_the_bit(store: Store) -> None:
    zeros = view("zeros", [KEY, ("x", "double", lambda rng: 0.0)], ("id",))
    zeros.rows = [(1, 0.0), (None, 0.0), (3, 0.0)]
    sink = fill(store, zeros)
    zeros.rows = [(1, -0.0), (None, -0.0), (3, 0.0)]
    sink.write(delivery(2, [zeros], replacements={"zeros": zeros.whole()}))
    assert store.holds(zeros)


def test_all_views_of_a_delivery_and_the_progress_row_arrive_together(store: Store) -> None:
    rng = random.Random(5)
    views = [view("a", [KEY, NOTE], ("id",)), view("b", [PLACE, TOTAL]), view("c", [PLACE, KEY], ("place",))]
    sink = fill(store, *views)
    deltas = {v.schema.name: v.change(rng, 20) for v in views}
    sink.write(delivery(9, views, deltas=deltas, origin=TransactionOrigin("shop", "0/1A2B", COMMITTED_US)))
    assert all(store.holds(v) for v in views)
    (row,) = store.query(
        'SELECT project, sink, "commit", source, position, written_at > committed_at, committed_at FROM headrace_progress'
    )
    assert row[:6] == ("headrace", "warehouse", 9, "shop", "0/1A2B", True)
    assert row[6].astimezone(UTC) == datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=UTC)
    assert store.states() == dict.fromkeys("abc", (1, "live", 9, None))


def test_a_delivery_that_fails_in_one_view_leaves_every_view_as_it_was(store: Store) -> None:
    good, bad = sales((1, "a")), sales((1, "a"), name="bad")
    sink = fill(store, good, bad)
    before = store.snapshot()
    deltas = {
        "sales": weighted(good.schema, [((2, "b"), 1)]),
        "bad": weighted(bad.schema, [((7, "not there"), -1)]),
    }
    with pytest.raises(HeadraceError) as caught:
        sink.write(delivery(2, [good, bad], deltas=deltas))
    assert code_of(caught) == "sink.diverged"
    assert "'bad'" in caught.value.what
    assert "1 of 1 rows" in caught.value.why
    assert store.snapshot() == before
    sink.write(delivery(2, [good], deltas={"sales": deltas["sales"]}))
    assert store.contents("sales") == Counter({(1, "a"): 1, (2, "b"): 1})


# ---- keys


def test_a_declared_key_overrides_the_one_of_the_view(store: Store) -> None:
    sink = opened(store, {"sales": ("note",)})
    some = sales((1, "a"), (1, "b"), key=("id",))
    sink.write(delivery(1, [some], replacements={"sales": some.whole()}))
    sink.write(delivery(2, [some], deltas={"sales": weighted(some.schema, [((1, "a"), -1), ((9, "a"), 1)])}))
    assert store.contents("sales") == Counter({(9, "a"): 1, (1, "b"): 1})


@pytest.mark.parametrize("way", ["replacement", "delta", "two of a weight"])
def test_a_declared_key_that_is_not_unique_is_refused_with_its_values(store: Store, way: str) -> None:
    sink = opened(store, {"sales": ("id", "note")})
    start = sales((7, None), (8, "b"))
    sink.write(delivery(1, [start], replacements={"sales": start.whole()}))
    before = store.snapshot()
    wide = view("wide", [KEY, NOTE, PLACE])
    again = [((7, None), 1)] if way == "delta" else [((6, "x"), 2)]
    with pytest.raises(HeadraceError) as caught:
        if way == "replacement":
            sink = opened(store, {"wide": ("id", "note")})
            before = store.snapshot()
            wide.rows = [(7, None, "a"), (7, None, "b")]
            sink.write(delivery(2, [wide], replacements={"wide": wide.whole()}))
        else:
            sink.write(delivery(2, [start], deltas={"sales": weighted(start.schema, again)}))
    assert code_of(caught) == "sink.conflict"
    assert ("'wide'" if way == "replacement" else "'sales'") in caught.value.what
    assert ("6" if way == "two of a weight" else "7") in caught.value.what
    assert "declared key (id, note) is not unique" in caught.value.why
    assert store.snapshot() == before


def test_an_empty_declared_key_keeps_equal_rows(store: Store) -> None:
    sink = opened(store, {"sales": ()})
    some = sales((1, "a"), (1, "a"))
    sink.write(delivery(1, [some], replacements={"sales": some.whole()}))
    assert store.contents("sales") == Counter({(1, "a"): 2})


def test_a_key_that_names_no_column_is_refused(store: Store) -> None:
    sink = opened(store, {"sales": ("notes",)})
    with pytest.raises(HeadraceError) as caught:
        sink.write(delivery(1, [sales()], replacements={"sales": sales().whole()}))
    assert code_of(caught) == "config.invalid"
    assert caught.value.next == "did you mean 'note'?"


def test_a_view_whose_declared_key_changed_must_come_anew(store: Store) -> None:
    some = sales((1, "a"), (1, "b"), key=())
    fill(store, some).close()
    assert opened(store).held() == {"sales": 1}
    sink = opened(store, {"sales": ("note",)})
    assert sink.held() == {}
    sink.write(delivery(1, [some], replacements={"sales": some.whole()}))
    assert sink.held() == {"sales": 1}
    sink.write(delivery(2, [some], deltas={"sales": weighted(some.schema, [((1, "a"), -1), ((3, "a"), 1)])}))
    assert store.contents("sales") == Counter({(3, "a"): 1, (1, "b"): 1})
    sink.close()
    assert opened(store).held() == {}


# ---- once, and in order


def test_a_delivery_that_comes_again_changes_nothing(store: Store) -> None:
    rng = random.Random(3)
    twice = [view("a", [KEY, NOTE], ("id",)), view("b", [PLACE])]
    sink = fill(store, *twice)
    sent = delivery(5, twice, deltas={v.schema.name: v.change(rng, 20) for v in twice})
    sink.write(sent)
    before = store.snapshot()
    sink.write(sent)
    sink.write(replace(sent, commit=4))
    assert store.snapshot() == before
    sink.close()
    sink = opened(store)
    before = store.snapshot()
    sink.write(sent)
    assert store.snapshot() == before
    assert all(store.holds(v) for v in twice)


def test_a_new_view_can_arrive_at_the_commit_that_is_reached_already(store: Store) -> None:
    old, new = sales((1, "a")), sales((2, "b"), name="new")
    sink = fill(store, old, commit=5)
    arriving = delivery(5, [new, old], replacements={"new": new.whole()}, stale={"sales": "1/0"})
    sink.write(arriving)
    assert store.holds(new)
    assert store.frontier() == 5
    assert store.states() == {"sales": (1, "stale", 5, "1/0"), "new": (1, "live", 5, None)}
    new.rows = []  # what is written at a commit stays as it is
    sink.write(delivery(5, [new], replacements={"new": new.whole()}))
    assert store.contents("new") == Counter({(2, "b"): 1})
    sink.write(delivery(5, [new], dropped=frozenset({"new"})))
    assert "new" not in store.tables()


def test_an_older_instance_is_refused(store: Store) -> None:
    some = sales((1, "a"))
    first = fill(store, some)
    second = store.sink()
    assert second.open() == 1
    before = store.snapshot()
    change = delivery(2, [some], deltas={"sales": weighted(some.schema, [((2, "b"), 1)])})
    for _ in range(2):
        with pytest.raises(HeadraceError) as caught:
            first.write(change)
        assert code_of(caught) == "sink.fenced"
        assert "generation 2 runs, this is 1" in caught.value.why
    assert store.snapshot() == before
    second.write(change)
    assert store.contents("sales") == Counter({(1, "a"): 1, (2, "b"): 1})


def test_a_store_that_went_back_in_time_is_noticed(store: Store) -> None:
    some = sales((1, "a"))
    sink = fill(store, some, commit=5)
    store.query('UPDATE headrace_progress SET "commit" = 3')
    with pytest.raises(HeadraceError) as caught:
        sink.write(delivery(6, [some], deltas={"sales": some.change(random.Random(1), 3)}))
    assert code_of(caught) == "sink.diverged"
    assert "stands at commit 3, but commit 5 was written" in caught.value.what
    assert sink.open() == 3


def test_two_sinks_keep_apart_in_one_store(store: Store) -> None:
    fill(store, sales((1, "a")))
    other = store.sink(name="other")
    assert other.open() is None
    assert other.held() == {}
    mine = sales((5, "x"), name="mine")
    other.write(delivery(40, [mine], replacements={"mine": mine.whole()}))
    assert other.held() == {"mine": 1}
    with pytest.raises(HeadraceError) as caught:
        other.write(delivery(41, [sales()], replacements={"sales": sales().whole()}))
    assert code_of(caught) == "sink.conflict"
    other.drop()
    assert "mine" not in store.tables()
    assert store.contents("sales") == Counter({(1, "a"): 1})
    assert store.frontier() == 1


def test_a_writer_killed_at_any_moment_leaves_whole_deliveries(store: Store) -> None:
    seed, count, kills = 20, 600, 5
    print(f"seed {seed}")
    rng = random.Random(seed)
    expected = {made.commit: (left, right) for made, left, right in transfers(seed, count)}
    for _ in range(kills):
        acknowledged = killed_after(rng, [store.kind, store.place, str(seed), str(count)])
        frontier = store.frontier()
        assert frontier is not None
        assert acknowledged <= frontier <= acknowledged + 1
        assert (store.contents("left"), store.contents("right")) == expected[frontier]
    assert frontier > kills


def killed_after(rng: random.Random, arguments: list[str]) -> int:
    """Runs the writer in a process of its own and kills it within a random write; the last commit it told of."""
    command = [sys.executable, str(Path(__file__).with_name("sink_writer.py")), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        told = [writer.stdout.readline() for _ in range(rng.randrange(1, 18))]
        time.sleep(rng.random() * 0.02)
        writer.kill()
        told += writer.stdout.readlines()
    return int(next(line for line in reversed(told) if line.endswith("\n")))


# ---- views that come, change, fail and go


def test_an_empty_view_is_a_table_without_rows(store: Store) -> None:
    empty = sales()
    sink = fill(store, empty)
    assert store.contents("sales") == Counter()
    sink.write(delivery(2, [empty], deltas={"sales": empty.whole()}))
    assert sink.held() == {"sales": 1}


@pytest.mark.parametrize("key", [("id",), ()])
def test_a_new_version_takes_the_place_of_the_old_one(store: Store, key: tuple[str, ...]) -> None:
    sink = fill(store, sales((1, "a"), (2, "b"), (None, None), key=key))
    same = sales((2, "b"), (3, "c"), (None, None), (4, None), key=key, version=2)
    sink.write(delivery(2, [same], replacements={"sales": same.whole()}))
    assert store.holds(same)
    wider = view("sales", [PLACE, KEY, TOTAL], key, version=3)
    wider.change(random.Random(2), 30)
    sink.write(delivery(3, [wider], replacements={"sales": wider.whole()}))
    assert store.holds(wider)
    other_form = sales((2, "b"), (3, "c"), key=() if key else ("note",), version=4)
    sink.write(delivery(4, [other_form], replacements={"sales": other_form.whole()}))
    sink.write(delivery(5, [other_form], deltas={"sales": weighted(other_form.schema, [((2, "b"), -1)])}))
    assert store.contents("sales") == Counter({(3, "c"): 1})
    assert sink.held() == {"sales": 4}
    assert store.states() == {"sales": (4, "live", 5, None)}


def test_a_dropped_view_goes_and_may_come_back(store: Store) -> None:
    one, two = sales((1, "a"), key=()), sales((1, "a"), name="two")
    sink = fill(store, one, two)
    sink.write(delivery(2, [one, two], dropped=frozenset({"sales"}), deltas={"two": weighted(two.schema, [])}))
    assert store.tables() == {"two", "headrace_progress", "headrace_views", "headrace_quarantine"}
    assert sink.held() == {"two": 1}
    sink.write(delivery(3, [one], replacements={"sales": one.whole()}))
    assert store.holds(one)


def test_a_failed_view_is_marked_and_keeps_its_contents_until_it_is_back(store: Store) -> None:
    some, new = sales((1, "a")), sales(name="new")
    sink = fill(store, some, commit=4)
    sink.write(delivery(6, [some, new], stale={"sales": "division by zero at id=7", "new": "never ran"}))
    assert store.states() == {
        "sales": (1, "stale", 4, "division by zero at id=7"),
        "new": (1, "stale", None, "never ran"),
    }
    assert store.holds(some)
    assert sink.held() == {"sales": 1}
    sink.write(delivery(7, [some], stale={"sales": "still"}))
    assert store.states()["sales"] == (1, "stale", 4, "still")
    sink.write(delivery(8, [some], deltas={"sales": weighted(some.schema, [((2, "b"), 1)])}))
    assert store.states()["sales"] == (1, "live", 8, None)


def test_a_table_of_somebody_else_is_never_touched(store: Store) -> None:
    store.query("CREATE TABLE sales (mine int)")
    store.query("INSERT INTO sales VALUES (42)")
    sink = opened(store)
    for part in ({"replacements": {"sales": sales().whole()}}, {"deltas": {"sales": sales().whole()}}):
        with pytest.raises(HeadraceError) as caught:
            sink.write(delivery(1, [sales()], **part))
        assert code_of(caught) == ("sink.conflict" if "replacements" in part else "sink.diverged")
        assert "'sales'" in caught.value.what
    sink.write(delivery(2, [sales()], dropped=frozenset({"sales"})))
    sink.drop()
    assert store.contents("sales") == Counter({(42,): 1})
    assert store.tables() == {"sales"}


def test_a_view_whose_table_somebody_dropped_is_not_held(store: Store) -> None:
    sink = fill(store, sales((1, "a")))
    store.query("DROP TABLE sales")
    with pytest.raises(HeadraceError) as caught:
        sink.write(delivery(2, [sales()], deltas={"sales": weighted(sales().schema, [((2, "b"), 1)])}))
    assert code_of(caught) == "sink.diverged"
    assert sink.held() == {}
    sink.write(delivery(2, [sales()], replacements={"sales": sales((2, "b")).whole()}))
    assert store.contents("sales") == Counter({(2, "b"): 1})


def test_drop_removes_everything_that_the_sink_made(store: Store) -> None:
    sink = fill(store, sales((1, "a")), sales((1, "a"), key=(), name="hidden"))
    store.query("CREATE TABLE mine (x int)")
    sink.drop()
    assert store.tables() == {"mine"}
    sink.drop()
    assert sink.open() is None


# ---- names, values, options

NAMES = [
    'qu"ote',
    "sp ace",
    "sélect",
    "☃",
    "select",
    "_row",
    "_n",
    "c0",
    "h",
    "w",
    "n",
    "i",
    "commit",
    "a.b",
    "%s",
    "{x}",
    "'",
]


@pytest.mark.parametrize("key", [0, 1], ids=["a multiset", "a key"])
def test_any_name_is_taken_as_it_is(store: Store, key: int) -> None:
    rng = random.Random(11)
    draws = [(name, "bigint", lambda rng: rng.randrange(50)) for name in NAMES]
    for name in NAMES:
        if name in ("_row", "commit"):
            continue
        rng.shuffle(draws)
        odd = view(name, draws, tuple(column for column, _, _ in draws[:2]) if key else ())
        odd.change(rng, 20)
        sink = opened(store)
        commit = (store.frontier() or 0) + 1
        sink.write(delivery(commit, [odd], replacements={name: odd.whole()}))
        sink.write(delivery(commit + 1, [odd], deltas={name: odd.change(rng, 10)}))
        assert store.holds(odd), name
        sink.close()


@pytest.mark.parametrize("name", ["", "nul\0"])
def test_a_name_that_no_store_can_hold_is_refused(store: Store, name: str) -> None:
    some = sales((1, "a"))
    bad = replace(some.schema, columns=(some.schema.columns[0], Column(name, "string")))
    with pytest.raises(HeadraceError) as caught:
        opened(store).write(delivery(1, [View(bad, ())], replacements={"sales": weighted(bad, [((1, "a"), 1)])}))
    assert code_of(caught) == "sink.value"


def test_an_unknown_option_names_the_nearest_one(store: Store) -> None:
    with pytest.raises(HeadraceError) as caught:
        store.sink(shema="x")
    assert code_of(caught) == "config.unknown_key"
    assert caught.value.next == "did you mean 'schema'?"
    assert caught.value.where == "sinks/warehouse.yaml"


def test_views_can_live_in_a_schema_of_their_own(store: Store) -> None:
    sink = store.sink(schema='Se"%lect')
    sink.open()
    some = sales((1, "a"))
    sink.write(delivery(1, [some], replacements={"sales": some.whole()}))
    assert store.query('SELECT * FROM "Se""%lect".sales') == [(1, "a")]
    assert sink.held() == {"sales": 1}
