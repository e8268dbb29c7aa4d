"""What a connection keeps: statements as they were parsed, and with their parameters; and how much of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headrace.api.postgres import statements
from headrace.api.postgres.portals import Portal
from headrace.api.postgres.result import ResultColumn
from headrace.api.postgres.settings import Settings
from headrace.model.errors import HeadraceError
from headrace.sql.lexer import Token

KEPT = 1_000  # prepared statements, and portals, of one connection at most
CHARS = 24_000_000  # of both, their values and its settings together: the longest text with the largest message


@dataclass
class Prepared:
    """A statement that was parsed. ``columns``: as they were described to the client; ``decided``: ``declared`` has the
    types of columns that parameters are compared with."""

    tokens: list[Token]
    statement: statements.Statement | None
    declared: list[int]
    columns: list[ResultColumn] | None = None
    decided: bool = False

    @cached_property
    def chars(self) -> int:
        return sum(len(token.text) for token in self.tokens)


@dataclass
class Opened:
    """A statement with its parameters: a portal, or a command, which runs when it is executed.

    ``hold``: it stays when its transaction ends; ``given``: how many bytes its values came in.
    """

    prepared: Prepared
    bound: Sequence[Any]
    portal: Portal | None = None
    hold: bool = False
    given: int = 0

    @property
    def chars(self) -> int:
        return self.prepared.chars + self.given


class Kept:
    """Prepared statements, and portals, of which cursors are some, of one connection, by their names.

    What would be more than is kept raises ``psql.busy``, or ``psql.full`` by its characters.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.prepared: dict[str, Prepared] = {}
        self.portals: dict[str, Opened] = {}

    def prepare(self, name: str, prepared: Prepared) -> None:
        """One without a name takes the place of the one before. Raises ``psql.exists``."""
        if name and name in self.prepared:
            raise HeadraceError("psql.exists", f"there is a prepared statement '{name}' already")
        self.prepared.pop(name, None)
        _bounded(self.prepared, "prepared statements")
        self.check(prepared.chars)
        self.prepared[name] = prepared

    def statement(self, name: str) -> Prepared:
        """Raises ``psql.unknown``."""
        if name not in self.prepared:
            raise HeadraceError("psql.unknown", f"there is no prepared statement '{name}'")
        return self.prepared[name]

    def make_room(self, name: str, kind: str, chars: int) -> None:
        """For a portal, or another ``kind`` of it, of that name; for one without a name the one before goes. Raises
        ``psql.exists``."""
        if name and name in self.portals:
            raise HeadraceError("psql.exists", f"there is a {kind} '{name}' already")
        self.drop(name)
        _bounded(self.portals, f"{kind}s")
        self.check(chars)

    def portal(self, name: str) -> Opened:
        """Raises ``psql.cursor``."""
        if name not in self.portals:
            raise HeadraceError("psql.cursor", f"there is no portal '{name}'")
        return self.portals[name]

    def cursor(self, name: str) -> Portal:
        """Raises ``psql.cursor``."""
        opened = self.portals.get(name)
        if opened is None or opened.portal is None:
            raise HeadraceError(
                "psql.cursor", f"there is no cursor '{name}'", next="DECLARE it within this transaction"
            )
        return opened.portal

    def drop(self, name: str) -> None:
        opened = self.portals.pop(name, None)
        if opened is not None and opened.portal is not None:
            opened.portal.close()

    def end(self, *, everything: bool) -> None:
        """Portals end with their transaction, but those that are held; or ``everything`` does."""
        for name in [name for name, opened in self.portals.items() if everything or not opened.hold]:
            self.drop(name)

    def check(self, chars: int) -> None:
        """Raises ``psql.full`` where so many characters more are not kept."""
        others = sum(each.chars for each in self.prepared.values()) + self._settings.chars
        others += sum(each.chars for each in self.portals.values())
        if others + chars > CHARS:
            raise HeadraceError(
                "psql.full", f"this connection keeps {others:,} characters, and no {chars:,} more",
                why=f"of statements, their values and settings together it keeps at most {CHARS:,}",
                next="DEALLOCATE or CLOSE what is not used any more; DISCARD ALL drops all of it",
            )  # fmt: skip


def _bounded(kept: Mapping[str, Any], what: str) -> None:
    """Raises ``psql.busy`` where no more are kept."""
    if len(kept) >= KEPT:
        raise HeadraceError(
            "psql.busy", f"this connection has {len(kept):,} {what}: no more are kept", next="close some"
        )  # fmt: skip
