"""Who may do what in a project, and what was done: what every server of it asks, on one page."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from headrace.governance.audit import AuditLog, Detail, Event, Wanted
from headrace.governance.chain import Verdict
from headrace.governance.principal import Principal, allowed, require
from headrace.governance.repeated import Repeated
from headrace.governance.roles import Action, Role
from headrace.governance.sessions import Sessions
from headrace.governance.tokens import FILE, OWNER, Token, Tokens
from headrace.model.errors import HeadraceError

REFUSED_MAX = 60  # refusals of one token that are written down in a minute; of all who have none together as many


class Access:
    """The tokens and the audit log of a project, kept in the folder ``kept``. From any thread.

    ``clock_us`` gives microseconds since the epoch.
    """

    def __init__(self, kept: Path, clock_us: Callable[[], int] = lambda: time.time_ns() // 1000) -> None:
        self.tokens = Tokens(kept, clock_us)
        self.sessions = Sessions(kept / FILE, clock_us)
        self.log = AuditLog(kept, clock_us)
        self._refusals, self._looks = Repeated(clock_us, REFUSED_MAX), Repeated(clock_us)

    def close(self) -> None:
        """What was counted and is told by no entry yet is written down."""
        for token, count in self._refusals.ended().items():
            principal = self.tokens.by_id(token) if token else None
            who = "" if principal is None else principal.name
            self.log.note(Event(who, "connect", "refused", token, detail={"others_before": count}))
        self.sessions.close()
        self.tokens.close()

    def find(self, token: str) -> Principal | None:
        """Whose token it is; None for one that opens nothing."""
        return self.tokens.find(token)

    def allowed(self, principal: Principal, action: Action, relation: str | None = None) -> bool:
        return allowed(principal, action, relation)

    def known(self, token: str, *, address: str = "") -> Principal:
        """Whose token it is. Raises ``access.token``, and writes it down."""
        found = self.find(token)
        what = "the request has no token"
        if found is None and token:
            what = self.tokens.ended(token) or "the token is not known"
        return self._someone(found, what, address)

    def find_session(self, name: str) -> Principal | None:
        """Whose session it is; None for one that is over, as is one of a token that is."""
        token = self.sessions.find(name)
        return None if token is None else self.tokens.by_id(token)

    def known_session(self, name: str, *, address: str = "") -> Principal:
        """Whose session it is, as far as its token is not over. Raises ``access.token``, and writes it down."""
        return self._someone(self.find_session(name), "the session is over, or its token was revoked", address)

    def _someone(self, principal: Principal | None, what: str, address: str) -> Principal:
        if principal is None:
            self._refused(Event("", "connect", "refused", address=address, detail={"code": "access.token"}))
            raise HeadraceError(
                "access.token", what,
                next="send one that `headrace token create NAME` made; the owner's is in .headrace/tokens/api",
            )  # fmt: skip
        return principal

    def require(self, principal: Principal, action: Action, relation: str | None = None, *, address: str = "") -> None:
        """As ``principal.require``; what is refused is written down."""
        try:
            require(principal, action, relation)
        except HeadraceError as error:
            name, token = principal.name, principal.token
            self._refused(Event(name, action, "refused", token, relation, address, detail={"code": error.code}))
            raise

    def doing(
        self, principal: Principal, action: Action, relation: str | None = None, *, address: str = "",
        detail: Detail | None = None,
    ) -> AbstractContextManager[None]:  # fmt: skip
        """The block does it, and it is written down: see ``AuditLog.doing``."""
        return self.log.doing(principal, action, relation, address=address, detail=detail)

    def audit(
        self, principal: Principal, wanted: Wanted, most: int, *, address: str = ""
    ) -> tuple[list[Mapping[str, Any]], int]:
        """See ``AuditLog.recent``. That it was read is written down, or it is not answered: raises ``audit.failed``.

        Of equal reads the first in a minute, as of refusals; one that goes on from page to page is one.
        """
        found = self.log.recent(wanted, most)
        self._looked(principal, wanted.detail(), replace(wanted, before=None).detail(), address)
        return found

    def verdict(self, principal: Principal, noted: str = "", *, address: str = "") -> Verdict:
        """See ``AuditLog.verify``. It is written down as ``audit`` is: raises ``audit.failed``."""
        found, asked = self.log.verify(noted), {"verify": "yes"}
        self._looked(principal, asked, asked, address)
        return found

    def _looked(self, principal: Principal, asked: Detail, alike: Detail, address: str) -> None:
        """Writes a look at the audit log down, unless it is too soon after one that was ``alike``."""
        look = (principal.token, Action.AUDIT, address, str(alike))
        more = self._looks.count(*look)
        if more is None:
            return
        event = Event(principal.name, Action.AUDIT, "done", principal.token, address=address)
        try:
            self.log.append(replace(event, detail={**asked, **more}))
        except HeadraceError:
            self._looks.forget(*look)  # the next look is to be the first
            raise

    def create_token(
        self, principal: Principal, name: str, role: Role, grants: Sequence[str] = (),
        lifetime_s: float | None = None, raised: Sequence[tuple[Role, str]] = (), *, address: str = "",
    ) -> tuple[Token, str]:  # fmt: skip
        """A new token, and what is known of it; see ``Tokens.create``. Raises what ``require`` does too."""
        self.require(principal, Action.TOKEN_CREATE, address=address)
        seconds = int(lifetime_s) if lifetime_s is not None and math.isfinite(lifetime_s) else None
        more = {"grants": ", ".join(f"{role}:{pattern}" for role, pattern in raised)} if raised else {}
        detail: Detail = {"name": name, "role": role, "only": ", ".join(grants), **more, "seconds": seconds}
        with self.doing(principal, Action.TOKEN_CREATE, address=address, detail=detail):
            return self.tokens.create(name, role, grants, lifetime_s, raised)

    def revoke_token(self, principal: Principal, named: str, *, address: str = "") -> Token:
        """The token with that id or name opens nothing from now on. In the place of the owner's a new one is made."""
        self.require(principal, Action.TOKEN_REVOKE, address=address)
        with self.doing(principal, Action.TOKEN_REVOKE, address=address, detail={"name": named}):
            token = self.tokens.revoke(named)
            self.sessions.end_of(token.id)
            if token.name == OWNER:
                self.tokens.owners()
            return token

    def _refused(self, event: Event) -> None:
        """Writes a refusal down; of many the first, and with the next after a while how many were not."""
        relation = (event.relation or "").casefold()
        more = self._refusals.count(event.token, event.action, relation, event.address, str(event.detail["code"]))
        if more is not None:
            self.log.note(replace(event, detail={**event.detail, **more}))
