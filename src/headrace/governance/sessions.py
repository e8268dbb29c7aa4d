"""Sessions of browsers: a random name in the place of the token that began it, which a browser then need not keep.

In the file of the tokens, so that they outlive the process that answers. Of a name only the SHA-256 is kept, of the
token its id.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

IDLE_US = 12 * 3_600_000_000  # not used for so long, it is over
LIFE_US = 7 * 86_400_000_000  # and so long after it began in any case
USED_EVERY_US = 60_000_000  # how exactly it is known when one was last used
SESSIONS_MAX = 10_000  # beyond these the one that was used longest ago goes
OF_TOKEN_MAX = 100  # of one token; beyond these its own does: who has a token ends the sessions of no other
TABLE = "session"
_SCHEMA = """
create table if not exists session (hash blob not null unique, token text not null, began_us integer not null,
    used_us integer not null) strict
"""


class Sessions:
    """In the file ``path``, which there is. From any thread, and from several processes.

    ``clock_us`` gives microseconds since the epoch. Who has a session is looked up by the caller: a token that was
    revoked opens nothing by its sessions either.
    """

    def __init__(self, path: Path, clock_us: Callable[[], int]) -> None:
        self._clock_us = clock_us
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=30)
        self._db.execute(_SCHEMA)  # waits for no writer where the table is there

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def begin(self, token: str) -> str:
        """A new session of the token with that id: its name, for the browser alone."""
        name, now_us = secrets.token_urlsafe(32), self._clock_us()
        newest = "select rowid from session where token = ? order by used_us desc, rowid desc limit ?"
        with self._transaction(durable=False):
            over = "delete from session where used_us <= ? or began_us <= ?"
            self._db.execute(over, (now_us - IDLE_US, now_us - LIFE_US))
            self._db.execute(
                f"delete from session where token = ? and rowid not in ({newest})",  # noqa: S608
                (token, token, OF_TOKEN_MAX - 1),
            )
            self._db.execute("insert into session values (?, ?, ?, ?)", (_hash(name), token, now_us, now_us))
            self._db.execute(
                "delete from session where rowid in"
                " (select rowid from session order by used_us desc, rowid desc limit -1 offset ?)",
                (SESSIONS_MAX,),
            )
        return name

    def find(self, name: str) -> str | None:
        """The id of the token that began it; None for one that is over, or never was."""
        hashed, now_us = _hash(name), self._clock_us()
        with self._lock:
            found = self._db.execute(
                "select token, began_us, used_us from session where hash = ?", (hashed,)
            ).fetchall()
        if not found or now_us - found[0][2] >= IDLE_US or now_us - found[0][1] >= LIFE_US:
            return None
        token, _, used_us = found[0]
        if abs(now_us - used_us) >= USED_EVERY_US:
            with suppress(sqlite3.OperationalError), self._transaction(durable=False):  # nobody is turned away for this
                self._db.execute("update session set used_us = ? where hash = ?", (now_us, hashed))
        return str(token)

    def end(self, name: str) -> None:
        """It is over for good, whatever happens to the power."""
        with self._transaction(durable=True):
            self._db.execute("delete from session where hash = ?", (_hash(name),))

    def end_of(self, token: str) -> None:
        """Every session of the token with that id."""
        with self._transaction(durable=True):
            self._db.execute("delete from session where token = ?", (token,))

    @contextmanager
    def _transaction(self, *, durable: bool) -> Iterator[None]:
        with self._lock:
            self._db.execute(f"pragma synchronous={'full' if durable else 'normal'}")
            self._db.execute("begin immediate")
            try:
                yield
                self._db.execute("commit")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("rollback")
                raise


def _hash(name: str) -> bytes:
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()
