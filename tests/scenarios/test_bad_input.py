"""Goal: what a user does wrong is answered with what, where, why and what to do next; and nothing is lost by it.

Method: the installed command in a project that `headrace init` made. One `headrace up`, with a real PostgreSQL, serves
all items: the commands run beside it, and at the end every view is compared with Spark batch over the log.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import yaml

import warm_command
from headrace.engine.disk import refusal
from headrace.testing.postgres import PostgresServer

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

COMMAND = str(Path(sys.executable).with_name("headrace"))
PASSWORD = "right-one"
WAIT_S = 60
DISK_MB = 72  # room for the log's first segment, and for no second one
PUSH_BYTES = 3_000_000

TABLES = """
CREATE TABLE accounts (id int PRIMARY KEY, owner text, balance numeric(12,2));
CREATE TABLE journal (at int, what text);
INSERT INTO accounts VALUES (1, 'ada', 10), (2, 'bo', 20);
INSERT INTO journal VALUES (1, 'opened');
"""


class SmallDisk:
    """A folder with little room: a file system of its own; where none may be mounted, files that may not grow."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.mounted = self._mount(f"size={DISK_MB}m")

    def _mount(self, options: str) -> bool:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.folder)]
        with suppress(FileNotFoundError):
            return subprocess.run(command, capture_output=True, check=False).returncode == 0
        return False

    def shrink(self, pid: int) -> None:
        if not self.mounted:
            _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (4 * PUSH_BYTES, hard))

    def free(self, pid: int) -> None:
        """There is room again."""
        if self.mounted:
            assert self._mount("remount,size=500m")
        else:
            _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))

    def close(self) -> None:
        if self.mounted:
            subprocess.run(["umount", "--lazy", str(self.folder)], check=True)


class Shop:
    """A project, its PostgreSQL and its `headrace up`."""

    def __init__(self, folder: Path, server: PostgresServer) -> None:
        self.folder, self.server = folder, server
        assert headrace(folder.parent, "init", folder.name).returncode == 0
        self.listener = socket.create_server(("127.0.0.1", 0))  # somebody else's, when the product starts
        self.port = self.listener.getsockname()[1]
        source = yaml.safe_load((folder / "sources/shop.yaml").read_text())
        source["tables"]["blobs"] = {"columns": {"id": "bigint", "body": "string"}, "key": ["id"]}
        self.define("sources/shop.yaml", {**source, "port": self.port})
        self.define("sources/bank.yaml", self.bank())
        self.view("owners", "SELECT owner, sum(balance) AS balance FROM accounts GROUP BY owner")
        self.view("sizes", "SELECT id, length(body) AS size FROM blobs")
        self.disk = SmallDisk(folder / ".headrace/log")
        self.log = folder.parent / "up.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [COMMAND, "up", "--json"], cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                env={**os.environ, "BANK_PASSWORD": PASSWORD, "WRONG_PASSWORD": "wr0ng"}, start_new_session=True,
            )  # fmt: skip

    def bank(self, **options: Any) -> dict[str, Any]:
        there = {"type": "postgres", "host": "127.0.0.1", "port": self.server.port, "database": "postgres"}
        return {**there, "user": "postgres", "password": "env:BANK_PASSWORD", **options}

    def define(self, file: str, values: dict[str, Any]) -> None:
        (self.folder / file).write_text(yaml.safe_dump(values, sort_keys=False))

    def view(self, name: str, sql: str) -> None:
        (self.folder / f"views/{name}.sql").write_text(sql + "\n")

    def events(self, kind: str) -> list[dict[str, Any]]:
        lines = [line for line in self.log.read_text().splitlines() if line.startswith('{"event"')]
        return [event for event in map(json.loads, lines) if event["event"] == kind]

    def status(self) -> dict[str, Any]:
        return answer(headrace(self.folder, "status", "--json"))

    def source(self, name: str) -> dict[str, Any]:
        return next((dict(s) for s in self.status()["sources"] if s["name"] == name), {})

    def commit(self) -> int:
        return int(self.status()["commit"])

    def rows(self, view: str) -> list[Any]:
        return list(answer(headrace(self.folder, "show", view, "--json"))["rows"])

    def push(self, *changes: tuple[str, dict[str, Any]]) -> httpx.Response:
        """One transaction of inserts."""
        token = (self.folder / ".headrace/tokens/shop").read_text().strip()
        document = {"changes": [{"table": table, "op": "insert", "row": row} for table, row in changes]}
        headers = {"Authorization": f"Bearer {token}"}
        url = f"http://127.0.0.1:{self.port}/transactions"
        return httpx.post(url, json=document, headers=headers, timeout=WAIT_S, trust_env=False)

    def wait(self, condition: Callable[[], Any]) -> None:
        end = time.monotonic() + WAIT_S
        while not condition():
            assert self.process.poll() is None and time.monotonic() < end, self.log.read_text()[-3000:]
            time.sleep(0.5)

    def close(self) -> None:
        self.listener.close()
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(WAIT_S)
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.disk.close()


def headrace(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return warm_command.run(folder, *arguments)


def answer(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(done.stdout))


def error(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """The error that ended a command run with --json."""
    assert (done.returncode, done.stdout.replace('{"event":"stopped"}\n', "")) == (1, "")
    return dict(json.loads(done.stderr.splitlines()[-1])["error"])


def assert_told(found: dict[str, str], code: str, *, what: str, where: str, why: str, next: str) -> None:
    """All four things a user needs are there, and say so."""
    assert found["code"] == code, found
    for part, words in {"what": what, "where": where, "why": why, "next": next}.items():
        assert found[part] and words in found[part], (part, words, found)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("bad_input")
    with PostgresServer(password=PASSWORD) as server:
        server.psql(TABLES)
        made = Shop(folder / "shop", server)
        try:
            made.wait(lambda: made.events("ready") and made.events("source.failed"))
            made.listener.close()
            made.wait(lambda: made.source("shop").get("state") == "running")
            yield made
            verdict = answer(headrace(made.folder, "verify", "--json"))  # after all that was done wrong
            assert verdict["differences"] == 0 and len(verdict["views"]) >= 4, verdict
        finally:
            made.close()


def test_a_taken_port_is_named_and_the_source_listens_once_it_is_free(shop: Shop) -> None:
    [failed] = [event["error"] for event in shop.events("source.failed") if event["source"] == "shop"]
    assert_told(
        failed, "source.port", what=f"port {shop.port} on 127.0.0.1 is taken", where="sources/shop.yaml",
        why="another process listens there", next=f"port: {shop.port + 1}",
    )  # fmt: skip
    assert [event["source"] for event in shop.events("source.recovered")][:1] == ["shop"]
    assert shop.source("shop")["error"] is None
    shop.wait(lambda: shop.rows("owners") == [["ada", "10.00"], ["bo", "20.00"]])  # the other source went on meanwhile


REFUSED = {  # view text -> code, where, what, why, next
    "SELECT regin FROM customers": ("unknown_column", "1:8", "'regin'", "region", "did you mean 'region'?"),
    "SELECT c.id\nFROM custmers c": ("unknown_relation", "2:6", "'custmers'", "customers", "did you mean 'customers'?"),
    "INSERT INTO orders SELECT * FROM orders": ("refused", "1:1", "INSERT INTO", "only reads", "headrace plan"),
    "DROP TABLE orders": ("refused", "1:1", "DROP TABLE", "only reads", "headrace plan"),
    "CREATE TABLE x AS SELECT 1": ("refused", "1:1", "CREATE TABLE AS SELECT", "only reads", "headrace plan"),
    "SELECT java_method('java.lang.System', 'exit', 1)": ("refused", "1:8", "java_method", "code", "headrace plan"),
    "SELECT transform(id) USING 'sh' AS (x) FROM orders": ("refused", "1:1", "TRANSFORM", "program", "headrace plan"),
    "SELECT * FROM csv.`/etc/passwd`": ("refused", "1:15", "csv./etc/passwd", "no path", "headrace plan"),
    "ADD JAR 'x.jar'": ("refused", "1:1", "ADD JARS", "only reads", "headrace plan"),
    "SELECT id, rand() AS r FROM orders": ("not_deterministic", "1:12", "rand", "random", "xxhash64(id)"),
    "SELECT id, uuid() AS u FROM orders": ("not_deterministic", "1:12", "uuid", "random", "sha2(id"),
    "SELECT id, current_user AS u FROM orders": ("not_deterministic", "1:12", "current_user", "session", "headrace plan"),
}  # fmt: skip


def test_sql_that_names_what_is_not_there_or_does_more_than_read_is_refused(shop: Shop) -> None:
    before = shop.commit()
    for number, text in enumerate(REFUSED):
        shop.view(f"bad_{number}", text)
    try:
        done = headrace(shop.folder, "plan", "--json")
        assert done.returncode == 1
        views = {view["name"]: view for view in json.loads(done.stdout)["views"]}
        for number, (code, place, what, why, next) in enumerate(REFUSED.values()):
            view = views[f"bad_{number}"]
            assert not view["incremental"]
            where = f"views/bad_{number}.sql:{place}"
            assert_told(view["refused"], f"sql.{code}", what=what, where=where, why=why, next=next)
        assert shop.commit() == before  # a plan changes nothing
        assert headrace(shop.folder, "apply").returncode == 1  # what is sound goes on, what is refused is not made
        states = {view["name"]: view["state"] for view in shop.status()["views"]}
        assert states == {"idle_customers": "live", "revenue": "live", "owners": "live", "sizes": "live"} | {
            f"bad_{number}": "refused" for number in range(len(REFUSED))
        }
    finally:
        for number in range(len(REFUSED)):
            (shop.folder / f"views/bad_{number}.sql").unlink()
        answer(headrace(shop.folder, "apply", "--json"))
    for text, (code, _, what, why, _) in list(REFUSED.items())[:3]:
        found = error(headrace(shop.folder, "sql", "--json", text))
        assert_told(found, f"sql.{code}", what=what, where="line", why=why, next="")
        assert found["next"].startswith(("did you mean", "`headrace sql` takes one SELECT"))
    found = error(headrace(shop.folder, "sql", "--json", "DROP TABLE orders"))
    assert (found["code"], found["what"]) == ("sql.refused", "DROP TABLE is not taken")
    assert found["next"] == "DROP SOURCE, DROP VIEW or DROP SINK"
    assert shop.push(("customers", {"id": 50, "name": "Di", "region": "west"})).status_code == 200


def test_a_wrong_password_is_refused_and_the_right_one_taken(shop: Shop) -> None:
    before = shop.status()
    shop.define("sources/vault.yaml", shop.bank(password="env:WRONG_PASSWORD", schemas=["information_schema"]))
    planned = headrace(shop.folder, "plan", "--json")
    assert planned.returncode == 1
    plan = json.loads(planned.stdout)  # of all else
    assert all(view["incremental"] and not view["refused"] for view in plan["views"])
    for found in (plan["unread"]["vault"], error(headrace(shop.folder, "apply", "--json"))):
        assert_told(
            found, "source.auth", what="the user or the password", where="sources/vault.yaml",
            why='password authentication failed for user "postgres"', next="check user and password",
        )  # fmt: skip
        assert "wr0ng" not in json.dumps(found)
    after = shop.status()
    assert (after["commit"], [s["name"] for s in after["sources"]]) == (before["commit"], ["bank", "shop"])
    shop.define("sources/vault.yaml", shop.bank(schemas=["vault"]))
    assert answer(headrace(shop.folder, "apply", "--json"))["changes"][2]["action"] == "create"
    shop.wait(lambda: shop.source("vault").get("state") == "running")
    (shop.folder / "sources/vault.yaml").unlink()
    answer(headrace(shop.folder, "apply", "--json"))
    assert shop.source("vault") == {}


def test_a_server_without_logical_wal_is_told_and_followed_once_it_has_it(shop: Shop) -> None:
    with PostgresServer(wal_level="replica") as server:
        server.psql("CREATE TABLE parcels (id int PRIMARY KEY); INSERT INTO parcels VALUES (7)")
        shop.define("sources/depot.yaml", {"type": "postgres", "dsn": server.dsn})
        shop.view("parcels_seen", "SELECT id FROM parcels")
        plan = answer(headrace(shop.folder, "plan", "--json"))
        assert any("wal_level is 'replica'" in text and "ALTER SYSTEM" in text for text in plan["warnings"])
        answer(headrace(shop.folder, "apply", "--json"))
        shop.wait(lambda: shop.source("depot").get("error"))
        assert_told(
            shop.source("depot")["error"], "source.setup", what="wal_level is 'replica'", where="sources/depot.yaml",
            why="does not write what logical replication needs", next="ALTER SYSTEM SET wal_level = 'logical'",
        )  # fmt: skip
        assert server.psql("SELECT count(*) FROM pg_publication") == [(0,)]
        server.stop()
        with PostgresServer(server.folder, wal_level="logical", port=server.port):
            shop.wait(lambda: shop.rows("parcels_seen") == [[7]])
            assert headrace(shop.folder, "drop", "parcels_seen", "--yes").returncode == 0
            (shop.folder / "sources/depot.yaml").unlink()
            answer(headrace(shop.folder, "apply", "--json"))


def test_an_update_of_a_table_without_identity_is_warned_of_and_refused(shop: Shop) -> None:
    published = "SELECT tablename FROM pg_publication_tables ORDER BY 1"
    shop.view("journal_lines", "SELECT what, count(*) AS n FROM journal GROUP BY what")
    plan = answer(headrace(shop.folder, "plan", "--json"))
    [warning] = plan["warnings"]
    assert "public.journal has neither a primary key nor a replica identity" in warning
    assert "PostgreSQL itself refuses every UPDATE and DELETE" in warning
    assert "ALTER TABLE public.journal REPLICA IDENTITY FULL" in warning
    assert shop.server.psql(published) == [("accounts",)]  # so far nothing was touched
    shop.server.psql("UPDATE journal SET what = 'begun'")
    answer(headrace(shop.folder, "apply", "--json"))
    shop.wait(lambda: shop.rows("journal_lines") == [["begun", 1]])
    assert shop.server.psql(published) == [("accounts",), ("journal",)]
    for statement in ("UPDATE journal SET what = 'lost'", "DELETE FROM journal"):
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="does not have a replica identity"):
            shop.server.psql(statement)
    shop.server.psql("INSERT INTO journal VALUES (2, 'closed'); UPDATE accounts SET balance = 11 WHERE id = 1")
    shop.wait(lambda: shop.rows("journal_lines") == [["begun", 1], ["closed", 1]])
    shop.wait(lambda: shop.rows("owners") == [["ada", "11.00"], ["bo", "20.00"]])
    assert shop.source("bank")["error"] is None


def test_a_transaction_with_one_wrong_row_is_refused_whole_and_taken_when_corrected(shop: Shop) -> None:
    customer = ("customers", {"id": 1, "name": "Ada", "region": "north"})
    before = shop.commit()
    done = shop.push(customer, ("orders", {"id": 1, "customer_id": 1, "amount": "a lot", "placed_at": None}))
    assert done.status_code == 422
    assert_told(
        done.json(), "source.row", what="column 'amount' (decimal(12,2))", where="table 'orders', change 2",
        why="the whole request was refused, nothing of it was kept", next="correct the row and push the request again",
    )  # fmt: skip
    assert "'a lot'" in done.json()["what"]
    assert shop.commit() == before
    assert not [row for row in shop.rows("idle_customers") if row[0] == 1]
    done = shop.push(customer, ("orders", {"id": 1, "customer_id": 1, "amount": "12.50", "placed_at": None}))
    assert (done.status_code, done.json()) == (200, {"commit": before + 1})
    shop.wait(lambda: shop.rows("revenue") == [["north", 1, "12.50"]])


def test_a_full_disk_is_answered_and_nothing_acknowledged_is_lost(shop: Shop) -> None:
    shop.disk.shrink(shop.process.pid)
    taken: dict[int, int] = {}
    body = "x" * PUSH_BYTES
    for number in range(2 * DISK_MB * 1_000_000 // PUSH_BYTES):
        done = shop.push(("blobs", {"id": number, "body": body}))
        if done.status_code != 200:
            break
        taken[number] = done.json()["commit"]
    assert done.status_code == 503
    assert_told(
        done.json(), "log.full", what="nothing of the transactions was kept", where=str(shop.folder / ".headrace/log"),
        why="", next="Free some space",
    )  # fmt: skip
    assert len(taken) >= 2
    assert list(taken.values()) == list(range(min(taken.values()), min(taken.values()) + len(taken)))
    assert shop.commit() == max(taken.values())
    assert shop.source("shop")["error"]["code"] == "log.full"
    shop.disk.free(shop.process.pid)
    done = shop.push(("blobs", {"id": -1, "body": "room again"}))
    assert (done.status_code, done.json()["commit"]) == (200, max(taken.values()) + 1)
    expected = [[-1, 10], *([number, PUSH_BYTES] for number in taken)]
    shop.wait(lambda: shop.rows("sizes") == expected)
    assert shop.source("shop")["error"] is None


def test_a_full_disk_under_the_views_is_told_apart_from_sql_that_fails(tmp_path: Path) -> None:
    with pytest.raises(OSError) as caught:
        Path("/dev/full").write_text("x")
    found = refusal(caught.value, tmp_path)
    assert found is not None
    assert_told(
        found.as_dict(), "state.full", what="no space is left", where=str(tmp_path), why="No space left on device",
        next="`headrace up`: it goes on where it stopped",
    )  # fmt: skip
    assert refusal(ArithmeticError("division by zero"), tmp_path) is None


def test_a_sink_that_cannot_be_reached_holds_up_nobody_and_is_seen_to_fall_behind(shop: Shop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        closed = nobody.getsockname()[1]
    sink = {**shop.bank(), "views": ["owners"], "schema": "reports"}
    shop.define("sinks/reports.yaml", {**sink, "port": closed})
    shop.server.psql("CREATE SCHEMA reports")
    assert answer(headrace(shop.folder, "apply", "--json"))["changes"][-1]["action"] == "create"

    def reports() -> dict[str, Any]:
        return next(dict(sink) for sink in shop.status()["sinks"] if sink["name"] == "reports")

    shop.wait(lambda: reports()["error"])
    assert_told(
        reports()["error"], "sink.connect", what="PostgreSQL cannot be reached", where="sinks/reports.yaml",
        why="Connection refused", next="check host, port, database",
    )  # fmt: skip
    shop.server.psql("INSERT INTO accounts VALUES (90, 'eve', 5)")
    shop.wait(lambda: ["eve", "5.00"] in shop.rows("owners"))
    status, lagging = shop.status(), reports()
    assert {view["commit"] for view in status["views"]} == {status["commit"]}
    assert {view["behind_s"] for view in status["views"]} == {0.0}
    assert lagging["frontier"] < status["commit"] and lagging["lag"] > 0
    assert lagging["behind_s"] > 0 and reports()["behind_s"] > lagging["behind_s"]
    assert json.loads(shop.source("bank")["position"])["lsn"].count("/") == 1
    shop.define("sinks/reports.yaml", sink)
    assert answer(headrace(shop.folder, "apply", "--json"))["changes"][-1]["action"] == "replace"
    shop.wait(lambda: reports()["behind_s"] == 0.0 and reports()["error"] is None)
    assert shop.server.psql("SELECT owner FROM reports.owners WHERE owner = 'eve'") == [("eve",)]
    (shop.folder / "sinks/reports.yaml").unlink()
    assert answer(headrace(shop.folder, "apply", "--json"))["changes"][-1]["action"] == "drop"
    assert [sink["name"] for sink in shop.status()["sinks"]] == ["local"]


def test_a_row_that_the_sinks_store_cannot_hold_is_set_aside_there_until_it_is_put_right(shop: Shop) -> None:
    shop.define("sinks/names.yaml", {**shop.bank(), "views": ["idle_customers"], "schema": "names"})
    answer(headrace(shop.folder, "apply", "--json"))

    def names() -> dict[str, Any]:
        return next(dict(sink) for sink in shop.status()["sinks"] if sink["name"] == "names")

    def delivered() -> list[tuple[Any, ...]]:
        shop.wait(lambda: names()["lag"] == 0 and names()["frontier"] >= commit)
        return shop.server.psql("SELECT name FROM names.idle_customers WHERE id >= 500 ORDER BY id")

    def customer(key: int, name: str) -> tuple[str, dict[str, Any]]:
        return "customers", {"id": key, "name": name, "region": "north"}

    commit = shop.push(customer(500, "Eve"), customer(501, "B\0b")).json()["commit"]
    assert delivered() == [("Eve",)]
    kept = shop.server.psql("SELECT view, contents, reason, copies FROM names.headrace_quarantine")
    row = '{"id": 501, "name": "B\\u0000b", "region": "north"}'
    assert kept == [("idle_customers", row, "name: it contains the character NUL (U+0000)", 1)]
    assert (names()["error"], names()["quarantined"]) == (None, {"idle_customers": 1})
    assert shop.events("sink.quarantined")[-1] == {
        "event": "sink.quarantined", "sink": "names", "view": "idle_customers", "rows": 1,
    }  # fmt: skip
    assert "cannot hold 1 row of idle_customers" in headrace(shop.folder, "status").stdout
    commit = shop.push(customer(501, "Bob")).json()["commit"]
    assert delivered() == [("Eve",), ("Bob",)]
    assert shop.server.psql("SELECT * FROM names.headrace_quarantine") == []
    assert names()["quarantined"] == {}
    (shop.folder / "sinks/names.yaml").unlink()
    answer(headrace(shop.folder, "apply", "--json"))


def test_a_second_process_on_the_folder_is_refused_by_the_first_ones_number(shop: Shop) -> None:
    found = error(headrace(shop.folder, "up", "--json"))
    assert_told(
        found, "project.locked", what=f"process {shop.process.pid} (`headrace up`) runs this project",
        where=str(shop.folder), why="two at once would write the same log", next="headrace stop",
    )  # fmt: skip
    assert shop.process.poll() is None


@pytest.mark.parametrize(
    ("file", "line", "key", "hint"),
    [
        ("headrace.yaml", "drive_memory: 1g", "drive_memory", "driver_memory"),
        ("sources/shop.yaml", "prot: 7071", "prot", "port"),
        ("sources/bank.yaml", "pasword: env:BANK_PASSWORD", "pasword", "password"),
        ("sinks/local.yaml", "veiws: [owners]", "veiws", "views"),
    ],
)
def test_a_misspelt_key_is_shown_with_its_line_and_the_one_that_was_meant(
    shop: Shop, file: str, line: str, key: str, hint: str
) -> None:
    path = shop.folder / file
    kept = path.read_text()
    path.write_text(f"{kept.rstrip()}\n{line}\n")
    try:
        where = f"{file}:{len(kept.rstrip().splitlines()) + 1}"
        for verb in ("plan", "apply", "up"):
            found = error(headrace(shop.folder, verb, "--json"))
            assert_told(
                found, "config.unknown_key", what=f"unknown key '{key}'", where=where, why="nothing reads it",
                next=f"did you mean '{hint}'?",
            )  # fmt: skip
    finally:
        path.write_text(kept)
    assert [source["state"] for source in shop.status()["sources"]] == ["running", "running"]
