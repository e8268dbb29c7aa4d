"""Who asks: the token of a request, whether it may, and what is written down of it."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from fastapi import Request

from headrace.api.actions import ACTIONS
from headrace.governance.access import Access
from headrace.governance.principal import ANYONE, Principal
from headrace.governance.roles import RULES, Action, Scope
from headrace.model.errors import CODES, HeadraceError

SAME_SITE = "x-headrace"  # a header that no page of another site can make a browser send
_SAFE = ("GET", "HEAD")
# Errors that tell of other names, or of what was: of a wrong name the near ones, of a view what it reads.
_NAMING = (
    "view.unknown", "view.failed", "view.cycle", "source.no_table", "quarantine.unknown", "sql.unknown_relation",
    "sql.unknown_column", "sql.analysis", "wait.token",
)  # fmt: skip


def heard(error: HeadraceError, principal: Principal) -> HeadraceError:
    """The error as who asks may hear it, over HTTP as by psql: a limited token of no name that it does not reach."""
    if not principal.grants or error.code not in _NAMING:
        return error
    what = CODES[error.code] if error.code == "view.cycle" else error.what  # which names all that are in it
    return HeadraceError(error.code, what, where=error.where, next=f"this token reaches: {principal.limits}")


@dataclass(frozen=True, slots=True)
class Asking:
    """Who asks, from where, and what they do."""

    access: Access
    principal: Principal
    action: Action
    address: str
    again: Callable[[], Principal | None] = lambda: ANYONE  # who it is now by what they gave; None: nobody any more

    def still(self, relation: str) -> bool:
        """Whether what they gave opens that yet: a token may be revoked or over, a session ended."""
        now = self.again()
        return now is not None and self.access.allowed(now, self.action, relation)

    @property
    def token(self) -> str | None:
        """The id of their token; None where none is asked for."""
        return self.principal.token or None

    @property
    def limited(self) -> bool:
        """Whether their token is for some relations alone."""
        return bool(self.principal.grants)

    def reaches(self, relation: str | None) -> bool:
        """Whether they may do it to a relation, and so know of it; None: to whichever there is, or may be."""
        may = self.access.allowed(self.principal, self.action, relation)
        return may and not (relation is None and self.limited)

    def require(self, relation: str | None) -> None:
        """Raises ``view.unknown`` for a relation that they may not know of; for None, where they reach not all."""
        self.access.require(self.principal, self.action, relation, address=self.address)

    def told(self, error: HeadraceError) -> HeadraceError:
        """See ``heard``."""
        return heard(error, self.principal)

    def doing(
        self, relation: str | None = None, detail: Mapping[str, str | int | None] | None = None
    ) -> AbstractContextManager[None]:
        """The block does it, and that is written down; ``detail`` has no secret and no value of a row."""
        return self.access.doing(self.principal, self.action, relation, address=self.address, detail=detail)


class Gate:
    """Stands before every route: finds who asks, and lets through what ``ACTIONS`` says that they may do.

    ``hosts``: where nobody is asked for a token, the names that requests must carry; None where they are asked.
    """

    def __init__(self, access: Access, hosts: frozenset[str] | None = None) -> None:
        self.access, self._hosts = access, hosts
        # A browser has one jar of cookies for all ports of a machine: each project has a name of its own in it.
        where = f"{socket.gethostname()}:{access.log.folder.resolve()}"
        self.cookie = f"headrace_session_{hashlib.sha256(where.encode()).hexdigest()[:8]}"

    async def __call__(self, request: Request) -> None:
        """Raises ``access.token``, ``access.denied``, and ``view.unknown`` for a relation that they may not know of.

        What touches relations that are named in the body is checked by the route, by ``asking``.
        """
        if self._hosts is not None and request.url.hostname not in self._hosts:
            raise HeadraceError("access.token", f"requests for the host '{request.url.hostname}' are not answered")
        action = ACTIONS[f"{request.method} {request.scope['route'].path_format}"]
        if action is None:
            return
        principal, address = self._principal(request), address_of(request)
        relation = request.path_params.get("name")
        if relation is None and RULES[action].scope is Scope.EACH:
            self.access.require(principal.somewhere, action, address=address)
        else:
            self.access.require(principal, action, relation, address=address)
        request.state.asking = Asking(self.access, principal, action, address, lambda: self._found(request))

    def passes(self, request: Request, action: Action, relation: str) -> bool:
        """Whether who asks by a token in the header may do it; where not, nothing is written down, nor said why."""
        if self._hosts is not None:
            return request.url.hostname in self._hosts
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        principal = self.access.find(given.strip()) if scheme.lower() == "bearer" else None
        return principal is not None and self.access.allowed(principal, action, relation)

    def known(self, token: str, address: str) -> Principal:
        """Whose token it is. Raises ``access.token``."""
        return ANYONE if self._hosts is not None else self.access.known(token, address=address)

    def _found(self, request: Request) -> Principal | None:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if given:
            return self.access.find(given.strip()) if scheme.lower() == "bearer" else None
        return self.logged_in(request)

    def logged_in(self, request: Request) -> Principal | None:
        """Whose session a browser has, if any; nothing is written down where it has none."""
        if self._hosts is not None:
            return ANYONE
        session = request.cookies.get(self.cookie)
        return None if session is None else self.access.find_session(session)

    def _principal(self, request: Request) -> Principal:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if given:
            return self.known(given.strip() if scheme.lower() == "bearer" else "", address_of(request))
        if self._hosts is not None:
            principal = ANYONE
        elif (session := request.cookies.get(self.cookie)) is None:
            principal = self.known("", address_of(request))
        else:
            principal = self.access.known_session(session, address=address_of(request))
        if request.method not in _SAFE and SAME_SITE not in request.headers:
            raise HeadraceError(
                "access.token", "a change without a token in its header needs the header 'X-Headrace: 1'",
                why="without it a page of another site could make your browser send it",
            )  # fmt: skip
        return principal


async def asking(request: Request) -> Asking:
    """Who asks; for routes that need a token. A coroutine, as ``served`` is."""
    found: Asking = request.state.asking
    return found


def address_of(request: Request) -> str:
    """Where a request comes from."""
    return request.client.host if request.client else ""
