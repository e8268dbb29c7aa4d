"""Goal: `headrace doctor` finds each of the mistakes that new users make, says where, and what mends it.

Method: a project in which nothing is missing, then one mistake is planted, of the table below, and exactly one thing
is missing. Files, ports and servers are real. What the advice of doctor makes of a PostgreSQL is tests/cli/test_doctor.py.
"""

from __future__ import annotations

import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headrace import web
from headrace.catalog import place
from headrace.catalog.groups import FILE, GroupStore
from headrace.catalog.project import identity, read
from headrace.catalog.store import Catalog
from headrace.control import doctor, machine
from headrace.engine import archive
from headrace.model.errors import HeadraceError
from headrace.model.group import QUERY, Group
from headrace.serve.snapshot import catalog_path
from headrace.testing.ports import free_port
from headrace.testing.postgres import PostgresServer
from project_folder import ProjectFolder

REVENUE = "SELECT customer, sum(amount) AS revenue FROM orders GROUP BY customer"
ORDERS = {"columns": {"id": "bigint", "customer": "bigint", "amount": "decimal(12,2)"}, "key": ["id"]}


@dataclass(frozen=True)
class Mistake:
    """``plant`` makes it; ``kind`` and ``name``: what is examined when it is found; the rest are parts of the finding."""

    about: str
    plant: Callable[[Any], object]
    kind: str
    name: str
    code: str
    what: str
    next: str
    where: str = ""
    state: str = "missing"

    def found(self, answer: dict[str, Any]) -> dict[str, Any]:
        """The one finding that is not ok; it must be this."""
        findings = [
            (part["kind"], part["name"], finding)
            for part in answer["examined"]
            for finding in part["findings"]
            if finding["state"] == self.state
        ]
        (kind, name, finding), *more = findings
        assert not more and (kind, name) == (self.kind, self.name), findings
        assert finding["code"] == self.code and self.what in finding["what"], finding
        assert self.next in finding["next"] and finding["next"], finding
        assert finding["where"].startswith(self.where), finding
        return dict(finding)


def named(mistakes: list[Mistake]) -> Any:
    return pytest.mark.parametrize("mistake", mistakes, ids=[mistake.about.replace(" ", "_") for mistake in mistakes])


# --- in the project's files and on the machine -----------------------------------------------------------------------


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProjectFolder:
    """A project in which nothing is missing, on a machine where the class archive was made."""
    monkeypatch.setattr(archive, "place", lambda: Path(__file__))
    project = ProjectFolder(tmp_path / "shop")
    project.settings()
    project.source("shop", "http", port=free_port(), tables={"orders": ORDERS})
    project.view("revenue", REVENUE)
    project.sink("local", "duckdb", path="views.duckdb")
    answer = doctor.run(project.path, quick=True)
    assert (answer["missing"], answer["warnings"]) == (0, 0), answer
    return project


def taken_port(project: ProjectFolder) -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0))
    project.source("shop", "http", port=listener.getsockname()[1], tables={"orders": ORDERS})
    return listener


def taken_api_port(project: ProjectFolder) -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0))
    project.settings(api={"port": listener.getsockname()[1]})
    return listener


def taken_psql_port(project: ProjectFolder) -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0))
    project.settings(psql={"port": listener.getsockname()[1]})
    return listener


def one_port(project: ProjectFolder, port: int) -> None:
    project.settings(api={"port": port}, psql={"port": port})


def copied(project: ProjectFolder) -> None:
    """The folder that is examined is the copy: the original is beside it, and was run."""
    original = project.path.rename(project.path.with_name("original"))
    identity(read(original))
    place.take(original)
    shutil.copytree(original, project.path)


def followed(project: ProjectFolder, kind: str) -> None:
    """A group as it is left behind."""
    state = project.path / ".headrace"
    state.mkdir(exist_ok=True)
    Catalog(catalog_path(project.path)).close()
    store = GroupStore(state / FILE)
    query = "lost" if kind == "stored query" else None
    store.create(Group("g", "lost", QUERY if query else kind, 1, 0, 1, 5, 1, True, 0, query))
    store.close()


def no_room(project: ProjectFolder) -> None:
    """Of the real disk a limit that no disk has."""
    machine.FREE_BYTES_MIN = 1 << 60


IN_FILES = [
    Mistake(
        "a key of headrace.yaml is spelled wrong", lambda p: p.write("headrace.yaml", "name: shop\ntime_zon: UTC\n"),
        "project", "shop", "config.unknown_key", "time_zon", "did you mean 'time_zone'", "headrace.yaml:2",
    ),
    Mistake(
        "a value of headrace.yaml has the wrong form", lambda p: p.settings(driver_memory="2 gigs"),
        "project", "shop", "config.invalid", "'driver_memory' is '2 gigs'", "driver_memory: 1g", "headrace.yaml:",
    ),
    Mistake(
        "a file is not YAML", lambda p: p.write("sinks/local.yaml", "type: duckdb\n\tpath: views.duckdb\n"),
        "project", "shop", "config.invalid", "sinks/local.yaml is not YAML", "indent with spaces", "sinks/local.yaml:2",
    ),
    Mistake(
        "a file has the wrong ending", lambda p: p.write("views/more.SQL", REVENUE),
        "project", "shop", "config.invalid", "views/more.SQL is not read", "rename it to more.sql", "views/more.SQL",
    ),
    Mistake(
        "a view is not UTF-8", lambda p: (p.path / "views/revenue.sql").write_bytes(b"SELECT 'K\xf6ln' AS city"),
        "project", "shop", "config.invalid", "views/revenue.sql is not UTF-8", "save it as UTF-8", "views/revenue.sql",
    ),
    Mistake(
        "a view is empty", lambda p: p.write("views/later.sql", "-- to come\n"),
        "project", "shop", "config.invalid", "views/later.sql has no SQL", "write one SELECT", "views/later.sql",
    ),
    Mistake(
        "a sink names a view that is not there",
        lambda p: p.sink("local", "duckdb", path="views.duckdb", views=["revenu"]),
        "project", "shop", "view.unknown", "no view 'revenu'", "did you mean 'revenue'", "sinks/local.yaml:",
    ),
    Mistake(
        "a test has no steps", lambda p: p.write("tests/first.yaml", "stesp: []\n"),
        "project", "shop", "config.unknown_key", "stesp", "did you mean 'steps'", "tests/first.yaml:1",
    ),
    Mistake(
        "the folder is a copy of another one", copied,
        "project", "shop", "project.copied", "is a copy of", "headrace up --as-copy",
    ),
    Mistake(
        "the port of the API is taken", taken_api_port,
        "server", "api", "api.port", "is taken", "set another port: api: {port: ", "headrace.yaml: api.port",
    ),
    Mistake(
        "the port of psql is taken", taken_psql_port,
        "server", "psql", "psql.port", "is taken", "set another port: psql: {port: ", "headrace.yaml: psql.port",
    ),
    Mistake(
        "psql and the API have one port", lambda p: one_port(p, free_port()),
        "server", "psql", "psql.port", "is taken", "set another port: psql: {port: ", "headrace.yaml: psql.port",
    ),
    Mistake(
        "the certificate of psql is not there",
        lambda p: p.settings(psql={"port": free_port(), "certificate": "no.pem", "key": "no.key"}),
        "server", "psql", "config.invalid", "the certificate cannot be used", "PEM files", "headrace.yaml: psql: ",
    ),
    Mistake(
        "the certificate of the API is not there", lambda p: p.settings(api={"certificate": "no.pem", "key": "no.key"}),
        "server", "api", "config.invalid", "the certificate cannot be used", "PEM files", "headrace.yaml: api: ",
    ),
    Mistake(
        "tokens go to other machines in clear", lambda p: p.settings(api={"host": "0.0.0.0", "port": 0}),
        "server", "api", "", "without TLS, and other machines reach 0.0.0.0", "api: {tls: true}",
        "headrace.yaml: api.host", state="warning",
    ),
    Mistake(
        "a source has an unknown type", lambda p: p.source("shop", "htpp", tables={"orders": ORDERS}),
        "source", "shop", "config.unknown_type", "'htpp'", "did you mean 'http'", "sources/shop.yaml",
    ),
    Mistake(
        "an option of a source is spelled wrong", lambda p: p.source("shop", "http", port=0, tabels={"orders": ORDERS}),
        "source", "shop", "config.invalid", "unknown key 'tabels'", "did you mean 'tables'", "sources/shop.yaml:",
    ),
    Mistake(
        "a column has an unknown type",
        lambda p: p.source("shop", "http", port=0, tables={"orders": {"columns": {"id": "bigintt"}}}),
        "source", "shop", "config.invalid", "bigintt", "", "sources/shop.yaml",
    ),
    Mistake(
        "the variable of a secret is not set",
        lambda p: p.source("shop", "http", port=0, token="env:NO_SUCH_TOKEN", tables={"orders": ORDERS}),
        "source", "shop", "config.secret", "NO_SUCH_TOKEN is not set", "export NO_SUCH_TOKEN=", "sources/shop.yaml",
    ),
    Mistake(
        "the file of a secret is not there",
        lambda p: p.source("shop", "http", port=0, token="file:/no/such/token", tables={"orders": ORDERS}),
        "source", "shop", "config.secret", "/no/such/token cannot be read", "write the secret", "sources/shop.yaml",
    ),
    Mistake(
        "the port of a source is taken", taken_port,
        "source", "shop", "source.port", "is taken", "set another port here: port: ", "sources/shop.yaml",
    ),
    Mistake(
        "the folder of a source is not there", lambda p: p.source("visits", "files", path="incoming"),
        "source", "visits", "source.connect", "incoming cannot be read", "create it, or correct 'path'",
        "sources/visits.yaml",
    ),
    Mistake(
        "the folder of a sink is a file", lambda p: p.sink("local", "duckdb", path="headrace.yaml/views.duckdb"),
        "sink", "local", "sink.connect", "cannot be opened", "check the `path`", "sinks/local.yaml",
    ),
    Mistake(
        "a sink names a stored query that is not there",
        lambda p: (p.write("searches/late.yaml", "view: revenue\nquery: x\n"), p.sink("tell", "page", searches=["lat"])),
        "sink", "tell", "search.unknown", "there is no stored query 'lat'", "did you mean 'late'?", "sinks/tell.yaml",
    ),
    *(
        Mistake(
            f"a group follows a {kind} that is not there", partial(followed, kind=kind),
            "project", "shop", "group.position", f"the group 'g' follows the {kind} 'lost', which is not there",
            f"headrace groups drop g, or bring back {back}",
        )
        for kind, back in (
            ("view", "views/lost.sql"), ("table", "the source of lost"), ("stored query", "searches/lost.yaml"),
        )
    ),
    Mistake(
        "Spark is given more memory than there is", lambda p: p.settings(driver_memory="900g"),
        "machine", "", "", "driver_memory is 900g", "driver_memory: ", "headrace.yaml",
    ),
    Mistake(
        "the class archive was not made", lambda p: setattr(archive, "place", lambda: p.path / "none.jsa"),
        "machine", "", "", "without a class archive", "-m headrace.engine.archive", state="warning",
    ),
    Mistake("the disk is nearly full", no_room, "machine", "", "", "GB are free for", "free some space"),
    Mistake(
        "nothing is defined yet", lambda p: (shutil.rmtree(p.path / "views")),
        "project", "shop", "", "no view is defined", "views/NAME.sql", state="warning",
    ),
]  # fmt: skip


@named(IN_FILES)
def test_in_the_files_and_on_the_machine(
    mistake: Mistake, shop: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "FREE_BYTES_MIN", machine.FREE_BYTES_MIN)  # is put back
    kept = mistake.plant(shop)
    mistake.found(doctor.run(shop.path, quick=True))
    if isinstance(kept, socket.socket):
        kept.close()


def test_of_several_mistakes_every_one_is_told(shop: ProjectFolder) -> None:
    shop.write("headrace.yaml", "tyme_zone: UTC\n")
    shop.write("sinks/more.yaml", "type: [")
    shop.write("views/1st.sql", REVENUE)
    shop.source("visits", "files", path="incoming")
    answer = doctor.run(shop.path)
    found = {(part["kind"], f["where"].partition(":")[0]) for part in answer["examined"] for f in part["findings"]
             if f["state"] == "missing"}  # fmt: skip
    assert found == {
        ("project", "headrace.yaml"), ("project", "sinks/more.yaml"), ("project", "views/1st.sql"),
        ("source", "sources/visits.yaml"),
    }  # fmt: skip
    assert "what is missing at project shop comes first" in answer["examined"][-1]["findings"][0]["what"]


def test_a_library_that_is_not_installed(shop: ProjectFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith("headrace.sources.connectors.mysql")]:
        monkeypatch.delitem(sys.modules, module)
    for library in ("pymysql", "pymysqlreplication"):
        monkeypatch.setitem(sys.modules, library, None)
    shop.source("bank", "mysql", host="127.0.0.1", database="bank", user="u", password="p")
    mistake = Mistake(
        "", lambda p: None, "source", "bank", "config.library", "is not installed", "pip install 'headrace[mysql]'"
    )
    mistake.found(doctor.run(shop.path, quick=True))


@pytest.mark.parametrize(
    ("server", "settings", "module", "extra"),
    [("psql", {}, "pygwire", "psql"), ("api", {"tls": True}, "headrace.web.certificate", "tls")],
    ids=["psql", "tls"],
)
def test_a_library_of_what_is_served_that_is_not_installed(
    server: str, settings: dict[str, Any], module: str, extra: str, shop: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.settings(**{server: {**settings, "port": free_port()}})
    answer = doctor.run(shop.path, quick=True)
    assert (answer["missing"], answer["warnings"]) == (0, 0), answer
    assert not (shop.path / ".headrace/tls").exists()  # a certificate is made by who serves
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delattr(web, "certificate", raising=False)
    mistake = Mistake(
        "", lambda p: None, "server", server, "config.library", "is not installed", f"pip install 'headrace[{extra}]'"
    )
    mistake.found(doctor.run(shop.path, quick=True))


def test_a_folder_that_is_no_project(tmp_path: Path) -> None:
    with pytest.raises(HeadraceError) as caught:
        doctor.run(tmp_path)
    assert caught.value.code == "project.not_found" and "headrace init" in caught.value.next


# --- in the SQL of views ---------------------------------------------------------------------------------------------

IN_VIEWS = [
    Mistake(
        "a word is spelled wrong", lambda p: p.view("v", "SELEC customer FROM orders"),
        "view", "v", "sql.syntax", "", "", "views/v.sql:1",
    ),
    Mistake(
        "the table is not there", lambda p: p.view("v", "SELECT customer\nFROM order"),
        "view", "v", "sql.unknown_relation", "order", "orders", "views/v.sql:2",
    ),
    Mistake(
        "the column is not there", lambda p: p.view("v", "SELECT custommer FROM orders"),
        "view", "v", "sql.unknown_column", "custommer", "customer", "views/v.sql:1",
    ),
    Mistake(
        "an expression is not determined", lambda p: p.view("v", "SELECT rand() AS r FROM orders"),
        "view", "v", "sql.not_deterministic", "rand", "", "views/v.sql",
    ),
    Mistake(
        "it is no SELECT", lambda p: p.view("v", "DELETE FROM orders"),
        "view", "v", "sql.refused", "", "", "views/v.sql",
    ),
]  # fmt: skip


@pytest.mark.spark
@named(IN_VIEWS)
def test_in_the_sql_of_a_view(mistake: Mistake, shop: ProjectFolder, spark: Any) -> None:
    mistake.plant(shop)
    answer = doctor.run(shop.path)
    mistake.found(answer)
    revenue = next(part for part in answer["examined"] if (part["kind"], part["name"]) == ("view", "revenue"))
    assert [finding["state"] for finding in revenue["findings"]] == ["ok"]


# --- at a PostgreSQL -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bank:
    """A project that follows one database and writes into another one, each as a role of its own."""

    project: ProjectFolder
    server: PostgresServer

    def sql(self, text: str, database: str = "bank") -> None:
        self.server.psql(text, database)

    def source(self, **options: Any) -> None:
        address = {"host": "127.0.0.1", "port": self.server.port, "database": "bank", "user": "reader"}
        self.project.source("bank", "postgres", **{**address, "password": "right", **options})

    def sink(self, **options: Any) -> None:
        address = {"host": "127.0.0.1", "port": self.server.port, "database": "reports", "user": "writer"}
        self.project.sink("reports", "postgres", **{**address, "password": "right", **options})

    def publication(self, *tables: str) -> None:
        name = f"headrace_bank_{(self.project.path / '.headrace/id').read_text().strip()}_bank"
        self.sql(f"CREATE PUBLICATION {name} FOR TABLE {', '.join(tables)}; ALTER TABLE entries OWNER TO postgres")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    settings = {"max_slot_wal_keep_size": "1GB", "max_replication_slots": "4"}
    with PostgresServer(password="right", settings=settings) as started:
        yield started


@pytest.fixture
def bank(server: PostgresServer, tmp_path: Path) -> Iterator[Bank]:
    """One in which nothing is missing."""
    server.psql("CREATE ROLE reader LOGIN REPLICATION PASSWORD 'right'; CREATE ROLE writer LOGIN PASSWORD 'right'")
    server.psql("CREATE DATABASE bank OWNER reader")
    server.psql("CREATE DATABASE reports OWNER writer")
    made = Bank(ProjectFolder(tmp_path / "bank"), server)
    made.sql("CREATE TABLE accounts (id int PRIMARY KEY, n int); CREATE TABLE entries (id int PRIMARY KEY, n int)")
    made.sql("ALTER TABLE accounts OWNER TO reader; ALTER TABLE entries OWNER TO reader")
    made.project.settings()
    made.project.view("v", "SELECT a.n FROM accounts a JOIN entries e ON a.id = e.id")
    made.source()
    made.sink()
    answer = doctor.run(made.project.path, quick=True)
    assert (answer["missing"], answer["warnings"]) == (0, 0), answer
    yield made
    server.psql("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
    for database in ("bank", "reports"):
        server.psql(f"DROP DATABASE {database} WITH (FORCE)")
    server.psql("DROP ROLE reader; DROP ROLE writer")


AT_POSTGRES = [
    Mistake(
        "the server is not there", lambda b: b.source(port=free_port()),
        "source", "bank", "source.connect", "cannot be reached", "check host, port and database", "sources/bank.yaml",
    ),
    Mistake(
        "the database is not there", lambda b: b.source(database="bnak"),
        "source", "bank", "source.connect", "cannot be reached", "check host, port and database", "sources/bank.yaml",
    ),
    Mistake(
        "the password is wrong", lambda b: b.source(password="wrong"),
        "source", "bank", "source.auth", "refuses the user or the password", "env:NAME", "sources/bank.yaml",
    ),
    Mistake(
        "the role may not replicate", lambda b: b.sql("ALTER ROLE reader NOREPLICATION"),
        "source", "bank", "source.rights", "", 'ALTER ROLE "reader" WITH REPLICATION', "sources/bank.yaml",
    ),
    Mistake(
        "the role may not read a table",
        lambda b: b.sql("REVOKE ALL ON entries FROM reader"),
        "source", "bank", "source.rights", "", 'GRANT SELECT ON "public"."entries"', "sources/bank.yaml",
    ),
    Mistake(
        "no slot is left",
        lambda b: b.sql("SELECT pg_create_physical_replication_slot('other' || n) FROM generate_series(1, 3) n"),
        "source", "bank", "", "max_replication_slots is 4, of which 3 are in use",
        "ALTER SYSTEM SET max_replication_slots", "sources/bank.yaml",
    ),
    Mistake(
        "the publication cannot be made", lambda b: b.sql("ALTER TABLE entries OWNER TO postgres;"
        "GRANT SELECT ON entries TO reader"),
        "source", "bank", "", "the role may not make it", "CREATE PUBLICATION", "sources/bank.yaml",
    ),
    Mistake(
        "the publication lacks a table",
        lambda b: (b.publication("accounts"), b.sql("GRANT SELECT ON entries TO reader")),
        "source", "bank", "", "lacks public.entries", "ADD TABLE", "sources/bank.yaml",
    ),
    Mistake(
        "a table has no key", lambda b: b.sql("ALTER TABLE entries DROP CONSTRAINT entries_pkey"),
        "source", "bank", "", "neither a primary key nor a replica identity", "ALTER TABLE public.entries REPLICA IDENTITY",
        "sources/bank.yaml", state="warning",
    ),
    Mistake(
        "the clocks are apart",
        lambda b: b.sql("CREATE SCHEMA late; CREATE FUNCTION late.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS "
        "$$ SELECT pg_catalog.clock_timestamp() - interval '1 hour' $$; GRANT USAGE ON SCHEMA late TO reader;"
        "ALTER ROLE reader IN DATABASE bank SET search_path = late, pg_catalog, public"),
        "source", "bank", "", "the server's clock is 3,600 s behind", "set-ntp true", "sources/bank.yaml",
        state="warning",
    ),
    Mistake(
        "the sink is not there", lambda b: b.sink(port=free_port()),
        "sink", "reports", "sink.connect", "", "check", "sinks/reports.yaml",
    ),
    Mistake(
        "the password of the sink is wrong", lambda b: b.sink(password="wrong"),
        "sink", "reports", "sink.auth", "", "password", "sinks/reports.yaml",
    ),
    Mistake(
        "the sink's role may not make tables",
        lambda b: b.sql("ALTER SCHEMA public OWNER TO postgres; REVOKE CREATE ON SCHEMA public FROM public", "reports"),
        "sink", "reports", "", "may not make tables", 'GRANT USAGE, CREATE ON SCHEMA "public" TO "writer"',
        "sinks/reports.yaml",
    ),
    Mistake(
        "the sink's role may not make its schema",
        lambda b: (b.sql("ALTER DATABASE reports OWNER TO postgres", "reports"), b.sink(schema="views")),
        "sink", "reports", "", "there is no schema views", 'CREATE SCHEMA "views" AUTHORIZATION "writer"',
        "sinks/reports.yaml",
    ),
]  # fmt: skip


@pytest.mark.postgres
@named(AT_POSTGRES)
def test_at_a_postgres(mistake: Mistake, bank: Bank) -> None:
    mistake.plant(bank)
    mistake.found(doctor.run(bank.project.path, quick=True))
