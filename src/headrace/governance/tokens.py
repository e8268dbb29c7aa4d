"""Tokens: who they are, what they may reach, until when. SQLite, in a file that only its owner can read.

Of a token only its SHA-256 is kept. A slow hash is for passwords, which can be guessed; a token is 256 random bits,
and no number of guesses finds those, whatever a guess costs. So each request is answered at the price of one look.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.governance.audit import time_text
from headrace.governance.kept import OWNERS_FILE, TOKEN_PREFIX, kept_token
from headrace.governance.principal import PATTERN, Principal
from headrace.governance.roles import Role
from headrace.governance.sessions import TABLE as SESSIONS
from headrace.model.errors import HeadraceError

FILE = "access.db"
OWNER = "owner"
GRANTS_MAX = 100
USED_EVERY_US = 60_000_000  # how exactly it is known when a token was last used
LAYOUT = 1
_SCHEMA = """
create table token (id text primary key, hash blob not null unique, name text not null, role text not null,
    grants text not null, created_us integer not null, expires_us integer, used_us integer, revoked_us integer) strict
"""
_COLUMNS = "id, name, role, grants, created_us, expires_us, used_us, revoked_us"
_OF = ":"  # between a role and the pattern of what it is for
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,62}")


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of a token. Times are microseconds since the epoch; ``grants`` () for every view and table;
    ``raised``: (role, pattern), see ``Principal``."""

    id: str
    name: str
    role: Role
    grants: tuple[str, ...]
    created_us: int
    expires_us: int | None
    used_us: int | None
    revoked_us: int | None
    raised: tuple[tuple[Role, str], ...] = ()

    def state(self, now_us: int) -> str:
        """``live``, ``expired`` or ``revoked``."""
        if self.revoked_us is not None:
            return "revoked"
        return "expired" if self.expires_us is not None and self.expires_us <= now_us else "live"

    def as_dict(self, now_us: int) -> dict[str, Any]:
        """As JSON tells it. Never the token itself, of which only a hash is kept."""
        times = {"created": self.created_us, "expires": self.expires_us, "last_used": self.used_us}
        return {
            "id": self.id, "name": self.name, "role": self.role.value, "only": list(self.grants),
            "grants": [f"{role.value}:{pattern}" for role, pattern in self.raised],
            "state": self.state(now_us), **{n: None if us is None else time_text(us) for n, us in times.items()},
        }  # fmt: skip


class Tokens:
    """The tokens of a project, kept in the folder ``kept``. From any thread, and from several processes.

    Nothing is remembered from one look to the next: what is revoked or over is so for the next request.
    ``clock_us`` gives microseconds since the epoch.
    """

    def __init__(self, kept: Path, clock_us: Callable[[], int] = lambda: time.time_ns() // 1000) -> None:
        self._kept, self._clock_us = kept, clock_us
        self._lock = threading.RLock()
        path = kept / FILE
        kept.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))  # SQLite's other files take its mode
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=30)
        try:
            self._begin(path)
        except BaseException:
            self._db.close()
            raise

    def _begin(self, path: Path) -> None:
        """Raises ``state.corrupt`` and ``state.layout``."""
        try:
            self._db.execute("pragma journal_mode=wal")
            with self._transaction():
                layout = int(self._db.execute("pragma user_version").fetchone()[0])
                if layout == 0:
                    self._db.execute(_SCHEMA)
                    self._db.execute(f"pragma user_version={LAYOUT}")
            found = str(self._db.execute("pragma integrity_check(1)").fetchone()[0])
        except sqlite3.OperationalError:  # busy, or not to be opened: not damaged
            raise
        except sqlite3.DatabaseError as error:
            layout, found = LAYOUT, str(error)
        if found != "ok":
            raise HeadraceError(
                "state.corrupt", "the file of the tokens is damaged", where=str(path), why=" ".join(found.split()),
                next="remove it, and make the tokens anew: `headrace token create NAME`",
            )  # fmt: skip
        if layout not in (0, LAYOUT):
            raise HeadraceError(
                "state.layout", f"the tokens have layout {layout}, this version knows {LAYOUT}", where=str(path),
                next="use the version of Headrace that wrote them; nothing was changed",
            )  # fmt: skip

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def copy_to(self, path: Path) -> None:
        """All tokens, as they are now, into a new file; no session, which may be over by the time that it is read."""
        path.touch(mode=0o600)
        with self._lock, closing(sqlite3.connect(path)) as copy:
            self._db.backup(copy)
            copy.execute(f"drop table if exists {SESSIONS}")
            copy.execute("pragma journal_mode=delete")  # one file, until somebody writes to it

    @contextmanager
    def _transaction(self, *, durable: bool = True) -> Iterator[None]:
        """All changes inside, or none; on the disk at the end where they are to be ``durable``."""
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

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        with self._lock:
            return self._db.execute(sql, values).fetchall()

    # -- who asks -------------------------------------------------------------------------------------------

    def find(self, token: str) -> Principal | None:
        """Whose token it is; None for one that is not known, is over, or was revoked."""
        hashed = _hash(token)
        rows = self._rows(f"select {_COLUMNS}, hash from token where hash = ?", hashed)  # noqa: S608
        return self._live(rows[0][:-1]) if rows and hmac.compare_digest(rows[0][-1], hashed) else None

    def ended(self, token: str) -> str | None:
        """How a token came to open nothing, said to who has it; None for one that is live, or that nobody made."""
        rows = self._rows(f"select {_COLUMNS} from token where hash = ?", _hash(token))  # noqa: S608
        if not rows or (state := (found := _token(rows[0])).state(self._clock_us())) == "live":
            return None
        end = f"has expired at {time_text(found.expires_us or 0)}" if state == "expired" else "was revoked"
        return f"the token '{found.name}' {end}"

    def by_id(self, id: str) -> Principal | None:
        """Whose token that is; None for one that is over, or was revoked."""
        rows = self._rows(f"select {_COLUMNS} from token where id = ?", id)  # noqa: S608
        return self._live(rows[0]) if rows else None

    def _live(self, row: Sequence[Any]) -> Principal | None:
        found, now_us = _token(row), self._clock_us()
        if found.state(now_us) != "live":
            return None
        if found.used_us is None or abs(now_us - found.used_us) >= USED_EVERY_US:
            self._used(found.id, now_us)
        return Principal(found.name, found.role, found.grants, found.id, found.raised)

    def _used(self, id: str, now_us: int) -> None:
        """Notes it where nothing is in the way: nobody waits for a disk, or is turned away, for this."""
        with suppress(sqlite3.OperationalError), self._transaction(durable=False):
            self._db.execute("update token set used_us = ? where id = ?", (now_us, id))

    def owners(self) -> str:
        """The token of who owns the project, an admin: in ``tokens/api``, where it is made when it is missing.

        What else is in that file is none, and replaced: a token that was revoked, one of another project, a piece of
        one that a power cut has left.
        """
        path, live = self._kept / OWNERS_FILE, "select 1 from token where hash = ? and name = ? and revoked_us is null"
        with self._transaction():
            token = kept_token(path)
            if not self._rows(live, _hash(token), OWNER):
                now_us = self._clock_us()
                self._db.execute(
                    "update token set revoked_us = coalesce(revoked_us, ?) where name = ?", (now_us, OWNER)
                )
                path.unlink()
                token = kept_token(path)
                self._insert(token, OWNER, Role.ADMIN, (), now_us, None)
        return token

    # -- what an admin does ---------------------------------------------------------------------------------

    def create(
        self, name: str, role: Role, grants: Sequence[str] = (), lifetime_s: float | None = None,
        raised: Sequence[tuple[Role, str]] = (),
    ) -> tuple[Token, str]:  # fmt: skip
        """A new token: what is known of it, and itself, which is told this once.

        ``lifetime_s``: None for one that does not end by itself. Raises ``access.invalid``, and ``access.exists``
        where a live token has that name.
        """
        check(name, role, grants, lifetime_s, raised)
        token = TOKEN_PREFIX + secrets.token_urlsafe(32)
        with self._transaction():
            now_us = self._clock_us()
            if name in [known.name for known in self.all() if known.state(now_us) == "live"]:
                raise HeadraceError(
                    "access.exists", f"there is a token '{name}' already",
                    next="take another name, or `headrace token revoke` it first",
                )  # fmt: skip
            expires_us = None if lifetime_s is None else now_us + int(lifetime_s * 1e6)
            made = self._insert(token, name, role, tuple(grants), now_us, expires_us, tuple(raised))
        return made, token

    def _insert(
        self, token: str, name: str, role: Role, grants: tuple[str, ...], now_us: int, expires_us: int | None,
        raised: tuple[tuple[Role, str], ...] = (),
    ) -> Token:  # fmt: skip
        made = Token(secrets.token_hex(4), name, role, grants, now_us, expires_us, None, None, raised)
        # A version that knows no roles of patterns takes these for names that there are not.
        kept = ",".join([*grants, *(f"{role.value}{_OF}{pattern}" for role, pattern in raised)])
        values = (made.id, _hash(token), name, role, kept, now_us, expires_us, None, None)
        self._db.execute("insert into token values (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
        return made

    def all(self) -> list[Token]:
        """Every token there ever was, oldest first."""
        return [_token(row) for row in self._rows(f"select {_COLUMNS} from token order by created_us, id")]  # noqa: S608

    def revoke(self, named: str) -> Token:
        """The token with that id, or the live one of that name, opens nothing any more; from the next request on.

        Raises ``access.unknown``. To revoke what is revoked changes nothing.
        """
        with self._transaction():
            now_us = self._clock_us()
            found = [t for t in self.all() if t.id == named or (t.name == named and t.state(now_us) == "live")]
            if not found:
                raise HeadraceError(
                    "access.unknown",
                    f"there is no token '{named}'",
                    next="`headrace token ls` shows all, with their ids",
                )
            self._db.execute(
                "update token set revoked_us = coalesce(revoked_us, ?) where id = ?", (now_us, found[0].id)
            )
            return next(token for token in self.all() if token.id == found[0].id)


def check(
    name: str, role: Role, grants: Sequence[str], lifetime_s: float | None, raised: Sequence[tuple[Role, str]] = ()
) -> None:
    """Raises ``access.invalid`` for what no token can have."""
    if _NAME.fullmatch(name) is None or name == OWNER:
        why = "a name has at most 63 letters, digits and '_.@+-', and begins with none of '.@+-'"
        why = "that is the one in .headrace/tokens/api" if name == OWNER else why
        raise _invalid(f"'{name}' cannot be the name of a token", why, "headrace token create reports")
    if len(grants) + len(raised) > GRANTS_MAX:
        raise _invalid(
            f"{len(grants) + len(raised)} patterns are too many", f"{GRANTS_MAX} are taken", "use `*` and `?`"
        )
    for pattern in (*grants, *(pattern for _, pattern in raised)):
        if PATTERN.fullmatch(pattern) is None:
            why = "it is the name of a view or table, in which `*` stands for any letters and `?` for one"
            raise _invalid(f"'{pattern}' cannot be a pattern of names", why, "--only 'sales_*'")
    if (grants and role is Role.ADMIN) or Role.ADMIN in [raised_to for raised_to, _ in raised]:
        why = "an admin makes tokens, also such that reach everything"
        raise _invalid("a token of the role admin cannot be limited to some views", why, "--role operator")
    if lifetime_s is not None and not 0 < lifetime_s <= 100 * 366 * 86_400:
        raise _invalid("a token lives from one second to a hundred years", "", "--expires 30d, or no --expires")


def grant(text: str) -> tuple[Role, str]:
    """``ROLE:PATTERN`` as it is written. Raises ``access.invalid``."""
    role, _, pattern = text.partition(_OF)
    if role not in list(Role) or not pattern:
        raise _invalid(f"'{text}' grants nothing", "it is a role and a pattern of names", "--grant 'editor:sales_*'")
    return Role(role), pattern


def _invalid(what: str, why: str, next: str) -> HeadraceError:
    return HeadraceError("access.invalid", what, why=why, next=next)


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _token(row: Sequence[Any]) -> Token:
    id, name, role, kept, created_us, expires_us, used_us, revoked_us = row
    grants = tuple(each for each in kept.split(",") if each and _OF not in each)
    raised = tuple((Role(each.partition(_OF)[0]), each.partition(_OF)[2]) for each in kept.split(",") if _OF in each)
    return Token(id, name, Role(role), grants, created_us, expires_us, used_us, revoked_us, raised)
