"""Goal: settings are shown, set, and back where they were, for a session as for a transaction, as PostgreSQL has it.

Method: psycopg on a served project; what is shown, and what the server says of its own accord, after each command.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.pq import DiagnosticField, ExecStatus

from headrace.api.postgres.pending import SAVEPOINTS
from headrace.api.postgres.server import PostgresServer
from headrace.api.postgres.settings import OWN, STATES
from psql_project import Views, connect, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    views = Views(tmp_path_factory.mktemp("settings") / "p")
    views.view("sums", {"id": "int", "n": "bigint"}, ("id",))
    views.step(sums=[(i, i, 1) for i in range(10)])
    with serving(views) as server:
        yield server


def test_settings_are_shown_set_and_reset(served: PostgresServer) -> None:
    with connect(served, autocommit=True, application_name="reports") as connection:
        assert connection.execute("SHOW application_name").fetchone() == ("reports",)
        connection.execute("SET application_name = 'other'")
        assert connection.info.parameter_status("application_name") == "other"
        connection.execute("SET search_path TO public")
        connection.execute("SET client_encoding TO 'UTF8'")
        for wrong in ("SET client_encoding TO 'LATIN1'", "SET nothing_like_it = 1"):
            with pytest.raises(psycopg.errors.UndefinedObject):
                connection.execute(wrong.encode())
        connection.execute("RESET ALL")
        assert connection.execute("SELECT current_setting('server_version_num')::int").fetchone() == (160000,)
        assert connection.execute("SHOW transaction_read_only").fetchone() == ("on",)


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_what_is_set_for_a_transaction_ends_with_it(served: PostgresServer, end: str) -> None:
    with connect(served, autocommit=True, application_name="reports") as connection:
        connection.execute("BEGIN")
        connection.execute("SET LOCAL application_name = 'other'")
        connection.execute("SET LOCAL app.customer = '7'")
        connection.execute("SET LOCAL statement_timeout = '5s'")
        assert connection.info.parameter_status("application_name") == "other"
        shown = [
            connection.execute(f"SHOW {name}".encode()).fetchone() for name in ("app.customer", "statement_timeout")
        ]
        assert shown == [("7",), ("5000",)]
        connection.execute(end.encode())
        assert connection.info.parameter_status("application_name") == "reports"
        assert connection.execute("SHOW statement_timeout").fetchone() == ("60000",)
        with pytest.raises(psycopg.errors.UndefinedObject):
            connection.execute("SHOW app.customer")


def test_what_is_set_for_the_session_stays_and_for_no_transaction_nothing_is(served: PostgresServer) -> None:
    notices: list[tuple[str | None, str | None]] = []
    with connect(served, autocommit=True) as connection:
        connection.add_notice_handler(lambda told: notices.append((told.sqlstate, told.message_primary)))
        connection.execute("BEGIN; SET LOCAL app.customer = '7'; SET SESSION app.customer = '8'; COMMIT")
        assert connection.execute("SHOW app.customer").fetchone() == ("8",)
        connection.execute("BEGIN; SET app.customer = '9'; SET LOCAL app.customer = '7'; COMMIT")
        assert connection.execute("SHOW app.customer").fetchone() == ("9",)
        assert notices == []
        connection.execute("SET LOCAL app.customer = '7'")
        assert connection.execute("SHOW app.customer").fetchone() == ("9",)
        assert notices == [("25P01", "SET LOCAL is for a transaction, and there is none")]
        for command in ("SET SESSION AUTHORIZATION DEFAULT", "SET LOCAL SESSION AUTHORIZATION DEFAULT"):
            assert connection.execute(command.encode()).statusmessage == "SET"
        assert connection.execute("SHOW SESSION AUTHORIZATION").fetchone() == ("ada",)


def test_what_is_undone_has_set_nothing(served: PostgresServer) -> None:
    """By ROLLBACK, by a COMMIT that is none any more, and by an error in a text that is one transaction."""
    with connect(served, autocommit=True, application_name="reports") as connection:

        def customer() -> object:
            return (connection.execute("SHOW app.customer").fetchone() or [None])[0]

        connection.execute("SET app.customer = '7'")
        connection.execute("BEGIN")
        for setting in (
            "app.customer = '8'",
            "LOCAL app.customer = '9'",
            "app.other = '1'",
            "statement_timeout = 5000",
        ):
            connection.execute(f"SET {setting}".encode())
        connection.execute("SET application_name = 'other'")
        assert (customer(), connection.info.parameter_status("application_name")) == ("9", "other")
        connection.execute("ROLLBACK")
        assert (customer(), connection.info.parameter_status("application_name")) == ("7", "reports")
        assert connection.execute("SHOW statement_timeout").fetchone() == ("60000",)
        with pytest.raises(psycopg.errors.UndefinedObject):
            connection.execute("SHOW app.other")
        connection.execute("SET application_name = 'other'")
        connection.execute("BEGIN; RESET ALL")
        assert connection.info.parameter_status("application_name") == "reports"
        connection.execute("ROLLBACK")
        assert (customer(), connection.info.parameter_status("application_name")) == ("7", "other")
        connection.execute("BEGIN; SET app.customer = '8'")
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT nothing FROM nowhere")
        assert connection.execute("COMMIT").statusmessage == "ROLLBACK"
        assert customer() == "7"
        with pytest.raises(psycopg.Error):
            connection.execute("SET app.customer = '8'; SELECT nothing FROM nowhere")
        assert customer() == "7"


def test_what_was_set_since_a_savepoint_is_undone_with_it(served: PostgresServer) -> None:
    with connect(served, autocommit=True, application_name="reports") as connection:

        def shown() -> tuple[object, str | None]:
            customer = connection.execute("SHOW app.customer").fetchone() or [None]
            return customer[0], connection.info.parameter_status("application_name")

        connection.execute("SET app.customer = '1'")
        connection.execute("BEGIN; SET app.customer = '2'; SAVEPOINT a; SET app.customer = '3'; SAVEPOINT b")
        connection.execute("SET LOCAL app.customer = '4'; SET application_name = 'other'")
        assert shown() == ("4", "other")
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT nothing FROM nowhere")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("SAVEPOINT c")
        connection.execute("ROLLBACK TO b")
        assert shown() == ("3", "reports")
        connection.execute("SET app.customer = '5'; SET application_name = 'other'; ROLLBACK TO b")  # it is kept
        assert shown() == ("3", "reports")
        connection.execute("SET application_name = 'other'; RELEASE b; ROLLBACK TO a")
        assert shown() == ("2", "reports")
        with pytest.raises(psycopg.errors.InvalidSavepointSpecification):
            connection.execute("ROLLBACK TO b")
        connection.execute("ROLLBACK TO a; SET app.customer = '6'; COMMIT")
        assert shown() == ("6", "reports")


def test_a_transaction_has_so_many_savepoints(served: PostgresServer) -> None:
    with connect(served, autocommit=True) as connection:
        connection.execute("BEGIN; SAVEPOINT s; " + "SAVEPOINT autosave; " * (SAVEPOINTS - 1))  # as pgjdbc has them
        with pytest.raises(psycopg.errors.ProgramLimitExceeded, match="10,000 savepoints"):
            connection.execute("SAVEPOINT more")
        connection.execute("ROLLBACK TO s; SAVEPOINT more; COMMIT")


def test_savepoints_keep_so_many_settings(served: PostgresServer) -> None:
    with connect(served, autocommit=True) as connection:
        kept = "; ".join(f"SET app.n = '{number}'; SAVEPOINT s{number}" for number in range(STATES + 1))
        connection.execute(f"BEGIN; {kept}".encode())
        with pytest.raises(psycopg.errors.ProgramLimitExceeded, match="100 of its savepoints"):
            connection.execute("SET app.n = 'more'")
        connection.execute("ROLLBACK TO s7")
        assert connection.execute("SHOW app.n").fetchone() == ("7",)
        connection.execute("SET app.n = 'more'; COMMIT")
        assert connection.execute("SHOW app.n").fetchone() == ("more",)


@pytest.mark.parametrize("statement", ["SAVEPOINT a", "RELEASE a", "ROLLBACK TO a"])
def test_a_savepoint_is_within_a_transaction(served: PostgresServer, statement: str) -> None:
    with connect(served, autocommit=True) as connection:
        for text in (statement, f"SELECT 1; {statement}", f"BEGIN; COMMIT; {statement}"):
            with pytest.raises(psycopg.errors.NoActiveSqlTransaction):
                connection.execute(text.encode())


def test_a_failed_transaction_takes_nothing_but_the_way_back(served: PostgresServer) -> None:
    with connect(served, autocommit=True) as connection:
        connection.execute("SET app.n = '1'")
        connection.execute("BEGIN; DECLARE before CURSOR FOR SELECT id FROM sums")
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT nothing FROM nowhere")
        for statement in ("FETCH 1 FROM before", "SET app.n = '2'", "RELEASE a"):
            with pytest.raises(psycopg.errors.InFailedSqlTransaction):
                connection.execute(statement.encode())
        connection.execute("ROLLBACK")
        assert connection.execute("SHOW app.n").fetchone() == ("1",)


def test_what_a_connection_began_with_is_its_default(served: PostgresServer) -> None:
    """As PostgreSQL has it: RESET goes back there, and DISCARD ALL, as a pool does before the next who takes it."""
    options = r"-c Statement_Timeout=5s  --App.Customer=7 -capp.name=Ada\ B\\C"

    def shown() -> list[object]:
        names = ("application_name", "statement_timeout", "app.customer")
        return [(connection.execute(f"SHOW {name}".encode()).fetchone() or [None])[0] for name in names]

    with connect(served, autocommit=True, application_name="reports", options=options) as connection:
        assert shown() == ["reports", "5000", "7"]
        assert connection.execute("SHOW app.name").fetchone() == (r"Ada B\C",)
        for back in ("RESET ALL", "DISCARD ALL", "RESET application_name; RESET statement_timeout; RESET app.customer"):
            connection.execute("SET application_name = 'other'; SET statement_timeout = 0; SET app.customer = '8'")
            assert shown() == ["other", "60000", "8"]
            connection.execute(back.encode())
            assert shown() == ["reports", "5000", "7"]
            assert connection.info.parameter_status("application_name") == "reports"


@pytest.mark.parametrize("options", ["-c nothing_like_it=1", "-c statement_timeout", "-x", "-c", "statement_timeout=1",
                                     f"-c statement_timeout={'9' * 400}s"])  # fmt: skip
def test_an_option_that_is_none_is_refused(served: PostgresServer, options: str) -> None:
    with pytest.raises(psycopg.OperationalError, match=r"setting|option|is no time"):
        connect(served, options=options)


def test_discard_all_leaves_nothing_and_the_others_leave_all(served: PostgresServer) -> None:
    with connect(served, autocommit=True) as connection:
        connection.execute("DECLARE kept CURSOR WITH HOLD FOR SELECT id FROM sums ORDER BY id")
        assert connection.pgconn.prepare(b"one", b"SELECT 1").status == ExecStatus.COMMAND_OK
        connection.execute("SET app.customer = '7'")
        for what, tag in (("PLANS", "PLANS"), ("SEQUENCES", "SEQUENCES"), ("TEMP", "TEMP"), ("TEMPORARY", "TEMP")):
            assert connection.execute(f"DISCARD {what}".encode()).statusmessage == f"DISCARD {tag}"
        assert connection.execute("FETCH 1 FROM kept").fetchall() == [(0,)]
        assert connection.execute("SHOW app.customer").fetchone() == ("7",)
        assert connection.pgconn.exec_prepared(b"one", []).get_value(0, 0) == b"1"
        assert connection.execute("DISCARD ALL").statusmessage == "DISCARD ALL"
        for command, error in (
            ("FETCH 1 FROM kept", psycopg.errors.InvalidCursorName), ("SHOW app.customer", psycopg.errors.UndefinedObject),
            ("DISCARD WHATEVER", psycopg.errors.SyntaxError),
        ):  # fmt: skip
            with pytest.raises(error):
                connection.execute(command.encode())
        failed = connection.pgconn.exec_prepared(b"one", [])
        assert failed.error_field(DiagnosticField.SQLSTATE) == b"26000"


def test_a_connection_has_so_many_settings_of_its_own(served: PostgresServer) -> None:
    with connect(served, autocommit=True) as connection:
        connection.execute("; ".join(f"SET app.n{number} = '{number}'" for number in range(OWN)).encode())
        connection.execute("SET app.n7 = 'other'")
        connection.execute("RESET app.unheard_of")
        with pytest.raises(psycopg.errors.TooManyConnections, match="1,000 settings of its own"):
            connection.execute("SET app.more = '1'")
        assert connection.execute("SHOW app.n7").fetchone() == ("other",)
        connection.execute("RESET ALL")
        assert connection.execute("SET app.more = '1'").statusmessage == "SET"
