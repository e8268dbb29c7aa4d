"""Statements about definitions: who may, what is written down of it, and the verbs that carry it out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from headrace.api.postgres.portals import Told, told
from headrace.api.postgres.reading import Asker
from headrace.control import statements
from headrace.control.look import look
from headrace.governance.access import Access
from headrace.governance.principal import Principal, allowed
from headrace.governance.roles import Action
from headrace.model.errors import HeadraceError
from headrace.sql.definitions import Change, Create, Explain, List, Look, ShowCreate

# (verb, arguments, progress) -> its answer: that of the control socket.
Call = Callable[[str, dict[str, Any], Callable[[dict[str, Any]], None]], dict[str, Any]]


ASKING = 8  # calls of the control socket at a time; the others of `control.socket.CLIENTS` are for whoever else asks
QUERY_CHARS = 1_000_000  # of a new query that is to be explained


class Defining:
    """What a running project's connections share. ``folder``: of the project."""

    def __init__(self, call: Call, access: Access, folder: Path) -> None:
        self._call, self._access, self._folder = call, access, folder
        self._asking = threading.Semaphore(ASKING)
        self._explaining = threading.Lock()

    def require(self, asker: Asker, statement: Change) -> Principal:
        """Raises ``access.denied``.

        Options of a connector can name any file, variable and address that the project's process reaches, so they are
        an admin's; the SQL of a view reaches rows alone.
        """
        principal = asker.principal()
        takes = _changing(statement) if statement.kind == "view" else Action.CONNECTOR
        self._access.require(principal, takes, statement.name, address=asker.address)
        return principal

    def change(self, asker: Asker, changes: Sequence[Change]) -> list[list[str]]:
        """CREATE and DROP, all or none; what the client is to be told of each. Raises what refuses them, also
        ``access.denied``. Each is written down as itself."""

        def verb(name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
            with ExitStack() as doing:
                for statement, principal in asking:
                    action, detail = _changing(statement), {"kind": statement.kind}
                    done = self._access.doing(
                        principal, action, statement.name, address=asker.address, detail=detail
                    )  # fmt: skip
                    doing.enter_context(done)
                return self._asked(name, arguments)

        asking = [(statement, self.require(asker, statement)) for statement in changes]
        return statements.change(changes, verb) if changes else []

    def tell(self, asker: Asker, statement: Look) -> Told:
        """SHOW and EXPLAIN. Raises ``access.denied``, ``view.unknown`` and the like."""
        principal, action = asker.principal(), _action(statement)
        self._access.require(principal, action, address=asker.address)
        if isinstance(statement, Explain):
            return told(["QUERY PLAN"], [[line] for line in self._explained(statement)])
        secrets = allowed(principal, Action.CONNECTOR)  # who may write them may read them
        shown = look(self._folder, statement, lambda relation: allowed(principal, action, relation), secrets=secrets)
        return told(shown.columns, shown.rows)

    def _explained(self, statement: Explain) -> list[str]:
        if statement.sql is None:
            return statements.explain(statement, self._asked)
        if len(statement.sql) > QUERY_CHARS:
            raise HeadraceError(
                "sql.refused", f"a query of {len(statement.sql):,} characters is not explained",
                next=f"at most {QUERY_CHARS:,} are",
            )  # fmt: skip
        with self._explaining:  # each is compiled between two steps
            return statements.explain(statement, self._asked)

    def _asked(self, verb: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        with self._asking:
            return self._call(verb, dict(arguments), _unheard)


def _changing(statement: Change) -> Action:
    return Action.CREATE if isinstance(statement, Create) else Action.DROP


def _action(statement: Look) -> Action:
    """As the routes of the API: what a connector is told may have a secret in it, and a new query is compiled between
    two steps."""
    if isinstance(statement, Explain):
        return Action.EXPLAIN if statement.sql is None else Action.PLAN
    if isinstance(statement, ShowCreate):
        return Action.READ if statement.kind == "view" else Action.PLAN
    return Action.STATUS if isinstance(statement, List) and statement.what in ("sources", "sinks") else Action.READ


def _unheard(event: dict[str, Any]) -> None:
    """Progress: no client of the protocol follows it."""
