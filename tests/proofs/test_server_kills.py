"""Goal: servers that die, of a source, of a sink or both at once, or our process, cost nothing but a moment.

Method: transactions go from a real PostgreSQL through the control plane (``whole_plane``) into another one all the
while, and one of them, or both, or the process is killed with all of its parts, and started again. A trigger in the sink
writes down what each of its transactions leaves, a client reads it all the while; the model is plain Python.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import pytest
from live_bank import LiveBank
from proof_report import SEED, SIZE, Proof
from sink_witness import Witness
from whole_plane import Plane, until

from headrace.testing.postgres import PostgresServer

KILLS = (1, 2, 25)  # of each kind, in each mode
KINDS = ("source", "sink", "both", "process")
DEAD_S_MAX = 1.0
BACK_S_MAX = 30.0
PAUSE_S = 0.01
TOLD_MAX = 8  # of one death, by source and sink together


@pytest.mark.postgres
@pytest.mark.timeout(0 if SIZE == 2 else 900)
@pytest.mark.parametrize("each", [True, False] if SIZE else [True], ids=["each", "grouped"] if SIZE else ["each"])
def test_servers_die(each: bool, folder: Path, proof: Proof) -> None:
    rng = random.Random(f"{SEED} server kills {each}")
    back: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with PostgresServer() as source, PostgresServer() as store:
        bank = LiveBank(source.dsn, f"{SEED} {each}", PAUSE_S)
        plane = Plane(folder, source.dsn, {"store": store.dsn}, each=each)
        plane.start()
        until(lambda: plane.frontiers().get("store", 0) > 0, plane)
        witness = Witness(store.dsn, "store")
        bank.reached = lambda: witness.seen[-1][1] if witness.seen else 0  # a commit of the log is a transaction here
        bank.start()
        witness.start()
        try:
            for kind in [kind for _ in range(KILLS[SIZE]) for kind in rng.sample(KINDS, len(KINDS))]:
                moved(witness, bank, plane)
                time.sleep(rng.uniform(0, 0.3))
                told = Counter(event["event"] for event in plane.told())
                servers = {"source": [source], "sink": [store], "both": [source, store]}.get(kind, [])
                for server in servers:
                    server.kill()
                if not servers:
                    plane.kill()
                time.sleep(rng.uniform(0, DEAD_S_MAX))
                for server in servers:
                    server.start()
                began = time.time()
                if not servers:
                    plane.start()
                back[kind].append(moved(witness, bank, plane) - began)
                proof.tried += 1
                print(f"{proof.tried}: {kind} back in {back[kind][-1]:.1f} s", flush=True)
                said = Counter(event["event"] for event in plane.told()) - told
                if said.total() > TOLD_MAX:
                    proof.wrong.append(f"of the death of {kind} was told {dict(said)}")
            bank.end()
            until(lambda: bool(witness.seen) and witness.seen[-1][0] == bank.states[-1], plane)
        finally:
            bank.done.set()
            witness.end()
            plane.kill()
        proof.wrong += bank.lost + witness.wrong(bank.states, each=each)
    proof.wrong += [f"{k}: back after {max(times):.1f} s" for k, times in back.items() if max(times) > BACK_S_MAX]
    proof.what = f"deaths of servers, {'each' if each else 'grouped'}"
    proof.detail = (
        ", ".join(
            f"{len(b)} {k}: back in {sorted(b)[len(b) // 2]:.1f} s, at most {max(b):.1f}" for k, b in back.items()
        )
        + f"; {len(bank.states):,} transactions, {witness.reads:,} reads"
    )
    proof.holds()


def moved(witness: Witness, bank: LiveBank, plane: Plane) -> float:
    """Wait until a reader has seen a state that was committed after now; when it did, seconds of the epoch."""
    began = len(bank.states)
    until(lambda: len(bank.states) > began + 1, plane)
    until(lambda: bool(witness.seen) and witness.seen[-1][0] in bank.states[began:], plane)
    return witness.seen[-1][2]
