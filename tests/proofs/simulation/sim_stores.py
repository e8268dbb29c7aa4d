"""Four stores behind the real protocol of a sink: transactions with a progress row and a generation, over a bad line.

A request may not arrive (``lost``), be done though nobody hears of it (``unknown``), or be done only later, when
whoever sent it has long gone on (``late``); a store may be down for long (``down``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa
from sim_world import World

from headrace.model.delivery import WEIGHT, Delivery
from headrace.model.errors import HeadraceError
from headrace.sinks.base import Sink
from headrace.sinks.target import Held, Target, diverged, other_history, pending, targets, went_back
from headrace.sinks.tenure import Tenure

LOG = "one log"
Rows = Counter[tuple[int, int]]
Answer = TypeVar("Answer")


@dataclass
class Contents:
    """What a transaction of the store sees and changes."""

    generation: int = 0
    commit: int | None = None
    log: str | None = None
    held: dict[str, Held] = field(default_factory=dict)
    rows: dict[str, Rows] = field(default_factory=dict)

    def copy(self) -> Contents:
        """For a transaction that may not come to its end; the rows of a view are never changed in place."""
        return Contents(self.generation, self.commit, self.log, dict(self.held), dict(self.rows))


class Store:
    """``looked``: told after every transaction that changed something."""

    def __init__(self, name: str, world: World, looked: Callable[[Store], None]) -> None:
        self.name, self.world, self.looked = name, world, looked
        self.contents = Contents()
        self.requests = 0
        self.late: list[Callable[[], object]] = []

    def ask(self, what: str, work: Callable[[Contents], Answer]) -> Answer:
        """One transaction. Raises what ``work`` does (nothing is changed then), and ``sink.connect``."""
        self.world.call(f"{self.name}.{what}")
        self.requests += 1
        if self.world.during("down", self.name) or self.world.due("lost", self.requests, self.name):
            raise self._broken(f"{what} did not arrive")
        if what == "write" and self.world.due("late", self.requests, self.name):  # a take-over waits for what is begun
            self.late.append(lambda: self._done(what, work))
            raise self._broken(f"{what} is under way")
        answer = self._done(what, work)
        self.world.call(f"{self.name}.{what} answered")
        if self.world.due("unknown", self.requests, self.name):
            raise self._broken(f"{what} was done")
        return answer

    def arrive(self) -> None:
        """What was under way is done, whoever still waits for it."""
        under_way, self.late = self.late, []
        for request in under_way:
            try:
                request()
            except HeadraceError as error:
                self.world.say(self.name, "refuses what comes late:", error.code)

    def _done(self, what: str, work: Callable[[Contents], Answer]) -> Answer:
        new = self.contents.copy()
        answer = work(new)
        changed, self.contents = (new.commit, new.rows) != (self.contents.commit, self.contents.rows), new
        self.world.say(self.name, what, "generation", new.generation, "commit", new.commit)
        if changed:
            self.looked(self)
        return answer

    def _broken(self, why: str) -> HeadraceError:
        self.world.say(self.name, "breaks:", why)
        return HeadraceError("sink.connect", "the connection broke", why=why)


class StoreSink(Sink):
    """One instance of the product at a store."""

    def __init__(self, store: Store) -> None:
        self.name, self.store = store.name, store
        self.quarantined = {}
        self.tenure = Tenure(draw=lambda: store.world.rng.randrange(2, 1000))
        self.reached: int | None = None

    def open(self, end: int | None = None) -> int | None:
        step = self.tenure.step

        def take_over(contents: Contents) -> tuple[int | None, str]:
            contents.generation = self.tenure.take_over(contents.generation, step)
            anew = other_history(contents.commit, contents.log, LOG, end)
            contents.log = LOG
            if anew:
                contents.commit, contents.held = None, {}
            return contents.commit, anew

        self.reached, self.anew = self.store.ask("open", take_over)
        self.tenure.took()
        return self.reached

    def held(self) -> dict[str, int]:
        return self.store.ask("held", lambda contents: {view: it.version for view, it in contents.held.items()})

    def write(self, delivery: Delivery) -> None:
        tenure, checked, reached = copy(self.tenure), targets(delivery, {}), self.reached
        self.store.ask("write", lambda contents: _write(contents, delivery, checked, tenure, reached))
        self.reached = max(delivery.commit, reached or delivery.commit)

    def close(self) -> None:
        """Nothing is open between two requests."""


def _write(
    contents: Contents, delivery: Delivery, checked: dict[str, Target], tenure: Tenure, reached: int | None
) -> None:
    tenure.check(contents.generation)
    frontier = contents.commit
    if reached is not None and (frontier is None or frontier < reached):
        raise went_back(frontier, reached)
    due = pending(delivery, frontier, contents.held, checked)
    for view in due.dropped:
        del contents.held[view], contents.rows[view]
    for view, table in due.replacements.items():
        contents.rows[view] = _added(Counter(), view, table)
        contents.held[view] = Held(checked[view].version, delivery.commit, checked[view].key, checked[view].declared)
    for view, table in due.deltas.items():
        contents.rows[view] = _added(Counter(contents.rows[view]), view, table)
    if frontier is None or delivery.commit > frontier:
        contents.commit = delivery.commit


def _added(rows: Rows, view: str, table: pa.Table) -> Rows:
    for identity, amount, weight in zip(*(table[c].to_pylist() for c in ("id", "amount", WEIGHT)), strict=True):
        rows[identity, amount] += weight
        if rows[identity, amount] < 0:
            raise diverged(view, f"a row ({identity}, {amount}) goes that is not there")
    return +rows
