"""The PostgreSQL sink: each delivery is one transaction that holds the rows of all views and the progress row.

The progress row carries the commit reached and a generation. Opening raises the generation, so that an older
instance is refused at its next write; a delivery at or below the commit reached was written before and is skipped,
so that a delivery whose fate is unknown may simply be sent again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from psycopg import conninfo
from psycopg import errors as pg_errors

from headrace.formats.options import validate
from headrace.model.delivery import Delivery, Succession
from headrace.model.errors import HeadraceError
from headrace.model.finding import Finding
from headrace.sinks.base import Sink
from headrace.sinks.comparison import Comparison, Expected
from headrace.sinks.connectors.postgres import errors
from headrace.sinks.connectors.postgres.compare import Compare
from headrace.sinks.connectors.postgres.config import PostgresOptions, parameters
from headrace.sinks.connectors.postgres.each import DIVERGED, FENCED, Each
from headrace.sinks.connectors.postgres.examine import examine
from headrace.sinks.connectors.postgres.pipelined import pipelined
from headrace.sinks.connectors.postgres.progress import Progress
from headrace.sinks.connectors.postgres.quarantine import PostgresQuarantine, unheld
from headrace.sinks.connectors.postgres.tables import PLAN_SMALL, Row, Tables, null_patterns
from headrace.sinks.quarantine import sifted
from headrace.sinks.target import (
    Held,
    Target,
    as_held,
    delivered,
    diverged,
    fenced,
    other_history,
    pending,
    targets,
    usable,
    went_back,
)
from headrace.sinks.tenure import Tenure

TAKE_OVER_WAIT_MS = 2_000  # how long a write in progress of an older instance is waited for before it is ended
TAKE_OVER_ATTEMPTS = 5
LOCK_WAIT_MS = 30_000
# What a role or database may set otherwise: row texts (which are hashed) and plans must not depend on it. Plans are
# made anew each time, since staging tables hold one row now and a million a second later.
_SETTINGS = {
    "search_path": "pg_catalog, pg_temp",
    "timezone": "UTC",
    "datestyle": "ISO, MDY",
    "intervalstyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "lock_timeout": str(LOCK_WAIT_MS),
    "plan_cache_mode": "force_custom_plan",
    "client_min_messages": "warning",
    "default_transaction_isolation": "read committed",
    "default_transaction_deferrable": "off",
    "jit": "off",  # a plan that had to scan looks costly enough to be compiled, once a statement
    **PLAN_SMALL,
}
_Answer = TypeVar("_Answer")


class PostgresSink(Sink):
    """``keys``: view -> the columns that the user declares unique, or () to keep equal rows side by side."""

    def __init__(
        self,
        name: str,
        options: Mapping[str, Any],
        keys: Mapping[str, tuple[str, ...]],
        where: str = "",
        project: str = "headrace",
        base: Path = Path(),
        log: str = "",
    ) -> None:
        """``log``: the id of the log whose commits are written here."""
        self.name = name
        self.quarantined: Mapping[str, int] = {}
        self._options = validate(PostgresOptions, options, where)
        self._keys = {view: tuple(key) for view, key in keys.items()}
        self._where, self._project, self._base, self._log = where, project, base, log
        self._owner = f"made by headrace sink {project}/{name}"
        self._tenure = Tenure(where)
        self._reached: int | None = None
        self._connection: psycopg.Connection[Row] | None = None
        self._tables: Tables | None = None
        self._progress: Progress | None = None
        self._each: Each | None = None
        errors.check_name(self._options.schema_name, "the schema's name", "all", where)

    def open(self, end: int | None = None) -> int | None:
        """Takes the sink over. Raises ``sink.connect``, ``sink.auth``, ``sink.rights``, ``sink.conflict``."""
        reached = self._taken_over(end)
        self._tenure.took()
        return reached

    def _taken_over(self, end: int | None) -> int | None:
        for _ in range(TAKE_OVER_ATTEMPTS - 1):
            try:
                return self._transaction(lambda: self._take_over(end, TAKE_OVER_WAIT_MS))
            except HeadraceError as error:
                if not isinstance(error.__cause__, pg_errors.LockNotAvailable):
                    raise
                self._transaction(self._end_older_instances)
        return self._transaction(lambda: self._take_over(end, LOCK_WAIT_MS))

    def examine(self) -> Iterator[Finding]:
        connection = self._connect()
        try:
            yield from examine(connection, self._options.schema_name)
        finally:
            connection.close()

    def held(self) -> dict[str, int]:
        """Views whose table is there and ours, and whose declared key is still the one it was made with."""
        return usable(self._transaction(self._held), self._keys)

    def write(self, delivery: Delivery) -> None:
        """Raises ``sink.fenced``, ``sink.connect`` (send it again), ``sink.conflict``, ``sink.value``,
        ``sink.diverged``, ``sink.rights``; nothing is written then, and the next call connects anew.
        """
        checked = targets(delivery, self._keys, self._where)
        errors.check_names(checked, self._where)
        self.quarantined = self._transaction(lambda: self._write(delivery, checked), checked.values())
        self._reached = max(delivery.commit, self._reached or delivery.commit)

    def compare(self, expected: Expected) -> list[Comparison]:
        """Raises ``sink.connect``, ``sink.auth``, ``sink.rights``, ``sink.diverged``."""
        return self._transaction(lambda: self._compare(expected), keep=False)

    def repair(self, expected: Expected) -> list[Comparison]:
        """Raises as ``write`` does."""
        answer = self._transaction(lambda: self._repair(expected))
        self.quarantined = self._transaction(lambda: self._quarantine().counts())
        return answer

    def write_each(self, succession: Succession) -> None:
        """As ``write``, of each; on the server, at batch speed."""
        whole = succession.whole
        checked = targets(whole, self._keys, self._where)
        errors.check_names(checked, self._where)
        # One by one: a single one, rows to be set aside, and what a failure may have left half written.
        if (
            len(succession.commits) == 1
            or sifted(whole, checked, unheld)[1]
            or not self._transaction(lambda: self._stage(succession, checked), checked.values())
        ):
            super().write_each(succession)
            return
        self._in_turn(lambda: self._commit(succession, checked), checked.values())
        self._reached = succession.commits[-1]

    def close(self) -> None:
        connection, self._connection, self._each = self._connection, None, None
        if connection is not None:
            connection.close()

    def drop(self) -> None:
        """Removes every table made by this sink; other objects that depend on one: ``sink.conflict``, nothing goes."""
        self._transaction(self._drop)

    # -- each in one transaction

    def _take_over(self, end: int | None, wait_ms: int) -> int | None:
        connection, progress = self._connected()[0], self._connected()[2]
        progress.ensure()
        connection.execute("SELECT set_config('lock_timeout', $1, true)", (str(wait_ms),))
        self._reached, log = progress.take_over(self._tenure)
        self.anew = other_history(self._reached, log, self._log, end)
        progress.follow(self._log, self.anew)
        self._reached = None if self.anew else self._reached
        self.quarantined = self._quarantine().counts()
        return self._reached

    def _end_older_instances(self) -> None:
        """An instance that was stopped inside a transaction would hold the progress row for ever."""
        self._connected()[0].execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
            " AND usename = current_user AND application_name = current_setting('application_name')"
            " AND pid <> pg_backend_pid()"
        )

    def _held(self) -> dict[str, Held]:
        _, tables, progress = self._connected()
        if not progress.exists():
            return {}
        held = progress.held()
        found = tables.found(held)
        return {view: it for view, it in held.items() if tables.ours(view, found)}

    def _write(self, delivery: Delivery, checked: Mapping[str, Target]) -> Mapping[str, int]:
        """What the quarantine then holds."""
        connection, tables, progress = self._connected()
        frontier = self._locked(progress)
        beyond = frontier is None or delivery.commit > frontier
        held = self._held() if not beyond or delivery.deltas.keys() - tables.ready else {}
        due, bad = sifted(pending(delivery, frontier, held, checked), checked, unheld)
        swaps = []
        for view, rows in due.replacements.items():
            swaps += tables.replace(checked[view], rows)
            progress.replaced(checked[view], delivery.commit)
        for view in due.dropped:
            tables.drop(view)
        for statements in swaps:
            tables.swap(statements)
        deltas = {checked[view]: rows for view, rows in due.deltas.items()}
        tables.stage(deltas, held)
        with pipelined(connection):
            done = tables.apply(deltas)
            if due.deltas:
                progress.changed(due.deltas, delivery.commit)
            if due.dropped:
                progress.dropped(due.dropped)
            progress.stale(due.stale, {view: delivery.schemas[view].version for view in due.stale}, frontier)
            if beyond:
                progress.advance(delivery.commit, delivery.origin)
        tables.check(done)
        return self._quarantine().take(due, bad, self.quarantined)

    def _compare(self, expected: Expected) -> list[Comparison]:
        connection, _, progress = self._connected()
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")  # one snapshot of all tables
        if not progress.exists():
            return list(self._compared(expected, None, {}, repair=False))
        return list(self._compared(expected, progress.reached(), progress.held(), repair=False))

    def _repair(self, expected: Expected) -> list[Comparison]:
        progress = self._connected()[2]
        frontier = self._locked(progress)
        return list(self._compared(expected, frontier, progress.held(), repair=True))

    def _compared(
        self, expected: Expected, commit: int | None, held: Mapping[str, Held], *, repair: bool
    ) -> Iterator[Comparison]:
        connection, tables, _ = self._connected()
        compare = Compare(connection, tables, self._quarantine(), self._where)
        for wanted in expected(commit, delivered(held)):
            made = as_held(wanted.schema, held[wanted.schema.name])
            yield compare.view(made, wanted.rows, commit or 0, repair=repair)

    def _locked(self, progress: Progress) -> int | None:
        """The commit reached, its row held until the transaction ends."""
        frontier = progress.lock(self._tenure)
        if self._reached is not None and (frontier is None or frontier < self._reached):
            raise went_back(frontier, self._reached, self._where)
        return frontier

    def _stage(self, succession: Succession, checked: Mapping[str, Target]) -> bool:
        """The rows of many transactions, and the views that are stale from the first of them on; False, and nothing
        done, when some of them were written before."""
        connection, tables, progress = self._connected()
        frontier = self._locked(progress)
        if frontier is not None and frontier >= succession.commits[0]:
            return False
        tables.prepare(checked.values(), self._held() if checked.keys() - tables.ready else {})
        progress.stale(succession.stale, {v: succession.schemas[v].version for v in succession.stale}, frontier)
        if self._each is None:
            self._each = Each(connection, progress)
        self._each.stage(succession, {target: tables.of(target) for target in checked.values()})
        return True

    def _commit(self, succession: Succession, checked: Mapping[str, Target]) -> None:
        generation = self._tenure.generation
        assert self._each is not None and generation is not None
        tables = self._connected()[1]
        views = {target: tables.of(target) for target in checked.values()}
        nulls = {view: null_patterns(succession.deltas[view], target.key) for view, target in checked.items()}
        self._each.commit(views, nulls, generation=generation, flush=self._options.flush == "each")

    def _drop(self) -> None:
        _, tables, progress = self._connected()
        tables.drop_all()
        if progress.exists():
            progress.forget()
        self._tenure.left()

    # -- the connection

    def _transaction(
        self, work: Callable[[], _Answer], targets: Collection[Target] = (), *, keep: bool = True
    ) -> _Answer:
        """Runs ``work`` and commits (not ``keep``: takes back what it did). After any failure the connection is given
        up, and all that hangs on it.
        """
        try:
            answer = work()
            if not keep:
                self.close()
            elif self._connection is not None:
                self._connection.commit()
        except psycopg.Error as error:
            tables = self._tables
            self.close()
            if tables is None:
                raise errors.refused(error, self._where, "?") from error
            raise tables.explained(error, targets) from error
        except BaseException:
            self.close()
            raise
        return answer

    def _in_turn(self, work: Callable[[], None], targets: Collection[Target]) -> None:
        """Runs ``work``, which commits by itself. After any failure the connection is given up."""
        connection, tables, _ = self._connected()
        connection.autocommit = True
        try:
            work()
            connection.autocommit = False
        except psycopg.Error as error:
            self.close()
            if error.sqlstate == DIVERGED:
                raise diverged(error.diag.table_name or "", error.diag.message_primary or "", self._where) from error
            if error.sqlstate == FENCED:
                raise fenced("its progress row is gone, or of a later generation", self._where) from error
            raise tables.explained(error, targets) from error
        except BaseException:
            self.close()
            raise

    def _connected(self) -> tuple[psycopg.Connection[Row], Tables, Progress]:
        if self._connection is None or self._tables is None or self._progress is None:
            connection = self._connect()
            schema = self._options.schema_name
            self._connection = connection
            self._tables = Tables(connection, schema, self._owner, self._where)
            self._progress = Progress(connection, schema, self._project, self.name, self._where)
        return self._connection, self._tables, self._progress

    def _quarantine(self) -> PostgresQuarantine:
        return PostgresQuarantine(self._connected()[0], self._options.schema_name, self._project, self.name)

    def _connect(self) -> psycopg.Connection[Row]:
        given = {
            **parameters(self._options, self._where, self._base),
            "application_name": self._application(),
            "client_encoding": "UTF8",
        }
        settings = [part for pair in _SETTINGS.items() for part in pair]
        calls = ", ".join(f"set_config(${n}, ${n + 1}, false)" for n in range(1, len(settings), 2))
        connection: psycopg.Connection[Row] | None = None
        try:
            # Parameters are the server's own $1: a % in a name is nothing special then.
            connection = psycopg.connect(conninfo.make_conninfo("", **given), cursor_factory=psycopg.RawCursor)
            connection.execute(f"SELECT {calls}".encode(), settings)
            connection.commit()
        except psycopg.Error as error:
            if connection is not None:
                connection.close()
            raise errors.connecting(error, self._where) from error
        return connection

    def _application(self) -> str:
        """How the sink's sessions are known to the server, which keeps 63 plain characters."""
        name = f"headrace {self._project}/{self.name}"
        if len(name) <= 63 and name.isascii() and name.isprintable():
            return name
        return "headrace " + hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()
