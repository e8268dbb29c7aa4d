"""Tokens as the passwords of PostgreSQL's clients."""

from __future__ import annotations

from collections.abc import Callable

from headrace.api.postgres.reading import Asker
from headrace.api.postgres.startup import Authenticate
from headrace.governance.access import Access
from headrace.governance.principal import Principal, allowed
from headrace.governance.roles import Action


def passwords(access: Access) -> Authenticate:
    """Who connects with a token of the project; raises ``access.token`` for any other password."""

    def known(user: str, password: str, address: str) -> Asker:
        access.known(password, address=address)

        def principal() -> Principal:
            return access.known(password, address=address)

        def reaches() -> Callable[[str], bool]:
            now = principal()
            return lambda relation: allowed(now, Action.SQL, relation)

        return Asker(user, reaches, principal, address)

    return known
