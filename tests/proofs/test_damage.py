"""Goal: whatever bit of the files of views and state is flipped, and wherever one is cut, no wrong row is served.

Method: the control plane runs to its end; then one file is damaged at a place that a seed draws, and everything is read
that the product would read: each view, what a new sink would be sent, the runs that a start goes on from. Each read
gives what the model says, or an error that names the file. (Damage to the log: tests/log.)
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from bank import VIEWS, History
from control_plane import FINISHED, World
from fork_server import Forks
from proof_report import SEED, SIZE, Proof

from headrace.catalog.store import Catalog
from headrace.engine.deliver import Deliver
from headrace.engine.kept import Kept
from headrace.log.read import LogReader
from headrace.model.delivery import Delivery
from headrace.model.errors import HeadraceError
from headrace.serve import snapshot, sound
from headrace.sinks.base import Sink
from headrace.state import run

FLIPS = (100, 400, 3500)
TRANSACTIONS = 14


@pytest.fixture(params=[False, True], ids=["grouped", "each"])
def finished(request: pytest.FixtureRequest, forks: Forks, folder: Path) -> World:
    world = World(str(folder), SEED * 10 + request.param, TRANSACTIONS, request.param)
    assert forks.run(world, 0)["status"] == FINISHED
    return world


def test_flipped_and_cut_files(finished: World, proof: Proof) -> None:
    history = History(finished.seed, finished.transactions)
    _folder, rng = Path(finished.folder), random.Random(f"{SEED} damage")
    assert served(finished, history) == ("", [])
    files = sorted(Path(path) for path in {*sound._known, *run._open})
    named = 0
    for number in range(FLIPS[SIZE]):
        file = rng.choice(files)
        whole = file.read_bytes()
        at = rng.randrange(len(whole))
        try:
            file.write_bytes(whole[:at] if number % 10 == 0 else flipped(whole, at, rng))
            error, wrong = served(finished, history)
        finally:
            file.write_bytes(whole)
        proof.tried += 1
        proof.wrong += [f"{file.name} at {at}: {what}" for what in wrong]
        if not error:
            proof.wrong.append(f"{file.name} at {at}: nobody noticed")
        named += error == str(file)
    proof.what = f"flips and cuts of files of views and state, {'each' if finished.each else 'grouped'}"
    proof.detail = f"{len(files)} files, {named} times the file named"
    assert named == proof.tried
    proof.holds()


def flipped(whole: bytes, at: int, rng: random.Random) -> bytes:
    return whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :]


def served(world: World, history: History) -> tuple[str, list[str]]:
    """(the file that the first error names, what is served that is not so)."""
    run._open.clear()
    sound._known.clear()
    wrong: list[str] = []
    named = ""
    for read in (views, earlier, first_delivery, restored):
        try:
            wrong += read(world, history)
        except HeadraceError as error:
            named = named or error.where
    return named, wrong


def views(world: World, history: History) -> list[str]:
    catalog = Catalog(Path(world.folder) / "catalog.db", read_only=True)
    try:
        wrong = []
        for name, record in catalog.views().items():
            commit, table = snapshot.read(catalog, record)
            rows = Counter({(r["id"], r["amount"]): r["_w"] for r in table.to_pylist()})
            if rows != history.held[-1][name] or commit != world.transactions:
                wrong.append(f"view {name} at commit {commit}")
        return wrong
    finally:
        catalog.close()


def earlier(world: World, history: History) -> list[str]:
    """Each view as of each step that is kept: with every delta, one way or the other."""
    catalog = Catalog(Path(world.folder) / "catalog.db", read_only=True)
    try:
        wrong = []
        for commit in (step.after for step in catalog.steps()):
            for name, record in catalog.views().items():
                table = snapshot.added(record, snapshot.as_of(catalog, record, commit))
                rows = Counter({(r["id"], r["amount"]): r["_w"] for r in table.to_pylist()})
                if rows != history.held[commit][name]:
                    wrong.append(f"view {name} as of commit {commit}")
        return wrong
    finally:
        catalog.close()


def first_delivery(world: World, history: History) -> list[str]:
    catalog = Catalog(Path(world.folder) / "catalog.db", read_only=True)
    try:
        log = LogReader(Path(world.folder) / "log")
        due = Deliver(Nowhere(), None, catalog, log, lambda event: None).next({})
        assert due is not None
        wrong = []
        for name in (schema.name for schema in VIEWS):
            rows = Counter({(r["id"], r["amount"]): r["_w"] for r in due.replacements[name].to_pylist()})
            if rows != history.held[world.transactions][name]:
                wrong.append(f"what a new sink is sent of {name}")
        return wrong
    finally:
        catalog.close()


def restored(world: World, history: History) -> list[str]:
    catalog = Catalog(Path(world.folder) / "catalog.db", read_only=True)
    try:
        found = catalog.checkpoint()
        assert found is not None
        kept = Kept(Path(world.folder) / "state")
        kept.restore(found[1])
        wrong = []
        for name, paths in kept.paths().items():
            rows: Counter[tuple[int, int]] = Counter()
            for path in paths:
                for row in run.open_run(path).to_pylist():
                    rows[row["c0"], row["c1"]] += row["_w"]
            if Counter({row: n for row, n in rows.items() if n}) != history.held[world.transactions][name]:
                wrong.append(f"what is kept of {name}")
        return wrong
    finally:
        catalog.close()


class Nowhere(Sink):
    """A store that is never reached: what it would be sent counts here."""

    name = "new"

    def open(self, end: int | None = None) -> int | None:
        raise AssertionError

    def held(self) -> dict[str, int]:
        raise AssertionError

    def write(self, delivery: Delivery) -> None:
        raise AssertionError

    def close(self) -> None: ...
