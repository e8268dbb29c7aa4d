"""Goal: CREATE, DROP, SHOW and EXPLAIN of psql write the files that define a project, have them taken, and leave
nothing behind when they are refused; for whom the API's routes would do it, and written down as they are.

Method: one real `headrace up` over an empty project, psql itself and psycopg as clients; what is asserted is what psql
prints, the files, the rows that come through, and the audit log.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import psycopg
import pytest

from headrace.governance.access import Access
from headrace.governance.audit import AuditLog, Wanted
from headrace.governance.roles import Role
from headrace.testing.ports import free_port

COMMAND = str(Path(sys.executable).with_name("headrace"))
SETTINGS = "name: shop\napi: {port: 0}\npsql: {port: %d}\nclock_seconds: 60\n"
SALES = "id,area,n\n1,north,2\n2,south,3\n3,north,4\n"
DEFINITIONS = """-- the shop
CREATE SOURCE sales FROM files (
  path = 'incoming', columns = (id = 'int', area = 'string', n = 'bigint'), key = [id]
);
CREATE VIEW sums AS
  SELECT area, sum(n) AS n FROM sales GROUP BY area;
CREATE MATERIALIZED VIEW IF NOT EXISTS large WITH (on_error = set_aside) AS
  -- since spring
  SELECT area FROM sums WHERE n > 5;
CREATE SINK store FROM sums INTO duckdb (path = 'out.duckdb');
"""


@dataclass
class Shop:
    """A project that runs, and its psql."""

    folder: Path
    port: int

    @property
    def access(self) -> Access:
        return Access(self.folder / ".headrace")

    @property
    def owner(self) -> str:
        return (self.folder / ".headrace/tokens/api").read_text().strip()

    def psql(self, *arguments: str, token: str | None = None) -> tuple[str, str]:
        """(what it prints, what it prints as an error)."""
        done = subprocess.run(
            ["psql", "-X", "-A", "-t", "-h", "127.0.0.1", "-p", str(self.port), "-U", "ada", "-d", "shop", *arguments],
            env={**os.environ, "PGPASSWORD": token or self.owner}, capture_output=True, text=True, timeout=120,
            check=False,
        )  # fmt: skip
        return done.stdout.strip(), done.stderr.strip()

    def ask(self, statement: str, token: str | None = None) -> str:
        out, error = self.psql("-c", statement, token=token)
        assert not error, error
        return out

    def refused(self, statement: str, token: str | None = None) -> str:
        """What psql says, with SQLSTATE and hint; no file of a definition is another one than before."""
        before = self.files()
        out, error = self.psql("-v", "VERBOSITY=verbose", "-c", statement, token=token)
        assert "ERROR" in error, (out, error)
        assert self.files() == before
        return error

    def files(self) -> dict[str, str]:
        kinds = ("sources", "views", "sinks")
        return {
            f"{kind}/{path.name}": path.read_text() for kind in kinds for path in sorted((self.folder / kind).glob("*"))
        }


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("definitions") / "shop"
    port = free_port()
    (folder / "incoming").mkdir(parents=True)
    (folder / "incoming/1.csv").write_text(SALES)
    (folder / "headrace.yaml").write_text(SETTINGS % port)
    (folder / "definitions.sql").write_text(DEFINITIONS)
    with subprocess.Popen([COMMAND, "up", "--json"], cwd=folder, stdout=subprocess.PIPE, text=True) as up:
        try:
            assert up.stdout is not None
            for line in up.stdout:
                if "psql.started" in line:
                    break
            shop = Shop(folder, port)
            assert shop.psql("-v", "ON_ERROR_STOP=1", "-f", str(folder / "definitions.sql")) == (
                "CREATE SOURCE\nCREATE VIEW\nCREATE VIEW\nCREATE SINK", ""
            )  # fmt: skip
            yield shop
        finally:
            up.terminate()
            up.wait(60)


@pytest.mark.spark
def test_a_file_of_statements_makes_a_project_that_runs(shop: Shop) -> None:
    assert shop.files() == {
        "sources/sales.yaml": "type: files\npath: incoming\ncolumns: {id: int, area: string, n: bigint}\nkey: [id]\n",
        "views/sums.sql": "SELECT area, sum(n) AS n FROM sales GROUP BY area\n",
        "views/large.sql": "-- on_error: set_aside\n-- since spring\n  SELECT area FROM sums WHERE n > 5\n",
        "sinks/store.yaml": "type: duckdb\nviews: [sums]\npath: out.duckdb\n",
    }
    end = time.monotonic() + 30
    while shop.ask("TABLE large") != "north" and time.monotonic() < end:
        time.sleep(0.1)
    assert shop.ask("TABLE sums ORDER BY area") == "north|6\nsouth|3"
    assert shop.ask("TABLE large") == "north"


@pytest.mark.spark
def test_what_is_refused_leaves_nothing_behind(shop: Shop) -> None:
    """As a file would be refused by `headrace apply`, and what would leave another view without what it reads."""
    for statement, state, said in (
        ("CREATE VIEW sums AS SELECT 1 AS a", "42P07", "CREATE OR REPLACE VIEW sums"),
        ("CREATE VIEW x AS SELECT rand() AS r FROM sales", "", "rand"),
        ("CREATE VIEW x AS SELECT nope FROM sales", "42703", "nope"),
        ("CREATE VIEW x AS SELECT * FROM sale", "42P01", "sales"),
        ("CREATE VIEW sales AS SELECT * FROM sums", "0A000", "the name of a table"),
        ("CREATE VIEW x AS SELEC 1", "42601", ""),
        ("CREATE VIEW x", "42601", "AS is missing"),
        ("CREATE VIEW x (a) AS SELECT 1", "0A000", "SELECT expression AS column"),
        ("CREATE OR REPLACE VIEW sums AS SELECT area FROM sales", "2BP01", "view large could not go on"),
        ("CREATE SOURCE x FROM kafka (port = 1)", "42704", "kafka"),
        ("CREATE SOURCE x FROM files (pat = 'incoming')", "22023", "did you mean 'path'"),
        ("CREATE SOURCE x FROM files (path = 'incoming', when_full = refuse)", "22023", "cannot refuse"),
        ("CREATE SOURCE x FROM postgres (dsn = 'env:NOT_SET', tables = (a = 'public.a'))", "22023", "NOT_SET"),
        ("CREATE SOURCE x FROM files (type = files)", "42601", "before the parenthesis"),
        ("CREATE SINK x FROM nope INTO duckdb (path = 'x.duckdb')", "42P01", "no view 'nope'"),
        ("CREATE SINK x INTO duckdb (path = 'x.duckdb', path = 'y.duckdb')", "42601", "written twice"),
        ("CREATE SOURCE \"a-b\" FROM files (path = 'incoming')", "22023", "cannot be a name"),
        ("DROP VIEW sums", "2BP01", "delivered by store"),
        ("DROP SOURCE sales", "2BP01", "could not go on"),
        ("DROP VIEW nope", "42P01", "no view 'nope'"),
        ("DROP SINK stor", "42704", "did you mean 'store'"),
        ("DROP VIEW large CASCADE", "0A000", "each that goes is named"),
        ("DROP TABLE sales", "0A000", "DROP SOURCE"),
        ("CREATE TABLE t (a int)", "0A000", "CREATE SOURCE name FROM http"),
        ("ALTER VIEW sums RENAME TO x", "0A000", "CREATE OR REPLACE VIEW"),
        ("INSERT INTO sums VALUES ('x', 1)", "25006", "fed by their sources"),
        ("CREATE VIEW x AS SELECT area FROM sales; CREATE VIEW y AS SELECT nope FROM x", "42703", "nope"),
        ("CREATE VIEW y AS SELECT a FROM sums; CREATE OR REPLACE VIEW sums AS SELECT 1 AS a", "2BP01", "large"),
        ("BEGIN; CREATE VIEW x AS SELECT area FROM sales; DROP VIEW sums; COMMIT", "2BP01", "delivered by store"),
    ):
        error = shop.refused(statement)
        assert state in error and said in error, (statement, error)
    edited, port = shop.folder / "views/large.sql", free_port()
    was = edited.read_text()
    edited.write_text("SELECT CAST(area AS int) AS area FROM sums WHERE n > 5\n")  # throws on the rows there are
    pushed = (
        f"CREATE SOURCE pushed FROM http (port = {port}, auth = none, tables = (clicks = (columns = (page = string))))"
    )
    assert "the new version of view large fails" in shop.refused(pushed)
    with pytest.raises(httpx.ConnectError):  # what began before it failed has ended
        httpx.get(f"http://127.0.0.1:{port}/", timeout=5)
    edited.write_text(was)
    far = shop.folder / "sources/far.yaml"  # edited, not applied, and nobody is there
    far.write_text(f"type: postgres\ndsn: postgresql://a@127.0.0.1:{free_port()}/a\ntables: {{far: public.far}}\n")
    out, notice = shop.psql("-c", "CREATE VIEW x AS SELECT area FROM sales")
    assert out == "CREATE VIEW" and "source far is left as it was" in notice and "create source" not in notice
    assert shop.psql("-c", "DROP VIEW x")[0] == "DROP VIEW"
    far.unlink()
    assert "has failed" in shop.psql("-c", "CREATE VIEW x AS SELECT CAST(area AS int) AS area FROM sales")[1]
    assert shop.psql("-c", "DROP VIEW x")[0] == "DROP VIEW"
    assert shop.ask("SHOW VIEWS") == "large|live\nsums|live"
    assert shop.ask("TABLE sums ORDER BY area") == "north|6\nsouth|3"


@pytest.mark.spark
def test_a_view_is_replaced_and_dropped_and_other_files_stay_as_they_are(shop: Shop) -> None:
    (shop.folder / "views/large.sql").write_text("-- on_error: set_aside\n-- mine\nSELECT area FROM sums WHERE n > 5\n")
    assert shop.ask('CREATE VIEW "Few" AS SELECT area, count(*) AS c FROM sales GROUP BY area').startswith(
        "CREATE VIEW"
    )
    assert shop.ask('SELECT c FROM "Few" ORDER BY area') == "2\n1"
    out, notice = shop.psql(
        "-c", "CREATE OR REPLACE VIEW few AS SELECT area, max(id) AS c FROM sales GROUP BY area; TABLE few"
    )
    assert sorted(out.splitlines()) == ["CREATE VIEW", "north|3", "south|2"] and notice == ""
    assert shop.files()["views/Few.sql"] == "SELECT area, max(id) AS c FROM sales GROUP BY area\n"
    assert shop.files()["views/large.sql"] == "-- on_error: set_aside\n-- mine\nSELECT area FROM sums WHERE n > 5\n"
    assert "there is a view 'Few'" in shop.psql("-c", "CREATE VIEW IF NOT EXISTS few AS SELECT 1 AS a")[1]
    assert "max(id)" in shop.files()["views/Few.sql"]
    out, notice = shop.psql("-c", "DROP VIEW few")
    assert out == "DROP VIEW" and "views/Few.sql.dropped" in notice
    assert "views/Few.sql" not in shop.files()
    assert shop.psql("-c", "DROP VIEW IF EXISTS few")[0] == "DROP VIEW"
    assert "there is no view or table 'few'" in shop.psql("-c", "TABLE few")[1]


@pytest.mark.spark
def test_sources_and_sinks_come_and_go(shop: Shop) -> None:
    port = free_port()
    assert shop.ask(
        f"CREATE SOURCE pushed FROM http (port = {port}, auth = none, tables = (clicks = (columns = (page = 'string')), later = ()))"
    ) == "CREATE SOURCE"  # fmt: skip
    assert shop.ask("CREATE VIEW pages AS SELECT page, count(*) AS n FROM clicks GROUP BY page") == "CREATE VIEW"
    pushed = {"tables": {"clicks": {"insert": [{"page": "a"}]}}}
    httpx.post(f"http://127.0.0.1:{port}/transactions", json=pushed, timeout=30).raise_for_status()
    end = time.monotonic() + 30
    while shop.ask("TABLE pages") != "a|1" and time.monotonic() < end:
        time.sleep(0.1)
    assert shop.ask("TABLE pages") == "a|1"
    (shop.folder / "views/waits.sql").write_text("SELECT a FROM later\n")  # of a table whose columns nobody knows yet
    assert "create" not in shop.ask("CREATE VIEW gone AS SELECT page FROM clicks")
    assert shop.psql("-c", "DROP VIEW gone")[0] == "DROP VIEW"
    pushed = {"tables": {"later": {"insert": [{"a": 1}]}}}
    httpx.post(f"http://127.0.0.1:{port}/transactions", json=pushed, timeout=30).raise_for_status()
    end = time.monotonic() + 60
    while "waits|live" not in shop.ask("SHOW VIEWS") and time.monotonic() < end:
        time.sleep(0.1)
    assert shop.ask("SHOW VIEWS") == "large|live\npages|live\nsums|live\nwaits|live"
    assert shop.psql("-c", "DROP VIEW waits")[0] == "DROP VIEW"
    assert shop.ask("CREATE SINK second FROM pages INTO duckdb (path = 'second.duckdb')") == "CREATE SINK"
    assert "delivered by second" in shop.refused("DROP VIEW pages")
    assert "pushed|http" in shop.ask("SHOW SOURCES") and "second|duckdb|pages" in shop.ask("SHOW SINKS")
    out, notice = shop.psql("-c", "DROP SINK second")
    assert out == "DROP SINK" and "sinks/second.yaml.dropped" in notice and "stays" in notice
    assert shop.psql("-c", "DROP VIEW pages")[0] == "DROP VIEW"
    assert shop.psql("-c", "DROP SOURCE pushed")[0] == "DROP SOURCE"
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{port}/", timeout=5)
    assert shop.ask("SHOW SOURCES") == "sales|files"


@pytest.mark.spark
def test_what_there_is_is_shown_and_explained(shop: Shop) -> None:
    assert shop.ask("SHOW SINKS") == "store|duckdb|sums"
    assert shop.ask("SHOW TABLES") == "sales|sales"
    assert shop.ask("SHOW COLUMNS FROM SUMS") == "area|string|true\nn|bigint|true"
    created = shop.ask("SHOW CREATE SOURCE sales")
    assert created == (
        "sales|CREATE SOURCE sales FROM files (\n  path = 'incoming',\n"
        "  columns = (id = 'int', area = 'string', n = 'bigint'),\n  key = ['id']\n)"
    )
    assert shop.ask("SHOW CREATE VIEW sums").endswith("AS\nSELECT area, sum(n) AS n FROM sales GROUP BY area")
    assert shop.ask("SHOW server_version").startswith("16")
    plan = shop.ask("EXPLAIN sums")
    done = subprocess.run([COMMAND, "explain", "sums"], cwd=shop.folder, capture_output=True, text=True, check=True)
    assert plan == done.stdout.strip() and plan.startswith("aggregate")
    asked = shop.ask("EXPLAIN SELECT area, sum(n) AS n FROM sales GROUP BY area")
    assert asked.splitlines()[0] == plan.splitlines()[0] and "sales" in asked
    assert "nope" in shop.refused("EXPLAIN SELECT nope FROM sales")
    assert "Hash Group By" in shop.ask("EXPLAIN VERBOSE SELECT area, sum(n) AS n FROM sales GROUP BY area")
    assert "psql" not in shop.ask("EXPLAIN CREATE VIEW x AS SELECT area FROM sales")


@pytest.mark.spark
def test_a_driver_changes_definitions_by_the_extended_protocol(shop: Shop) -> None:
    where = f"host=127.0.0.1 port={shop.port} user=ada dbname=shop password={shop.owner}"
    with psycopg.connect(where, autocommit=True, prepare_threshold=0) as connection:
        done = connection.execute("CREATE VIEW areas AS SELECT DISTINCT area FROM sales", prepare=True)
        assert done.statusmessage == "CREATE VIEW"
        assert sorted(connection.execute("TABLE areas", prepare=True).fetchall()) == [("north",), ("south",)]
        named = connection.execute("SHOW VIEWS", prepare=True)
        assert [column.name for column in named.description or ()] == ["name", "state"]
        assert ("areas", "live") in named.fetchall()
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="no parameters"):
            connection.execute("CREATE VIEW x AS SELECT area FROM sales WHERE n = %s", (1,))
        assert connection.execute("DROP VIEW areas", prepare=True).statusmessage == "DROP VIEW"


@pytest.mark.spark
def test_definitions_of_a_transaction_are_taken_at_its_commit_all_or_none(shop: Shop) -> None:
    """As a driver begins one by itself; read from one another, in any order."""
    where = f"host=127.0.0.1 port={shop.port} user=ada dbname=shop password={shop.owner}"
    before = shop.files()
    with psycopg.connect(where) as connection:
        connection.execute("CREATE VIEW x AS SELECT area FROM sales")
        connection.rollback()
        connection.execute("CREATE VIEW x AS SELECT area FROM sales")
        connection.execute("CREATE VIEW y AS SELECT nope FROM x")
        with pytest.raises(psycopg.errors.UndefinedColumn, match="nope"):
            connection.commit()
        assert shop.files() == before
        connection.execute("CREATE VIEW most AS SELECT max(n) AS n FROM counted")
        connection.execute("CREATE VIEW counted AS SELECT area, count(*) AS n FROM sales GROUP BY area")
        connection.execute("CREATE SINK other FROM most INTO duckdb (path = 'other.duckdb')")
        assert shop.files() == before
        connection.commit()
        assert connection.execute("TABLE most").fetchall() == [(2,)]
        connection.commit()
        assert shop.files().keys() - before.keys() == {"sinks/other.yaml", "views/counted.sql", "views/most.sql"}
        for statement in ("DROP VIEW counted", "DROP VIEW most", "DROP SINK other"):
            connection.execute(statement.encode())
        connection.commit()
        assert connection.execute("SHOW VIEWS").fetchall() == [("large", "live"), ("sums", "live")]
    dropped = {f"{file}.dropped" for file in ("sinks/other.yaml", "views/counted.sql", "views/most.sql")}
    assert shop.files().keys() - before.keys() == dropped


READS = {"SHOW VIEWS", "SHOW TABLES", "SHOW CREATE VIEW sums", "SHOW COLUMNS FROM sums"}
STATEMENTS = {  # -> the least role
    **dict.fromkeys(sorted(READS), Role.VIEWER),
    "SHOW SOURCES": Role.VIEWER, "SHOW SINKS": Role.VIEWER, "EXPLAIN sums": Role.VIEWER,
    "SHOW CREATE SOURCE sales": Role.EDITOR, "SHOW CREATE SINK store": Role.EDITOR,
    "CREATE VIEW IF NOT EXISTS sums AS SELECT 1 AS a": Role.EDITOR,
    "EXPLAIN SELECT area FROM sales": Role.EDITOR, "EXPLAIN CREATE VIEW x AS SELECT area FROM sales": Role.EDITOR,
    "CREATE SOURCE IF NOT EXISTS sales FROM files": Role.ADMIN,
    "CREATE SINK IF NOT EXISTS store INTO duckdb": Role.ADMIN,
    "DROP VIEW IF EXISTS nope": Role.EDITOR, "DROP SINK IF EXISTS nope": Role.ADMIN,
    "DROP SOURCE IF EXISTS nope": Role.ADMIN,
}  # fmt: skip


@pytest.mark.spark
def test_each_statement_takes_the_role_of_its_route_and_changes_are_written_down(shop: Shop, tmp_path: Path) -> None:
    access = shop.access
    try:
        tokens = {role: access.tokens.create(f"a_{role}", role)[1] for role in (Role.VIEWER, Role.EDITOR, Role.ADMIN)}
        limited = access.tokens.create("limited", Role.OPERATOR, ("large",))[1]
    finally:
        access.close()
    script, end = tmp_path / "each.sql", "-- the next"
    script.write_text("".join(f"{statement};\n\\warn '{end}'\n" for statement in STATEMENTS))

    def denied(token: str) -> list[str]:
        said = shop.psql("-f", str(script), token=token)[1].split(end)[: len(STATEMENTS)]
        return [statement for statement, error in zip(STATEMENTS, said, strict=True) if "access.denied" in error]

    for role, token in tokens.items():
        assert denied(token) == [each for each, least in STATEMENTS.items() if role.rank < least.rank], role
    assert denied(limited) == [each for each in STATEMENTS if each not in READS]
    assert "42501" in shop.refused("DROP VIEW large", token=tokens[Role.VIEWER])
    assert shop.ask("SHOW VIEWS", token=limited) == "large|live" and shop.ask("SHOW TABLES", token=limited) == ""
    assert "there is no view 'sums'" in shop.refused("SHOW CREATE VIEW sums", token=limited)
    assert "there is no view or table 'sums'" in shop.refused("SHOW COLUMNS FROM sums", token=limited)
    shop.ask("CREATE VIEW seen AS SELECT area FROM sales", token=tokens[Role.EDITOR])
    shop.psql("-c", "DROP VIEW seen", token=tokens[Role.EDITOR])
    log = AuditLog(shop.folder / ".headrace")
    entries = [
        (entry["who"], entry["action"], entry["outcome"], entry["detail"])
        for entry in log.recent(Wanted(relation="seen"), 10)[0]
    ]
    assert entries == [
        ("a_editor", action, outcome, {"kind": "view"})
        for action in ("create", "drop")
        for outcome in ("begun", "done")
    ]
    refused = log.recent(Wanted(who="a_viewer", action="drop", outcome="refused"), 10)[0]
    assert {entry["relation"] for entry in refused} >= {"nope"}


@pytest.mark.spark
def test_the_command_line_takes_the_same_statements(shop: Shop) -> None:
    def run(text: str, *more: str) -> subprocess.CompletedProcess[str]:
        command = [COMMAND, "sql", *more, "-"]
        return subprocess.run(command, cwd=shop.folder, input=text, capture_output=True, text=True, check=False)

    done = run("CREATE VIEW one AS SELECT area FROM sums;\n-- and\nCREATE VIEW two AS SELECT area FROM one;", "--json")
    assert json.loads(done.stdout) == {
        "done": [{"statement": "CREATE VIEW", "name": name, "notices": []} for name in ("one", "two")]
    }
    shown = json.loads(run("SHOW VIEWS", "--json").stdout)
    assert [row[0] for row in shown["rows"]] == ["large", "one", "sums", "two"]
    assert run("SHOW CREATE VIEW two").stdout == "CREATE VIEW two AS\nSELECT area FROM one\n"
    assert run("EXPLAIN one").stdout.strip() == shop.ask("EXPLAIN one")
    refused = run("BEGIN; CREATE VIEW three AS SELECT area FROM sums; DROP VIEW one; COMMIT")
    assert refused.returncode == 1 and "view.has_readers" in refused.stderr and "views/three.sql" not in shop.files()
    refused = run("DROP VIEW one")
    assert refused.returncode == 1 and "view.has_readers" in refused.stderr
    assert run("DROP VIEW two; DROP VIEW one").stdout.splitlines() == [
        "DROP VIEW two", "  its file is kept as views/two.sql.dropped",
        "DROP VIEW one", "  its file is kept as views/one.sql.dropped",
    ]  # fmt: skip
    assert "stand alone" in run("SHOW VIEWS; SHOW SINKS").stderr
    assert "no statement about definitions" in run("CREATE VIEW x AS SELECT 1 AS a; SELECT 1").stderr
    assert "views/x.sql" not in shop.files()
    assert run("DROP VIEW nope").returncode == 1
