"""Goal: changes that a server has for us no longer are noticed, told, and put right by a copy of the difference.

Method: real servers on loopback. A slot is dropped and made again under its name, or somebody else reads it, while
nobody follows; a primary is killed and its standby promoted, which has all that was read, or less. Judge: what was
delivered, added up, is what a client reads at the server that is followed then.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from following import Followed

from headrace.testing.postgres import PostgresServer
from postgres_server import Shop, database, freed, postgres_server, shop

__all__ = ["database", "postgres_server", "shop"]  # fixtures

pytestmark = pytest.mark.postgres


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The folder of a project."""
    (tmp_path / ".headrace").mkdir()
    return tmp_path


def followed(shop: Shop, kept: Path) -> Followed:
    shop.run("CREATE TABLE t (id int PRIMARY KEY, n int); CREATE TABLE other (id int); INSERT INTO t VALUES (1, 1)")
    one = Followed(shop, "t", base=kept)
    one.does("INSERT INTO t VALUES (2, 2)")
    return one


def slot(one: Followed) -> str:
    return f"headrace_{one.shop.database}"


def put_right(one: Followed, why: str) -> None:
    """It was told, once, and what is delivered then is what is at the server."""
    assert [event["event"] for event in one.told] == ["source.copied_anew"]
    assert why in one.told[0]["why"]
    one.catches_up()
    one.is_same()
    one.does("INSERT INTO t VALUES (100, 1)", "DELETE FROM t WHERE id = 1")


def test_a_slot_made_again_under_its_name_is_told(shop: Shop, kept: Path) -> None:
    one = followed(shop, kept)
    one.shop.source.close()
    one.runs("INSERT INTO t VALUES (3, 3)", "UPDATE t SET n = 7 WHERE id = 2")
    freed(shop.run, slot(one))
    shop.run(f"SELECT pg_drop_replication_slot('{slot(one)}')")
    shop.run(f"SELECT pg_create_logical_replication_slot('{slot(one)}', 'pgoutput')")
    one.restarts()
    put_right(one, "it was made anew")


def test_a_slot_that_somebody_else_has_read_is_told(shop: Shop, kept: Path) -> None:
    one = followed(shop, kept)
    one.shop.source.close()
    one.runs("INSERT INTO t VALUES (3, 3)")
    freed(shop.run, slot(one))
    taken = shop.run(
        f"SELECT count(*) FROM pg_logical_slot_get_binary_changes('{slot(one)}', NULL, NULL, 'proto_version', '1', "
        f"'publication_names', '{slot(one)}')"
    )
    assert taken[0][0] > 0
    one.restarts()
    put_right(one, "somebody else has read it")


def test_a_slot_that_we_let_go_on_over_others_changes_is_ours(shop: Shop, kept: Path) -> None:
    """While others' tables change the server may forget, and the log gets no position: that is no loss."""
    one = followed(shop, kept)
    before = one.position
    for number in range(20):
        one.runs(f"INSERT INTO other VALUES ({number})")
        one.catches_up()
    assert one.position == before
    one.shop.source.close()
    passed = shop.slot("confirmed_flush_lsn")
    assert shop.run(f"SELECT '{passed}'::pg_lsn > '{one.at()}'::pg_lsn")[0][0]
    one.runs("INSERT INTO t VALUES (3, 3)")
    one.restarts()
    one.catches_up()
    one.is_same()
    assert one.told == []


# --- failover ---------------------------------------------------------------------------------------------------------


@contextmanager
def standby_of(primary: PostgresServer, folder: Path) -> Iterator[PostgresServer]:
    """A streaming physical standby, not started."""
    settings = {"primary_conninfo": f"host=127.0.0.1 port={primary.port} user=postgres", "hot_standby": "on"}
    standby = PostgresServer(folder, settings=settings)
    command = [str(standby.binaries / "pg_basebackup"), "-d", primary.dsn, "-D", str(standby.data), "-c", "fast"]
    subprocess.run(command, cwd=standby.folder, check=True, capture_output=True, **standby._identity())
    standby._write(standby.data / "standby.signal", b"")
    try:
        yield standby
    finally:
        standby.stop(immediate=True)


def reaches(standby: PostgresServer, primary: PostgresServer) -> None:
    (lsn,) = primary.psql("SELECT pg_current_wal_lsn()")[0]
    give_up = time.monotonic() + 30
    while not standby.psql(f"SELECT pg_last_wal_replay_lsn() >= '{lsn}'::pg_lsn")[0][0]:
        assert time.monotonic() < give_up, "the standby does not follow"
        time.sleep(0.05)


def promoted(one: Followed, standby: PostgresServer) -> None:
    """The primary is gone with a SIGKILL, the standby is the server from here on."""
    one.shop.source.close()
    process = one.shop.server._process
    assert process is not None
    process.kill()
    process.wait()
    if not standby.running:
        standby.start()
    standby.psql("SELECT pg_promote(true, 60)")
    one.shop.server, one.shop.dsn = standby, standby.dsn_for(one.shop.database)


@pytest.mark.parametrize("lost", [False, True], ids=["it has all", "it lacks the newest"])
def test_a_promoted_standby_is_followed_from_what_it_has(tmp_path: Path, kept: Path, *, lost: bool) -> None:
    with PostgresServer(tmp_path / "primary") as primary:
        primary.create_database("shop")
        one = followed(Shop(primary, "shop"), kept)
        with standby_of(primary, tmp_path / "standby") as standby:
            standby.start()
            one.does("INSERT INTO t VALUES (3, 3)", "UPDATE t SET n = 8 WHERE id = 2")
            reaches(standby, primary)
            if lost:
                standby.stop()
                one.does("INSERT INTO t VALUES (4, 4)", "DELETE FROM t WHERE id = 3", "UPDATE t SET n = 9 WHERE id = 2")
            promoted(one, standby)
            one.runs("INSERT INTO t VALUES (5, 5)")
            one.restarts()
            put_right(one, "without all that was read" if lost else "is gone")
            held = {row[0] for row in one.replica.contents("t")}
            assert held == {2, 3, 5, 100}
            one.shop.source.close()
