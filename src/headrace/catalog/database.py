"""The catalogue as a database: its layout, what earlier layouts lack, and durable transactions. SQLite.

Files are named from the catalogue's own folder on, so that a project may be moved with all that it keeps.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson

from headrace.catalog import state_layout, sums
from headrace.catalog.mark import Mark
from headrace.model.errors import HeadraceError

LAYOUT = 13
# What came with each layout after the first: tables of SCHEMA, and columns of tables that were there.
_TABLES = {
    2: ("error_row",),
    4: ("set_aside",),
    5: ("settled", "replay"),
    8: ("refused",),
    10: ("aside_row",),
    13: ("version",),
}
_COLUMNS = {
    3: ("step add column each integer not null default 0",),
    7: ("base add column crcs text not null default '[]'",),
}

SCHEMA = """
create table meta (name text primary key, value text not null) strict;
create table relation (name text primary key, source text not null, columns text not null, key text not null,
    updates integer not null) strict;
create table view (name text not null, version integer not null, sql text not null, fingerprint text not null,
    columns text not null, key text not null, ordering text not null, state text not null,
    reason text not null default '', created_commit integer not null, primary key (name, version)) strict;
create table step (number integer primary key, after integer not null, upto integer not null, wide integer not null,
    committed_us integer not null, published_us integer, each integer not null default 0) strict;
create table output (step integer not null, feed text not null, path text not null, rows integer not null,
    sums text not null, primary key (feed, step, path)) strict;
create index output_by_step on output (step);
create table base (feed text primary key, step integer not null, upto integer not null, paths text not null,
    rows integer not null, sums text not null default '[]') strict;
create table checkpoint (step integer primary key, runs text not null) strict;
create table sink (name text primary key, frontier integer not null, error text not null default '',
    updated_us integer not null default 0) strict;
create table error_row (view text not null, version integer not null, place integer not null, feed text not null,
    together integer not null, content blob not null, shown text not null, weight integer not null,
    held integer not null, message text not null, primary key (view, version, place)) strict;
create table set_aside (relation text not null, step integer not null, path text not null, rows integer not null,
    primary key (relation, step)) strict;
create table settled (relation text not null, log_commit integer not null, place integer not null, replay integer,
    at_us integer not null, primary key (relation, log_commit, place)) strict, without rowid;
create table replay (number integer primary key autoincrement, after integer not null, log_commit integer,
    at_us integer not null) strict;
create table refused (number integer primary key autoincrement, source text not null, relation text not null,
    place text not null, reason text not null, form text not null, payload blob not null, at_us integer not null,
    after integer, position text, log_commit integer, replay integer, gone_us integer) strict;
create table aside_row (view text not null, version integer not null, place integer not null, feed text not null,
    content blob not null, shown text not null, weight integer not null, held integer not null, message text not null,
    log_commit integer not null, since integer not null, until integer,
    dropped integer not null, primary key (view, version, log_commit, place, since)) strict;
create table version (number integer primary key, view text not null, version integer not null, sql text not null,
    columns text not null, key text not null, came_commit integer not null, came_us integer, gone_commit integer,
    gone_us integer) strict;
"""

# Of what was there before layout 13 a view tells when it came, and its next version when it went.
_VERSIONS = """insert into version (view, version, sql, columns, key, came_commit, gone_commit)
    select name, version, sql, columns, key, created_commit,
    lead(created_commit) over (partition by name order by version) from view order by name, version"""
# Busy, locked, no memory, read-only, interrupted, an I/O error, full, not to be opened, no right.
_NOT_DAMAGE = {5, 6, 7, 8, 9, 10, 13, 14, 23}


class Database:
    """One SQLite file in the present layout. ``project.not_running`` when there is none to read, ``state.layout``.

    With ``any_state`` the files that it names may have another layout; they must not be read then.
    """

    def __init__(self, path: Path, *, read_only: bool = False, any_state: bool = False) -> None:
        self._lock = threading.RLock()
        self.folder = path.parent
        self._home = f"{self.folder}/"
        self._mark = Mark(path)
        self._counts = False  # whether transactions are counted: not before layout 9
        self._db = _reading(path) if read_only else _opened(path, "rwc")
        self._check(path)
        if read_only and not self._db.execute("select count(*) from sqlite_master").fetchone()[0]:
            self._db.close()
            raise _not_run(path)  # what a first start that was killed has left
        if not read_only:
            self._db.execute("pragma journal_mode=wal")
            self._db.execute("pragma synchronous=full")
            sums.keep(self._db)
            self._create()
        layout = int(self.meta("layout") or 0)
        if layout != LAYOUT:
            raise HeadraceError(
                "state.layout",
                f"the catalogue has layout {layout}, this version knows {LAYOUT}",
                where=str(path),
                next="use the version of Headrace that wrote it (a later one goes back with "
                f"`headrace migrate --to {LAYOUT}`); nothing was changed",
            )
        if not any_state and self.state_layout != state_layout.STATE_LAYOUT:
            value = str(self.meta(state_layout.NAME))
            self.close()
            raise state_layout.other(value, path.parent)
        self._counts = True

    @property
    def state_layout(self) -> int:
        """Of the files that are named here."""
        return state_layout.number(str(self.meta(state_layout.NAME)))

    def _check(self, path: Path) -> None:
        """Raises ``state.corrupt``. Work: two readings of the catalogue, which is small."""
        try:
            found = self._damage()
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _NOT_DAMAGE:
                raise
            found = str(error)
        except UnicodeDecodeError as error:
            found = f"it has text that is none: {error}"
        if found:
            self._db.close()
            raise HeadraceError(
                "state.corrupt",
                "the catalogue is damaged",
                where=str(path),
                why=" ".join(found.split()),
                next="`headrace rebuild --all` makes it anew from the log; and check the disk",
            )

    def _damage(self) -> str:
        """What is wrong with what is there, in words; empty when nothing is."""
        least = self._mark.read()  # first: while this looks, others write
        self._db.execute("begin")
        try:
            found = str(self._db.execute("pragma integrity_check(1)").fetchone()[0])
            if found != "ok":
                return found
            if self._db.execute("select count(*) from sqlite_master").fetchone()[0] == 0:
                return f"it is empty, and had {least} transactions" if least else ""
            lost = least - sums.counted(self._db)
            if lost > 0:
                return f"its newest transactions are gone ({lost}): its file -wal is damaged, or is not there"
            return sums.wrong(self._db)
        finally:
            if self._db.in_transaction:
                self._db.execute("rollback")

    def _create(self) -> None:
        if self._db.execute("select count(*) from sqlite_master").fetchone()[0] == 0:
            with self.transaction():
                for statement in SCHEMA.split(";"):
                    if statement.strip():
                        self._db.execute(statement)
                self._db.execute("insert into meta values ('layout', ?)", (str(LAYOUT),))
                self._db.execute("insert into meta values (?, ?)", (state_layout.NAME, state_layout.written()))
                sums.begin(self._db)
        elif 0 < int(self.meta("layout") or 0) < LAYOUT:
            self._migrate(int(self.meta("layout") or 0))

    def _migrate(self, layout: int) -> None:
        with self.transaction():
            sums.stop(self._db)
            for later in range(layout + 1, LAYOUT + 1):
                for table in _TABLES.get(later, ()):
                    self._db.execute(next(s for s in SCHEMA.split(";") if f"table {table} " in s))
                for change in _COLUMNS.get(later, ()):
                    self._db.execute(f"alter table {change}")
            if layout < 6:
                self._name_from_here()
            if layout < 11:
                self._sum_in_text()
            if layout < 12:
                self.set_meta(state_layout.NAME, "1")  # there was one only
            if layout < 13:
                self._db.execute(_VERSIONS)
            self.set_meta("layout", str(LAYOUT))
            sums.begin(self._db)

    def _name_from_here(self) -> None:
        """Files were named in full before layout 6."""
        home = (len(self._home) + 1, len(self._home), self._home)
        self._db.execute("update output set path = substr(path, ?) where substr(path, 1, ?) = ?", home)
        self._db.execute("update set_aside set path = substr(path, ?) where substr(path, 1, ?) = ?", home)
        for feed, paths in self._rows("select feed, paths from base"):
            stored = orjson.dumps([self.stored(path) for path in orjson.loads(paths)]).decode()
            self._db.execute("update base set paths = ? where feed = ?", (stored, feed))
        for step, runs in self._rows("select step, runs from checkpoint"):
            kept = {n: [[self.stored(path), *rest] for path, *rest in of] for n, of in orjson.loads(runs).items()}
            self._db.execute("update checkpoint set runs = ? where step = ?", (orjson.dumps(kept).decode(), step))

    def _sum_in_text(self) -> None:
        """Before layout 11 a file had one checksum, a number; 0 for none."""
        outputs = self._rows("select step, feed, path, rows, iif(crc = 0, '', printf('%08x', crc)) from output")
        self._db.execute("drop table output")
        for statement in (s for s in SCHEMA.split(";") if "table output " in s or " on output " in s):
            self._db.execute(statement)
        self._db.executemany("insert into output values (?, ?, ?, ?, ?)", outputs)
        self._db.execute("alter table base rename column crcs to sums")
        for feed, crcs in self._rows("select feed, sums from base"):
            kept = orjson.dumps([_text(crc) for crc in orjson.loads(crcs)]).decode()
            self._db.execute("update base set sums = ? where feed = ?", (kept, feed))
        for step, runs in self._rows("select step, runs from checkpoint"):
            before = orjson.loads(runs)
            texts = {name: [[*e[:3], *map(_text, e[3:])] for e in of] for name, of in before.items()}
            if texts != before:
                self._db.execute("update checkpoint set runs = ? where step = ?", (orjson.dumps(texts).decode(), step))

    def stored(self, path: str) -> str:
        """A file's name as the catalogue keeps it."""
        return path.removeprefix(self._home)

    def found(self, path: str) -> str:
        """The file that the catalogue keeps under this name."""
        return path if path.startswith("/") else self._home + path

    def copy_to(self, path: Path) -> None:
        """All of it, as it is now, into a new file."""
        with self._lock, closing(sqlite3.connect(path)) as copy:
            self._db.backup(copy)
            copy.execute("pragma journal_mode=delete")  # one file, until somebody writes to it

    def close(self) -> None:
        with self._lock:
            self._db.close()
            self._mark.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All changes inside become durable together, or none does."""
        with self._lock:
            if self._db.in_transaction:
                yield
                return
            self._db.execute("begin immediate")
            before = self._db.total_changes
            try:
                yield
                changes = self._counts and self._db.total_changes > before
                count = sums.count(self._db) if changes else 0
                self._db.execute("commit")
            except BaseException:
                if self._db.in_transaction:  # a full or failing disk has ended it already, or has not at all
                    self._db.execute("rollback")
                raise
            if count:
                with suppress(OSError):  # the changes are durable, and the mark may be behind
                    self._mark.write(count)

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        with self._lock:
            return self._db.execute(sql, values).fetchall()

    @property
    def changed(self) -> int:
        """A number that is another one once another connection has changed something. Work: a few microseconds."""
        return int(self._rows("pragma data_version")[0][0])

    def meta(self, name: str) -> str | None:
        rows = self._rows("select value from meta where name = ?", name)
        return rows[0][0] if rows else None

    def set_meta(self, name: str, value: str) -> None:
        with self.transaction():
            self._db.execute("insert or replace into meta values (?, ?)", (name, value))


def _text(crc: int) -> str:
    return f"{crc:08x}" if crc else ""


def _opened(path: Path, mode: str) -> sqlite3.Connection:
    target = f"{path.absolute().as_uri()}?mode={mode}"
    db = sqlite3.connect(target, uri=True, check_same_thread=False, isolation_level=None, timeout=30)
    db.execute("pragma busy_timeout=30000")
    return db


def _not_run(path: Path) -> HeadraceError:
    return HeadraceError("project.not_running", "this project has not run yet", where=str(path), next="headrace up")


def _reading(path: Path) -> sqlite3.Connection:
    """To read alone. SQLite keeps a file beside its own for that too, and a disk may have no room for it, or take
    nothing: then what a catalogue holds that nobody has open is read into memory."""
    if not path.exists() or path.stat().st_size == 0:  # a full disk had no room for a first start
        raise _not_run(path)
    db = _opened(path, "ro")
    try:
        db.execute("select count(*) from sqlite_master")
    except sqlite3.OperationalError:
        beside = path.with_name(f"{path.name}-wal")
        db.close()
        if beside.exists() and beside.stat().st_size:
            raise
        image = bytearray(path.read_bytes())
        image[18:20] = b"\1\1"  # written and read without a log of its own, as memory is
        db = _opened(Path("/"), "memory")
        db.deserialize(bytes(image))
    except sqlite3.DatabaseError:
        pass  # what is damaged is told by who checks it
    return db
