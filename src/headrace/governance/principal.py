"""Who asks, and the one function that decides whether they may."""

from __future__ import annotations

import os
import pwd
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

from headrace.governance.roles import RULES, Action, Role, Scope
from headrace.model.errors import HeadraceError

PATTERN = re.compile(r"[\w.*?$-]{1,128}")  # of names: `*` any letters, `?` one letter
FAILED = "it has failed"


def greatest(*roles: Role) -> Role:
    by_rank = {role.rank: role for role in roles}
    return by_rank[max(by_rank)]


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks. ``grants``: patterns of the relations they reach, () for all; ``token``: its id, empty without one.

    ``raised``: (role, pattern) of relations that they reach too, and to which they may do more.
    """

    name: str
    role: Role
    grants: tuple[str, ...] = ()
    token: str = ""
    raised: tuple[tuple[Role, str], ...] = ()

    def reaches(self, relation: str) -> bool:
        """Whether they may know that there is such a view or table."""
        return bool(self._roles(relation))

    def role_on(self, relation: str | None) -> Role:
        """The greatest role that they have there; to the project (None), and to what they do not reach, their own."""
        return greatest(*((self._roles(relation) if relation else ()) or [self.role]))

    @property
    def somewhere(self) -> Principal:
        """As they are where they may most."""
        return Principal(self.name, greatest(self.role, *(role for role, _ in self.raised)), token=self.token)

    @property
    def limits(self) -> str:
        """The patterns of what they reach, in words."""
        return ", ".join((*self.grants, *(pattern for _, pattern in self.raised)))

    def _roles(self, relation: str) -> list[Role]:
        """Upper and lower case are one, as in SQL."""
        name = relation.casefold()
        own = [self.role] if not self.grants or any(fnmatchcase(name, p.casefold()) for p in self.grants) else []
        return own + [role for role, pattern in self.raised if fnmatchcase(name, pattern.casefold())]

    def told(self, reason: str) -> str:
        """Why a view has failed, as far as they may hear it: it can name what a limited one does not know of."""
        return FAILED if reason and self.grants else reason


ANYONE = Principal("anyone", Role.ADMIN)  # where no token is asked for


def local() -> Principal:
    """Who runs a command in the project's folder: the user of the machine, who may do all, as they own its files."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may run as a user without a name
        name = str(os.getuid())
    return Principal(name, Role.ADMIN)


def allowed(principal: Principal, action: Action, relation: str | None = None) -> bool:
    """Whether ``principal`` may do this: to ``relation``, or where it is None to the project (see ``Scope``)."""
    rule = RULES[action]
    named = relation if rule.scope is not Scope.PROJECT else None
    if principal.role_on(named).rank < rule.least.rank:
        return False
    if named is not None:
        return principal.reaches(named)
    return not principal.grants or (rule.scope is Scope.LISTED and relation is None)


def require(principal: Principal, action: Action, relation: str | None = None) -> None:
    """Returns where that is allowed. Raises ``access.denied``; ``view.unknown`` for what they may not know of.

    The latter is the same whether there is such a relation or not.
    """
    if allowed(principal, action, relation):
        return
    rule = RULES[action]
    role = principal.role_on(relation if rule.scope is not Scope.PROJECT else None)
    if role.rank < rule.least.rank:
        raise HeadraceError(
            "access.denied", f"'{principal.name}' may not do this: {action}",
            why=f"its role is {role}, and this takes {rule.least}",
            next=f"an admin makes another token: `headrace token create NAME --role {rule.least}`",
        )  # fmt: skip
    if rule.scope is not Scope.PROJECT and relation is not None:
        raise HeadraceError(
            "view.unknown", f"there is no view or table '{relation}'", next=f"this token reaches: {principal.limits}"
        )
    raise HeadraceError(
        "access.denied", f"'{principal.name}' may not do this: {action}",
        why=f"its token is limited to {principal.limits}, and this is about the whole project",
        next=f"an admin makes another token: `headrace token create NAME --role {rule.least}`",
    )  # fmt: skip
