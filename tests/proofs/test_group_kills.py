"""Goal: wherever the reader of a consumer group dies, what it acknowledged never comes again, what it did not always does, and
a dead letter is kept, once.

Method: a reader is killed by the kernel just before its n-th call that changes a file, and again while it goes on; what
it was given and acknowledged stands in a ledger that it keeps itself, judged here without any code of the product.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
import sys
from itertools import pairwise
from pathlib import Path

import orjson
from fork_server import Forks
from group_reader import GROUP, LEASE_S, LEDGER, NOW, poison
from proof_report import SEED, SIZE, Proof

sys.path.append(str(Path(__file__).parents[1] / "groups"))
from grouped import World

POINTS = (8, 24, 0)  # how many calls of a run are killed at; 0: each of them
WRONG_MAX = 2


def ledger(folder: Path) -> list[list[str]]:
    file = folder / LEDGER
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


def wrong(world: World, *, finished: bool) -> list[str]:
    """What the ledger and the file of the groups tell that must not be."""
    found, acked, asked, given = [], set[int](), set[int](), set[int]()
    asking: list[str] = []
    for word, *ids in ledger(world.folder):
        commits = {int(id.partition(".")[0]) for id in ids}
        if word == "given":
            given |= commits
            found += [f"commit {c} was given again after it was acknowledged" for c in commits & acked]
        elif word == "acking":
            asking = ids
            asked |= commits
        else:
            acked |= {int(id.partition(".")[0]) for id in asking}
    if not finished:
        return found
    wanted = set(world.feed("orders"))
    found += [f"commit {c} was lost" for c in wanted if not poison(c) and c not in asked]
    found += [f"commit {c} was never to be given" for c in given - wanted]
    with sqlite3.connect(world.folder / ".headrace/groups.db") as db:
        letters = db.execute("select log_commit, payload from dead where owner = ?", (GROUP,)).fetchall()
        left = db.execute("select count(*) from delivery").fetchone()[0]
    if sorted(c for c, _ in letters) != sorted(filter(poison, wanted)):
        found.append(f"the dead letters are {sorted(c for c, _ in letters)}")
    found += [
        f"the dead letter of commit {c} holds something else"
        for c, payload in letters
        if orjson.loads(payload)["changes"] != world.holds("orders", c)
    ]
    return [*found, f"{left} deliveries are not settled"] if left else found


def test_killed_at_every_call_of_a_reader(forks: Forks, folder: Path, proof: Proof) -> None:
    template = folder / "template"
    template.mkdir()
    whole = World(template, SEED, 18)

    def world(name: str) -> World:
        made = World.copied(folder / name, whole)
        (made.folder / NOW).write_text(str(made.now))
        return made

    def later(world: World) -> None:
        """The leases of the reader that died are over."""
        world.now += LEASE_S * 1_000_000
        (world.folder / NOW).write_text(str(world.now))

    sound = world("sound")
    calls: list[str] = forks.read_group(sound.folder, 0)["calls"]
    assert wrong(sound, finished=True) == []
    writes = [place for place, call in enumerate(calls) if call == "write"]
    for line, (begin, end) in enumerate(pairwise(writes), start=1):
        if ledger(sound.folder)[line][0] == "acked":
            assert {"fsync", "fdatasync"} & set(calls[begin:end]), "an acknowledgement was told before it was synced"
    rng, points = random.Random(f"{SEED} groups"), range(1, len(calls) + 1)
    for first in rng.sample(points, POINTS[SIZE] or len(calls)):
        killed, place = world(f"at_{first}"), first
        for _ in range(3):
            run = forks.read_group(killed.folder, place)
            if not run["killed"]:
                break
            proof.tried += 1
            proof.wrong += [f"killed at {place} of {first}: {what}" for what in wrong(killed, finished=False)]
            later(killed)
            place = rng.randrange(1, len(calls))
        for _ in range(2):  # what was given back while another was leased is due now
            status = forks.read_group(killed.folder, 0)["status"]
            later(killed)
        proof.wrong += [f"killed at {first}: exited with {status}"] if status else []
        proof.wrong += [f"killed at {first}: {what}" for what in wrong(killed, finished=True)]
        shutil.rmtree(killed.folder)
        if len(proof.wrong) > WRONG_MAX:
            break
    proof.what = "kills of a group's reader"
    proof.detail = f"at {POINTS[SIZE] or len(calls)} of {len(calls)} calls, and in recoveries"
    proof.holds()
