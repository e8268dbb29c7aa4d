"""Who asks: the token of a request, and whether it may."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from fastapi import Request

from headrace.api.actions import ACTIONS
from headrace.governance.principal import Principal, allowed, require
from headrace.governance.roles import RULES, Action, Role, Scope
from headrace.model.errors import HeadraceError

COOKIE = "headrace_token"
SAME_SITE = "x-headrace"  # a header that no page of another site can make a browser send
ANYONE = Principal("anyone", Role.ADMIN)  # where no token is asked for
_SAFE = ("GET", "HEAD")

Find = Callable[[str], Principal | None]


@dataclass(frozen=True, slots=True)
class Asking:
    """Who asks, and what they do."""

    principal: Principal
    action: Action

    def reaches(self, relation: str) -> bool:
        """Whether they may do it to a relation, and so know of it."""
        return allowed(self.principal, self.action, relation)

    def require(self, relation: str | None) -> None:
        """Raises ``view.unknown`` for a relation that they may not know of; for None, where they reach not all."""
        require(self.principal, self.action, relation)


class Gate:
    """Stands before every route: finds who asks, and lets through what ``ACTIONS`` says that they may do.

    ``find`` None: nobody is asked for a token, and requests carry one of the names ``hosts``.
    """

    def __init__(self, find: Find | None, hosts: frozenset[str] = frozenset()) -> None:
        self._find, self._hosts = find, hosts

    async def __call__(self, request: Request) -> None:
        """Raises ``access.token``, ``access.denied``, and ``view.unknown`` for a relation that they may not know of.

        What touches relations that are named in the body is checked by the route, by ``asking``.
        """
        if self._find is None and request.url.hostname not in self._hosts:
            raise HeadraceError("access.token", f"requests for the host '{request.url.hostname}' are not answered")
        action = ACTIONS[f"{request.method} {request.scope['route'].path_format}"]
        if action is None:
            return
        principal = self._principal(request)
        relation = request.path_params.get("name")
        if relation is None and RULES[action].scope is Scope.EACH:
            require(replace(principal, grants=()), action)
        else:
            require(principal, action, relation)
        request.state.asking = Asking(principal, action)

    def known(self, token: str) -> Principal:
        """Whose token it is. Raises ``access.token``."""
        principal = ANYONE if self._find is None else self._find(token)
        if principal is None:
            what = "the token is not known, is over, or was revoked" if token else "the request has no token"
            raise HeadraceError(
                "access.token", what,
                next="send the header 'Authorization: Bearer TOKEN'; the owner's is in .headrace/tokens/api",
            )  # fmt: skip
        return principal

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


def asking(request: Request) -> Asking:
    """Who asks; for routes that need a token."""
    found: Asking = request.state.asking
    return found
