"""Goal: what somebody has changed in a store is found, all of it and nothing else, and put right without touching the
rest.

Method: random histories are written, then an ordinary client damages the tables; what it reads before and after, as
multisets of whole rows, says how many rows must be told as different. After a repair it reads the view's rows again,
the row versions of PostgreSQL say which rows were left alone, and further deliveries go on.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
import pytest
from sink_histories import EVERY_TYPE, Row, View, delivery, plain_row, view, weighted
from sink_stores import PostgresStore, Store, quoted
from test_conformance import KEY, NOTE, PLACE, TOTAL, fill, opened, sales
from test_quarantine import FF, quarantined, sent

from headrace.model.errors import HeadraceError
from headrace.sinks.base import Sink
from headrace.sinks.comparison import Comparison, Expected, Wanted
from sampled import sampled

ROW = ("row", "bigint", lambda rng: rng.randrange(10**6))


def holding(*views: View, commit: int | None = None, tables: Mapping[str, pa.Table] | None = None) -> Expected:
    """What the views hold, for a sink that must stand at ``commit``."""

    def expected(reached: int | None, held: Mapping[str, int]) -> list[Wanted]:
        assert commit is None or reached == commit
        assert held == {v.schema.name: v.schema.version for v in views}
        return [Wanted(v.schema, (tables or {}).get(v.schema.name, v.whole())) for v in views]

    return expected


def compared(store: Store, *views: View, keys: Mapping[str, tuple[str, ...]] | None = None) -> dict[str, Comparison]:
    """By an instance that was never opened."""
    found = store.sink(keys).compare(holding(*views))
    return {one.view: one for one in found}


def surplus(before: Counter[Row], after: Counter[Row]) -> int:
    """Copies that are missing or too many."""
    return sum(((before - after) + (after - before)).values())


def damaged(store: Store, rng: random.Random, some: View, count: int) -> None:
    """Rows deleted, values changed, rows copied, by numbers that the view's column ``row`` holds."""
    name = quoted(some.schema.name)
    at = some.schema.names.index("row")
    rows = sorted({row[at] for row in some.rows if row[at] is not None})
    for row in rng.sample(rows, min(count, len(rows))):
        choice = rng.randrange(3)
        if choice == 0:
            store.query(f"DELETE FROM {name} WHERE row = {row}")
        elif choice == 1:
            store.query(f"UPDATE {name} SET row = {rng.randrange(10**6, 10**7)} WHERE row = {row}")
        else:
            added(store, some, f"SELECT {{columns}} FROM {name} WHERE row = {row}", row)


def added(store: Store, some: View, rows: str, row: int) -> None:
    """Copies of rows, with another number where the key asks for it."""
    name, key = some.schema.name, some.schema.key
    columns = [quoted(column) for column in some.schema.names]
    taken = [f"row + {10**7}" if column == '"row"' and key else column for column in columns]
    into, shown = quoted(name), ", ".join(columns)
    if store.kind == "postgres" and not key:  # the table behind the SQL view asks for more
        into = quoted(f"_headrace_{name}")
        shown += ', "_row", "_n"'
        taken += ["gen_random_uuid()", str(1 + row % 3)]
    store.query(f"INSERT INTO {into} ({shown}) " + rows.format(columns=", ".join(taken)))


def versions(store: Store, some: View) -> Counter[Row]:
    """Every row as the server has stored it: which transaction wrote it, where it lies, and its text."""
    name = some.schema.name if some.schema.key else f"_headrace_{some.schema.name}"
    return Counter(store.query(f"SELECT t.xmin::text, t.ctid::text, t::text FROM {quoted(name)} t"))


# ---- random histories, random damage


@pytest.mark.parametrize("seed", sampled([1, 2, 3], 3))
@pytest.mark.parametrize(
    ("columns", "key"),
    [
        pytest.param([ROW, *EVERY_TYPE], ("row",), id="a key, every type"),
        pytest.param([PLACE, ROW, TOTAL], ("place", "row"), id="a key of two columns that may be null"),
        pytest.param([PLACE, ROW, TOTAL], (), id="rows that may repeat"),
        pytest.param([*EVERY_TYPE, ROW], (), id="every type, rows may repeat"),
    ],
)
def test_random_damage_is_counted_healed_and_left_behind(store: Store, columns: list, key: tuple, seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    changing, other = view("changing", columns, key), sales((1, "a"), name="other")
    sink = opened(store)
    changing.change(rng, 60)
    whole = {"changing": changing.whole(), "other": other.whole()}
    sink.write(delivery(1, [changing, other], replacements=whole))
    for commit in range(2, 6):
        sink.write(delivery(commit, [changing], deltas={"changing": changing.change(rng, 30)}))
    both = [one.differences for one in sink.compare(holding(changing, other, commit=5))]
    assert both == [0, 0]
    intact = store.rows(changing)

    damaged(store, rng, changing, 12)
    damage = surplus(intact, store.rows(changing))
    assert damage > 0
    found = compared(store, changing, other)
    assert found["changing"].differences == damage
    assert found["changing"].rows == len(changing.rows)
    assert sum(abs(one.expected - one.found) for one in found["changing"].first) <= damage
    assert found["other"] == Comparison("other", 1, 0, 0)
    assert surplus(intact, store.rows(changing)) == damage  # looking changes nothing

    kept = versions(store, changing) if isinstance(store, PostgresStore) else Counter[Row]()
    healed = sink.repair(holding(changing, other, commit=5))
    assert [one.differences for one in healed] == [damage, 0]
    assert store.holds(changing) and store.holds(other)
    assert all(one.same for one in compared(store, changing, other).values())
    if isinstance(store, PostgresStore):
        written = sum((versions(store, changing) - kept).values())
        assert written <= damage
        assert sum((versions(store, changing) & kept).values()) == len(changing.rows) - written
    assert store.frontier() == 5
    for commit in (6, 7):
        sink.write(delivery(commit, [changing], deltas={"changing": changing.change(rng, 40)}))
        assert store.holds(changing)
    assert all(one.same for one in compared(store, changing, other).values())


# ---- values


@pytest.mark.parametrize("key", [("id",), ()], ids=["a key", "rows may repeat"])
def test_values_that_compare_equal_are_told_apart(store: Store, key: tuple[str, ...]) -> None:
    some = view(
        "signs", [KEY, ("x", "double", lambda rng: 0.0), ("m", "interval year to month", lambda rng: None)], key
    )
    some.rows = [(1, 0.0, {"_months": 1}), (2, float("nan"), None), (3, -0.0, {"_months": 14})]
    sink = fill(store, some)
    assert compared(store, some)["signs"].same
    if store.kind == "postgres":
        store.query("UPDATE signs SET x = '-0.0' WHERE id = 1")
    else:  # DuckDB's UPDATE leaves a value that equals the new one
        store.query("DELETE FROM signs WHERE id = 1")
        store.query("INSERT INTO signs SELECT 1, -1e-300 * 1e-300, INTERVAL '1 month'")
    found = compared(store, some)["signs"]
    assert found.differences == 2
    assert {(one.row["id"], str(one.row["x"]), one.expected, one.found) for one in found.first} == {
        (1, "0.0", 1, 0),
        (1, "-0.0", 0, 1),
    }
    store.query("UPDATE signs SET m = INTERVAL '30 days' WHERE id = 1")
    assert compared(store, some)["signs"].differences == 2
    sink.repair(holding(some))
    assert store.holds(some)
    assert compared(store, some)["signs"].same


def test_the_first_rows_that_differ_say_what_is_there_and_what_is_not(store: Store) -> None:
    some = sales((1, "a"), (2, None), (3, "c"))
    fill(store, some)
    store.query("UPDATE sales SET note = 'b' WHERE id = 1")
    store.query("DELETE FROM sales WHERE id = 2")
    found = compared(store, some)["sales"]
    assert [(dict(one.row), one.expected, one.found) for one in found.first] == [
        ({"id": 1, "note": "a"}, 1, 0),
        ({"id": 1, "note": "b"}, 0, 1),
        ({"id": 2, "note": None}, 1, 0),
    ]


def test_a_null_is_not_an_empty_text(store: Store) -> None:
    some = sales((1, None), key=())
    fill(store, some)
    store.query("UPDATE sales SET note = ''")
    assert compared(store, some)["sales"].differences == 2


# ---- tables that are not what they were


def dropped(store: Store) -> str:
    store.query("DROP TABLE sales")
    return "'sales' is not there"


def without_a_column(store: Store) -> str:
    store.query("ALTER TABLE sales DROP COLUMN note")
    return "'sales' has no column 'note'"


def of_another_type(store: Store) -> str:
    store.query("ALTER TABLE sales ALTER COLUMN note TYPE " + ("varchar(7)" if store.kind == "postgres" else "BLOB"))
    return "the column 'note' of 'sales' is " + (
        "character varying(7), not text" if store.kind == "postgres" else "BLOB, not VARCHAR"
    )


@pytest.mark.parametrize("change", [dropped, without_a_column, of_another_type])
def test_a_table_of_another_form_is_told_and_made_anew(store: Store, change: Callable[[Store], str]) -> None:
    some, other = sales((1, "a"), (2, "b")), sales((1, "a"), (1, "a"), key=(), name="other")
    sink = fill(store, some, other)
    why = change(store)
    found = compared(store, some, other)
    assert found["sales"] == Comparison("sales", 2, 0, 2, why)
    assert found["other"].same
    sink.repair(holding(some, other))
    assert store.holds(some) and store.holds(other)
    assert all(one.same for one in compared(store, some, other).values())
    assert store.states()["sales"] == (1, "live", 1, None)
    sink.write(delivery(2, [some], deltas={"sales": some.change(random.Random(1), 10)}))
    assert store.holds(some)


def test_a_column_of_the_user_is_told_and_does_no_harm(store: Store) -> None:
    some = sales((1, "a"), (2, "b"))
    sink = fill(store, some)
    store.query("ALTER TABLE sales ADD COLUMN mine int")
    store.query("UPDATE sales SET mine = id")
    found = compared(store, some)["sales"]
    assert (found.same, found.additions) == (True, ("the column 'mine'",))
    store.query("DELETE FROM sales WHERE id = 1")
    sink.repair(holding(some))
    assert sorted(store.query("SELECT id, note, mine FROM sales")) == [(1, "a", None), (2, "b", 2)]


def test_a_table_of_somebody_else_is_told_and_left_alone(store: Store) -> None:
    some, other = sales((1, "a")), sales((1, "a"), name="other")
    sink = fill(store, some, other)
    store.query("DROP TABLE sales")
    store.query("CREATE TABLE sales (id bigint, note text)")
    store.query("DELETE FROM other")
    assert compared(store, some, other)["sales"].diverged == "'sales' is not the one that this sink made"
    before = store.snapshot()
    with pytest.raises(HeadraceError) as caught:
        sink.repair(holding(some, other))
    assert caught.value.code == "sink.conflict"
    assert store.snapshot() == before


# ---- beside what is compared


def test_rows_that_the_store_cannot_hold_are_no_differences(store: Store) -> None:
    some = view("notes", [KEY, NOTE], ("id",))
    whole = sent(delivery(1, [some], replacements={"notes": weighted(some.schema, [((1, "a"), 1), ((2, FF), 1)])}))
    sink = opened(store)
    sink.write(whole)
    expected = holding(some, tables=dict(whole.replacements))
    assert store.sink().compare(expected) == [Comparison("notes", 1, 1, 0)]
    store.query("UPDATE headrace_quarantine SET copies = 5")
    found = store.sink().compare(expected)
    assert [(one.differences, one.diverged) for one in found] == [(0, "its rows in the quarantine were changed")]
    sink.repair(expected)
    assert quarantined(store) == {"notes": Counter({(2, FF): 1})}
    assert sink.quarantined == {"notes": 1}
    assert store.sink().compare(expected) == [Comparison("notes", 1, 1, 0)]


def test_a_view_that_has_failed_keeps_its_mark(store: Store) -> None:
    some, never = sales((1, "a"), (2, "b")), sales(name="never")
    sink = fill(store, some)
    sink.write(delivery(3, [some, never], stale={"sales": "1/0", "never": "1/0"}))
    store.query("DELETE FROM sales WHERE id = 1")
    sink.repair(holding(some, commit=3))
    assert store.holds(some)
    assert store.states()["sales"] == (1, "stale", 1, "1/0")


def test_a_repair_that_fails_in_one_view_leaves_every_view_as_it_was(store: Store) -> None:
    some, other = sales((1, "a")), sales((1, "a"), name="other")
    sink = fill(store, some, other)
    store.query("DELETE FROM sales")
    before = store.snapshot()

    def expected(reached: int | None, held: Mapping[str, int]) -> Iterator[Wanted]:
        yield Wanted(some.schema, some.whole())
        raise HeadraceError("state.missing", "the files of the other are gone")

    with pytest.raises(HeadraceError):
        sink.repair(expected)
    assert store.snapshot() == before
    sink.repair(holding(some, other))
    assert store.holds(some)


def test_an_older_instance_repairs_nothing(store: Store) -> None:
    some = sales((1, "a"))
    sink = fill(store, some)
    opened(store)
    store.query("DELETE FROM sales")
    with pytest.raises(HeadraceError) as caught:
        sink.repair(holding(some))
    assert caught.value.code == "sink.fenced"
    assert store.contents("sales") == Counter()


def test_a_sink_that_was_never_written_to_has_nothing_to_compare(store: Store) -> None:
    asked: list[tuple[int | None, dict[str, int]]] = []

    def expected(reached: int | None, held: Mapping[str, int]) -> list[Wanted]:
        asked.append((reached, dict(held)))
        return []

    assert store.sink().compare(expected) == []
    assert store.tables() == set()
    assert opened(store).repair(expected) == []
    assert asked == [(None, {}), (None, {})]


def test_a_declared_key_counts_as_the_table_was_made_with_it(store: Store) -> None:
    some = sales((1, "a"), (1, "b"), key=("id",))
    sink = opened(store, {"sales": ("note",)})
    sink.write(delivery(1, [some], replacements={"sales": some.whole()}))
    store.query("DELETE FROM sales WHERE note = 'a'")
    assert compared(store, some, keys={"sales": ()})["sales"].differences == 1
    sink.repair(holding(some))
    assert store.contents("sales") == Counter({plain_row(row): 1 for row in some.rows})


class Blind(Sink):
    """A store that can be written to and not read."""

    name = "mail"

    def open(self, end: int | None = None) -> int | None:
        return None

    def held(self) -> dict[str, int]:
        return {}

    def write(self, delivery: object) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize("ask", [Sink.compare, Sink.repair])
def test_a_sink_that_cannot_be_read_back_says_so(ask: Callable[[Sink, Expected], list[Comparison]]) -> None:
    with pytest.raises(HeadraceError) as caught:
        ask(Blind(), holding())
    assert caught.value.code == "sink.unsupported"
    assert "'mail'" in caught.value.what


# ---- what is particular to PostgreSQL


@pytest.mark.postgres
def test_the_hidden_columns_of_a_multiset_are_looked_at_too(postgres_store: PostgresStore) -> None:
    some = sales((1, "a"), (1, "a"), (1, "a"), (2, "b"), key=())
    sink = fill(postgres_store, some)
    hidden = quoted("_headrace_sales")
    for damage in (
        f"UPDATE {hidden} SET _n = 9 WHERE _n = 2",
        f"UPDATE {hidden} SET _row = gen_random_uuid() WHERE id = 2",
        f"ALTER TABLE {hidden} DROP CONSTRAINT {quoted('_headrace_sales_pkey')}",
        f"DELETE FROM {hidden} WHERE _n = 1",
        "UPDATE sales SET note = 'c' WHERE id = 1",
        "CREATE OR REPLACE VIEW sales AS SELECT id, upper(note) AS note FROM _headrace_sales",
        "DROP VIEW sales",
    ):
        postgres_store.query(damage)
        assert not compared(postgres_store, some)["sales"].same, damage
        sink.repair(holding(some))
        assert postgres_store.holds(some), damage
        assert compared(postgres_store, some)["sales"].same, damage
        numbers = postgres_store.query(f"SELECT id, _n FROM {hidden} ORDER BY 1, 2")
        assert numbers == [(1, 1), (1, 2), (1, 3), (2, 1)]
    sink.write(delivery(2, [some], deltas={"sales": weighted(some.schema, [((1, "a"), -2)])}))
    assert postgres_store.contents("sales") == Counter({(1, "a"): 1, (2, "b"): 1})


@pytest.mark.postgres
def test_a_key_that_was_dropped_comes_back(postgres_store: PostgresStore) -> None:
    some = sales((1, "a"), (None, "b"))
    sink = fill(postgres_store, some)
    postgres_store.query("ALTER TABLE sales DROP CONSTRAINT sales_id_key")
    postgres_store.query("INSERT INTO sales SELECT * FROM sales")
    assert compared(postgres_store, some)["sales"].diverged == "the key of 'sales' is not there"
    sink.repair(holding(some))
    assert postgres_store.holds(some)
    assert compared(postgres_store, some)["sales"].same


@pytest.mark.postgres
def test_rows_that_do_not_stay_as_they_are_written_are_told(postgres_store: PostgresStore) -> None:
    some = sales((1, "a"), (2, "b"))
    sink = fill(postgres_store, some)
    postgres_store.query("DELETE FROM sales WHERE id = 1")
    postgres_store.query(
        "CREATE FUNCTION louder() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN NEW.note := NEW.note || '!'; RETURN NEW; END $$;"
        "CREATE TRIGGER louder BEFORE INSERT ON sales FOR EACH ROW EXECUTE FUNCTION louder()"
    )
    with pytest.raises(HeadraceError) as caught:
        sink.repair(holding(some))
    assert caught.value.code == "sink.diverged"
    assert postgres_store.contents("sales") == Counter({(2, "b"): 1})


@pytest.mark.postgres
def test_what_is_compared_is_one_moment_of_the_store(postgres_store: PostgresStore) -> None:
    some, other = sales((1, "a")), sales((1, "a"), name="other")
    writer = fill(postgres_store, some, other)

    def expected(reached: int | None, held: Mapping[str, int]) -> list[Wanted]:
        assert reached == 1
        was = [Wanted(some.schema, some.whole()), Wanted(other.schema, other.whole())]
        deltas = {v.schema.name: weighted(v.schema, [((9, "z"), 1)]) for v in (some, other)}
        writer.write(delivery(2, [some, other], deltas=deltas))  # another session goes on
        return was

    assert [one.differences for one in postgres_store.sink().compare(expected)] == [0, 0]
    assert postgres_store.frontier() == 2
