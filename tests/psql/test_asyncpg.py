"""Goal: asyncpg, which asks for types first and speaks the binary form alone, reads as it does from PostgreSQL.

Method: the real driver, on the same rows here and in a real PostgreSQL.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import asyncpg
import pytest

from headrace.testing.postgres import PostgresServer
from psql_project import Views, serving

ROWS = [
    (10, "ada", Decimal("1.50"), dt.date(2024, 2, 29), ["a", "b c"], [1, 2]),
    (11, "bob", Decimal("2.25"), dt.date(2024, 3, 1), [], None),
    (12, None, Decimal("3.00"), None, ["x", None], [3]),
]  # fmt: skip
ASKED: list[tuple[str, tuple[Any, ...]]] = [
    ("SELECT * FROM orders WHERE id = any($1) ORDER BY id", ([10, 12, 99],)),
    ("SELECT id FROM orders WHERE id = ANY ('{10}')", ()),
    ("SELECT id FROM orders WHERE id <> ALL ('{10,11}') AND name = SOME ('{}') IS NOT TRUE ORDER BY id", ()),
    ("SELECT id FROM orders WHERE name = any($1) AND day = any($2)", (["ada", "x"], [dt.date(2024, 2, 29)])),
    ("SELECT id FROM orders WHERE amount = any($1) OR NOT id = any($2) ORDER BY id", ([Decimal("2.25")], [10, 11])),
    ("SELECT id FROM orders WHERE id = any($1::int[]) AND id = any($2::pg_catalog.int4[])", ([10], [10, 11])),
    ("SELECT id FROM orders WHERE id = any($1)", ([],)),
    ("SELECT id FROM orders WHERE id IN (SELECT unnest($1::bigint[]))", ([11],)),
    ("SELECT generate_series(1, 3)", ()),
    ("SELECT g FROM generate_series(1, 3) g", ()),
    ("SELECT n FROM unnest($1::text[]) AS n ORDER BY n", (["b", "a"],)),
    ("SELECT count(*) FROM orders WHERE name = $1 AND amount > $2", ("bob", Decimal("1"))),
]  # fmt: skip


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """(of Headrace, of PostgreSQL)"""
    views = Views(tmp_path_factory.mktemp("asyncpg") / "p")
    columns = {"id": "int", "name": "string", "amount": "decimal(12,2)", "day": "date"}
    views.view("orders", {**columns, "words": "array<string>", "numbers": "array<int>"}, ("id",))
    views.step(orders=[(*row, 1) for row in ROWS])
    with PostgresServer() as server, serving(views) as served:
        server.psql("CREATE ROLE ada LOGIN SUPERUSER")
        server.create_database("shop")
        server.psql(
            "CREATE TABLE orders (id int, name text, amount numeric(12,2), day date, words text[], numbers int[])",
            "shop",
        )
        yield served.address[1], server.port


@pytest.mark.postgres
def test_every_statement_gives_what_postgresql_gives(ports: tuple[int, int]) -> None:
    async def asked(port: int, fill: bool) -> list[Any]:
        client = await asyncpg.connect(host="127.0.0.1", port=port, user="ada", database="shop")
        try:
            if fill:
                await client.executemany("INSERT INTO orders VALUES ($1, $2, $3, $4, $5, $6)", ROWS)
            found: list[Any] = [[tuple(row) for row in await client.fetch(sql, *given)] for sql, given in ASKED]
            prepared = await client.prepare("SELECT id, words FROM orders WHERE id = any($1) AND name = $2")
            found += [
                [each.name for each in prepared.get_parameters()],
                [each.type.name for each in prepared.get_attributes()],
            ]
            async with client.transaction():
                found.append(
                    [row["id"] async for row in client.cursor("SELECT id FROM orders ORDER BY id", prefetch=2)]
                )
            return found
        finally:
            await client.close()

    here, there = (asyncio.run(asked(port, fill)) for port, fill in zip(ports, (False, True), strict=True))
    assert here == there
    assert here[0] == [ROWS[0], ROWS[2]] and here[1] == [(10,)] and here[8] == [(1,), (2,), (3,)]
    assert here[-3:] == [["int4[]", "text"], ["int4", "text[]"], [10, 11, 12]]
