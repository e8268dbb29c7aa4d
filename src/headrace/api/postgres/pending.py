"""Definitions that a transaction changes: taken together at its end, and until then nothing of them is done."""

from __future__ import annotations

from headrace.api.postgres.statements import Savepoint
from headrace.model.errors import HeadraceError
from headrace.sql.definitions import Change, Create

CHANGES, CHARS = 1_000, 4_000_000  # that wait in one connection, at most


class Pending:
    """``changes``: in the order in which they came."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self._savepoints: list[tuple[str, int]] = []  # the name, and how many there were then

    def add(self, change: Change) -> None:
        """Raises ``psql.busy`` beyond what is kept."""
        chars = sum(len(each.text) for each in (*self.changes, change) if isinstance(each, Create))
        if len(self.changes) >= CHANGES or chars > CHARS:
            raise HeadraceError(
                "psql.busy", f"this transaction has {len(self.changes):,} definitions: no more are kept",
                next=f"COMMIT before there are {CHANGES:,}, or {CHARS:,} characters of them",
            )  # fmt: skip
        self.changes.append(change)

    def savepoint(self, statement: Savepoint) -> None:
        """A new one, or back to one, or one is forgotten. Raises ``psql.savepoint`` where there is none."""
        if statement.tag == "SAVEPOINT":
            self._savepoints.append((statement.name, len(self.changes)))
            return
        places = [place for place, (name, _) in enumerate(self._savepoints) if name == statement.name]
        if not places:
            raise HeadraceError(
                "psql.savepoint", f"there is no savepoint '{statement.name}'", next="SAVEPOINT name begins one"
            )
        back = statement.tag == "ROLLBACK"
        if back:
            del self.changes[self._savepoints[places[-1]][1] :]
        del self._savepoints[places[-1] + back :]

    def taken(self) -> list[Change]:
        """All of them; none wait any more."""
        changes = self.changes
        self.clear()
        return changes

    def clear(self) -> None:
        self.changes, self._savepoints = [], []
