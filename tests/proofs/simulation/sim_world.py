"""The world that a seed draws: what will fail and when, the clock, the trace. Nothing here is of the product.

Every contact with the world is a numbered call; a process may die at any of them. Faults are drawn before anything
runs, each by itself, so that one can be left out and all the rest stays as it was.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

STORES = ("steady", "unsure", "away", "each")
TICKS = 80
CALLS = 400  # about so many take a run; what is to happen at a later call does not happen


class Crash(BaseException):
    """The process is dead: nothing of it may go on, not even what catches every ``Exception``."""


@dataclass(frozen=True, slots=True)
class Fault:
    """``at``: a call's number for ``kill``, ``power`` and ``sync``, of a store's requests for ``lost``, ``unknown`` and
    ``late``, of the answers to clients for ``dropped``; a tick for all others. ``upto``: the tick that ends it, or by
    how many seconds the clock jumps.
    """

    kind: str
    at: int
    upto: int = 0
    store: str = ""

    def __str__(self) -> str:
        return " ".join(str(part) for part in (self.kind, self.at, self.upto or "", self.store) if part != "")


def drawn(seed: int) -> list[Fault]:
    """The faults of a seed, in an order of no meaning."""
    rng = random.Random(f"{seed} faults")
    faults = [Fault(rng.choice(["kill", "power"]), rng.randrange(1, CALLS)) for _ in range(rng.randrange(4))]
    faults += [Fault("sync", rng.randrange(1, CALLS)) for _ in range(rng.random() < 0.15)]
    faults += [Fault("dropped", rng.randrange(8)) for _ in range(rng.randrange(3))]
    faults += [Fault("unconfirmed", rng.randrange(10)) for _ in range(rng.randrange(3))]
    faults += [Fault("clock", rng.randrange(TICKS), rng.choice([-86400, -1, 3600])) for _ in range(rng.randrange(2))]
    for _ in range(rng.random() < 0.25):
        begin = rng.randrange(TICKS)
        faults.append(Fault("full", begin, begin + rng.randrange(1, 25)))
    for store, likely in zip(STORES, (1, 4, 2, 3), strict=True):
        faults += [
            Fault(rng.choice(["lost", "unknown", "late"]), rng.randrange(12), store=store)
            for _ in range(rng.randrange(likely))
        ]
    begin = rng.randrange(TICKS // 2)
    faults.append(Fault("down", begin, begin + rng.randrange(TICKS // 2, TICKS), "away"))
    faults += [Fault("zombie", rng.randrange(10, TICKS), store=rng.choice(STORES)) for _ in range(rng.randrange(3))]
    return faults


class World:
    """The clock, the calls, the trace, and which faults are still to come."""

    def __init__(self, seed: int, faults: Sequence[Fault]) -> None:
        self.seed = seed
        self.rng = random.Random(f"{seed} turns")
        self.faults = {(f.kind, f.at, f.store): f for f in faults}
        self.lasting = [f for f in faults if f.kind in {"full", "down"}]
        self.calm = False  # no more faults
        self.calls = 0
        self.tick = 0
        self.dead = False
        self.apart = False  # what is called now is not of the process that may die
        self.died: Fault | None = None
        self.wall_us = 1_700_000_000_000_000
        self.passed_s = 0.0
        self.wrong: list[str] = []
        self._hash = hashlib.sha256()
        self.trace: list[str] = []

    def say(self, *words: object) -> None:
        line = f"{self.tick} {self.calls} " + " ".join(map(str, words))
        self._hash.update(line.encode() + b"\n")
        self.trace.append(line)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def violated(self, what: str) -> None:
        self.say("WRONG", what)
        self.wrong.append(what)

    def call(self, name: str) -> None:
        """A call of the process to the world; it may be its last."""
        if self.apart:
            return
        if self.dead:
            raise Crash
        self.calls += 1
        fault = self.due("kill", self.calls) or self.due("power", self.calls)
        if fault is not None:
            self.dead, self.died = True, fault
            self.say("dies", fault.kind, "at", name)
            raise Crash

    def due(self, kind: str, at: int, store: str = "") -> Fault | None:
        """The fault of this kind at this place, if there is one."""
        return None if self.calm else self.faults.get((kind, at, store))

    def during(self, kind: str, store: str = "") -> bool:
        """Whether a fault that lasts is on."""
        return not self.calm and any(
            f.kind == kind and f.store == store and f.at <= self.tick < f.upto for f in self.lasting
        )

    def pass_time(self, seconds: float) -> None:
        self.passed_s += seconds
        self.wall_us += int(seconds * 1_000_000)
        fault = self.due("clock", self.tick)
        if fault is not None:
            self.wall_us += fault.upto * 1_000_000

    # What the product asks the module `time` for.

    def time_ns(self) -> int:
        return self.wall_us * 1000

    def time(self) -> float:
        return self.wall_us / 1_000_000

    def monotonic(self) -> float:
        return self.passed_s

    def perf_counter(self) -> float:
        return time.perf_counter()

    def sleep(self, seconds: float) -> None:
        self.pass_time(seconds)
