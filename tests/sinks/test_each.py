"""Goal: each transaction of a succession is one of its own in the store, in order, whole, and fenced.

Method: random histories of two views cut into successions, to each store; a trigger in PostgreSQL writes down what every
transaction that moves the progress row sees, and who it is; DuckDB is read through its log of changes to the progress row.
The model is plain Python. Random histories print their seed.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace

import psycopg
import pyarrow as pa
import pytest
from sink_histories import EVERY_TYPE, Row, View, delivery, transfers, view
from sink_stores import PostgresStore, Store

from headrace.model.delivery import Delivery, Succession
from headrace.model.errors import HeadraceError
from headrace.model.transaction import TransactionOrigin
from headrace.sinks.base import Sink
from headrace.testing.postgres import PostgresServer
from sampled import sampled

KEY = ("id", "bigint", lambda rng: rng.randrange(40))
WITNESS = """
CREATE TABLE witness (nr bigserial, commit bigint, source text, position text, at timestamptz, xid xid8, lefts bigint,
    rights bigint);
CREATE FUNCTION witness() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO public.witness (commit, source, position, at, xid, lefts, rights)
    SELECT n.commit, n.source, n.position, n.committed_at, pg_current_xact_id(), (SELECT sum(amount) FROM public."left"),
        (SELECT coalesce(sum(amount), 0) FROM public."right") FROM public.headrace_progress n;
    RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER witness AFTER UPDATE ON headrace_progress DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (old.commit IS DISTINCT FROM new.commit) EXECUTE FUNCTION witness();
"""


def origin(commit: int) -> TransactionOrigin:
    return TransactionOrigin("shop", f"0/{commit:X}", 1_700_000_000_000_000 + commit)


def together(deliveries: list[Delivery], last: int | None = None) -> Succession:
    """Deliveries as one succession; ``last``: a commit without rows behind them."""
    deltas: dict[str, list[pa.Table]] = {}
    commits: dict[str, list[int]] = {}
    for one in deliveries:
        for name, table in one.deltas.items():
            deltas.setdefault(name, []).append(table)
            commits.setdefault(name, []).extend([one.commit] * table.num_rows)
    numbers = [one.commit for one in deliveries] + ([last] if last else [])
    return Succession(
        tuple(numbers), tuple(map(origin, numbers)), deliveries[0].schemas,
        {name: pa.concat_tables(tables) for name, tables in deltas.items()},
        {name: pa.array(of_row, pa.int64()) for name, of_row in commits.items()},
    )  # fmt: skip


def begun(store: Store, first: Delivery) -> Sink:
    sink = store.sink()
    sink.open()
    sink.write(first)
    return sink


def total(rows: Counter[Row]) -> int:
    return sum(row[-1] * copies for row, copies in rows.items())


@pytest.mark.parametrize("seed", sampled([1, 2, 3], 3))
def test_a_random_history_cut_anywhere_gives_the_contents_of_the_model(store: Store, seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    views = [
        view("keyed", [KEY, *EVERY_TYPE], ("id",)),
        view("pairs", [KEY, ("place", "string", lambda rng: rng.choice("ab")), EVERY_TYPE[7]], ("id", "place")),
        view("loose", [("place", "string", lambda rng: rng.choice(["", "a"])), EVERY_TYPE[5]]),
        view("odd ;'\" names", [("headrace_commit", "bigint", lambda rng: rng.randrange(5)), ("commit", *KEY[1:])]),
    ]
    sink = begun(store, delivery(1, views, replacements={v.schema.name: v.whole() for v in views}))
    commit = 1
    for _ in range(6):
        made = []
        for _ in range(rng.randrange(1, 30)):
            commit += rng.randrange(1, 3)
            some: list[View] = rng.sample(views, rng.randrange(1, 4))
            deltas = {v.schema.name: v.change(rng, rng.randrange(1, 9)) for v in some}
            made.append(delivery(commit, views, deltas={n: t for n, t in deltas.items() if t.num_rows}))
        commit += 1
        sink.write_each(together(made, commit if rng.random() < 0.5 else None))
        commit = store.frontier() or 0
        for v in views:
            assert store.holds(v)
    assert {state[0:2] for state in store.states().values()} == {(1, "live")}


def test_what_was_written_before_is_left_out(store: Store) -> None:
    made = transfers(4, 30)
    sink = begun(store, made[0][0])
    sink.write_each(together([m[0] for m in made[1:20]]))
    sink.write_each(together([m[0] for m in made[10:]]))
    assert (store.contents("left"), store.contents("right")) == (made[-1][1], made[-1][2])
    assert store.frontier() == 30


def test_an_older_instance_writes_nothing(store: Store) -> None:
    made = transfers(5, 20)
    old = begun(store, made[0][0])
    new = store.sink()
    assert new.open() == 1
    with pytest.raises(HeadraceError) as caught:
        old.write_each(together([m[0] for m in made[1:]]))
    assert caught.value.code == "sink.fenced"
    assert (store.frontier(), store.contents("left")) == (1, made[0][1])
    new.write_each(together([m[0] for m in made[1:]]))
    assert (store.frontier(), store.contents("left")) == (20, made[-1][1])


def test_rows_that_are_not_there_stop_it_before_their_transaction(store: Store) -> None:
    made = transfers(6, 12)
    sink = begun(store, made[0][0])
    gone = next(m[0] for m in made[6:] if m[0].deltas["left"].num_rows)
    row = gone.deltas["left"].to_pylist()[0]["id"]
    before = [m for m in made[1:] if not any(r["id"] == row for r in m[0].deltas["left"].to_pylist())]
    store.query(f'DELETE FROM "left" WHERE id = {row}')
    with pytest.raises(HeadraceError) as caught:
        sink.write_each(together([m[0] for m in made[1:]]))
    assert caught.value.code == "sink.diverged"
    assert "left" in caught.value.what
    reached = store.frontier() or 0
    first = next(m[0].commit for m in made[1:] if any(r["id"] == row for r in m[0].deltas["left"].to_pylist()))
    assert reached == first - 1, before
    assert store.contents("right") == made[reached - 1][2]


@pytest.mark.parametrize("transactions", [1, 3])
def test_a_view_that_comes_back_as_it_was_is_live_at_its_transaction(store: Store, transactions: int) -> None:
    made = transfers(8, 7)
    right = [replace(m[0], deltas={"right": m[0].deltas["right"]}) for m in made[1:]]
    sink = begun(store, made[0][0])
    sink.write_each(replace(together(right[:2]), stale={"left": "it threw"}))
    assert {view: state[1] for view, state in store.states().items()} == {"left": "stale", "right": "live"}
    later = together(right[2 : 2 + transactions])
    none = {"left": made[1][0].deltas["left"].slice(0, 0)}
    sink.write_each(replace(
        later, deltas={**later.deltas, **none}, of_row={**later.of_row, "left": pa.array([], pa.int64())},
        back={"left": later.commits[0]},
    ))  # fmt: skip
    assert {view: state[1] for view, state in store.states().items()} == {"left": "live", "right": "live"}
    assert (store.frontier(), store.contents("left")) == (later.commits[-1], made[0][1])


@pytest.mark.postgres
@pytest.mark.parametrize("flush", ["batch", "each"])
def test_every_transaction_is_one_of_its_own_in_postgresql(postgres_store: PostgresStore, flush: str) -> None:
    made = transfers(7, 400)
    sink = postgres_store.sink(flush=flush)
    sink.open()
    sink.write(made[0][0])
    postgres_store.query(WITNESS)
    torn: list[Row] = []
    seen: set[int] = set()
    done = threading.Event()

    def read() -> None:
        with psycopg.connect(postgres_store.dsn, autocommit=True) as reader:
            while not done.is_set():
                row = reader.execute(
                    'SELECT commit, (SELECT sum(amount) FROM "left"), (SELECT coalesce(sum(amount), 0) FROM "right")'
                    " FROM headrace_progress"
                ).fetchone()
                assert row is not None
                seen.add(row[0])
                if row[1:] != (total(made[row[0] - 1][1]), total(made[row[0] - 1][2])):
                    torn.append(row)

    reader = threading.Thread(target=read)
    reader.start()
    for start, stop in ((0, 1), (1, 2), (2, 200), (200, 400)):
        if start:
            sink.write_each(together([m[0] for m in made[start:stop]]))
        end = time.monotonic() + 30
        while stop not in seen and reader.is_alive() and time.monotonic() < end:
            time.sleep(0.005)
    done.set()
    reader.join()
    assert torn == []
    assert {1, 2, 200, 400} <= seen
    rows = postgres_store.query("SELECT * FROM witness ORDER BY nr")
    assert [row[1] for row in rows] == list(range(2, 401))
    assert len({row[5] for row in rows}) == 399  # as many transactions of the server
    for _, commit, source, position, at, _, lefts, rights in rows:
        if commit > 2:  # the first was a delivery of its own
            assert (source, position, at.timestamp()) == ("shop", f"0/{commit:X}", origin(commit).committed_us / 1e6)
        assert (lefts, rights) == (total(made[commit - 1][1]), total(made[commit - 1][2]))


@pytest.mark.postgres
def test_a_server_that_crashes_in_the_middle_comes_back_whole_and_gets_the_rest(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    rng = random.Random(8)
    made = transfers(8, 3000)
    with PostgresServer(tmp_path_factory.mktemp("crashing") / "server") as server:
        server.psql("ALTER SYSTEM SET wal_writer_delay = '10s'")  # what is not flushed by a commit stays unflushed
        server.psql("SELECT pg_reload_conf()")
        store = PostgresStore(server.dsn)
        sink = begun(store, made[0][0])
        reached, took_back, crashes = 1, 0, 0
        while crashes < 4 or not took_back:  # on a busy machine most of what was seen has been flushed
            assert crashes < 10, "no crash took back what was seen: nothing was at stake"
            crashes += 1
            saw = reached
            stop_at = reached + rng.randrange(20, 150)

            def crash(stop_at: int = stop_at) -> None:
                nonlocal saw
                with psycopg.connect(store.dsn, autocommit=True) as reader:
                    stopping = threading.Thread(target=server.stop, kwargs={"immediate": True})
                    with suppress(psycopg.Error):  # it reads to the end: what it saw last is what is least durable
                        while True:
                            ((saw,),) = reader.execute("SELECT commit FROM headrace_progress").fetchall()
                            if saw >= stop_at and stopping.ident is None:
                                stopping.start()
                    stopping.join()

            crasher = threading.Thread(target=crash)
            crasher.start()
            with pytest.raises(HeadraceError) as caught:
                sink.write_each(together([m[0] for m in made[reached:]]))
            assert caught.value.code == "sink.connect"
            crasher.join()
            server.start()
            now = sink.open() or 0
            assert reached <= now < len(made)
            took_back += now < saw
            reached = now
            assert store.contents("left") == made[reached - 1][1], reached
            assert store.contents("right") == made[reached - 1][2], reached
        sink.write_each(together([m[0] for m in made[reached:]]))
        assert (store.contents("left"), store.contents("right")) == (made[-1][1], made[-1][2])
        store.close()


@pytest.mark.postgres
def test_what_was_written_survives_a_server_that_crashes_at_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    made = transfers(9, 60)
    with PostgresServer(tmp_path_factory.mktemp("crashing") / "server") as server:
        server.psql("ALTER SYSTEM SET wal_writer_delay = '10s'")  # what is not flushed by a commit stays unflushed
        server.psql("SELECT pg_reload_conf()")
        store = PostgresStore(server.dsn)
        sink = begun(store, made[0][0])
        for start in range(1, 60, 20):
            upto = min(start + 20, 60)
            sink.write_each(together([m[0] for m in made[start:upto]]))
            server.stop(immediate=True)
            server.start()
            sink = store.sink()
            assert sink.open() == upto
            assert (store.contents("left"), store.contents("right")) == (made[upto - 1][1], made[upto - 1][2])
        store.close()
