"""What every proof uses: a place where it tells what it tried, and a server."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from fork_server import Forks
from killed_at import SUPPORTED
from proof_report import PROOFS, SEED, SIZE, Proof
from refused_at import SUPPORTED as REFUSING

from headrace.testing.postgres import PostgresServer

BEGAN = time.monotonic()
FAILED: list[str] = []  # tests
PROBE = """
import os, killed_at
run = killed_at.run(lambda: os.write(os.open(os.devnull, os.O_WRONLY), b'x') - 1)
assert (run.status, run.calls) == (0, ['write']), run
"""


def traced() -> bool:
    """Whether calls can be counted here: on Linux, where the machine (or its container) lets a process be traced."""
    if not SUPPORTED:
        return False
    probe = [sys.executable, "-c", PROBE]
    return (
        subprocess.run(probe, cwd=Path(__file__).parent, check=False, capture_output=True, timeout=60).returncode == 0
    )


collect_ignore = [] if traced() else ["test_control_plane_kills.py", "test_group_kills.py", "test_take_overs.py"]
if collect_ignore or not REFUSING:
    collect_ignore.append("test_refusals.py")
if not Path("/proc/self/fd").exists():
    collect_ignore.append("test_synced.py")


@pytest.fixture
def proof(request: pytest.FixtureRequest) -> Iterator[Proof]:
    """The proof that this test is; what it tried is told in the run's last lines."""
    made = Proof(request.node.name)
    yield made
    request.node.user_properties.append(("proof", asdict(made)))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """An empty folder, in memory where there is such a place: a process that dies takes none of it along."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="headrace-proof-") as made:
        yield Path(made)


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    forks = Forks()
    yield forks
    forks.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with PostgresServer(tmp_path_factory.mktemp("proofs") / "server") as server:
        yield server
        server.stop(immediate=True)


def pytest_runtest_logreport(report: Any) -> None:
    """Of each proof what it tried, wherever it ran; tests elsewhere add theirs to their node."""
    FAILED.extend([report.nodeid] if report.failed else [])
    if report.when == "teardown":
        PROOFS.extend(Proof(**told) for name, told in report.user_properties if name == "proof")


def pytest_unconfigure(config: Any) -> None:
    """The very last lines: what was tried, how often, what was wrong, the seed."""
    if SIZE and PROOFS and not hasattr(config, "workerinput"):
        for done in PROOFS:
            print(done)
        wrong, tried = sum(len(p.wrong) for p in PROOFS), sum(p.tried for p in PROOFS)
        failed = f"{len(set(FAILED))} of them failed ({', '.join(sorted(set(FAILED)))})" if FAILED else "none failed"
        took = f"{time.monotonic() - BEGAN:.0f} s"
        print(f"proofs: {len(PROOFS)} kinds, {tried:,} tried, {wrong} wrong, {failed}, seed {SEED}, {took}")
