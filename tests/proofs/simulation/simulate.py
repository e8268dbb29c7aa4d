"""The product in one thread, in a world that a seed draws: sources, log, coordinator, catalogue, delivery, stores.

    python tests/proofs/simulation/simulate.py --seed 7            # once more, with its trace
    python tests/proofs/simulation/simulate.py --first 1 --seeds 10000

Whose turn is next, what is made at a source, and every fault follow from the seed alone: the same seed gives the same
trace, byte for byte. First everything may fail; then nothing does, and all must arrive.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sim_disk import Disk
from sim_judge import Judge
from sim_process import Process, simulated
from sim_sources import TABLES, Client, Drops, Followed, Server, pushed_source
from sim_stores import Store
from sim_world import STORES, TICKS, Crash, Fault, World, drawn

from headrace.engine.deliver import Deliver
from headrace.model.errors import HeadraceError

ROUNDS = 60  # of everybody, once nothing fails any more
EVERYBODY = ("client", *TABLES, "step", *STORES, "tidy", "merge")
OFTEN = {
    "client": 4,
    "pushed": 4,
    "bank": 3,
    "step": 3,
    **dict.fromkeys(STORES, 2),
}  # the others' turn comes less often


@dataclass
class Outcome:
    seed: int
    wrong: list[str]
    digest: str
    trace: list[str]
    looks: int
    deaths: int


class Simulation:
    def __init__(self, seed: int, faults: Sequence[Fault], folder: Path) -> None:
        self.world = World(seed, faults)
        self.each = random.Random(f"{seed} each").random() < 0.5
        home = folder / "project"
        (home / "state").mkdir(parents=True)
        self.disk = Disk(self.world, home)
        self.judge = Judge(self.world)
        self.server, self.client, self.drops = (
            Server(self.world), Client(self.world), Drops(self.world, folder / "drops"),
        )  # fmt: skip
        self.stores = {name: Store(name, self.world, self.judge.look) for name in STORES}
        self.process: Process | None = None
        self.ready: dict[str, float] = {}
        self.zombies: list[Deliver] = []
        self.deaths = 0
        self.cuts = random.Random(f"{seed} cuts")

    def run(self) -> None:
        with simulated(self.world, self.disk):
            for tick in range(TICKS):
                self.world.tick = tick
                self.world.pass_time(self.world.rng.random() * 0.2)
                self.happens()
                self.guarded(self.turn)
            self.world.calm = True
            self.world.say("calm")
            for number in range(ROUNDS):
                self.world.tick += 1
                self.world.pass_time(5.0)
                self.everybody(EVERYBODY if number % 4 == 3 else ("client", *TABLES))
                if self.arrived():
                    break
            self.judge.end(self.server, self.client, self.drops, self.stores)
            if self.process is not None:
                self.process.gone()
                self.disk.let_go()

    def happens(self) -> None:
        """What nobody of the product decides."""
        rng = self.world.rng
        if rng.random() < 0.12:
            self.server.commit()
        if rng.random() < 0.10:
            self.client.wanted += 1
        if rng.random() < 0.06:
            self.drops.make()
        for store in self.stores.values():
            if store.late and rng.random() < 0.2:
                store.arrive()
            if self.world.due("zombie", self.world.tick, store.name):
                self.zombie(store.name)
        if self.zombies and rng.random() < 0.3:
            old = rng.choice(self.zombies)
            self.world.say("an old instance wakes:", old.sink.name)
            self.world.apart = True
            if old.turn() is None:
                self.zombies.remove(old)
            self.world.apart = False

    def zombie(self, name: str) -> None:
        """The process stands still, and is taken for dead; its sinks wake up later."""
        if self.process is None:
            return
        self.world.say("stands still")
        old = self.process
        self.zombies += [d for d in old.delivers if d.sink.name == name and d.sink.tenure.generation is not None]
        self.disk.let_go()
        self.over(keep=True)

    def turn(self) -> None:
        if self.process is None:
            self.start()
            return
        names = ["client", *(n for n in self.process.turns if self.ready.get(n, 0.0) <= self.world.passed_s)]
        self.take(self.world.rng.choices(names, [OFTEN.get(name, 1) for name in names])[0])

    def take(self, name: str) -> None:
        assert self.process is not None
        if name == "client":
            if self.process.listening["pushed"]():
                self.client.turn(self.process.sources["pushed"])
            return
        wait_s = self.process.turns[name]()
        self.ready[name] = self.world.passed_s + wait_s if wait_s is not None else float("inf")
        if name == "step":
            self.judge.publishes(self.process.engine.frontier)
        if wait_s is None and self.process.log.failed is not None:
            self.world.say("stops: the log takes no more")
            self.end()
        elif wait_s is None:
            self.world.violated(f"{name} has ended for good")
        if name in self.stores and self.process is not None:
            self.judge.told({n: at for n, (at, _, _) in self.process.catalog.sinks().items()}, self.stores)

    def guarded(self, turn: object) -> None:
        """A turn, at which the process may die, or fail and be started again."""
        try:
            turn()  # type: ignore[operator]
        except Crash:
            self.end()
        except (HeadraceError, OSError) as error:
            self.world.say("fails:", type(error).__name__, str(error)[:200].replace(str(self.disk.folder), ""))
            if self.world.calm:
                self.world.violated(f"fails: {error}")
            self.end()

    def start(self) -> None:
        self.world.say("starts")
        sources = [Followed(self.server), pushed_source(), self.drops.source()]
        self.ready.clear()
        self.process = Process(self.world, self.disk, sources, self.stores, self.each)
        self.judge.publishes(self.process.engine.frontier)

    def end(self) -> None:
        """The process ends, as whatever killed it left it."""
        self.deaths += 1
        died, self.world.died = self.world.died, None
        self.world.dead = False
        self.disk.let_go()
        if died is not None and died.kind == "power":
            self.zombies.clear()
            if self.process is not None:
                self.process.gone()
            self.disk.cut(self.cuts)
            self.process = None
        self.over(keep=False)

    def over(self, *, keep: bool) -> None:
        if self.process is not None and not keep:
            self.process.gone()
        self.process = None
        self.client.hung_up()

    def everybody(self, names: Sequence[str]) -> None:
        for store in self.stores.values():
            store.arrive()
        if self.process is None:
            self.guarded(self.start)
        for name in names:
            if self.process is not None:
                self.guarded(lambda name=name: self.take(name))

    def arrived(self) -> bool:
        given = self.server.committed + self.client.wanted + self.drops.made
        there = all(store.contents.commit == given for store in self.stores.values())
        return there and self.client.kept == self.client.wanted and self.server.confirmed == self.server.committed


def run(seed: int, faults: Sequence[Fault] | None = None) -> Outcome:
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(dir=base, prefix="headrace-simulation-"))
    try:
        simulation = Simulation(seed, drawn(seed) if faults is None else faults, folder)
        world = simulation.world
        try:
            simulation.run()
        except Exception as error:
            world.violated(f"{type(error).__name__}: {error}".replace(str(folder), ""))
        return Outcome(seed, world.wrong, world.digest, world.trace, simulation.judge.looks, simulation.deaths)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def shrunk(seed: int) -> list[Fault]:
    """The faults of a failing seed without which it would not fail: each is left out by itself."""
    faults = drawn(seed)
    for fault in list(faults):
        fewer = [f for f in faults if f is not fault]
        if run(seed, fewer).wrong:
            faults = fewer
    return faults


def told(seed: int) -> str:
    """A failing seed in words, with the command that repeats it."""
    faults = shrunk(seed)
    wrong = run(seed, faults).wrong
    what = ", ".join(map(str, faults)) or "none"
    first = wrong[0] if wrong else "not a second time"
    return f"seed {seed}: {first}\n  faults: {what}\n  python tests/proofs/simulation/simulate.py --seed {seed}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, help="this one, with its trace")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=100)
    given = parser.parse_args()
    if given.seed is not None:
        outcome = run(given.seed)
        print("\n".join([*map(str, drawn(given.seed)), *outcome.trace, outcome.digest]))
        return len(outcome.wrong)
    began, failed, looks, deaths = time.process_time(), 0, 0, 0
    for seed in range(given.first, given.first + given.seeds):
        outcome = run(seed)
        looks, deaths = looks + outcome.looks, deaths + outcome.deaths
        if outcome.wrong:
            failed += 1
            print(told(seed), flush=True)
        if seed % 500 == 0:
            gc.collect()
    spent = time.process_time() - began
    print(
        f"{given.seeds:,} seeds from {given.first}: {failed} wrong, {deaths:,} ends of a process,"
        f" {looks:,} looks at a store, {spent:.0f} s of processor, {spent / given.seeds * 1000:.0f} ms a seed"
    )
    return failed


if __name__ == "__main__":
    sys.exit(min(main(), 100))
