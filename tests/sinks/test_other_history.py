"""Goal: a store that holds the commits of another log, or of a future that was taken back, is never carried on with.

Method: to each store a first history; then a sink with another log's id, or whose log ends before the store's commit.
What the store holds is read through its normal client, and compared with a model in plain Python.
"""

from __future__ import annotations

from collections import Counter

import pytest
from sink_histories import Row, View, delivery, view, weighted
from sink_stores import Store

KEY = ("id", "bigint", lambda rng: 0)
NOTE = ("note", "string", lambda rng: "")


def sales(*rows: Row, name: str = "sales") -> View:
    made = view(name, [KEY, NOTE], ("id",))
    made.rows = list(rows)
    return made


def first(store: Store) -> None:
    """A history of nine commits, by the log `one`."""
    old, gone = sales((1, "old"), (2, "both")), sales((7, "x"), name="gone")
    sink = store.sink(log="one")
    assert sink.open(9) is None and not sink.anew
    sink.write(delivery(8, [old, gone], replacements={"sales": old.whole(), "gone": gone.whole()}))
    sink.write(delivery(9, [old, gone]))
    sink.close()


@pytest.mark.parametrize(("log", "end", "why"), [("two", 20, "another log"), ("one", 8, "and the views at 8")])
def test_its_views_are_stale_and_come_anew(store: Store, log: str, end: int, why: str) -> None:
    first(store)
    sink = store.sink(log=log)
    assert sink.open(end) is None
    assert why in sink.anew
    assert sink.held() == {"sales": 0, "gone": 0}
    assert {name: state[1] for name, state in store.states().items()} == {"sales": "stale", "gone": "stale"}
    assert store.contents("sales") == Counter({(1, "old"): 1, (2, "both"): 1})
    new = sales((2, "both"), (3, "new"))
    sink.write(delivery(3, [new], replacements={"sales": new.whole()}, dropped=frozenset({"gone"})))
    assert store.holds(new)
    assert store.frontier() == 3
    assert store.states() == {"sales": (1, "live", 3, None)}
    assert "gone" not in store.tables()
    sink.write(delivery(4, [new], deltas={"sales": weighted(new.schema, [((3, "new"), -1)])}))
    assert store.contents("sales") == Counter({(2, "both"): 1})
    sink.close()
    again = store.sink(log=log)
    assert again.open(4) == 4 and not again.anew
    assert again.held() == {"sales": 1}


def test_the_same_log_goes_on_and_an_older_version_s_store_is_taken_as_its_own(store: Store) -> None:
    first(store)
    assert store.sink(log="one").open(9) == 9
    store.query("UPDATE headrace_progress SET log = NULL")
    taken = store.sink(log="two")
    assert taken.open(9) == 9 and not taken.anew
    taken.close()
    other = store.sink(log="three")
    assert other.open(9) is None and "another log" in other.anew


def test_a_store_made_before_it_was_told_where_transactions_came_from_gets_the_columns(store: Store) -> None:
    first(store)
    for name in ("source", "position", "log"):
        store.query(f"ALTER TABLE headrace_progress DROP COLUMN {name}")
    sink = store.sink(log="one")
    assert sink.open(9) == 9
    some = sales((1, "old"), (2, "both"))
    sink.write(delivery(10, [some], deltas={"sales": weighted(some.schema, [((2, "both"), -1)])}))
    assert store.query('SELECT "commit", log FROM headrace_progress') == [(10, "one")]
