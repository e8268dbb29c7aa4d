"""Goal: a sink that is off for a while costs the others nothing, and once it is back it has all, in order.

Method: four sinks of one log, two PostgreSQL servers and two DuckDB files, under steady transactions. One of each kind is
off again and again: its server killed, its file held open by somebody else. What the others lag behind is compared
between the times in which it is there and those in which it is off. Triggers write down what the servers go through.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest
from live_bank import SHOWN, LiveBank
from proof_report import SEED, SIZE, Proof
from sink_witness import Witness
from whole_plane import Plane, until

from headrace.testing.postgres import PostgresServer

ROUNDS = (1, 1, 10)  # of each kind
OFF_S = (1.5, 5.0, 20.0)
PAUSE_S = 0.02
SLOWER_MAX = 1.2  # at the 99th of 100
NOISE_S = 0.05  # of a clock that looks every few milliseconds, on a machine that does other things


@pytest.mark.postgres
@pytest.mark.timeout(0 if SIZE == 2 else 600)
def test_one_sink_is_off_and_back(folder: Path, proof: Proof) -> None:
    with PostgresServer() as source, PostgresServer() as near, PostgresServer() as far:
        files = {name: folder / f"{name}.duckdb" for name in ("shelf", "drawer")}
        sinks = {"near": near.dsn, "far": far.dsn, **{name: str(path) for name, path in files.items()}}
        bank = LiveBank(source.dsn, f"{SEED} sink off", PAUSE_S)
        plane = Plane(folder, source.dsn, sinks, each=False)
        plane.start()
        until(lambda: len(plane.frontiers()) == len(sinks) and min(plane.frontiers().values()) > 0, plane)
        witnesses = [Witness(near.dsn, "near"), Witness(far.dsn, "far")]
        bank.reached = lambda: plane.frontiers().get("near", 0)
        bank.start()
        for witness in witnesses:
            witness.start()
        lags = Lags(plane, bank)
        try:
            for _ in range(ROUNDS[SIZE]):
                for name, off in (("far", killed(far)), ("drawer", held_open(files["drawer"]))):
                    lags.look(OFF_S[SIZE], {"there": set(sinks)})
                    with off:
                        lags.look(OFF_S[SIZE] / 2, {"off": set(sinks) - {name}})
                        began = plane.frontiers()[name]  # what was under way has ended
                        lags.look(OFF_S[SIZE] / 2, {"off": set(sinks) - {name}})
                        if plane.frontiers()[name] > began:
                            proof.wrong.append(f"{name} was off, and went from {began} to {plane.frontiers()[name]}")
                    until(lambda: plane.frontiers()[name] >= len(bank.states) - 50, plane)  # noqa: B023 - called at once
                    proof.tried += 1
            bank.end()
            until(lambda: min(plane.frontiers().values()) >= len(bank.states), plane)
        finally:
            bank.done.set()
            for witness in witnesses:
                witness.end()
            plane.kill()
        proof.wrong += bank.lost + [what for w in witnesses for what in w.wrong(bank.states, each=False)]
        for name, path in files.items():
            with duckdb.connect(str(path)) as reader:
                ((shown,),) = reader.execute(SHOWN.format("")).fetchall()
            if shown != bank.states[-1]:
                proof.wrong.append(f"{name} shows {shown}, the source {bank.states[-1]}")
    there, off = lags.at_99("there"), lags.at_99("off")
    if off > there * SLOWER_MAX + NOISE_S and SIZE == 2:
        proof.wrong.append(f"the others lag {off:.3f} s while one is off, {there:.3f} s otherwise")
    failures = plane.told("sink.failed")
    if len(failures) > 4 * proof.tried:
        proof.wrong.append(f"{len(failures)} times was told that a sink failed")
    proof.what = "times that one of four sinks was off"
    proof.detail = (
        f"{OFF_S[SIZE]:g} s each; the others' lag at the 99th of 100: {off * 1000:.0f} ms, {there * 1000:.0f} ms while all "
        f"were there; {len(bank.states):,} transactions"
    )
    proof.holds()


@contextmanager
def killed(server: PostgresServer) -> Iterator[None]:
    server.kill()
    yield
    server.start()


@contextmanager
def held_open(path: Path) -> Iterator[None]:
    """Somebody has the file open, for writing."""
    give_up = time.monotonic() + 30
    while True:
        try:
            held = duckdb.connect(str(path))
            break
        except duckdb.IOException:  # the product has it open just now
            assert time.monotonic() < give_up
    yield
    held.close()


class Lags:
    """From the commit of a transaction at the source to its arrival in each sink, as the catalogue tells it, in s."""

    def __init__(self, plane: Plane, bank: LiveBank) -> None:
        self.plane, self.bank = plane, bank
        self.found: dict[str, list[float]] = {"there": [], "off": []}

    def look(self, seconds: float, what: dict[str, set[str]]) -> None:
        ((when, names),) = what.items()
        before = self.plane.frontiers()
        first = len(self.bank.states)  # later ones alone: what was behind before counts for neither
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.005)
            now, at = self.plane.frontiers(), time.time()
            for name in names:
                for number in range(max(before[name], first), now[name]):
                    self.found[when].append(at - self.bank.at[number])
            before = now

    def at_99(self, when: str) -> float:
        found = sorted(self.found[when])
        return found[len(found) * 99 // 100]
