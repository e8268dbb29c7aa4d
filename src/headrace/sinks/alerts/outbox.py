"""What is to be told, kept until it is: messages, dead letters and the sink's frontier, in one SQLite file.

A delivery is taken with its frontier in one synced transaction, before anything of it is sent. That something was sent
is written down without a sync: a power cut may take it back, and it is sent again, by the same id.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import orjson

from headrace.model.errors import HeadraceError
from headrace.sinks.alerts.happened import Message
from headrace.sinks.alerts.options import Rate
from headrace.sinks.target import Held, Target
from headrace.sinks.tenure import Tenure

LAYOUT = 1
LETTER_MESSAGES = 1_000  # so many messages become one letter at most
_SCHEMA = """
create table sink (layout integer not null, generation integer not null, frontier integer, history integer not null)
    strict;
insert into sink values (1, 0, null, 0);
create table view (name text primary key, version integer not null, log_commit integer, key text not null,
    declared integer not null) strict;
create table message (number integer primary key autoincrement, id text not null unique, view text not null,
    log_commit integer not null, body blob not null, entered integer not null, left integer not null,
    changed integer not null, taken_us integer not null, letter text, rest text, reason text, dead_us integer) strict;
create index message_by_letter on message (letter) where letter is not null;
create index message_waiting on message (number) where dead_us is null;
create index message_dead on message (view) where dead_us is not null;
create table sent (at_us integer not null) strict;
"""


@dataclass(frozen=True, slots=True)
class Letter:
    """What is sent at once: a message, or several of one view in their order. ``id`` stays with it until it is sent.

    ``rest``: those of its recipients that still lack it; None: nobody was tried yet. ``waits_s``: since its oldest
    message was taken.
    """

    id: str
    view: str
    commit: int  # of its last message
    numbers: tuple[int, ...]
    counts: tuple[int, int, int]  # how many entered, left, changed
    taken_us: int  # when its last message was
    waits_s: float
    rest: tuple[str, ...] | None


class Outbox:
    """The file ``path``, which is made. From one thread; other processes may read it and call dead letters back.

    ``check``: whether it is read through for damage.
    """

    def __init__(self, path: Path, *, check: bool = True) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = not path.exists()
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=30)
        if new:
            path.chmod(0o600)  # it holds rows
        if check:
            self._check()
        self._db.execute("pragma journal_mode=wal")
        with self._transaction(synced=True):
            if not self._rows("select 1 from sqlite_master where name = 'sink'"):
                for statement in _SCHEMA.split(";"):
                    self._db.execute(statement)
        layout = self._rows("select layout from sink")[0][0]
        if layout != LAYOUT:
            raise HeadraceError(
                "state.layout", f"the outbox has layout {layout}, this version knows {LAYOUT}", where=str(path),
                next="use the version of Headrace that wrote it; nothing was changed",
            )  # fmt: skip

    def close(self) -> None:
        self._db.close()

    # -- taking

    def take_over(self, tenure: Tenure) -> int | None:
        """Fences every older instance; the commit reached. Raises ``sink.fenced``."""
        with self._transaction(synced=True):
            frontier, running = self._sink()
            generation = tenure.take_over(running, tenure.step)
            self._db.execute("update sink set generation = ?", (generation,))
        tenure.took()
        return frontier

    def begin_anew(self) -> None:
        """The commits are those of another log from now on: no view is known. What waits to be sent stays."""
        with self._transaction(synced=True):
            self._db.execute("update sink set frontier = null, history = history + 1")
            self._db.execute("delete from view")

    def history(self) -> int:
        """How often it has begun anew: the same commits say other things then."""
        return int(self._rows("select history from sink")[0][0])

    def frontier(self) -> int | None:
        return self._sink()[0]

    def held(self) -> dict[str, Held]:
        rows = self._rows("select name, version, log_commit, key, declared from view")
        return {
            name: Held(version, at, tuple(orjson.loads(key)), bool(declared))
            for name, version, at, key, declared in rows
        }

    def take(
        self,
        tenure: Tenure,
        commit: int,
        found: Iterable[Message],
        replaced: Iterable[Target],
        dropped: Iterable[str],
        dead: Iterable[tuple[Message, str]],
    ) -> None:
        """All that a delivery says, and its frontier, durably. ``dead``: what cannot be told, and why."""
        now_us = time.time_ns() // 1000
        letters: Iterator[tuple[Message, str | None]] = chain(((one, None) for one in found), dead)
        first = list(islice(letters, 1))
        views = [(it.view, it.version, commit, orjson.dumps(it.key).decode(), it.declared) for it in replaced]
        # A delivery that tells nothing may be lost to a power cut: it comes again, and tells nothing again.
        with self._transaction(synced=bool(first or views)):
            frontier, running = self._sink()
            tenure.check(running)
            self._db.executemany(  # what has the id of a message that is there already was told before
                "insert or ignore into message"
                " (id, view, log_commit, body, entered, left, changed, taken_us, reason, dead_us)"
                " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    (one.id, one.view, commit, one.body, *one.counts, now_us, why, None if why is None else now_us)
                    for one, why in chain(first, letters)
                ),
            )
            self._db.executemany("delete from view where name = ?", ((view,) for view in dropped))
            self._db.executemany("insert or replace into view values (?, ?, ?, ?, ?)", views)
            self._db.execute("update sink set frontier = ?", (max(commit, frontier or 0),))

    # -- sending

    def waiting(self, most: int) -> int:
        """How many messages are still to be sent, counted up to ``most``."""
        sql = "select count(*) from (select 1 from message where dead_us is null limit ?)"
        return int(self._rows(sql, most)[0][0])

    def next(self, tenure: Tenure, most: int) -> Letter:
        """What is to be sent now, when anything is: a letter that was begun, as it was, or a new one.

        ``most``: of how many waiting messages of one view a new one is made.
        """
        with self._transaction(synced=False):
            tenure.check(self._sink()[1])
            sql = "select view, letter from message where dead_us is null order by number limit 1"
            ((view, letter),) = self._rows(sql)
            if letter is None:
                letter = self._bind(view, min(most, LETTER_MESSAGES))
        rows = self._rows(
            "select number, log_commit, entered, left, changed, taken_us, rest from message"
            " where letter = ? and dead_us is null order by number",
            letter,
        )
        return Letter(
            letter,
            view,
            rows[-1][1],
            tuple(row[0] for row in rows),
            (sum(row[2] for row in rows), sum(row[3] for row in rows), sum(row[4] for row in rows)),
            rows[-1][5],
            time.time() - rows[0][5] / 1e6,
            tuple(orjson.loads(rows[0][6])) if rows[0][6] is not None else None,
        )

    def bodies(self, letter: Letter) -> Iterator[bytes]:
        """What its messages say, in order."""
        for number in letter.numbers:
            yield self._rows("select body from message where number = ?", number)[0][0]

    def sent(self, tenure: Tenure, letter: Letter, rate: Rate | None) -> None:
        """It was taken by all whom it was for."""
        with self._transaction(synced=False):
            tenure.check(self._sink()[1])
            self._db.execute("delete from message where letter = ? and dead_us is null", (letter.id,))
            if rate is not None:
                now_us = time.time_ns() // 1000
                self._db.execute("delete from sent where at_us <= ?", (now_us - rate.seconds * 1_000_000,))
                self._db.execute("insert into sent values (?)", (now_us,))

    def owed(self, tenure: Tenure, letter: Letter, rest: Iterable[str]) -> None:
        """Some recipients have it; ``rest`` lacks it."""
        with self._transaction(synced=True):
            tenure.check(self._sink()[1])
            self._db.execute(
                "update message set rest = ? where letter = ?", (orjson.dumps(list(rest)).decode(), letter.id)
            )

    def bury(self, tenure: Tenure, letter: Letter, reason: str, rest: Iterable[str] | None = None) -> None:
        """It will not be taken, or not by ``rest``: a dead letter, with the reason."""
        owed = letter.rest if rest is None else rest
        with self._transaction(synced=True):
            tenure.check(self._sink()[1])
            self._db.execute(
                "update message set dead_us = ?, reason = ?, rest = ? where letter = ? and dead_us is null",
                (
                    time.time_ns() // 1000,
                    reason,
                    orjson.dumps(list(owed)).decode() if owed is not None else None,
                    letter.id,
                ),
            )

    def turns(self, rate: Rate) -> int:
        """How many letters may be sent now."""
        now_us = time.time_ns() // 1000
        # What was sent later than now was sent before the clock was set back: it would hold up for as long.
        sql = "select count(*) from sent where at_us > ? and at_us <= ?"
        return max(rate.times - int(self._rows(sql, now_us - rate.seconds * 1_000_000, now_us)[0][0]), 0)

    # -- dead letters

    def dead_rows(self) -> dict[str, int]:
        """View -> rows that could not be told."""
        sql = "select view, sum(entered + left + changed) from message where dead_us is not null group by view"
        return dict(self._rows(sql))

    def _bind(self, view: str, most: int) -> str:
        """A letter of the first waiting messages of the view. Its id follows from theirs."""
        rows = self._rows(
            "select number, id from message where dead_us is null and letter is null and view = ?"
            " order by number limit ?",
            view,
            most,
        )
        ids = [row[1] for row in rows]
        letter = ids[0] if len(ids) == 1 else f"msg_{hashlib.sha256(orjson.dumps(ids)).hexdigest()[:32]}"
        self._db.executemany("update message set letter = ? where number = ?", ((letter, row[0]) for row in rows))
        return letter

    def _sink(self) -> tuple[int | None, int]:
        (row,) = self._rows("select frontier, generation from sink")
        return row[0], row[1]

    def _check(self) -> None:
        """Raises ``state.corrupt``. Work: one reading of the file."""
        try:
            found = str(self._db.execute("pragma quick_check(1)").fetchone()[0])
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):  # busy, or not to be opened: not damaged
                raise
            found = str(error)
        if found != "ok":
            self._db.close()
            raise HeadraceError(
                "state.corrupt", "the outbox of the sink is damaged", where=str(self._path),
                why=" ".join(found.split()),
                next="put it back from a backup, or remove it: what waited in it is then not told",
            )  # fmt: skip

    @contextmanager
    def _transaction(self, *, synced: bool) -> Iterator[None]:
        self._db.execute(f"pragma synchronous={'full' if synced else 'normal'}")
        self._db.execute("begin immediate")
        try:
            yield
        except BaseException:
            self._db.execute("rollback")
            raise
        self._db.execute("commit")

    def _rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._db.execute(sql, values).fetchall()


def copy(path: Path, target: Path) -> None:
    """All that an outbox holds, as it is now, into a new file; it may be at work."""
    with closing(sqlite3.connect(path, timeout=30)) as outbox, closing(sqlite3.connect(target)) as made:
        outbox.backup(made)
        made.execute("pragma journal_mode=delete")
    target.chmod(0o600)
