"""Goal: what a server or a user lacks is told with the SQL that gives it; what the server has lost is told and copied.

Method: real servers with users of few rights, settings changed while it runs, and its log purged or begun anew.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest

from binlog_server import Followed, MysqlSource, binlog_server, followed, server_kind
from headrace.model.finding import MISSING, OK, WARNING, Finding
from headrace.sources import registry
from headrace.testing.mysqld import Mysqld
from postgres_server import fails

__all__ = ["binlog_server", "followed", "server_kind"]  # fixtures

pytestmark = pytest.mark.binlog


def made(followed: Followed, **options: Any) -> MysqlSource:
    return MysqlSource("s", {**followed.server.options(followed.database), **options})


def found(source: MysqlSource, state: str) -> list[Finding]:
    return [finding for finding in source.examine(lambda name: True) if finding.state == state]


@pytest.fixture
def table(followed: Followed) -> Followed:
    followed.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    return followed


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ({"port": 1}, "source.connect", "check host, port and database"),
        ({"user": "nobody_known"}, "source.auth", "check user and password"),
        ({"password": "wrong"}, "source.auth", "check user and password"),
        ({"database": "not_there"}, "source.connect", "check host, port and database"),
        ({"tls": "verify"}, "source.connect", "certificate"),  # MySQL makes itself one, which nobody has signed
        ({"tables": {"x": "tt"}}, "source.no_table", "did you mean"),
        ({"as_text": ["t.idd"]}, "config.invalid", "did you mean 't.id'?"),
        ({"cascades": ["tt"]}, "source.no_table", "did you mean 't'?"),
    ],
)
def test_what_is_wrong_is_told_with_what_to_do(table: Followed, options: dict[str, Any], code: str, said: str) -> None:
    assert said in fails(code, made(table, **options).relations).next


def test_secrets_are_references_and_are_not_told(table: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    fails("config.secret", made(table, password="env:NOT_THERE").relations)
    monkeypatch.setenv("SHOP_PASSWORD", "s3cret-and-wrong")
    error = fails("source.auth", made(table, password="env:SHOP_PASSWORD").relations)
    assert "s3cret" not in str(error)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"hots": "x"}, "did you mean 'host'?"),
        ({"as_text": ["t"]}, "table.column"),
        ({"tls": "require", "tls_ca": "x.pem"}, "tls_ca"),
        ({"server_id": 0}, "server_id"),
    ],
)
def test_options_are_checked(binlog_server: Mysqld, options: dict[str, Any], said: str) -> None:
    with pytest.raises(Exception, match=said.replace("?", r"\?")):
        MysqlSource("s", {**binlog_server.options("d"), **options})


def test_rights_are_asked_for_one_by_one_and_suffice(table: Followed) -> None:
    user = f"u_{table.database}"
    table.server.sql(f"CREATE USER '{user}'@'%' IDENTIFIED BY 'pw'")
    try:
        table.server.sql(f"GRANT INSERT ON {table.database}.* TO '{user}'@'%'")
        source = made(table, user=user, password="pw")
        error = fails("source.rights", source.start, frozenset({"t"}), None)
        assert f"GRANT REPLICATION SLAVE ON *.* TO `{user}`@`%`" in error.next
        statements = [finding.next.removeprefix("as an administrator: ") for finding in found(source, MISSING)]
        others = ["BINLOG MONITOR"] if table.is_mariadb else ["REPLICATION CLIENT", "RELOAD"]
        assert [statement.partition(" TO ")[0] for statement in statements] == [
            *(f"GRANT {right} ON *.*" for right in ["REPLICATION SLAVE", *others]),
            f"GRANT SELECT ON `{table.database}`.`t`",
        ]
        assert any("lacks rights" in text for text in source.warnings(frozenset({"t"})))
        for statement in statements:
            table.server.sql(statement)
        assert found(source, MISSING) == []
        table.tables, table.source = ("t",), source
        table.begin("t", user=user, password="pw")
        table.does("INSERT INTO t VALUES (3)")
        table.source.close()
        table.source = made(table, user=user, password="pw")
        table.source.start(frozenset({"t"}), table.position)
        table.does("INSERT INTO t VALUES (4)")
        assert table.copied_anew() == []
    finally:
        table.server.sql(f"DROP USER '{user}'@'%'")


def test_settings_that_lose_changes_are_refused(table: Followed) -> None:
    settings = [("binlog_format", "MIXED", "ROW"), ("binlog_row_image", "MINIMAL", "FULL")]
    if table.is_mariadb:
        settings += [("log_bin_compress", "ON", "OFF")]
    else:
        settings += [("binlog_row_value_options", "PARTIAL_JSON", ""), ("binlog_transaction_compression", "ON", "OFF")]
    for name, value, right in settings:
        table.server.sql(f"SET GLOBAL {name} = '{value}'")
        try:
            error = fails("source.setup", table.source.start, frozenset({"t"}), None)
            assert f"{name} is {value}" in error.what and f"SET GLOBAL {name} = " in error.next
            assert any(f"SET GLOBAL {name}" in finding.next for finding in found(table.source, MISSING))
        finally:
            table.server.sql(f"SET GLOBAL {name} = '{right}'")
        assert found(table.source, MISSING) == []
    assert {finding.state for finding in table.source.examine(lambda name: True)} == {OK}


def test_what_a_session_writes_otherwise_stops_the_source(table: Followed) -> None:
    """MySQL alone: a session may compress its transactions, and write changed parts of JSON values."""
    if table.is_mariadb:
        return
    for setting, said in (
        ("binlog_row_value_options = 'PARTIAL_JSON'", "a row came without all of its columns"),
        ("binlog_transaction_compression = ON", "binlog_transaction_compression is on"),
    ):
        table.run("DROP TABLE IF EXISTS j", "CREATE TABLE j (id int PRIMARY KEY, j json)")
        table.run("""INSERT INTO j VALUES (1, '{"a": 1, "b": [1, 2, 3]}')""")
        table.begin("j")
        table.run(f"SET SESSION {setting}", "UPDATE j SET j = JSON_SET(j, '$.a', 2)")
        table.run(f"SET SESSION {setting.partition(' ')[0]} = DEFAULT")
        error = table.stops("source.setup")
        assert said in f"{error.what} ({error.why})"


def test_rows_that_come_without_all_columns_stop_the_source(table: Followed) -> None:
    table.run("CREATE TABLE w (id int PRIMARY KEY, a int, b int)", "INSERT INTO w VALUES (1, 1, 1)")
    table.begin("w")
    table.run("SET SESSION binlog_row_image = 'MINIMAL'", "UPDATE w SET a = 2")
    assert "table w: a row came without all of its columns" in table.stops("source.setup").what


CHILD = (
    "CREATE TABLE child (id int PRIMARY KEY, t int, "
    "CONSTRAINT belongs FOREIGN KEY (t) REFERENCES t (id) ON DELETE CASCADE)"
)


def test_a_table_whose_rows_a_foreign_key_changes_is_followed_when_that_is_accepted_only(table: Followed) -> None:
    """The server does not write to its log what InnoDB deletes by itself."""
    table.run(CHILD, "INSERT INTO t VALUES (11), (12)", "INSERT INTO child VALUES (1, 11), (2, 12)")
    said = "table child: the foreign key belongs changes its rows when t changes (ON DELETE CASCADE)"
    names = frozenset({"t", "child"})
    for refused in (lambda: table.source.warnings(names), lambda: table.source.start(names, None)):
        error = fails("source.setup", refused)
        assert error.what == said and "`cascades: [child]`" in error.next
    assert [finding.next for finding in found(table.source, MISSING) if said in finding.what] == [error.next]
    table.begin("t", "child", cascades=("child",))
    table.run("DELETE FROM t WHERE id = 11")
    table.catches_up()
    assert Counter(table.replica.contents("child")) == Counter([(1, 11), (2, 12)])
    assert table.held("child") == [(2, 12)]
    table.run("ALTER TABLE child ADD COLUMN more int")  # copied anew, and exact again
    table.restarts(cascades=("child",))
    table.catches_up()
    assert [row[:2] for row in table.replica.contents("child")] == [(2, 12)]


def test_a_foreign_key_that_comes_later_stops_the_source(table: Followed) -> None:
    table.run("CREATE TABLE child (id int PRIMARY KEY, t int)")
    table.begin("t", "child")
    table.run("ALTER TABLE child ADD CONSTRAINT belongs FOREIGN KEY (t) REFERENCES t (id) ON DELETE SET NULL")
    assert "belongs" in table.stops("source.setup").what


def test_what_the_log_does_not_hold_is_warned_of(table: Followed) -> None:
    table.run(CHILD.replace("id int PRIMARY KEY", "id int"), "CREATE TABLE old (id int PRIMARY KEY) ENGINE = MyISAM")
    table.source = table.made(cascades=("child",))
    told = table.source.warnings(frozenset({"t", "child", "old"}))
    assert len(told) == 3
    assert any("belongs" in text and "ON DELETE CASCADE" in text for text in told)
    assert any("MyISAM" in text and "ENGINE = InnoDB" in text for text in told)
    assert any("child has no primary key" in text for text in told)
    assert {finding.what for finding in found(table.source, WARNING)} == set(told)


def test_a_table_without_transactions_is_followed_statement_by_statement(table: Followed) -> None:
    table.run("CREATE TABLE old (id int PRIMARY KEY, v int) ENGINE = MyISAM", "INSERT INTO old VALUES (1, 1)")
    table.begin("old", "t")
    statements = ["INSERT INTO old VALUES (2, 2)", "INSERT INTO t VALUES (9)", "UPDATE old SET v = 5"]
    if table.is_mariadb:  # MySQL, where transactions have GTIDs, takes no such table in one of several statements
        statements = ["BEGIN", *statements, "COMMIT"]
    table.run(*statements)
    table.catches_up()
    table.is_same()


def test_a_purged_log_is_told_and_the_difference_copied(table: Followed) -> None:
    table.begin("t")
    table.source.close()
    table.run("INSERT INTO t VALUES (3)", "DELETE FROM t WHERE id = 1")
    table.server.sql("FLUSH BINARY LOGS")
    last = table.end().partition(":")[0]
    give_up = time.monotonic() + 20
    while len(table.server.sql("SHOW BINARY LOGS")) > 1:  # kept until the server notices that its reader has gone
        assert time.monotonic() < give_up
        table.server.sql(f"PURGE BINARY LOGS TO '{last}'")
        time.sleep(0.1)
    table.restarts()
    table.catches_up()
    table.is_same()
    (event,) = [event for event in table.told if event["event"] == "source.copied_anew"]
    assert "no more" in event["why"] and "may be lost" in event["text"]
    table.told.clear()
    table.restarts()
    table.does("INSERT INTO t VALUES (5)")
    assert table.copied_anew() == []


def test_a_log_of_others_changes_may_be_purged(table: Followed) -> None:
    """Nothing in it was for us: the position is noted once for each of the server's files, and holds later."""
    table.run("CREATE TABLE other (id int PRIMARY KEY)")
    table.begin("t")
    noted: list[str] = []
    table.source.note = noted.append  # type: ignore[method-assign]
    for number in range(3):
        table.run(f"INSERT INTO other VALUES ({number})")
        table.server.sql("FLUSH BINARY LOGS")
        table.catches_up()
    table.run("INSERT INTO other VALUES (10)")
    table.catches_up()
    assert len(noted) == 3
    table.run("INSERT INTO t VALUES (7)")
    table.source.close()
    last = table.end().partition(":")[0]
    table.server.sql(f"PURGE BINARY LOGS TO '{last}'")
    table.restarts(noted[-1])
    table.catches_up()
    table.is_same()
    assert table.copied_anew() == []


def test_a_log_begun_anew_and_another_server_are_told(server_kind: type[Mysqld]) -> None:
    """The new log is as long as the old one was, so that its files and places are there again."""
    with server_kind() as server:
        server.sql("CREATE DATABASE d")
        one = Followed(server, "d")
        try:
            one.run("CREATE TABLE t (id int PRIMARY KEY, v varchar(100))")
            one.begin("t")
            one.does("INSERT INTO t VALUES (1, 'x')")
            one.source.close()
            server.sql("RESET MASTER")
            for number in range(2, 60):
                one.run(f"INSERT INTO t VALUES ({number}, repeat('y', 100))")
            one.restarts()
            one.catches_up()
            one.is_same()
            (event,) = [event for event in one.told if event["event"] == "source.copied_anew"]
            assert ("GTIDs" if one.is_mariadb else "begun anew") in event["why"]
            one.told.clear()
            if one.is_mariadb:
                server.sql("SET GLOBAL server_id = 7")
            else:  # it is known by its UUID
                server.stop()
                (server.data / "auto.cnf").unlink()
                server.start()
                one.client = server.connect("d")
            one.restarts()
            one.catches_up()
            one.is_same()
            (event,) = [event for event in one.told if event["event"] == "source.copied_anew"]
            assert ("another server (mariadb/7, before mariadb/1)" if one.is_mariadb else "this is another") in event[
                "why"
            ]
        finally:
            one.close()


def test_the_copy_as_mysql_makes_it_joins_too(table: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    """MySQL tells no place with a snapshot: writers wait for a moment. MariaDB can be used so as well."""
    from headrace.sources.connectors.mysql import snapshot  # after the module has found its library

    monkeypatch.setattr(snapshot, "_of_mariadb", snapshot._behind_a_lock)
    table.begin("t")
    table.is_same()
    table.does("INSERT INTO t VALUES (3)")


def test_a_copy_holds_up_no_writer_behind_a_long_lock(table: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the server waits to lock all tables for the copy, nobody may write to any of them."""
    from headrace.sources.connectors.mysql import snapshot  # after the module has found its library

    monkeypatch.setattr(snapshot, "_of_mariadb", snapshot._behind_a_lock)
    monkeypatch.setattr(snapshot, "LOCK_WAIT_S", 1)
    table.run("CREATE TABLE other (id int PRIMARY KEY)")
    with table.server.connect(table.database) as holder, holder.cursor() as cursor:
        cursor.execute("LOCK TABLES other WRITE")
        began = time.monotonic()
        error = fails("source.setup", table.source.start, frozenset({"t"}), None)
        assert time.monotonic() - began < 30
        assert "LOCK TABLES" in error.why and "SHOW FULL PROCESSLIST" in error.next
        table.run("INSERT INTO t VALUES (3)")
    table.begin("t")
    table.is_same()


def test_a_library_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError("No module named 'pymysql'", name="pymysql")

    monkeypatch.setattr(registry, "import_module", missing)
    assert fails("config.library", registry.load, "mysql").next == "pip install 'headrace[mysql]'"
