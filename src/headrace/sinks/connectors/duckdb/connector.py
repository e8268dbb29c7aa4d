"""The DuckDB sink: opens the file, writes a whole delivery in one transaction, closes it again.

Only one process can hold a DuckDB file open for writing, so it is held for no longer than a transaction takes: in
between, the user's own ``duckdb`` can read it. As long as that has it open, a write raises ``sink.connect``.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import duckdb

from headrace.formats.options import validate
from headrace.model.delivery import Delivery, Succession
from headrace.model.errors import HeadraceError
from headrace.model.finding import OK, Finding
from headrace.sinks.base import Sink
from headrace.sinks.comparison import Comparison, Expected
from headrace.sinks.connectors.duckdb.compare import Compare
from headrace.sinks.connectors.duckdb.config import DuckdbOptions, file_of
from headrace.sinks.connectors.duckdb.progress import Progress
from headrace.sinks.connectors.duckdb.quarantine import DuckdbQuarantine, unheld
from headrace.sinks.connectors.duckdb.tables import Tables
from headrace.sinks.quarantine import sifted
from headrace.sinks.target import (
    Held,
    Target,
    as_held,
    delivered,
    diverged,
    other_history,
    pending,
    targets,
    usable,
    went_back,
)
from headrace.sinks.tenure import Tenure

_Answer = TypeVar("_Answer")
# DuckDB does not let a file be opened while its last other connection of the same process is just being closed.
_OPENING = threading.Lock()
_Work = Callable[[Tables, Progress, DuckdbQuarantine], _Answer]


class DuckdbSink(Sink):
    """``keys``: view -> the columns that the user declares unique, or () to keep equal rows side by side.

    ``base`` is the folder that a relative ``path`` starts from; ``log`` the id of the log whose commits are written.
    """

    def __init__(
        self,
        name: str,
        options: Mapping[str, Any],
        keys: Mapping[str, tuple[str, ...]],
        where: str = "",
        project: str = "headrace",
        *,
        base: Path | None = None,
        log: str = "",
    ) -> None:
        self.name = name
        self.quarantined: Mapping[str, int] = {}
        self._options = validate(DuckdbOptions, options, where)
        self._keys = {view: tuple(key) for view, key in keys.items()}
        self._where, self._project, self._log = where, project, log
        self._owner = f"made by headrace sink {project}/{name}"
        self._path = file_of(self._options, base, where)
        self._tenure = Tenure(where)
        self._reached: int | None = None

    def open(self, end: int | None = None) -> int | None:
        """Takes the sink over. Raises ``sink.connect``, ``sink.rights``."""
        self._transaction(partial(self._take_over, end))
        self._tenure.took()
        return self._reached

    def examine(self) -> Iterator[Finding]:
        there = self._path if self._path.exists() else next(p for p in self._path.parents if p.exists())
        if not os.access(there, os.W_OK) or not os.access(self._path.parent if there == self._path else there, os.W_OK):
            raise self._no_rights(f"no right to write {there}")
        if there != self._path and not there.is_dir():
            raise self._not_open(f"{there} is no folder", "check the `path` of the sink")
        yield Finding(OK, f"the DuckDB file {self._path} can be written")

    def held(self) -> dict[str, int]:
        """Views whose table is there and ours, and whose declared key is still the one it was made with."""
        if not self._path.exists():
            return {}
        return usable(self._transaction(self._held), self._keys)

    def write(self, delivery: Delivery) -> None:
        """Raises ``sink.fenced``, ``sink.connect`` (send it again), ``sink.conflict``, ``sink.value``,
        ``sink.diverged``; nothing is written then.
        """
        checked = targets(delivery, self._keys, self._where)
        self._check_names(checked)
        self.quarantined = self._transaction(partial(self._write, delivery, checked))
        self._reached = max(delivery.commit, self._reached or delivery.commit)

    def compare(self, expected: Expected) -> list[Comparison]:
        """Raises ``sink.connect``, ``sink.rights``."""
        if not self._path.exists():
            list(expected(None, {}))
            return []
        return self._transaction(partial(self._compare, expected), keep=False)

    def repair(self, expected: Expected) -> list[Comparison]:
        """Raises as ``write`` does."""
        answer, self.quarantined = self._transaction(partial(self._repair, expected))
        return answer

    def write_each(self, succession: Succession) -> None:
        """As ``write``, of each; the file is opened once."""
        for_each = [
            (delivery, targets(delivery, self._keys, self._where)) for delivery in succession.deliveries()
        ]  # checked before the first is written
        with self._opened() as connection:
            for delivery, checked in for_each:
                self._check_names(checked)
                self.quarantined = self._within(connection, partial(self._write, delivery, checked))
                self._reached = max(delivery.commit, self._reached or delivery.commit)

    def close(self) -> None:
        """Nothing is open between two writes."""

    def drop(self) -> None:
        """Removes every table made by this sink; the file stays."""
        if self._path.exists():
            self._transaction(self._drop)

    # -- each in one transaction

    def _take_over(self, end: int | None, tables: Tables, progress: Progress, quarantine: DuckdbQuarantine) -> None:
        progress.ensure()
        self._reached, log = progress.take_over(self._tenure)
        self.anew = other_history(self._reached, log, self._log, end)
        progress.follow(self._log, self.anew)
        self._reached = None if self.anew else self._reached
        self.quarantined = quarantine.counts()

    def _held(self, tables: Tables, progress: Progress, quarantine: DuckdbQuarantine) -> dict[str, Held]:
        if not progress.exists():
            return {}
        found = tables.found()
        return {view: it for view, it in progress.held().items() if tables.ours(view, found)}

    def _write(
        self,
        delivery: Delivery,
        checked: Mapping[str, Target],
        tables: Tables,
        progress: Progress,
        quarantine: DuckdbQuarantine,
    ) -> Mapping[str, int]:
        """What the quarantine then holds."""
        frontier = progress.check(self._tenure)
        if self._reached is not None and (frontier is None or frontier < self._reached):
            raise went_back(frontier, self._reached, self._where)
        held = self._held(tables, progress, quarantine)
        due, bad = sifted(pending(delivery, frontier, held, checked), checked, unheld)
        for view in due.dropped:
            tables.drop(view)
        for view, rows in due.replacements.items():
            tables.replace(checked[view], rows)
            progress.replaced(checked[view], delivery.commit)
        for view, rows in due.deltas.items():
            self._check_held(checked[view], held)
            if rows.num_rows:
                tables.apply(checked[view], rows)
        if due.deltas:
            progress.changed(due.deltas, delivery.commit)
        if due.dropped:
            progress.dropped(due.dropped)
        if due.stale:
            progress.stale(due.stale, {view: delivery.schemas[view].version for view in due.stale}, frontier)
        if frontier is None or delivery.commit > frontier:
            progress.advance(delivery.commit, delivery.origin)
        return quarantine.take(due, bad, self.quarantined)

    def _compare(
        self, expected: Expected, tables: Tables, progress: Progress, quarantine: DuckdbQuarantine
    ) -> list[Comparison]:
        return self._compared(expected, tables, progress, quarantine, repair=False)

    def _repair(
        self, expected: Expected, tables: Tables, progress: Progress, quarantine: DuckdbQuarantine
    ) -> tuple[list[Comparison], Mapping[str, int]]:
        frontier = progress.check(self._tenure)
        if self._reached is not None and (frontier is None or frontier < self._reached):
            raise went_back(frontier, self._reached, self._where)
        return self._compared(expected, tables, progress, quarantine, repair=True), quarantine.counts()

    def _compared(
        self, expected: Expected, tables: Tables, progress: Progress, quarantine: DuckdbQuarantine, *, repair: bool
    ) -> list[Comparison]:
        commit, held = progress.reached(), progress.held() if progress.exists() else {}
        compare = Compare(tables, quarantine, self._where)
        return [
            compare.view(as_held(wanted.schema, held[wanted.schema.name]), wanted.rows, commit or 0, repair=repair)
            for wanted in expected(commit, delivered(held))
        ]

    def _check_held(self, target: Target, held: Mapping[str, Held]) -> None:
        if target.view not in held:
            raise diverged(target.view, f"there is no table '{target.view}' of this sink in the file", self._where)
        if held[target.view].version != target.version or held[target.view].key != target.key:
            raise HeadraceError(
                "internal",
                f"a delta of version {target.version} of view '{target.view}' came, the sink holds"
                f" version {held[target.view].version} with the key {held[target.view].key}",
                where=self._where,
            )

    def _drop(self, tables: Tables, progress: Progress, quarantine: DuckdbQuarantine) -> None:
        tables.drop_all()
        if progress.exists():
            progress.forget()
        self._tenure.left()

    def _check_names(self, checked: Mapping[str, Target]) -> None:
        for target in checked.values():
            names = [name.lower() for name in target.names]
            twice = next((name for name in target.names if names.count(name.lower()) > 1), None)
            bad = next((name for name in (target.view, *target.names) if not name or "\0" in name), None)
            if twice is not None or bad is not None:
                why = f"it has two columns named '{twice}'" if twice is not None else "a name is empty or contains NUL"
                raise HeadraceError(
                    "sink.value",
                    f"DuckDB cannot hold the names of view '{target.view}'",
                    where=self._where,
                    why=why,
                    next="give the column another name with AS",
                )

    # -- the file

    def _transaction(self, work: _Work[_Answer], *, keep: bool = True) -> _Answer:
        """Opens the file, runs ``work`` in one transaction and closes the file, whatever happens.

        Not ``keep``: what it did is taken back.
        """
        with self._opened() as connection:
            return self._within(connection, work, keep=keep)

    @contextmanager
    def _opened(self) -> Iterator[duckdb.DuckDBPyConnection]:
        with _OPENING:
            connection = self._connect()
        try:
            connection.execute("SET TimeZone = 'UTC'")
            yield connection
        except duckdb.Error as error:
            raise self._explained(error) from error
        finally:
            with _OPENING:
                connection.close()  # takes back a transaction that did not get to its COMMIT

    def _within(self, connection: duckdb.DuckDBPyConnection, work: _Work[_Answer], *, keep: bool = True) -> _Answer:
        """One transaction of a file that is open."""
        connection.execute("BEGIN")
        schema = self._options.schema_name
        answer = work(
            Tables(connection, schema, self._owner, self._where),
            Progress(connection, schema, self._project, self.name, self._where),
            DuckdbQuarantine(connection, schema, self._project, self.name),
        )
        connection.execute("COMMIT" if keep else "ROLLBACK")
        return answer

    def _connect(self) -> duckdb.DuckDBPyConnection:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if not self._path.exists():
                _make(self._path)
            return duckdb.connect(str(self._path))
        except PermissionError as error:
            raise self._no_rights(str(error)) from error
        except OSError as error:
            raise self._not_open(str(error), "check the `path` of the sink") from error
        except duckdb.Error as error:
            text = _first_line(error)
            if "Permission denied" in text or "Read-only file system" in text:
                raise self._no_rights(text) from error
            if "lock" in text:
                raise self._not_open(
                    text, "close the other program; the same changes are sent again, none is lost"
                ) from error
            raise self._not_open(text, "check the `path` of the sink") from error

    def _not_open(self, why: str, next_step: str) -> HeadraceError:
        what = f"the DuckDB file {self._path} cannot be opened for writing"
        return HeadraceError("sink.connect", what, where=self._where, why=why, next=next_step)

    def _no_rights(self, why: str) -> HeadraceError:
        return HeadraceError(
            "sink.rights",
            f"the DuckDB file {self._path} may not be written",
            where=self._where,
            why=why,
            next=f"chmod u+rw {self._path} (and write access to its folder), or choose another `path`",
        )

    def _explained(self, error: duckdb.Error) -> HeadraceError:
        text = _first_line(error)
        if isinstance(error, duckdb.ConversionException | duckdb.OutOfRangeException | duckdb.InvalidInputException):
            return HeadraceError(
                "sink.value",
                "DuckDB cannot hold a value",
                where=self._where,
                why=text,
                next="change the value in the view",
            )
        if isinstance(error, duckdb.IOException | duckdb.TransactionException | duckdb.OutOfMemoryException):
            return self._not_open(text, "nothing to do when it passes: the same changes are sent again")
        return HeadraceError("sink.refused", "DuckDB refused a statement", where=self._where, why=text)


def _make(path: Path) -> None:
    """An empty database that has its name only once it is whole: DuckDB cannot open one that it has half made."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)  # a process was killed here
    duckdb.connect(str(temporary)).close()
    try:
        path.hardlink_to(temporary)  # never over a file that another process made meanwhile
    except FileExistsError:
        pass
    except OSError:  # the file system has no hard links
        temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
