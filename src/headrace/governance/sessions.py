"""Sessions of browsers: a random name in the place of the token that began it, which a browser then need not keep.

In memory alone: with the process that answers they are over. Of a name only the SHA-256 is kept, of the token its id.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

IDLE_US = 12 * 3_600_000_000  # not used for so long, it is over
LIFE_US = 7 * 86_400_000_000  # and so long after it began in any case
SESSIONS_MAX = 10_000  # beyond these the one that was used longest ago goes
OF_TOKEN_MAX = 100  # of one token; beyond these its own does: who has a token ends the sessions of no other


@dataclass(frozen=True, slots=True)
class _Session:
    token: str
    began_us: int
    used_us: int


class Sessions:
    """From any thread. ``clock_us`` gives microseconds since the epoch. Who has a session is looked up by the caller:
    a token that was revoked opens nothing by its sessions either."""

    def __init__(self, clock_us: Callable[[], int]) -> None:
        self._clock_us = clock_us
        self._lock = threading.Lock()
        self._sessions: OrderedDict[bytes, _Session] = OrderedDict()  # the one used longest ago first

    def begin(self, token: str) -> str:
        """A new session of the token with that id: its name, for the browser alone."""
        name, now_us = secrets.token_urlsafe(32), self._clock_us()
        with self._lock:
            for hashed in self._of(token)[: -OF_TOKEN_MAX + 1]:
                del self._sessions[hashed]
            self._sessions[_hash(name)] = _Session(token, now_us, now_us)
            while len(self._sessions) > SESSIONS_MAX:
                self._sessions.popitem(last=False)
        return name

    def find(self, name: str) -> str | None:
        """The id of the token that began it; None for one that is over, or never was."""
        hashed, now_us = _hash(name), self._clock_us()
        with self._lock:
            found = self._sessions.pop(hashed, None)
            if found is None or now_us - found.used_us >= IDLE_US or now_us - found.began_us >= LIFE_US:
                return None
            self._sessions[hashed] = replace(found, used_us=now_us)
        return found.token

    def end(self, name: str) -> None:
        with self._lock:
            self._sessions.pop(_hash(name), None)

    def end_of(self, token: str) -> None:
        """Every session of the token with that id."""
        with self._lock:
            for hashed in self._of(token):
                del self._sessions[hashed]

    def _of(self, token: str) -> list[bytes]:
        return [hashed for hashed, session in self._sessions.items() if session.token == token]


def _hash(name: str) -> bytes:
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()
