"""Goal: what psql's protocol makes of statements about definitions: verbs with their arguments, tags, notices, SQLSTATE,
entries of the audit log also where no token is asked for.

Method: psycopg on a served project whose verbs are recorded.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headrace.api.postgres.defining import ASKING
from headrace.api.postgres.password import passwords
from headrace.api.postgres.pending import CHANGES
from headrace.api.postgres.server import PostgresServer
from headrace.governance.access import Access
from headrace.governance.audit import AuditLog, Wanted
from headrace.governance.roles import Role
from headrace.model.errors import HeadraceError
from psql_project import Views, connect, serving

ANSWERS: dict[str, dict[str, Any]] = {
    "create": {"notices": ["replace view others: why"]},
    "drop": {"kept": "views/sums.sql.dropped"},
    "define": {
        "done": [{"notices": ["v: slow"]}, {"notices": []}, {"kept": "views/sums.sql.dropped", "notices": []}],
        "notices": ["replace view others: why"],
    },
    "explain": {"text": "aggregate  by id\n  read  raw"},
}


class Verbs:
    """Records what is asked, and answers it or fails."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.fault: HeadraceError | None = None

    def __call__(self, verb: str, arguments: dict[str, Any], progress: object) -> dict[str, Any]:
        self.calls.append((verb, arguments))
        if self.fault:
            raise self.fault
        return ANSWERS[verb]


@pytest.fixture
def views(tmp_path: Path) -> Views:
    views = Views(tmp_path / "p")
    views.view("sums", {"id": "int", "n": "bigint"}, ("id",), "SELECT id, sum(n) AS n FROM raw GROUP BY id")
    views.step(sums=[(1, 10, 1)])
    return views


@pytest.fixture
def verbs() -> Verbs:
    return Verbs()


@pytest.fixture
def served(views: Views, verbs: Verbs) -> Iterator[PostgresServer]:
    with serving(views, call=verbs) as server:
        yield server


def test_a_statement_is_a_verb_with_tag_and_notices_and_is_written_down(
    views: Views, verbs: Verbs, served: PostgresServer
) -> None:
    notices: list[tuple[str | None, str | None]] = []
    with connect(served, autocommit=True) as connection:
        connection.add_notice_handler(lambda told: notices.append((told.severity, told.message_primary)))
        done = connection.execute("CREATE OR REPLACE VIEW V AS SELECT 1 AS a; SELECT n FROM sums")
        assert done.statusmessage == "CREATE VIEW" and done.nextset() and done.fetchall() == [(10,)]
        assert connection.execute("DROP VIEW sums").statusmessage == "DROP VIEW"
        assert connection.execute("EXPLAIN sums").fetchall() == [("aggregate  by id",), ("  read  raw",)]
        assert connection.execute("SHOW CREATE VIEW sums").fetchall() == [
            ("sums", "CREATE VIEW sums AS\nSELECT id, sum(n) AS n FROM raw GROUP BY id")
        ]
    create = {"kind": "view", "name": "v", "text": "SELECT 1 AS a\n", "replace": True, "missing_only": False}
    assert verbs.calls == [("create", create), ("drop", {"view": "sums"}), ("explain", {"view": "sums"})]
    assert notices == [
        ("NOTICE", "replace view others: why"),
        ("NOTICE", "its file is kept as views/sums.sql.dropped"),
    ]
    entries = AuditLog(views.state).recent(Wanted(outcome="done"), 10)[0]
    assert [(entry["who"], entry["action"], entry["relation"], entry["address"]) for entry in entries] == [
        ("anyone", "create", "v", "127.0.0.1"), ("anyone", "drop", "sums", "127.0.0.1"),
    ]  # fmt: skip


def test_what_a_verb_refuses_is_an_error_of_postgresql(views: Views, verbs: Verbs, served: PostgresServer) -> None:
    with connect(served, autocommit=True) as connection:
        for code, state in (
            ("definition.exists", "42P07"), ("view.has_readers", "2BP01"), ("config.unknown_key", "22023"),
            ("definition.in_use", "2BP01"), ("config.unknown_type", "42704"), ("sql.unknown_column", "42703"),
        ):  # fmt: skip
            verbs.fault = HeadraceError(code, "no", where="sources/x.yaml", why="it is so", next="another way")
            with pytest.raises(psycopg.Error) as error:
                connection.execute("CREATE VIEW v AS SELECT 1 AS a")
            assert (error.value.sqlstate, error.value.diag.message_hint) == (state, "another way")
            assert error.value.diag.message_detail == "sources/x.yaml\nit is so"
        for code in ("view.unknown", "definition.unknown"):
            verbs.fault = HeadraceError(code, "there is no 'v'")
            assert connection.execute("DROP SINK IF EXISTS v").statusmessage == "DROP SINK"
        verbs.fault = HeadraceError("definition.exists", "no")
        connection.execute("SET app.n = '1'")
        connection.execute("BEGIN; SET app.n = '2'; CREATE VIEW v AS SELECT 1 AS a")
        with pytest.raises(psycopg.errors.DuplicateTable):
            connection.execute("COMMIT")
        assert connection.execute("SHOW app.n").fetchone() == ("1",)  # what it has set is undone with it
    failed = AuditLog(views.state).recent(Wanted(outcome="failed"), 10)[0]
    assert [entry["detail"]["code"] for entry in failed][:2] == ["definition.exists", "view.has_readers"]


def test_new_queries_are_explained_one_at_a_time_and_calls_are_bounded(views: Views) -> None:
    """Each holds the engine while it is compiled; so many statements leave the control socket's slots to others."""
    running: dict[str, int] = {"explain": 0, "create": 0}
    most, guard, go = dict(running), threading.Lock(), threading.Event()

    def call(verb: str, arguments: dict[str, Any], progress: object) -> dict[str, Any]:
        with guard:
            running[verb] += 1
            most[verb] = max(most[verb], running[verb])
        if verb == "create":
            go.wait(30)
        time.sleep(0.02)
        with guard:
            running[verb] -= 1
        return ANSWERS[verb]

    def ask(statement: str) -> None:
        with connect(server, autocommit=True) as connection:
            connection.execute(statement.encode())

    with serving(views, call=call) as server, ThreadPoolExecutor(2 * ASKING) as pool:
        list(pool.map(ask, ["EXPLAIN SELECT 1"] * 6))
        created = [pool.submit(ask, "CREATE VIEW v AS SELECT 1 AS a") for _ in range(2 * ASKING)]
        end = time.monotonic() + 20
        while running["create"] < ASKING and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.1)
        go.set()
        for each in created:
            each.result()
        assert most == {"explain": 1, "create": ASKING}
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="is not explained"):
            ask(f"EXPLAIN SELECT '{'a' * 1_000_000}'")


def test_connectors_take_an_admin_and_a_view_or_a_new_query_an_editor(views: Views, verbs: Verbs) -> None:
    """Options can name files and variables of the project's process; what is refused reaches no verb."""
    least = {
        "CREATE SOURCE s FROM http (headers = (a = 'file:/x'))": Role.ADMIN, "DROP SOURCE s": Role.ADMIN,
        "CREATE SINK s FROM sums INTO webhook (url = 'env:URL')": Role.ADMIN, "DROP SINK s": Role.ADMIN,
        "CREATE VIEW v AS SELECT 1 AS a": Role.EDITOR, "DROP VIEW v": Role.EDITOR,
        "EXPLAIN SELECT 1": Role.EDITOR, "EXPLAIN CREATE VIEW v AS SELECT 1 AS a": Role.EDITOR, "EXPLAIN sums": Role.VIEWER,
    }  # fmt: skip
    access = Access(views.state)
    try:
        with serving(views, passwords(access), call=verbs) as server:
            for role in Role:
                password = access.tokens.create(f"a_{role}", role)[1]
                with connect(server, password=password, autocommit=True) as connection:
                    verbs.calls.clear()
                    for statement, takes in least.items():
                        if role.rank >= takes.rank:
                            connection.execute(statement.encode())
                        else:
                            with pytest.raises(psycopg.errors.InsufficientPrivilege, match=f"a_{role}"):
                                connection.execute(statement.encode())
                    assert len(verbs.calls) == sum(role.rank >= takes.rank for takes in least.values())
    finally:
        access.close()


def test_a_transaction_is_one_verb_at_its_commit_and_none_after_a_rollback(
    views: Views, verbs: Verbs, served: PostgresServer
) -> None:
    notices: list[str | None] = []
    view = {"kind": "view", "text": "SELECT 1 AS a\n", "replace": False, "missing_only": False}
    with connect(served) as connection:  # begins a transaction by itself
        connection.add_notice_handler(lambda told: notices.append(told.message_primary))
        assert connection.execute("CREATE VIEW v AS SELECT 1 AS a").statusmessage == "CREATE VIEW"
        connection.rollback()
        connection.execute("CREATE VIEW v AS SELECT 1 AS a")
        with pytest.raises(psycopg.errors.UndefinedTable):
            connection.execute("TABLE v")  # it is not there yet
        connection.commit()  # of a transaction that has failed
        with pytest.raises(psycopg.errors.InvalidSavepointSpecification), connection.transaction():
            connection.execute("ROLLBACK TO nobody")
        assert verbs.calls == []

        connection.execute("CREATE VIEW v AS SELECT 1 AS a")
        with pytest.raises(psycopg.errors.SyntaxError), connection.transaction():  # within it: a savepoint
            connection.execute("CREATE VIEW x AS SELECT 1 AS a")
            connection.execute("CREATE VIEW")
        with connection.transaction():
            connection.execute("CREATE VIEW w AS SELECT 1 AS a")
        connection.execute("DROP VIEW IF EXISTS sums")
        connection.commit()
        changes = [{**view, "name": "v"}, {**view, "name": "w"}]
        dropped = {"kind": "view", "name": "sums", "existing_only": True}
        assert verbs.calls == [("define", {"changes": [*changes, dropped]})]
        assert notices == ["v: slow", "its file is kept as views/sums.sql.dropped", "replace view others: why"]
        connection.execute("CREATE VIEW v AS SELECT 1 AS a")
        connection.commit()
        assert verbs.calls[1:] == [("create", {**view, "name": "v"})]

        verbs.fault = HeadraceError("sql.unknown_column", "no")
        connection.execute("CREATE VIEW v AS SELECT 1 AS a")
        with pytest.raises(psycopg.errors.UndefinedColumn):
            connection.commit()
        verbs.fault = None
        assert connection.execute("SELECT n FROM sums").fetchall() == [(10,)]  # the transaction has ended
    entries = AuditLog(views.state).recent(Wanted(outcome="done"), 10)[0]
    assert {(entry["action"], entry["relation"]) for entry in entries} == {
        ("create", "v"), ("create", "w"), ("drop", "sums")
    }  # fmt: skip


def test_definitions_of_one_text_are_one_verb(verbs: Verbs, served: PostgresServer) -> None:
    with connect(served, autocommit=True) as connection:
        done = connection.execute("CREATE VIEW v AS SELECT 1 AS a; DROP VIEW w; DROP VIEW u; SELECT n FROM sums")
        tags = [done.statusmessage]
        while done.nextset():
            tags.append(done.statusmessage)
        assert tags == ["CREATE VIEW", "DROP VIEW", "DROP VIEW", "SELECT 1"]
        assert [(verb, len(arguments["changes"])) for verb, arguments in verbs.calls] == [("define", 3)]
        with pytest.raises(psycopg.errors.SyntaxError):
            connection.execute("CREATE VIEW v AS SELECT 1 AS a; CREATE VIEW")
        with pytest.raises(psycopg.errors.SyntaxError):
            connection.execute("BEGIN; CREATE VIEW v AS SELECT 1 AS a; CREATE VIEW; COMMIT")
        connection.execute("ROLLBACK")
        assert len(verbs.calls) == 1
        with pytest.raises(psycopg.errors.TooManyConnections):
            connection.execute("BEGIN" + "; DROP VIEW w" * (CHANGES + 1))
        assert len(verbs.calls) == 1


def test_secrets_in_plain_text_are_shown_to_who_may_write_them(views: Views, verbs: Verbs) -> None:
    (views.folder / "sinks").mkdir()
    (views.folder / "sinks/hook.yaml").write_text(
        "type: webhook\nurl: https://hooks.example/T0/secret1\nsecret: [file:key, secret2]\n"
        "headers: {Authorization: secret3, X-Team: 'env:TEAM'}\nallow: [hooks.example]\nviews: [sums]\n"
    )
    (views.folder / "sources").mkdir()
    (views.folder / "sources/shop.yaml").write_text(
        "type: postgres\ndsn: postgresql://a:secret4@db/shop\npassword: 'env:PASSWORD'\ntables: {url: public.url}\n"
    )
    access = Access(views.state)
    try:
        tokens = {role: access.tokens.create(f"a_{role}", role)[1] for role in (Role.EDITOR, Role.ADMIN)}
        with serving(views, passwords(access), call=verbs) as server:
            shown = {}
            for role, token in tokens.items():
                with connect(server, autocommit=True, password=token) as connection:
                    found = [connection.execute(f"SHOW CREATE {what}".encode()).fetchall()[0][1] for what in (
                        "SINK hook", "SOURCE shop"
                    )]  # fmt: skip
                    shown[role] = "\n".join(found)
    finally:
        access.close()
    assert all(f"secret{n}" in shown[Role.ADMIN] for n in (1, 2, 3, 4))
    assert [n for n in (1, 2, 3, 4) if f"secret{n}" in shown[Role.EDITOR]] == []
    assert shown[Role.EDITOR] == (
        "CREATE SINK hook FROM sums INTO webhook (\n  url = '********',\n  secret = ['file:key', '********'],\n"
        "  headers = (\"Authorization\" = '********', \"X-Team\" = 'env:TEAM'),\n  allow = ['hooks.example']\n)\n"
        "CREATE SOURCE shop FROM postgres (\n  dsn = '********',\n  password = 'env:PASSWORD',\n"
        "  tables = (url = 'public.url')\n)"
    )
