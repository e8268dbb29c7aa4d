"""Goal: whatever bit of the files of views, of state and of the catalogue is flipped, no wrong row is served.

Method: the control plane runs to its end; then one file is damaged at a place that a seed draws, and everything is read
that the product would read: each view, what a new sink would be sent, the runs that a start goes on from. Each read
gives what the model says, or an error that names the file and the bytes. The catalogue is damaged as a clean end leaves it, and as a
kill does, with what SQLite has not yet moved out of its write-ahead log. (Damage to the log: tests/log.)
"""

from __future__ import annotations

import random
import re
import shutil
import sqlite3
from collections import Counter
from pathlib import Path

import pytest
from bank import VIEWS, History
from control_plane import BLOCK, FINISHED, World
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

FLIPS = (100, 250, 3500)
FLIPS_CATALOGUE = (200, 1000, 5000)
TRANSACTIONS = 14


@pytest.fixture(params=[False, True], ids=["grouped", "each"])
def finished(request: pytest.FixtureRequest, forks: Forks, folder: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(run, "BLOCK", BLOCK)
    world = World(str(folder), SEED * 10 + request.param, TRANSACTIONS, request.param)
    assert forks.run(world, 0)["status"] == FINISHED
    return world


def test_flipped_and_cut_files(finished: World, proof: Proof) -> None:
    history = History(finished.seed, finished.transactions)
    _folder, rng = Path(finished.folder), random.Random(f"{SEED} damage")
    assert served(finished, history) == (None, [])
    files = sorted(Path(path) for path in {*sound._known, *run._open})
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
        if error is None:
            proof.wrong.append(f"{file.name} at {at}: nobody noticed")
        elif error.where != str(file) or not tells(error, at):
            proof.wrong.append(f"{file.name} at {at}: told of {error.where}, {error.why}")
    proof.what = f"flips and cuts of files of views and state, {'each' if finished.each else 'grouped'}"
    proof.detail = f"{len(files)} files, each time the file named, and the place within {BLOCK} bytes"
    proof.holds()


@pytest.mark.parametrize("name", ["catalog.db", "catalog.db-wal"])
def test_flipped_and_cut_catalogues(finished: World, name: str, proof: Proof) -> None:
    history = History(finished.seed, finished.transactions)
    rng = random.Random(f"{SEED} damage to {name}")
    folder = Path(finished.folder)
    left = left_by_a_kill(folder) if name.endswith("-wal") else {"catalog.db": (folder / "catalog.db").read_bytes()}
    if (folder / "catalog.mark").exists():
        left["catalog.mark"] = (folder / "catalog.mark").read_bytes()
    put(folder, left)
    written = dump(folder)
    whole, named = left[name], 0
    used = [at for at, byte in enumerate(whole) if byte]  # most of the rest belongs to no row
    for number in range(FLIPS_CATALOGUE[SIZE]):
        at = rng.choice(used) if number % 10 else rng.randrange(len(whole))
        put(folder, left | {name: whole[:at] if number % 100 == 0 else flipped(whole, at, rng)})
        proof.tried += 1
        try:
            Catalog(folder / "catalog.db").close()  # what a start sees
        except HeadraceError as error:
            named += 1
            if (error.code, error.where) != ("state.corrupt", str(folder / "catalog.db")):
                proof.wrong.append(f"{name} at {at}: {error}")
            continue
        if dump(folder) != written:
            proof.wrong.append(f"{name} at {at}: other rows")
        error, wrong = served(finished, history)
        proof.wrong += [f"{name} at {at}: {what}" for what in [*([error.what] if error else []), *wrong]]
    proof.what = f"flips and cuts of {name}, {'each' if finished.each else 'grouped'}"
    proof.detail = f"{named} noticed, the rest without effect"
    assert named > proof.tried / 2
    proof.holds()


def left_by_a_kill(folder: Path) -> dict[str, bytes]:
    """The catalogue's files while the process that last wrote them still has them open."""
    catalog = Catalog(folder / "catalog.db")
    try:
        for number in range(12):
            catalog.put_sink("warehouse", number, "", number)
        return {name: (folder / name).read_bytes() for name in ("catalog.db", "catalog.db-wal")}
    finally:
        catalog.close()


def put(folder: Path, files: dict[str, bytes]) -> None:
    for file in folder.glob("catalog.*"):
        file.unlink()
    for name, data in files.items():
        (folder / name).write_bytes(data)


def dump(folder: Path) -> list[str]:
    """All rows and definitions, read from a copy without the product."""
    copy = folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    for file in folder.glob("catalog.db*"):
        shutil.copy(file, copy)
    connection = sqlite3.connect(copy / "catalog.db")
    try:
        return list(connection.iterdump())
    finally:
        connection.close()


def flipped(whole: bytes, at: int, rng: random.Random) -> bytes:
    return whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :]


def tells(error: HeadraceError, at: int) -> bool:
    """Whether an error names no more than the bytes of the block that was damaged at ``at``, or the end of a cut file."""
    place = re.match(r"bytes (\d+) to (\d+) differ", error.why)
    if place is None:
        return error.why.startswith(f"it ends after {at} bytes")
    begin, last = map(int, place.groups())
    return begin <= at <= last + 1 and last - begin < BLOCK


def served(world: World, history: History) -> tuple[HeadraceError | None, list[str]]:
    """(the first error, what is served that is not so)."""
    run._open.clear()
    sound._known.clear()
    wrong: list[str] = []
    found: HeadraceError | None = None
    for read in (views, earlier, first_delivery, restored):
        try:
            wrong += read(world, history)
        except HeadraceError as error:
            found = found or error
    return found, wrong


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
