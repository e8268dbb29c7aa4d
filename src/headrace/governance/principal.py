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


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks. ``grants``: patterns of the relations they reach, () for all; ``token``: its id, empty without one."""

    name: str
    role: Role
    grants: tuple[str, ...] = ()
    token: str = ""

    def reaches(self, relation: str) -> bool:
        """Whether they may know that there is such a view or table. Upper and lower case are one, as in SQL."""
        name = relation.casefold()
        return not self.grants or any(fnmatchcase(name, pattern.casefold()) for pattern in self.grants)

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
    if principal.role.rank < rule.least.rank:
        return False
    if not principal.grants:
        return True
    if rule.scope is Scope.PROJECT:
        return False
    if relation is None:
        return rule.scope is Scope.LISTED
    return principal.reaches(relation)


def require(principal: Principal, action: Action, relation: str | None = None) -> None:
    """Returns where that is allowed. Raises ``access.denied``; ``view.unknown`` for what they may not know of.

    The latter is the same whether there is such a relation or not.
    """
    if allowed(principal, action, relation):
        return
    rule = RULES[action]
    if principal.role.rank < rule.least.rank:
        raise HeadraceError(
            "access.denied", f"'{principal.name}' may not do this: {action}",
            why=f"its role is {principal.role}, and this takes {rule.least}",
            next=f"an admin makes another token: `headrace token create NAME --role {rule.least}`",
        )  # fmt: skip
    limits = ", ".join(principal.grants)
    if rule.scope is not Scope.PROJECT and relation is not None:
        raise HeadraceError(
            "view.unknown", f"there is no view or table '{relation}'", next=f"this token reaches: {limits}"
        )
    raise HeadraceError(
        "access.denied", f"'{principal.name}' may not do this: {action}",
        why=f"its token is limited to {limits}, and this is about the whole project",
        next=f"an admin makes another token: `headrace token create NAME --role {rule.least}`",
    )  # fmt: skip
