"""Goal: SQLAlchemy and pandas over it find and read a project's views as they would PostgreSQL's own.

Method: the real library with each of its synchronous drivers, on the same relations here and in a real PostgreSQL; what
the one answers is what the other does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest
import sqlalchemy as sa

from headrace.testing.postgres import PostgresServer
from psql_project import Views, serving

RELATIONS = ("customers", "keyed", "kinds", "orders")
ROWS = {"customers": [(1, "ada"), (2, "bob"), (3, None)], "orders": [(10, 1, Decimal("1.50")), (11, 2, Decimal("2.25")), (12, 2, Decimal("3.00"))]}  # fmt: skip
KINDS = {
    "flag": ("boolean", "boolean"), "small": ("smallint", "smallint"), "large": ("bigint", "bigint"),
    "single": ("float", "real"), "twofold": ("double", "double precision"), "amount": ("decimal(12,2)", "numeric(12,2)"),
    "label": ("string", "text"), "day": ("date", "date"), "moment": ("timestamp", "timestamptz"),
    "clock": ("timestamp_ntz", "timestamp"), "bytes": ("binary", "bytea"), "words": ("array<string>", "text[]"),
}  # fmt: skip


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """(of Headrace, of PostgreSQL)"""
    views = Views(tmp_path_factory.mktemp("alchemy") / "p")
    views.view("customers", {"id": "int", "name": "string"})
    views.view("orders", {"id": "int", "customer": "int", "amount": "decimal(12,2)"})
    views.view("kinds", {name: spark for name, (spark, _) in KINDS.items()})
    views.relation("keyed", {"area": "int", "n": "bigint", "id": "int"}, ("area", "id"))
    views.step(**{name: [(*row, 1) for row in rows] for name, rows in ROWS.items()})
    with PostgresServer() as server, serving(views) as served:
        server.psql("CREATE ROLE ada LOGIN SUPERUSER")
        server.create_database("shop")
        kinds = ", ".join(f"NULL::{there} AS {name}" for name, (_, there) in KINDS.items())
        server.psql(
            "CREATE TABLE keyed (area int, n bigint, id int, PRIMARY KEY (area, id));"
            "CREATE VIEW customers AS SELECT * FROM (VALUES (1, 'ada'), (2, 'bob'), (3, NULL)) AS v (id, name);"
            f"CREATE VIEW kinds AS SELECT {kinds};"
            "CREATE VIEW orders AS SELECT id, customer, amount::numeric(12,2)"
            " FROM (VALUES (10, 1, 1.50), (11, 2, 2.25), (12, 2, 3.00)) AS v (id, customer, amount)",
            "shop",
        )
        yield served.address[1], server.port


@pytest.fixture(scope="module", params=["psycopg", "psycopg2"])
def engines(ports: tuple[int, int], request: pytest.FixtureRequest) -> Iterator[list[sa.Engine]]:
    made = [sa.create_engine(f"postgresql+{request.param}://ada@127.0.0.1:{port}/shop") for port in ports]
    yield made
    for engine in made:
        engine.dispose()


def alike(engines: list[sa.Engine], asked: Callable[[sa.Engine], Any]) -> Any:
    """What both engines answer."""
    here, there = map(asked, engines)
    assert here == there
    return here


@pytest.mark.postgres
def test_an_inspector_finds_what_it_finds_in_postgresql(engines: list[sa.Engine]) -> None:
    def of(method: str, *names: str, **options: Any) -> Any:
        return alike(engines, lambda engine: plain(getattr(sa.inspect(engine), method)(*names, **options)))

    assert of("get_table_names") == ["keyed"]
    assert sorted(of("get_view_names", schema="public")) == ["customers", "kinds", "orders"]
    assert of("get_schema_names") == ["information_schema", "public"]
    assert of("has_table", "kinds") and not of("has_table", "nothing") and of("has_table", "keyed", schema="public")
    for method in (
        "get_materialized_view_names",
        "get_sequence_names",
        "get_temp_table_names",
        "get_enums",
        "get_domains",
    ):
        assert of(method) == []
    for name in RELATIONS:
        assert [column["name"] for column in of("get_columns", name)]
        for method in ("foreign_keys", "indexes", "unique_constraints", "check_constraints", "table_comment"):
            of(f"get_{method}", name)
    assert [(c["name"], c["type"], c["nullable"]) for c in of("get_columns", "keyed")] == [
        ("area", "INTEGER", False), ("n", "BIGINT", True), ("id", "INTEGER", False)
    ]  # fmt: skip
    assert of("get_pk_constraint", "keyed")["constrained_columns"] == ["area", "id"]
    assert {c["name"]: c["type"] for c in of("get_columns", "kinds")}["amount"] == "NUMERIC(12, 2)"


def plain(found: Any) -> Any:
    """What an inspector tells, with types as their names."""
    if isinstance(found, list):
        return [plain(each) for each in found]
    if isinstance(found, dict):
        return {name: plain(value) for name, value in found.items()}
    return (
        repr(found) if isinstance(found, sa.ARRAY) else str(found) if isinstance(found, sa.types.TypeEngine) else found
    )


@pytest.mark.postgres
@pytest.mark.parametrize("schema", [None, "public"])
def test_metadata_is_reflected_with_columns_types_and_keys(engines: list[sa.Engine], schema: str | None) -> None:
    def reflected(engine: sa.Engine) -> Any:
        metadata = sa.MetaData()
        metadata.reflect(engine, views=True, schema=schema)
        alone = sa.Table("kinds", sa.MetaData(), autoload_with=engine, schema=schema)
        return {
            table.name: (
                [(c.name, repr(c.type), c.nullable) for c in table.columns],
                [c.name for c in table.primary_key],
            )
            for table in (*metadata.tables.values(), alone)
        }

    found = alike(engines, reflected)
    assert sorted(found) == sorted(RELATIONS) and found["keyed"][1] == ["area", "id"]
    assert [name for name, _, _ in found["kinds"][0]] == list(KINDS)


@pytest.mark.postgres
def test_selects_built_of_reflected_tables_give_their_rows(engines: list[sa.Engine]) -> None:
    def asked(engine: sa.Engine) -> Any:
        customers, orders = (sa.Table(name, sa.MetaData(), autoload_with=engine) for name in ("customers", "orders"))
        spent = sa.func.sum(orders.c.amount).label("spent")
        selects = [
            sa.select(customers.c.name, spent).join(orders, orders.c.customer == customers.c.id)
            .where(customers.c.id.in_([1, 2, 7])).group_by(customers.c.name).order_by(spent.desc()),
            sa.select(customers).where(customers.c.name.ilike("%A%") | customers.c.name.is_(None)).order_by(customers.c.id),
            sa.select(customers.c.id).where(customers.c.id == sa.func.any([1, 3])).order_by(sa.desc("id")).limit(5).offset(1),
            sa.select(sa.cast(customers.c.id, sa.String) + "-" + customers.c.name).where(customers.c.name == "bob"),
            sa.select(sa.exists().where(orders.c.amount > Decimal("2.5"))),
            sa.select(sa.func.to_char(orders.c.amount, "FM990.0"), sa.func.width_bucket(orders.c.amount, 0, 4, 4)).order_by(orders.c.id),
            sa.select(sa.func.generate_series(1, 3)),
        ]  # fmt: skip
        with engine.connect() as connection:
            return [[tuple(row) for row in connection.execute(select)] for select in selects]

    found = alike(engines, asked)
    assert found[0] == [("bob", Decimal("5.25")), ("ada", Decimal("1.50"))]
    assert found[2:] == [
        [(1,)], [("2-bob",)], [(True,)], [("1.5", 2), ("2.3", 3), ("3.0", 4)], [(1,), (2,), (3,)]
    ]  # fmt: skip


@pytest.mark.postgres
def test_pandas_reads_a_table_and_a_query_with_parameters(engines: list[sa.Engine]) -> None:
    orders = alike(engines, lambda e: pd.read_sql_table("orders", e, index_col="id").sort_index().to_dict("index"))
    assert orders[11] == {"customer": 2, "amount": 2.25}
    chosen = sa.text("SELECT id, name FROM customers WHERE id = ANY(:ids) AND name <> :other ORDER BY id")
    rows = alike(engines, lambda e: pd.read_sql_query(chosen, e, params={"ids": [1, 3], "other": "x"}).to_dict("list"))
    assert rows == {"id": [1], "name": ["ada"]}
    since = "SELECT id FROM customers WHERE id >= %(first)s ORDER BY id"
    assert alike(engines, lambda e: list(pd.read_sql_query(since, e, params={"first": 2})["id"])) == [2, 3]
