"""Goal: whatever fails, in whatever order, nothing acknowledged is lost, doubled, torn or reordered; when it ends, all arrives.

Method: ``simulate``, one thread and one seed. A failing seed is printed with the faults that it takes and the command
that repeats it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import simulate
from proof_report import SEED, SIZE, Proof
from sim_world import drawn

SEEDS = (30, 300, 10_000)


def test_whatever_fails_nothing_is_lost(proof: Proof) -> None:
    ends = looks = 0
    kinds: set[str] = set()
    first = (SEED - 1) * SEEDS[-1] + 1
    for seed in range(first, first + SEEDS[SIZE]):
        outcome = simulate.run(seed)
        proof.tried += 1
        ends, looks = ends + outcome.deaths, looks + outcome.looks
        kinds |= {fault.kind for fault in drawn(seed)}
        if outcome.wrong:
            proof.wrong.append(simulate.told(seed))
            break  # one is found at a time
    proof.what = "simulated histories"
    proof.detail = f"{ends:,} ends of a process, {looks:,} looks at a store; {', '.join(sorted(kinds))}"
    proof.holds()
    assert looks > 10 * proof.tried and ends > proof.tried / 2


def test_a_seed_gives_the_same_trace_byte_for_byte() -> None:
    """In processes of their own, which hash strings in their own ways."""
    command = [sys.executable, str(Path(simulate.__file__)), "--seed", str(SEED)]
    traces = [
        subprocess.run(command, check=True, capture_output=True, env=os.environ | {"PYTHONHASHSEED": n}).stdout
        for n in ("1", "2")
    ]
    assert traces[0] == traces[1]
    assert traces[0].count(b"\n") > 60
