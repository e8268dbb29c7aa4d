"""Goal: a table that is emptied or rewritten while it is copied is copied as it was, or as it is later.

Method: right behind the point of the copy a client empties or rewrites the tables and goes on; snapshots do not keep
that apart. What is delivered is compared with what a client reads, transaction by transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from following import Followed

from headrace.sources.connectors.postgres import stream
from postgres_server import Shop, changes, database, drain, postgres_server, shop

__all__ = ["database", "postgres_server", "shop"]  # fixtures

pytestmark = pytest.mark.postgres

MADE = (
    "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t SELECT g, g FROM generate_series(1, 100) g;"
    "CREATE TABLE p (id int PRIMARY KEY, n int) PARTITION BY RANGE (id);"
    "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (50); CREATE TABLE p2 PARTITION OF p DEFAULT;"
    "INSERT INTO p SELECT g, g FROM generate_series(1, 100) g"
)


@pytest.fixture
def behind(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """Has statements run behind the points of the next copies; the points."""
    create_slot = stream.ReplicationStream.create_slot
    points: list[int] = []

    def run_behind(*batches: str) -> list[int]:
        left = list(batches)

        def then_runs(self: stream.ReplicationStream, *arguments: Any, **options: Any) -> tuple[int, str]:
            found = create_slot(self, *arguments, **options)
            points.append(found[0])
            if left:
                shop.run(left.pop(0))
            return found

        monkeypatch.setattr(stream.ReplicationStream, "create_slot", then_runs)
        return points

    return run_behind


@pytest.mark.parametrize(
    "statements",
    [
        "UPDATE t SET n = -n; DELETE FROM p WHERE id > 90; TRUNCATE t, p; INSERT INTO t VALUES (1, 1)",
        "TRUNCATE p2, t; INSERT INTO p VALUES (60, 60); TRUNCATE p2, t; INSERT INTO p VALUES (60, 60)",
        "VACUUM FULL t, p",  # keeps what older snapshots see: the second copy is for nothing, and right
    ],
)
def test_a_table_that_was_emptied_behind_the_point_is_copied_of_a_later_one(
    shop: Shop, behind: Callable[..., list[int]], statements: str
) -> None:
    shop.run(MADE)
    points = behind(statements, "UPDATE t SET n = n + 1", statements, "UPDATE p SET n = n + 1")
    one = Followed(shop, "t")  # strict: an update or delete of a row that is not there fails
    one.tables = ("t", "p")
    shop.source.add(frozenset({"p"}))
    one.catches_up()
    one.catches_up()  # with what was changed while it was copied
    one.is_same()
    assert len(points) >= 4  # more where it was seen too that a partition was emptied
    one.does("INSERT INTO p VALUES (170, 7)", "UPDATE t SET n = 9")


def test_what_came_between_the_two_points_is_in_the_copy_alone(shop: Shop, behind: Callable[..., list[int]]) -> None:
    shop.run(MADE)
    points = behind("INSERT INTO t VALUES (101, 1); TRUNCATE t; INSERT INTO t VALUES (7, 7)")
    shop.source.start(frozenset({"t"}), None)
    (copied,) = drain(shop.source)
    assert len(points) == 2 and points[0] < points[1]
    assert [(row["id"], row["n"]) for row in changes([copied], "t")] == [(7, 7)]
    shop.run("INSERT INTO t VALUES (8, 8)")
    assert [(row["id"], row["n"]) for row in changes(drain(shop.source), "t")] == [(8, 8)]


def test_a_table_stays_as_it_is_while_others_are_copied(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever would empty it waits for the copy."""
    shop.run(MADE)
    refused: list[str] = []
    copy_out = stream.wire.copy_out

    def meddled(*arguments: Any) -> Any:
        if len(refused) == 6:
            return copy_out(*arguments)
        with psycopg.connect(shop.dsn, autocommit=True) as other:
            other.execute("SET lock_timeout = '50ms'")
            for statement in ("TRUNCATE t", "TRUNCATE p2", "ALTER TABLE t ALTER n TYPE bigint"):
                with pytest.raises(psycopg.errors.LockNotAvailable) as error:
                    other.execute(statement.encode())
                refused.append(str(error.value))
            other.execute("UPDATE t SET n = 5 WHERE id = 5")
        return copy_out(*arguments)

    monkeypatch.setattr(stream.wire, "copy_out", meddled)
    one = Followed(shop, "t", "p")
    assert len(refused) == 6
    one.does("TRUNCATE t, p")
