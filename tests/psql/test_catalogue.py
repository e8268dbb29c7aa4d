"""Goal: psql and the tools of PostgreSQL find a project's views and tables as they would find PostgreSQL's own.

Method: views of the same columns in a real PostgreSQL; psql's commands and the queries of clients.sql on both. What differs
by design (numbers of objects, narrower types of the catalogue) is left out of the comparison.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from test_like_postgresql import COLUMNS

from headrace.api.postgres import reading
from headrace.api.postgres.plain import plain as is_plain
from headrace.api.postgres.server import PostgresServer
from headrace.formats.types.postgres import from_spark
from headrace.testing.postgres import PostgresServer as RealServer
from psql_project import Views, connect, serving

ASKED = [part.partition("\n") for part in (Path(__file__).with_name("clients.sql")).read_text().split("\n\n")[1:]]
COMMANDS = [
    r"\d", r"\dt", r"\dv", r"\dm", r"\d kinds", r"\d+ pair", r"\d ki*", r"\dn", r"\df", r"\dx", r"\dT", r"\dp",
    r"\sv pair", r"\dv public.*", r"\dt nothing*", r"\d nothing", r"\dD", r"\ds",
]  # fmt: skip

# Every other command of psql 15 that lists something, alone and with its details. Those of the second row list objects
# that PostgreSQL brings along and a project has not, or what differs by design (owners, sizes, settings).
SAME = [
    "da",
    "da+",
    "dc",
    "dc+",
    "dd",
    "dD+",
    "ddp",
    "dE",
    "dE+",
    "des",
    "des+",
    "det",
    "det+",
    "deu",
    "deu+",
    "dew",
    "dew+",
    "df+",
    "dl",
    "dL",
    "dL+",
    "dm+",
    "do",
    "do+",
    "dO",
    "dO+",
    "dP",
    "dP+",
    "drds",
    "dRp",
    "dRp+",
    "dRs",
    "dRs+",
    "ds+",
    "dT+",
    "dX",
    "dX+",
    "dx+",
    "dy",
    "dy+",
    "z",
    "lo_list",
]
SHORTER = [
    "dA",
    "dA+",
    "dAc",
    "dAc+",
    "dAf",
    "dAf+",
    "dAo",
    "dAo+",
    "dAp",
    "dAp+",
    "db",
    "db+",
    "dC",
    "dC+",
    "dconfig",
    "dconfig+",
    "dF",
    "dF+",
    "dFd",
    "dFd+",
    "dFp",
    "dFp+",
    "dFt",
    "dFt+",
    "dg",
    "dg+",
    "di",
    "di+",
    "dn+",
    "dS",
    "dt+",
    "du",
    "du+",
    "dv+",
    "l",
    "l+",
]

APART = (
    "polroles",
    "conkey",
)  # of all this, words of what is answered apart, which takes longer: \dp, and keys for SQLAlchemy


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PostgresServer, RealServer]]:
    views = Views(tmp_path_factory.mktemp("catalogue") / "p")
    pair = "SELECT 1 AS a,\n    'x'::text AS b"
    views.view("kinds", COLUMNS)
    views.view("pair", {"a": "int", "b": "string"}, sql=pair)
    views.relation("keyed", {"area": "int", "n": "bigint", "id": "int"}, ("area", "id"))
    with RealServer() as server, serving(views) as served:
        server.psql("CREATE ROLE headrace; CREATE ROLE ada LOGIN SUPERUSER")
        server.create_database("shop")
        kinds = ", ".join(f"NULL::{from_spark(kind)} AS {name}" for name, kind in COLUMNS.items())
        server.psql(
            f"ALTER SCHEMA public OWNER TO headrace; DROP EXTENSION plpgsql; SET ROLE headrace;"
            f"CREATE VIEW kinds AS SELECT {kinds}; CREATE VIEW pair AS {pair};"
            "CREATE TABLE keyed (area int, n bigint, id int, PRIMARY KEY (area, id))",
            "shop",
        )
        with pytest.MonkeyPatch.context() as patch:
            apart = list[str]()
            patch.setattr(reading, "plain", lambda *given: told(apart, *given))
            yield served, server
        assert [each for each in apart if not any(word in each for word in APART)] == []


def told(apart: list[str], statement: Any, parameters: Any, catalogue: Any) -> bool:
    """As ``plain``; what is not is kept."""
    found = is_plain(statement, parameters, catalogue)
    if not found:
        apart.append(str(statement))
    return found


def psql(command: str, host: str, port: int) -> tuple[str, str]:
    done = subprocess.run(
        ["psql", "-X", "-h", host, "-p", str(port), "-U", "ada", "-d", "shop", "-c", command],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    return done.stdout, done.stderr


@pytest.mark.postgres
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_psql_shows_what_it_shows_of_postgresql(both: Any, command: str) -> None:
    served, server = both
    here, there = psql(command, *served.address), psql(command, "127.0.0.1", server.port)
    assert here == there


def listed(commands: list[str], host: str, port: int) -> dict[str, str]:
    """What psql says to each command, errors with it, in one connection."""
    script = "".join(f"\\echo == {command}\n\\{command}\n" for command in commands)
    done = subprocess.run(
        ["psql", "-X", "-h", host, "-p", str(port), "-U", "ada", "-d", "shop"],
        input=script, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False,
    )  # fmt: skip
    parts = (part.partition("\n") for part in done.stdout.split("== ")[1:])
    return {command: said for command, _, said in parts}


@pytest.mark.postgres
def test_every_command_of_psql_gives_a_list_and_no_error(both: Any) -> None:
    served, server = both
    here, there = listed(SAME + SHORTER, *served.address), listed(SAME, "127.0.0.1", server.port)
    assert list(here) == SAME + SHORTER
    assert {command: here[command] for command in SAME} == there
    for command in SHORTER:
        assert "ERROR" not in here[command], here[command]
        assert " List of " in " " + here[command] or here[command].startswith("Did not find any text search"), command


@pytest.mark.postgres
def test_every_relation_of_the_catalogue_has_every_column(both: Any) -> None:
    """One that is not there is an error for the client that names it, whatever rows it asks for."""
    served, server = both
    names = (
        "SELECT n.nspname, c.relname, array_agg(a.attname::text) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
        " JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 WHERE c.relkind IN ('r', 'v') AND c.relname !~ '^_pg'"
        " AND n.nspname IN ('pg_catalog', 'information_schema') GROUP BY 1, 2 ORDER BY 1, 2"
    )
    missing = {}
    with connect(served, autocommit=True) as here, psycopg.connect(server.dsn_for("shop", "ada")) as there:
        for schema, relation, columns in there.execute(names):
            cursor = here.execute(f"SELECT * FROM {schema}.{relation} LIMIT 1".encode())
            if absent := set(columns) - {column.name for column in cursor.description or ()}:
                missing[f"{schema}.{relation}"] = sorted(absent)
    assert missing == {}


@pytest.mark.postgres
@pytest.mark.parametrize(("asked", "statement"), [(a, s) for a, _, s in ASKED], ids=[a[3:] for a, _, _ in ASKED])
def test_what_a_client_asks_of_the_catalogue_is_answered_alike(both: Any, asked: str, statement: str) -> None:
    served, server = both
    with connect(served, autocommit=True) as here, psycopg.connect(server.dsn_for("shop", "ada")) as there:
        answers = []
        for connection in (here, there):
            cursor = connection.execute(statement.encode())
            answers.append(([c.name for c in cursor.description or ()], [tuple(map(plain, row)) for row in cursor]))
    if asked in ("-- DBeaver: schemas",):  # PostgreSQL's own schema has a comment
        assert answers[0][0] == answers[1][0] and answers[0][1] == [(2200, "public", None)]
        return
    assert answers[0] == answers[1]
    assert answers[0][1]


@pytest.mark.postgres
def test_numbers_of_objects_and_columns_of_an_index_have_the_types_of_postgresql(both: Any) -> None:
    """node-postgres gives those as numbers and texts, other long numbers as texts and other arrays as lists."""
    served, server = both
    asked = (
        "SELECT t.oid, t.typarray, i.indrelid, i.indkey, (information_schema._pg_expandarray(i.indkey)).n"
        " FROM pg_type t, pg_index i WHERE t.oid = 23 AND i.indnkeyatts = 2 LIMIT 1"
    )
    with connect(served, autocommit=True) as here, psycopg.connect(server.dsn_for("shop", "ada")) as there:
        cursors = [each.execute(asked) for each in (here, there)]
        types = [[column.type_code for column in cursor.description or ()] for cursor in cursors]
        assert types[0] == types[1] == [26, 26, 26, 22, 23]
        assert cursors[0].fetchone()[3] == "1 3"


def plain(value: Any) -> Any:
    """One letter is a byte of PostgreSQL's type "char"; numbers of objects are numbers."""
    return value.decode() if isinstance(value, bytes) else value
