"""Statements that a connection keeps: as they were parsed, and with their parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.api.postgres import statements
from headrace.api.postgres.portals import Portal
from headrace.api.postgres.result import ResultColumn
from headrace.model.errors import HeadraceError
from headrace.sql.lexer import Token

KEPT = 1_000  # prepared statements, and portals, of one connection at most


@dataclass
class Prepared:
    """A statement that was parsed. ``columns``: as they were described to the client; ``decided``: ``declared`` has the
    types of columns that parameters are compared with."""

    tokens: list[Token]
    statement: statements.Statement | None
    declared: list[int]
    columns: list[ResultColumn] | None = None
    decided: bool = False


@dataclass
class Opened:
    """A statement with its parameters: a portal, or a command, which runs when it is executed.

    ``hold``: it stays when its transaction ends.
    """

    prepared: Prepared
    bound: Sequence[Any]
    portal: Portal | None = None
    hold: bool = False


def bounded(kept: Mapping[str, Any], what: str) -> None:
    """Raises ``psql.busy`` where no more are kept."""
    if len(kept) >= KEPT:
        raise HeadraceError(
            "psql.busy", f"this connection has {len(kept):,} {what}: no more are kept", next="close some"
        )  # fmt: skip
