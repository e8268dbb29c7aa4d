"""Tokens as the passwords of PostgreSQL's protocol."""

from __future__ import annotations

from collections.abc import Callable

from headrace.api.postgres.reading import Asker
from headrace.api.postgres.startup import Authenticate
from headrace.governance.access import Access
from headrace.governance.principal import allowed
from headrace.governance.roles import Action


def passwords(access: Access) -> Authenticate:
    """What finds who asks by the token that was given as the password; the user's name is free."""

    def known(user: str, password: str, address: str) -> Asker:
        access.known(password, address=address)

        def reaches() -> Callable[[str], bool]:
            principal = access.known(password, address=address)
            return lambda relation: allowed(principal, Action.SQL, relation)

        return Asker(user, reaches)

    return known
