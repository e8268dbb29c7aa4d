"""Definitions that a transaction changes: taken together at its end, and until then nothing of them is done."""

from __future__ import annotations

from headrace.api.postgres.statements import End, Savepoint, Statement
from headrace.model.errors import HeadraceError
from headrace.sql.definitions import Change, Create

CHANGES, CHARS = 1_000, 4_000_000  # that wait in one connection, at most
SAVEPOINTS = 10_000  # of one transaction, at most


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

    def savepoint(self, statement: Savepoint, *, inside: bool) -> int:
        """A new one, or back to one, or one is forgotten: how many there are now. ``inside``: of a transaction.

        Raises ``psql.outside``, ``psql.savepoint`` where there is none, ``psql.full`` where there are too many.
        """
        if not inside:
            raise HeadraceError("psql.outside", "a savepoint is within a transaction, and there is none", next="BEGIN")
        if statement.tag == "SAVEPOINT":
            if len(self._savepoints) >= SAVEPOINTS:
                raise HeadraceError(
                    "psql.full", f"this transaction has {SAVEPOINTS:,} savepoints: no more are kept",
                    next="ROLLBACK TO an earlier one forgets those after it; RELEASE those that nobody goes back to",
                )  # fmt: skip
            self._savepoints.append((statement.name, len(self.changes)))
            return len(self._savepoints)
        places = [place for place, (name, _) in enumerate(self._savepoints) if name == statement.name]
        if not places:
            raise HeadraceError(
                "psql.savepoint", f"there is no savepoint '{statement.name}'", next="SAVEPOINT name begins one"
            )
        if statement.back:
            del self.changes[self._savepoints[places[-1]][1] :]
        del self._savepoints[places[-1] + statement.back :]
        return len(self._savepoints)

    def taken(self) -> list[Change]:
        """All of them; none wait any more."""
        changes = self.changes
        self.clear()
        return changes

    def clear(self) -> None:
        self.changes, self._savepoints = [], []


def require_sound(statement: Statement | None, failed: bool) -> None:
    """Raises ``psql.transaction`` for what a transaction that has ``failed`` does not take: all that is no way back."""
    back = isinstance(statement, End) or (isinstance(statement, Savepoint) and statement.back)
    if failed and not back:
        raise HeadraceError(
            "psql.transaction", "a statement of this transaction has failed: it takes no more of them",
            next="ROLLBACK, then begin anew",
        )  # fmt: skip
