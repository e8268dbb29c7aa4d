"""A consumer group: how it shares a feed among its readers, where it is, and what one of them is given."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.model.errors import HeadraceError

TABLE, VIEW, QUERY = "table", "view", "query"  # kinds of feed
_ID = re.compile(r"(\d{1,18})\.(\d{1,9})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Group:
    """A group as it stands. ``read``: the last commit of the feed that was handed out, or found to be of no concern.

    ``relation``: the table or view that the feed is made from; ``query``: the stored query of the view whose matches
    alone are followed. ``version``: another one for what is no continuation, 0 for a table. ``lease_us``: how long a
    reader has for a delivery. A transaction that was delivered ``max_deliveries`` times without an acknowledgement
    becomes a dead letter. ``in_flight``: how many may be unsettled at a time; 1: strictly in order. ``hold``: what it
    still needs may not be forgotten.
    """

    name: str
    relation: str
    kind: str
    version: int
    read: int
    lease_us: int
    max_deliveries: int
    in_flight: int
    hold: bool
    created_us: int
    query: str | None = None

    @property
    def follows(self) -> str:
        """The name of the feed."""
        return self.query or self.relation


@dataclass(frozen=True, slots=True)
class Open:
    """A transaction that was handed out and is not settled. ``consumer``: who had it last.

    ``leased``: a reader has it until ``until_us``; else it was given back and waits until then. ``last``: the number
    of its last delivery. ``payload``: what it holds, where that is kept here (a dead letter that is sent again).
    """

    commit: int
    attempt: int
    last: int
    snapshot: bool
    consumer: str
    leased: bool
    until_us: int
    reason: str
    payload: bytes | None

    @property
    def id(self) -> str:
        return delivery_id(self.commit, self.attempt)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A transaction that was given up after ``attempt`` deliveries, for ``reason``; ``payload``: what it holds."""

    number: int
    commit: int
    attempt: int
    reason: str
    at_us: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class GroupDelivery:
    """A whole transaction of a feed, for one reader. ``attempt``: how often it was delivered, this time included.

    ``changes``: of a table ``{"table", "op", "row"}``, of a view or query ``{"weight", "row"}``. ``snapshot``: all the
    contents at ``commit``, in the place of all before. ``committed_at``: ISO 8601, UTC. ``source``: of a table's.
    """

    id: str
    commit: int
    attempt: int
    snapshot: bool
    committed_at: str | None
    source: str | None
    changes: Sequence[Mapping[str, Any]]

    def as_dict(self) -> dict[str, Any]:
        """As JSON, over HTTP and from ``headrace groups read --json``."""
        return {
            "id": self.id, "commit": self.commit, "attempt": self.attempt, "snapshot": self.snapshot,
            "committed_at": self.committed_at, "source": self.source, "changes": list(self.changes),
        }  # fmt: skip


def delivery_id(commit: int, attempt: int) -> str:
    """``COMMIT.ATTEMPT``: by which one delivery of a transaction is acknowledged."""
    return f"{commit}.{attempt}"


def parsed_id(id: str) -> tuple[int, int]:
    """(commit, attempt). Raises ``HeadraceError`` (group.lease)."""
    found = _ID.fullmatch(id)
    if found is None:
        raise HeadraceError(
            "group.lease", f"'{id}' is no delivery", next="the id of a delivery is COMMIT.ATTEMPT, as it came"
        )
    return int(found[1]), int(found[2])
