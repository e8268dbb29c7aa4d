"""A query as a tree: what a row must be like. Columns are named by the id of their field."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Every:
    """Every row."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words in a row, each with its place: in any one of these columns, at most ``slop`` moves away from that order.

    ``prefix``: the last of them may go on.
    """

    fields: tuple[str, ...]
    words: tuple[tuple[int, str], ...]
    slop: int = 0
    prefix: bool = False


@dataclass(frozen=True, slots=True)
class Pattern:
    """A word that a regular expression matches as a whole."""

    field: str
    expression: str


@dataclass(frozen=True, slots=True)
class Between:
    """A number that is at least ``low`` and at most ``high``; None: no bound. No number where ``low`` is above it."""

    field: str
    low: int | float | None
    high: int | float | None


@dataclass(frozen=True, slots=True)
class Present:
    """A value that is not NULL."""

    field: str


@dataclass(frozen=True, slots=True)
class Group:
    """All of ``every``, none of ``no``, and without ``every`` at least one of ``some``, where there are any."""

    every: tuple[Node, ...] = field(default=())
    some: tuple[Node, ...] = field(default=())
    no: tuple[Node, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Boosted:
    """What counts ``factor`` times in the score."""

    node: Node
    factor: float


Node: TypeAlias = Every | Phrase | Pattern | Between | Present | Group | Boosted
