"""Who asks: the token of a request, and whether it may."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Protocol

from fastapi import Request

from headrace.api.actions import ACTIONS, ROLES, Action
from headrace.model.errors import HeadraceError

COOKIE = "headrace_token"
SAME_SITE = "x-headrace"  # a header that no page of another site can make a browser send
_SAFE = ("GET", "HEAD")


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks. ``grants``: the relations that it is limited to; () for all."""

    name: str
    role: str
    grants: tuple[str, ...] = ()


class Access(Protocol):
    """What the API asks of who keeps the tokens."""

    def find(self, token: str) -> Principal | None:
        """Whose token it is; None for one that is not known, or not any more."""

    def allowed(self, principal: Principal, action: Action, relation: str | None = None) -> bool: ...


class OwnersToken:
    """One token, which may do all."""

    def __init__(self, token: str) -> None:
        self._token = token

    def find(self, token: str) -> Principal | None:
        return Principal("owner", "admin") if hmac.compare_digest(token.encode(), self._token.encode()) else None

    def allowed(self, principal: Principal, action: Action, relation: str | None = None) -> bool:
        return action in ROLES[principal.role]


class Anyone:
    """No token is asked for: on the loopback, for programs of this machine."""

    def find(self, token: str) -> Principal | None:
        return Principal("anyone", "admin")

    def allowed(self, principal: Principal, action: Action, relation: str | None = None) -> bool:
        return True


class Gate:
    """Stands before every route: finds who asks, and lets through what ``ACTIONS`` says that it may."""

    def __init__(self, access: Access, hosts: frozenset[str] | None) -> None:
        self.access, self._hosts = access, hosts

    async def __call__(self, request: Request) -> None:
        """Raises ``access.token``, ``access.denied``, and ``view.unknown`` for a relation that it may not know of."""
        if self._hosts is not None and request.url.hostname not in self._hosts:
            raise HeadraceError("access.token", f"requests for the host '{request.url.hostname}' are not answered")
        route = request.scope["route"]
        action = ACTIONS[f"{request.method} {route.path_format}"]
        if action == "none":
            return
        principal = request.state.principal = self._principal(request)
        if not self.access.allowed(principal, action):
            raise HeadraceError(
                "access.denied", f"the role {principal.role} may not do this",
                where=f"{request.method} {request.url.path}", next="ask an admin of the project for another token",
            )  # fmt: skip
        relation = request.path_params.get("name")
        if relation is not None and not self.access.allowed(principal, action, relation):
            raise HeadraceError("view.unknown", f"there is no view or table '{relation}'")

    def known(self, token: str) -> Principal:
        """Whose token it is. Raises ``access.token``."""
        principal = self.access.find(token)
        if principal is None:
            raise HeadraceError(
                "access.token", "the token is wrong" if token else "the request has no token",
                next="send the header 'Authorization: Bearer TOKEN'; the owner's is in .headrace/tokens/api",
            )  # fmt: skip
        return principal

    def may_read(self, request: Request, relation: str) -> bool:
        """Whether who asks may know of a relation."""
        principal: Principal = request.state.principal
        return self.access.allowed(principal, "read", relation)

    def _principal(self, request: Request) -> Principal:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if given:
            return self.known(given.strip() if scheme.lower() == "bearer" else "")
        principal = self.known(request.cookies.get(COOKIE, ""))
        if request.method not in _SAFE and SAME_SITE not in request.headers:
            raise HeadraceError(
                "access.token", "a change without a token in its header needs the header 'X-Headrace: 1'",
                why="without it a page of another site could make your browser send it",
            )  # fmt: skip
        return principal
