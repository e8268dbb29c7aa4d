"""Goal: whichever call a disk refuses or lets wait, nothing acknowledged is lost, the error says what to do, and it goes on.

Method: at the n-th call that opens or changes a file of the log, of state or of the catalogue, those inside SQLite and
Arrow too, the kernel gives the process an error in the call's place (``refused_at``), once or as long as a full disk
does; or the call waits. What is left is judged as after a kill (``bank_judge``). The process goes on by itself where the
product promises that, else after a start on a sound disk.
"""

from __future__ import annotations

import errno
import json
import os
import random
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
from bank_judge import wrong
from control_plane import FINISHED, World
from fork_server import Forks
from proof_report import SEED, SIZE, Proof
from refused_at import REFUSED, STALL, told_in

TRANSACTIONS = 6
POINTS = (6, 20, 0)  # calls that are refused; 0: one of each kind on each kind of file, with each error, twice
STALL_S = (0.2, 0.5, 5.0)
STALLS = (1, 3, 0)  # calls that wait; 0: one of each kind on each kind of file
LONG = 25  # so many calls in a row are refused where a disk stays full, or broken, for a while
WRONG_MAX = 3
# All that SQLite says when there is no space to open a file, or for what its processes share; the advice names space too.
SQLITE_ALONE = {"unable to open database file", "disk I/O error"}


def chosen(seen: list[tuple[str, str, list[int]]], rng: random.Random) -> list[tuple[int, int]]:
    """(number of the call, error): some of what each kind of call on each kind of file can give, or all, each twice."""
    kinds: dict[tuple[str, str, int], list[int]] = {}
    for n, (name, file, errors) in enumerate(seen, 1):
        place = part(file) if POINTS[SIZE] else re.sub(r"\d+", "0", file)
        for error in errors:
            kinds.setdefault((name, place, error), []).append(n)
    refused = [kind for kind in kinds if kind[-1] != STALL]
    stalled = [kind for kind in kinds if kind[-1] == STALL]
    some = rng.sample(refused, min(POINTS[SIZE], len(refused))) or rng.sample(refused * 2, len(refused) * 2)
    some += rng.sample(stalled, STALLS[SIZE] or len(stalled))
    return [(rng.choice(kinds[kind]), kind[-1]) for kind in some]


def part(file: str) -> str:
    return "catalogue" if file.startswith("catalog") else file.split("/", maxsplit=1)[0]


@pytest.mark.parametrize("each", [False, True], ids=["grouped", "each"])
def test_refused_at_every_call(each: bool, forks: Forks, folder: Path, proof: Proof) -> None:
    seed = SEED * 10 + each

    def world(name: str) -> World:
        (folder / name).mkdir()
        return World(str(folder / name), seed, TRANSACTIONS, each)

    sound = world("sound")
    seen = forks.refuse(sound)["seen"]
    assert {part(file) for _, file, _ in seen} == {"log", "state", "catalogue", "deadly.json"}
    assert wrong(sound, finished=True) == []
    rng = random.Random(f"{SEED} refusals {each}")
    places: Counter[str] = Counter()
    by_itself = 0
    for number, error in chosen(seen, rng):
        refused = world(f"at_{proof.tried}")
        times = 1 if error == STALL else rng.choice([1, LONG])
        run = forks.refuse(refused, at=number, error=error, times=times, stall_s=STALL_S[SIZE])
        name = errno.errorcode.get(error, "stall")
        said = f"{'each' if each else 'grouped'}, {name} x{times} at {number}: {', '.join(run['refused'][:2])}"
        proof.tried += 1
        places.update({part(run["refused"][0].split(" ", 1)[1])} if run["refused"] else ())
        proof.wrong += [f"{said}: {what}" for what in told_badly(refused, run["status"], error)]
        if run["status"] == REFUSED:
            proof.wrong += [f"{said}: {what}" for what in wrong(refused, finished=False)]
            again = forks.refuse(refused)["status"]
            if again != FINISHED:
                proof.wrong.append(f"{said}: on a sound disk it ends with {again}: {last_told(refused)}")
        elif run["status"] == FINISHED:
            by_itself += 1
        else:
            proof.wrong.append(f"{said}: it ends with {run['status']}")
        proof.wrong += [f"{said}: {what}" for what in wrong(refused, finished=True)]
        shutil.rmtree(refused.folder)
        if len(proof.wrong) > WRONG_MAX and not os.environ.get("HEADRACE_ALL_WRONG"):
            break
    proof.what = f"refused and stalled calls of the control plane, {'each' if each else 'grouped'}"
    proof.detail = f"of {len(seen)} calls; {dict(sorted(places.items()))}; {by_itself} times it went on by itself"
    proof.holds()


def told_badly(world: World, status: int, error: int) -> list[str]:
    """What is wrong with the errors that were told."""
    found = [json.loads(line) for line in told_in(world).read_text().splitlines()]
    codes = {told["code"] for told in found}
    bad = [
        f"told was {told['code']}: {told['what']}" for told in found if told["code"] == "internal" or not told["next"]
    ]
    if status == REFUSED and not found:
        bad.append("it ended without a word")
    if error == STALL and (codes or status != FINISHED):
        bad.append(f"a stall ended it: {codes}")
    said = codes & {"log.full", "state.full"} or any("No space left" in told["why"] for told in found)
    if error == errno.ENOSPC and status == REFUSED and not said and not {t["why"] for t in found} <= SQLITE_ALONE:
        bad.append(f"no word of space: {codes}")
    return bad


def last_told(world: World) -> str:
    lines = told_in(world).read_text().splitlines()
    return lines[-1] if lines else "nothing was told"
