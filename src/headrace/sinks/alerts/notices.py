"""What the page is told: the newest notices of a project, numbered in their order, in one SQLite file.

Sinks write them, whoever asks reads them, beside a running project too. The file may be removed: what is told from then
on begins anew.
"""

from __future__ import annotations

import secrets
import sqlite3
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from headrace.catalog.project import STATE
from headrace.governance.audit import time_text
from headrace.sinks.alerts.happened import FIELDS

FILE = "notices.db"
KEPT = 1_000  # notices; older ones go
ROWS_MAX, BYTES_MAX = 10, 16_384  # of a notice; what is beyond is counted only
_SCHEMA = """
create table if not exists project (made text not null) strict;
create table if not exists notice (number integer primary key autoincrement, id text not null unique,
    sink text not null, view text not null, query text, log_commit integer not null, at_us integer not null,
    entered integer not null, left integer not null, changed integer not null, rows blob not null) strict;
"""


@dataclass(frozen=True, slots=True)
class Notice:
    """What one delivery, or several that waited, say of a view; of what a stored query matches in it, its name.

    ``counts``: how many rows entered, left, changed; ``rows``: the first of them, as a webhook's body has them.
    """

    number: int
    view: str
    query: str | None
    commit: int
    at_us: int
    counts: tuple[int, int, int]
    rows: dict[str, list[Any]]

    def as_dict(self) -> dict[str, Any]:
        """As JSON tells it."""
        return {
            "number": self.number, "view": self.view, "query": self.query, "commit": self.commit,
            "at": time_text(self.at_us), **dict(zip(FIELDS.values(), self.counts, strict=True)), "rows": self.rows,
        }  # fmt: skip


class Notices:
    """Those of the project in ``folder``. Every method opens the file, which ``keep`` makes, and closes it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / STATE / FILE

    def keep(self, sink: str, id: str, commit: int, counts: tuple[int, int, int], bodies: Iterable[bytes]) -> None:
        """One more, unless one of this id is there; ``bodies``: the messages that it is made of.

        Raises ``sqlite3.Error``.
        """
        view, query, rows = _told(bodies)
        told = (id, sink, view, query, commit, time.time_ns() // 1000, *counts, rows)
        new = not self._path.exists()
        with self._opened() as db:
            if new:
                self._path.chmod(0o600)  # it holds rows
            db.execute("begin immediate")
            if not db.execute("select 1 from project").fetchall():
                db.execute("insert into project values (?)", (secrets.token_hex(8),))
            db.execute(
                "insert or ignore into notice"
                " (id, sink, view, query, log_commit, at_us, entered, left, changed, rows)"
                " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                told,
            )
            db.execute("delete from notice where number <= (select max(number) from notice) - ?", (KEPT,))
            db.execute("commit")

    def forget(self, sink: str) -> None:
        """Those of a sink that is dropped go."""
        if self._path.exists():
            with self._opened() as db:
                db.execute("delete from notice where sink = ?", (sink,))

    def made(self) -> str:
        """What tells this numbering from another one; "" where there is none yet."""
        if not self._path.exists():
            return ""
        with self._opened() as db:
            return "".join(made for (made,) in db.execute("select made from project"))

    def since(self, number: int) -> Generator[Notice]:
        """Those after ``number``, newest first."""
        if not self._path.exists():
            return
        with self._opened() as db:
            found = db.execute(
                "select number, view, query, log_commit, at_us, entered, left, changed, rows from notice"
                " where number > ? order by number desc",
                (number,),
            )
            for at, view, query, commit, at_us, entered, left, changed, rows in found:
                yield Notice(at, view, query, commit, at_us, (entered, left, changed), orjson.loads(rows))

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, isolation_level=None, timeout=30)) as db:
            db.execute("pragma journal_mode=wal")
            for statement in _SCHEMA.split(";"):
                db.execute(statement)  # another process may have made the file this moment
            yield db


def _told(bodies: Iterable[bytes]) -> tuple[str, str | None, bytes]:
    """(view, stored query, the first rows as JSON) of messages of one view, which are read as far as is needed."""
    view, query, left, space = "", None, ROWS_MAX, BYTES_MAX
    rows: dict[str, list[Any]] = {field: [] for field in FIELDS.values()}
    for body in bodies:
        told = orjson.loads(body)
        view, query = told["view"], told.get("query")
        for field in FIELDS.values():
            for row in told.get(field, [])[:left]:
                space -= len(orjson.dumps(row))
                if space >= 0:
                    rows[field].append(row)
                left -= 1
        if left <= 0 or space < 0:
            break
    return view, query, orjson.dumps(rows)
