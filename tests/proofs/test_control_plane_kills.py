"""Goal: wherever the process dies, nothing acknowledged is lost, nothing is delivered twice, order is kept.

Method: the control plane without Spark (``control_plane``) is killed by the kernel just before its n-th call that changes a
file or speaks to a server, for each n, and again while it recovers; after every kill and at the end ``bank_judge`` holds
what is there against the model, without any code of the product.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from bank_judge import wrong
from control_plane import FINISHED, World
from fork_server import Forks
from proof_report import SEED, SIZE, Proof

from headrace.testing.postgres import PostgresServer

TRANSACTIONS = 6
POINTS = (6, 24, 0)  # how many calls of a run are killed at; 0: each of them
WRONG_MAX = 2  # then it is known well enough
TELLING = {"fsync", "fdatasync", "rename", "sendto"}
SPREAD = 250  # about so many calls take a recovery and a few transactions
ENDS = {
    3: "the log lacks what was acknowledged",
    4: "a transaction has another place",
    5: "the sink is stuck",
    6: "the log is other rows",
}


def chosen(calls: list[str], rng: random.Random) -> list[int]:
    """The calls to be killed at: each; or some, half of them where something becomes durable or is sent, or just has."""
    every = range(1, len(calls) + 1)
    if not POINTS[SIZE]:
        return rng.sample(every, len(every))
    telling = [n for n in every if TELLING & set(calls[max(0, n - 2) : n])]
    return rng.sample(telling, POINTS[SIZE] // 2) + rng.sample(every, POINTS[SIZE] // 2)


@pytest.mark.parametrize("each", [False, True], ids=["grouped", "each"])
@pytest.mark.parametrize("kind", ["duckdb", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_killed_at_every_call(
    kind: str, each: bool, forks: Forks, folder: Path, proof: Proof, request: pytest.FixtureRequest
) -> None:
    server: PostgresServer | None = request.getfixturevalue("server") if kind == "postgres" else None
    seed = SEED * 10 + each

    def world(name: str) -> World:
        place = folder / name
        place.mkdir()
        if server is None:
            return World(str(place), seed, TRANSACTIONS, each)
        schema = f"{kind}_{each}_{name}".lower()
        return World(str(place), seed, TRANSACTIONS, each, server.dsn, schema)

    def gone(world: World) -> None:
        shutil.rmtree(world.folder)
        if server is not None:
            server.psql(f"DROP SCHEMA IF EXISTS {world.schema} CASCADE")

    sound = world("sound")
    calls: list[str] = forks.run(sound, 0)["calls"]
    assert wrong(sound, finished=True) == []
    gone(sound)
    at: set[str] = set()
    points = 0
    rng = random.Random(f"{SEED} {kind} {each}")
    for first in chosen(calls, rng):
        killed, place = world(f"at_{points}"), first
        points += 1
        said = f"{kind}, {'each' if each else 'grouped'}, killed at {place}"
        for again in range(2):
            run = forks.run(killed, place)
            if run["status"] == FINISHED:
                break
            if not run["killed"]:
                proof.wrong.append(f"{said}: {ENDS.get(run['status'], run['status'])}")
                break
            proof.tried += 1
            at.add(run["killed"])
            proof.wrong += [f"{said}: {what}" for what in wrong(killed, finished=False)]
            place = rng.randrange(1, SPREAD)
            said += f" {run['killed']}" + (f", then {place}" if not again else "")
        status = forks.run(killed, 0)["status"]
        if status != FINISHED:
            proof.wrong.append(f"{said}: {ENDS.get(status, status)}")
        proof.wrong += [f"{said}: {what}" for what in wrong(killed, finished=True)]
        gone(killed)
        if len(proof.wrong) > WRONG_MAX:
            break
    proof.what = f"kills of the control plane into {kind}, {'each' if each else 'grouped'}"
    proof.detail = f"at {points} of {len(calls)} calls and in recoveries: {', '.join(sorted(at))}"
    proof.holds()
