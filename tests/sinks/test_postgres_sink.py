"""Goal: what is particular to PostgreSQL. Method: a real server, asked through its normal client."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from sink_histories import Row, View, delivery, transfers, view, weighted
from sink_stores import PostgresStore

from headrace.formats.options import validate
from headrace.model.delivery import Delivery
from headrace.model.errors import HeadraceError
from headrace.sinks.connectors.postgres.config import PostgresOptions, parameters
from headrace.sinks.connectors.postgres.connector import PostgresSink
from headrace.testing.postgres import PostgresServer

pytestmark = pytest.mark.postgres

ID = ("id", "bigint", lambda rng: rng.randrange(60))
NOTE = ("note", "string", lambda rng: rng.choice("abc"))


def sales(*rows: Row, columns: tuple = (ID, NOTE), key: tuple[str, ...] = ("id",), version: int = 1) -> View:
    made = view("sales", columns, key, version)
    made.rows = list(rows)
    return made


def fill(store: PostgresStore, some: View) -> PostgresSink:
    sink = store.sink()
    assert isinstance(sink, PostgresSink)
    sink.open()
    sink.write(delivery(1, [some], replacements={"sales": some.whole()}))
    return sink


def test_a_reader_never_sees_a_part_of_a_delivery(postgres_store: PostgresStore) -> None:
    made = transfers(seed=7, count=250)
    sink = postgres_store.sink()
    sink.open()
    sink.write(made[0][0])
    stop, torn, reads = threading.Event(), [], [0]
    whole = "(SELECT coalesce(sum(amount), 0) FROM {})::int"
    question = f"SELECT {whole.format(chr(34) + 'left' + chr(34))} + {whole.format(chr(34) + 'right' + chr(34))}"

    def read() -> None:
        with psycopg.connect(postgres_store.dsn) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            while not stop.is_set():
                total = connection.execute(question).fetchone()
                commit = connection.execute("SELECT commit FROM headrace_progress").fetchone()
                rows = Counter(connection.execute('SELECT * FROM "right"').fetchall())
                connection.rollback()
                reads[0] += 1
                if total != (100_000,) or rows != made[commit[0] - 1][2]:
                    torn.append((commit, total))

    reader = threading.Thread(target=read)
    reader.start()
    for sent, left, right in made[1:]:
        sink.write(in_whole(sent, left, right) if sent.commit == 120 else sent)
    while reads[0] < 50:
        time.sleep(0.01)
    stop.set()
    reader.join()
    assert torn == []
    assert postgres_store.contents("left") == made[-1][1]


@pytest.mark.parametrize("key", [("id",), ()], ids=["a key", "rows may repeat"])
def test_large_contents_are_copied_where_no_reader_is_and_appear_at_once(
    postgres_store: PostgresStore, key: tuple[str, ...]
) -> None:
    """The first load of a view, and then its other columns: a reader sees what was before, or all of it, never waiting."""
    large = sales(*((n, "a") for n in range(60_000)), key=key)
    wider = view("sales", (ID, NOTE, ("more", "string", NOTE[2])), key, version=2)
    wider.rows = [(*row, "b") for row in large.rows]
    sink = postgres_store.sink()
    sink.open()
    seen: set[tuple[int, int]] = set()
    copied: set[str | None] = set()
    longest = [0.0]
    looks, stop = threading.Event(), threading.Event()

    def read() -> None:
        with psycopg.connect(postgres_store.dsn, autocommit=True, prepare_threshold=None) as connection:
            while not stop.is_set():
                began = time.monotonic()
                try:
                    rows = connection.execute("SELECT * FROM sales").fetchall()
                    seen.add((len(rows), len(rows[0])))
                except psycopg.errors.UndefinedTable:
                    seen.add((0, 0))
                longest[0] = max(longest[0], time.monotonic() - began)

    def watch() -> None:
        with psycopg.connect(postgres_store.dsn, autocommit=True) as connection:
            while not stop.is_set():
                now = connection.execute("SELECT command FROM pg_stat_progress_copy").fetchall()
                looks.set()
                copied.update(command for (command,) in now)

    threads = [threading.Thread(target=read), threading.Thread(target=watch)]
    for thread in threads:
        thread.start()
    assert looks.wait(30)
    sink.write(delivery(1, [large], replacements={"sales": large.whole()}))
    commit, end = 1, time.monotonic() + 30
    while not ((60_000, 3) in seen and "COPY FROM" in copied) and time.monotonic() < end:
        commit += 1
        sink.write(delivery(commit, [wider], replacements={"sales": wider.whole()}))
    stop.set()
    for thread in threads:
        thread.join()
    assert seen <= {(0, 0), (60_000, 2), (60_000, 3)}
    assert (60_000, 3) in seen
    assert "COPY FROM" in copied
    assert longest[0] < 20
    assert len(postgres_store.tables()) == 3 + (1 if key else 2)  # nothing is left of what was loaded beside


def in_whole(sent: Delivery, *contents: Counter[Row]) -> Delivery:
    """The same step, with the whole contents of its views instead of what changed."""
    pairs = zip(sent.schemas.items(), contents, strict=True)
    return replace(
        sent, deltas={}, replacements={name: weighted(schema, rows.items()) for (name, schema), rows in pairs}
    )


# ---- taking over, losing the connection


def test_a_stopped_older_instance_is_ended_when_it_holds_the_progress_row(postgres_store: PostgresStore) -> None:
    fill(postgres_store, sales((1, "a"))).close()
    with psycopg.connect(postgres_store.dsn, application_name="headrace headrace/warehouse") as older:
        older.execute("SELECT * FROM headrace_progress FOR UPDATE")
        older.execute("INSERT INTO sales VALUES (66, 'half')")
        started = time.monotonic()
        sink = postgres_store.sink()
        assert sink.open() == 1
        assert 1 < time.monotonic() - started < 20
        with pytest.raises(psycopg.OperationalError):
            older.execute("SELECT 1")
    assert postgres_store.contents("sales") == Counter({(1, "a"): 1})


def test_a_lost_connection_is_an_error_once_and_the_next_write_goes_on(postgres_store: PostgresStore) -> None:
    some = sales((1, "a"))
    sink = fill(postgres_store, some)
    sink.write(delivery(2, [some], deltas={"sales": weighted(some.schema, [((2, "b"), 1)])}))
    ended = postgres_store.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'headrace headrace/warehouse'"
    )
    assert ended == [(True,)]
    again = delivery(3, [some], deltas={"sales": weighted(some.schema, [((3, "c"), 1)])})
    with pytest.raises(HeadraceError) as caught:
        sink.write(again)
    assert caught.value.code == "sink.connect"
    sink.write(again)
    assert postgres_store.contents("sales") == Counter({(1, "a"): 1, (2, "b"): 1, (3, "c"): 1})


def test_a_server_that_restarts_is_found_again(tmp_path: Path) -> None:
    some = sales((1, "a"))
    with PostgresServer(tmp_path / "server") as server:
        store = PostgresStore(server.dsn)
        sink = fill(store, some)
        server.stop(immediate=True)
        change = delivery(2, [some], deltas={"sales": weighted(some.schema, [((2, "b"), 1)])})
        for _ in range(2):
            with pytest.raises(HeadraceError) as caught:
                sink.write(change)
            assert caught.value.code == "sink.connect"
        server.start()
        sink.write(change)
        sink.close()
        assert store.contents("sales") == Counter({(1, "a"): 1, (2, "b"): 1})


# ---- what users built on our tables


def test_same_columns_come_anew_in_place_under_a_view_of_the_user(postgres_store: PostgresStore) -> None:
    sink = fill(postgres_store, sales((1, "a"), (2, "b")))
    postgres_store.query("CREATE VIEW mine AS SELECT note FROM sales")
    newer = sales((2, "b"), (3, "c"), version=2)
    sink.write(delivery(2, [newer], replacements={"sales": newer.whole()}))
    assert postgres_store.contents("mine") == Counter({("b",): 1, ("c",): 1})


@pytest.mark.parametrize("key", [("id",), ()])
def test_other_columns_under_a_view_of_the_user_are_refused_with_its_name(
    postgres_store: PostgresStore, key: tuple[str, ...]
) -> None:
    some = sales((1, "a"), key=key)
    sink = fill(postgres_store, some)
    postgres_store.query("CREATE VIEW mine AS SELECT note FROM sales")
    before = postgres_store.snapshot()
    wider = sales((1, "a", "b"), columns=(ID, NOTE, ("more", "string", NOTE[2])), key=key, version=2)
    for part in ({"replacements": {"sales": wider.whole()}}, {"dropped": frozenset({"sales"})}):
        with pytest.raises(HeadraceError) as caught:
            sink.write(delivery(2, [wider], **part))
        assert caught.value.code == "sink.conflict"
        assert "mine depends on" in caught.value.why
    with pytest.raises(HeadraceError) as caught:
        sink.drop()
    assert "mine depends on" in caught.value.why
    assert postgres_store.snapshot() == before


def test_who_could_read_a_table_can_read_the_one_that_takes_its_place(
    sink_server: PostgresServer, postgres_store: PostgresStore
) -> None:
    sink_server.psql('DROP ROLE IF EXISTS "re ader"; CREATE ROLE "re ader"')
    sink = fill(postgres_store, sales((1, "a")))
    postgres_store.query('GRANT SELECT ON sales TO "re ader"')
    wider = sales((1, "a", "b"), columns=(ID, NOTE, ("more", "string", NOTE[2])), key=(), version=2)
    sink.write(delivery(2, [wider], replacements={"sales": wider.whole()}))
    may = "SELECT has_table_privilege('re ader', 'sales', 'SELECT'), has_table_privilege('re ader', 'sales', 'INSERT')"
    assert postgres_store.query(may) == [(True, False)]


def test_a_multiset_shows_only_the_columns_of_the_view(postgres_store: PostgresStore) -> None:
    fill(postgres_store, sales((1, "a"), (1, "a"), key=()))
    assert postgres_store.query("SELECT * FROM sales") == [(1, "a"), (1, "a")]
    hidden = postgres_store.query('SELECT "_row", "_n", id, note FROM "_headrace_sales" ORDER BY "_n"')
    assert hidden == [(hidden[0][0], 1, 1, "a"), (hidden[0][0], 2, 1, "a")]
    comments = postgres_store.query(
        "SELECT obj_description('sales'::regclass), obj_description('_headrace_sales'::regclass)"
    )
    assert comments == [("made by headrace sink headrace/warehouse for view sales",) * 2]


def test_the_key_is_a_constraint_of_the_table(postgres_store: PostgresStore) -> None:
    fill(postgres_store, sales((1, "a"), (None, "b")))
    for row in ("(1, 'x')", "(NULL, 'x')"):
        with pytest.raises(psycopg.errors.UniqueViolation):
            postgres_store.query(f"INSERT INTO sales VALUES {row}")


# ---- rights and passwords


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[PostgresServer]:
    """A server that asks for passwords, with a role that may do nothing."""
    with PostgresServer(tmp_path / "guarded", password="s3cret") as server:
        server.psql("CREATE ROLE writer LOGIN PASSWORD 'right'")
        yield server


def test_a_wrong_password_and_missing_rights_are_told_with_what_helps(
    guarded: PostgresServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    options = {"dsn": guarded.dsn_for(user="writer"), "schema": "public", "password": "env:WRITER_PASSWORD"}

    def attempt() -> HeadraceError:
        with pytest.raises(HeadraceError) as caught:
            PostgresSink("w", options, {}, "sinks/w.yaml").open()
        assert caught.value.where == "sinks/w.yaml"
        return caught.value

    monkeypatch.delenv("WRITER_PASSWORD", raising=False)
    assert attempt().code == "config.secret"
    monkeypatch.setenv("WRITER_PASSWORD", "wrong")
    refused = attempt()
    assert (refused.code, "wrong" in str(refused)) == ("sink.auth", False)
    monkeypatch.setenv("WRITER_PASSWORD", "right")
    lacking = attempt()
    assert lacking.code == "sink.rights"
    assert lacking.next == 'as an administrator: GRANT USAGE, CREATE ON SCHEMA "public" TO "writer"'
    guarded.psql(
        'GRANT USAGE, CREATE ON SCHEMA "public" TO "writer"; REVOKE TEMPORARY ON DATABASE postgres FROM PUBLIC'
    )
    lacking = attempt()
    assert lacking.next == 'as an administrator: GRANT TEMPORARY ON DATABASE "postgres" TO "writer"'
    guarded.psql('GRANT TEMPORARY ON DATABASE "postgres" TO "writer"')
    secret = tmp_path / "password"
    secret.write_text("right\n")
    sink = PostgresSink("w", {**options, "password": f"file:{secret}"}, {}, "sinks/w.yaml")
    assert sink.open() is None
    some = sales((1, "a"))
    sink.write(delivery(1, [some], replacements={"sales": some.whole()}))
    guarded.psql("ALTER TABLE sales OWNER TO postgres")
    with pytest.raises(HeadraceError) as caught:
        sink.write(delivery(2, [some], deltas={"sales": weighted(some.schema, [((2, "b"), 1)])}))
    assert caught.value.code == "sink.rights"
    assert "'writer'" in caught.value.what
    sink.close()


def test_a_server_that_is_not_there_is_a_connection_error() -> None:
    with pytest.raises(HeadraceError) as caught:
        PostgresSink("w", {"host": "127.0.0.1", "port": 1, "user": "x"}, {}).open()
    assert caught.value.code == "sink.connect"


@pytest.mark.parametrize(
    ("options", "sslmode"),
    [
        ({"host": "db.example.org"}, "verify-full"),
        ({"dsn": "postgresql://me@db.example.org/shop"}, "verify-full"),
        ({"dsn": "host=localhost,db.example.org"}, "verify-full"),
        ({"dsn": "postgresql://me@db.example.org/shop?sslmode=require"}, "require"),
        ({"dsn": "postgresql://me@db.example.org/shop", "sslmode": "disable"}, "disable"),
        ({"host": "localhost"}, "prefer"),
        ({"host": "127.0.0.3"}, "prefer"),
        ({"dsn": "host=::1"}, "prefer"),
        ({"host": "/run/postgresql"}, "prefer"),
    ],
)
def test_a_server_elsewhere_must_prove_who_it_is(
    options: dict[str, str], sslmode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGSSLMODE", raising=False)
    monkeypatch.delenv("PGHOST", raising=False)
    assert parameters(validate(PostgresOptions, options))["sslmode"] == sslmode


def test_a_connection_string_that_cannot_be_read_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSN", "password s3cret")
    with pytest.raises(HeadraceError) as caught:
        PostgresSink("w", {"dsn": "env:DSN"}, {}, "sinks/w.yaml").open()
    assert caught.value.code == "config.invalid"
    assert "s3cret" not in str(caught.value)


def test_an_address_is_needed() -> None:
    with pytest.raises(HeadraceError) as caught:
        PostgresSink("w", {"schema": "public"}, {})
    assert caught.value.code == "config.invalid"
    assert "'dsn' or 'host' is missing" in caught.value.what


# ---- what PostgreSQL cannot hold


@pytest.mark.parametrize("name", ["x" * 64, "ü" * 32, "xmin"])
def test_a_column_name_that_postgres_would_cut_or_refuse_is_named(postgres_store: PostgresStore, name: str) -> None:
    some = sales((1, "a"), columns=(ID, (name, "string", NOTE[2])))
    with pytest.raises(HeadraceError) as caught:
        fill(postgres_store, some)
    assert caught.value.code == "sink.value"
    assert f"'{name}'" in caught.value.what
    assert postgres_store.tables() == {"headrace_progress", "headrace_views", "headrace_quarantine"}


def test_names_as_long_as_postgres_keeps_them_work_in_both_forms(postgres_store: PostgresStore) -> None:
    sink = postgres_store.sink()
    sink.open()
    for commit, key in enumerate(((), ("y" * 63,)), start=1):
        some = view("x" * 62 + str(commit), [("y" * 63, "bigint", ID[2])], key)
        some.rows = [(1,), (2,)]
        sink.write(delivery(commit, [some], replacements={some.schema.name: some.whole()}))
        assert postgres_store.holds(some)


def test_a_key_too_long_for_an_index_is_told_with_what_helps(postgres_store: PostgresStore) -> None:
    noise = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz", k=9000))
    some = sales((1, noise), key=("note",))
    with pytest.raises(HeadraceError) as caught:
        fill(postgres_store, some)
    assert caught.value.code == "sink.value"
    assert "'sales'" in caught.value.what
    sink = postgres_store.sink({"sales": ()})
    sink.open()
    sink.write(delivery(1, [some], replacements={"sales": some.whole()}))
    assert postgres_store.holds(some)
