"""A position of a PostgreSQL source: where to resume, what the log holds by then, and of which server."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headrace.sources.connectors.postgres.stream import lsn_number, lsn_text


@dataclass(frozen=True, slots=True)
class Position:
    """Resume at ``lsn``. ``forms``: each relation that the log holds by then, with its form then (see ``form``; ""
    where an earlier version did not keep it). ``server``: system identifier and timeline, or "".
    """

    lsn: int
    forms: Mapping[str, str] = field(default_factory=dict)
    server: str = ""

    @property
    def tables(self) -> frozenset[str]:
        return frozenset(self.forms)


def tail(forms: Mapping[str, str], server: str) -> str:
    """The part of a position that is the same in all transactions of a batch."""
    names = sorted(forms)
    fields = {"tables": names, "forms": [forms[name] for name in names], "server": server}
    return json.dumps(fields)[1:]


def text(lsn: int, tail_text: str) -> str:
    """``{"lsn": "16/B374D848", "tables": ["accounts"], "forms": ["3f0c..."], "server": "7512.../1"}``."""
    return f'{{"lsn": "{lsn_text(lsn)}", {tail_text}'


def parse(position: str) -> Position:
    fields = json.loads(position)
    names = fields["tables"]
    forms = fields.get("forms", [""] * len(names))
    return Position(lsn_number(fields["lsn"]), dict(zip(names, forms, strict=True)), fields.get("server", ""))


def holding(lsn: int, tables: frozenset[str]) -> Callable[[str], bool]:
    """Whether a position is at ``lsn`` or beyond it, with these tables."""

    def holds(reached: str) -> bool:
        at = parse(reached)
        return at.lsn >= lsn and tables <= at.tables

    return holds
