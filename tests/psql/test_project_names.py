"""Goal: the name of a project means nothing in a statement but where a schema follows it.

Method: the same views served as projects of names that are aliases elsewhere, by psql itself too; each statement gives the
same rows whatever its aliases are called.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.api.postgres.server import PostgresServer
from psql_project import Views, connect, serving

NAMES = ["p", "c", "n", "shop"]  # p, c and n are aliases in the queries of psql's own commands
READ = [
    "SELECT {a}.id FROM customers {a} WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer = {a}.id) ORDER BY 1",
    "SELECT {a}.id FROM public.customers AS {a} JOIN {project}.public.orders ON orders.customer = {a}.id ORDER BY 1",
    "WITH {a} AS (SELECT id FROM customers WHERE id < 3) SELECT {a}.id FROM {a} WHERE {a}.id IN (SELECT customer FROM orders)",
    "SELECT id FROM customers WHERE id IN (SELECT {a}.customer FROM orders {a}) ORDER BY customers.id",
    "SELECT public.customers.id FROM {project}.public.customers, orders {a} WHERE {a}.customer = customers.id ORDER BY 1",
    'SELECT "{a}".id FROM customers "{a}" WHERE "{a}".id <> 3 ORDER BY public.abs("{a}".id)',
]  # fmt: skip


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> Views:
    views = Views(tmp_path_factory.mktemp("names") / "p")
    views.view("customers", {"id": "int"}, ("id",))
    views.view("orders", {"id": "int", "customer": "int"}, ("id",))
    views.step(customers=[(1, 1), (2, 1), (3, 1)], orders=[(7, 1, 1), (8, 2, 1)])
    return views


@pytest.fixture(scope="module", params=NAMES)
def served(views: Views, request: pytest.FixtureRequest) -> Iterator[tuple[str, PostgresServer]]:
    with serving(views, project=request.param) as server:
        yield request.param, server


@pytest.mark.parametrize("alias", ["x", "public", "pg_catalog", *NAMES])
def test_an_alias_is_what_it_stands_for_whatever_the_project_is_called(served: Any, alias: str) -> None:
    project, server = served
    with connect(server, autocommit=True) as here:
        for statement in READ:
            rows = here.execute(statement.format(a=alias, project=project).encode()).fetchall()
            assert rows == [(1,), (2,)], statement


@pytest.mark.postgres
def test_commands_of_psql_do_not_take_an_alias_for_the_project(served: Any) -> None:
    project, server = served
    host, port = server.address
    commands = [r"\d orders", r"\d+ orders", r"\df", r"\da", r"\dC", r"\dn", r"\l"]
    done = subprocess.run(
        ["psql", "-X", "-h", host, "-p", str(port), "-U", "ada", "-d", project, *(f"-c{each}" for each in commands)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    assert 'View "public.orders"' in done.stdout and "List of casts" in done.stdout


@pytest.mark.postgres
def test_a_database_without_its_schema_is_no_place(served: Any) -> None:
    """As PostgreSQL has it: what stands before a relation's name is a schema."""
    project, server = served
    with connect(server, autocommit=True) as here, pytest.raises(Exception, match=project):
        here.execute(f"SELECT * FROM {project}.orders".encode())
