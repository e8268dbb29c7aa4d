"""From a commit in PostgreSQL until a reader of another database sees it in a view, beside pgbench.

python -m benchmarks.pgbench [--rate 500] [--seconds 60] [--warm 10] [--scale 10] [--clients 4]

pgbench runs its own script (TPC-B) at that many transactions a second. The view sums the accounts and the tellers of
each branch and joins both to the branch: the three balances are equal after every transaction, and a reader of the sink
that finds them unequal has seen half of one. A client with a branch of its own commits a change, looks at the sink
until that is there, and does so again: these times count, those of the first ``--warm`` seconds do not. Both databases
are on one server, which flushes as it does by default.

One JSON line; ``torn``: rows that were seen unequal. The exit status is 1 when there are any, or when the view differs
from what the server selects itself in the end.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import yaml

from benchmarks.bench import Memory, report
from headrace.testing.postgres import PostgresServer

VIEW = """with accounts as (select bid, sum(abalance) as total from pgbench_accounts group by bid),
tellers as (select bid, sum(tbalance) as total from pgbench_tellers group by bid)
select b.bid, b.bbalance as branch, a.total as accounts, t.total as tellers
from pgbench_branches b join accounts a on a.bid = b.bid join tellers t on t.bid = b.bid"""
OURS = 0  # the branch, teller and account that pgbench leaves alone
PROBE = f"""insert into pgbench_branches values ({OURS}, 0); insert into pgbench_tellers values ({OURS}, {OURS}, 0);
insert into pgbench_accounts values ({OURS}, {OURS}, 0)"""
CHANGE = (
    "update pgbench_branches set bbalance = %s where bid = %s",
    "update pgbench_tellers set tbalance = %s where tid = %s",
    "update pgbench_accounts set abalance = %s where aid = %s",
)
SERVER = {"fsync": "on", "full_page_writes": "on"}
LOOK_S, PAUSE_S = 0.001, 0.1  # between two looks at the sink; at most, between two changes
LATE_S = 60.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=500, help="transactions a second")
    parser.add_argument("--seconds", type=float, default=60, help="that count")
    parser.add_argument("--warm", type=float, default=10, help="seconds before those that count")
    parser.add_argument("--scale", type=int, default=10, help="pgbench's: 100,000 accounts each")
    parser.add_argument("--clients", type=int, default=4)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, PostgresServer(Path(name) / "server", settings=SERVER) as server:
        subprocess.run([*pgbench(server), "-i", "-q", "-s", str(chosen.scale)], check=True, capture_output=True)
        server.psql(PROBE)
        return measure(Path(name) / "bank", server, server.create_database("store"), chosen)


def pgbench(server: PostgresServer) -> list[str]:
    return [str(server.binaries / "pgbench"), "-h", "127.0.0.1", "-p", str(server.port), "-U", "postgres"]


def measure(folder: Path, server: PostgresServer, store: str, chosen: argparse.Namespace) -> int:
    tables = ["pgbench_accounts", "pgbench_branches", "pgbench_tellers"]
    files = {
        "headrace.yaml": "name: bank\n", "views/balances.sql": VIEW,
        "sources/bank.yaml": yaml.safe_dump({"type": "postgres", "dsn": server.dsn, "tables": tables}),
        "sinks/store.yaml": yaml.safe_dump({"type": "postgres", "dsn": store}),
    }  # fmt: skip
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    command = [str(Path(sys.executable).with_name("headrace")), "up", "--json"]
    with (
        Memory() as memory,
        psycopg.connect(store, autocommit=True) as reader,
        psycopg.connect(server.dsn, autocommit=True) as writer,
    ):
        engine = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        assert engine.stdout is not None
        try:
            next(event for event in map(json.loads, engine.stdout) if event["event"] == "ready")
            probe = Probe(writer, reader)
            probe.first()
            seconds = chosen.warm + chosen.seconds
            load = [*pgbench(server), "-n", "-c", str(chosen.clients), "-R", str(chosen.rate), "-T", f"{seconds:.0f}"]
            busy = subprocess.Popen(load, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            began = time.monotonic()
            memory.without.add(busy.pid)
            while busy.poll() is None:
                probe.change(time.monotonic() - began >= chosen.warm)
            assert busy.stdout is not None
            told = busy.stdout.read()
            probe.change(counts=False)
            wrong = len(set(server.psql(VIEW)) ^ set(server.psql("select * from balances", "store")))
        finally:
            engine.send_signal(signal.SIGTERM)
            engine.communicate()
    reached = next(line.split("=")[1].split()[0] for line in told.splitlines() if line.startswith("tps"))
    p50, p99 = np.percentile(probe.seconds, [50, 99])
    report(
        benchmark="pgbench", asked_per_second=chosen.rate, rate=round(float(reached)), seconds=chosen.seconds,
        scale=chosen.scale, p50_ms=round(p50 * 1000, 1), p99_ms=round(p99 * 1000, 1),
        max_ms=round(max(probe.seconds) * 1000, 1), changes=len(probe.seconds), looks=probe.looks, torn=probe.torn,
        peak_mib=round(memory.peak), wrong=wrong,
    )  # fmt: skip
    return 1 if wrong or probe.torn else 0


class Probe:
    """Commits changes of its own at the source, and looks at the sink until they are there."""

    def __init__(self, writer: psycopg.Connection[Any], reader: psycopg.Connection[Any]) -> None:
        self.seconds: list[float] = []
        self.looks = self.torn = self._number = 0
        self._writer, self._reader, self._random = writer, reader, random.Random(1)

    def first(self) -> None:
        """Until the sink has the view."""
        give_up = time.monotonic() + LATE_S
        while not self._reader.execute("select to_regclass('balances') is not null").fetchall()[0][0]:
            assert time.monotonic() < give_up, "the view does not come to the sink"
            time.sleep(PAUSE_S)
        self.change(counts=False)

    def change(self, counts: bool) -> None:
        time.sleep(self._random.random() * PAUSE_S)  # else a change would always follow a publication
        self._number += 1
        with self._writer.transaction():
            for statement in CHANGE:
                self._writer.execute(statement.encode(), (self._number, OURS))
        began = time.perf_counter()
        while self._seen() < self._number:
            assert time.perf_counter() - began < LATE_S, "a change does not come to the sink"
            time.sleep(LOOK_S)
        if counts:
            self.seconds.append(time.perf_counter() - began)

    def _seen(self) -> int:
        rows = self._reader.execute("select bid, branch, accounts, tellers from balances").fetchall()
        self.looks += 1
        self.torn += sum(not branch == accounts == tellers for _, branch, accounts, tellers in rows)
        return max((int(branch) for bid, branch, _, _ in rows if bid == OURS), default=-1)


if __name__ == "__main__":
    sys.exit(main())
