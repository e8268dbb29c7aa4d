"""PostgreSQL's own materialized view, refreshed after each change, and the same view kept by the product beside it.

python -m benchmarks.refresh [--orders 1000000] [--changes 1 100 10000] [--rounds 10]

A transaction gives orders new amounts. The product's time is from its commit until the view in another database of the
same server has it, delivery included; PostgreSQL's is that of REFRESH MATERIALIZED VIEW alone. One JSON line a size;
the exit status is 1 when the two differ after one of them.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import psycopg
import yaml

from benchmarks.bench import Memory, percentiles, report, size_of
from benchmarks.each import command, commit, up
from headrace.testing.postgres import PostgresServer

CUSTOMERS = 100_000
VIEW = """select c.region, count(*) as orders, sum(o.amount) as revenue
from orders o join customers c on o.customer = c.id group by c.region"""
TABLES = f"""
create table customers (id int primary key, region text);
insert into customers select n, 'region ' || n % 1000 from generate_series(1, {CUSTOMERS}) n;
create table orders (id int primary key, customer int, amount bigint);
insert into orders select n, 1 + n % {CUSTOMERS}, n % 90 from generate_series(1, {{orders}}) n;
create materialized view refreshed as {VIEW};
"""
CHANGE = "update orders set amount = (random() * 90)::bigint where id in (select ceil(random() * {orders})::int"
WARM = 5  # rounds that do not count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, nargs="+", default=[1, 100, 10_000], help="rows of a transaction")
    parser.add_argument("--rounds", type=int, default=10)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, PostgresServer(Path(name) / "server") as server:
        server.psql(TABLES.format(orders=chosen.orders))
        folder, store = Path(name) / "project", server.create_database("store")
        _write(folder, server.dsn, store)
        up(folder, "--once")
        process = subprocess.Popen(command("--json"), cwd=folder, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            next(event for event in map(json.loads, process.stdout) if event["event"] == "ready")
            with (
                Memory(of=psutil.Process(process.pid)) as memory,
                psycopg.connect(server.dsn, autocommit=True) as writer,
                psycopg.connect(store, autocommit=True) as reader,
            ):
                wrong = 0
                for changes in chosen.changes:
                    figures = _measure(writer, reader, changes, chosen)
                    report(**figures, peak_mib=round(memory.peak), state_bytes=size_of(folder / ".headrace/state"))
                    wrong += figures["wrong"]
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate()
    return 1 if wrong else 0


def _write(folder: Path, source: str, store: str) -> None:
    for part in ("sources", "views", "sinks"):
        (folder / part).mkdir(parents=True)
    (folder / "headrace.yaml").write_text("name: refresh\n")
    (folder / "sources/shop.yaml").write_text(yaml.safe_dump({"type": "postgres", "dsn": source}))
    (folder / "views/revenue.sql").write_text(VIEW)
    (folder / "sinks/store.yaml").write_text(yaml.safe_dump({"type": "postgres", "dsn": store}))


def _measure(
    writer: psycopg.Connection[Any], reader: psycopg.Connection[Any], changes: int, chosen: argparse.Namespace
) -> dict[str, Any]:
    """``wrong``: how many rows of the product's view are not PostgreSQL's."""
    ours, theirs, text = [], [], f"{CHANGE.format(orders=chosen.orders)} from generate_series(1, {changes}))"
    for turn in range(WARM + chosen.rounds):
        before = commit(reader)
        writer.execute(text.encode())
        began = time.perf_counter()
        while commit(reader) == before:
            time.sleep(0.002)
        seen = time.perf_counter()
        writer.execute("refresh materialized view refreshed")
        if turn >= WARM:
            ours.append(seen - began)
            theirs.append(time.perf_counter() - seen)
    kept, refreshed = (
        set(of.execute(f"select region, orders, revenue from {view}".encode()).fetchall())
        for of, view in ((reader, "revenue"), (writer, "refreshed"))
    )
    seen, anew = statistics.median(ours), statistics.median(theirs)
    return {
        "benchmark": "refresh", "orders": chosen.orders, "changes": changes, "seen_ms": round(1000 * seen, 1),
        "seen_p99_ms": percentiles(ours)["p99_ms"], "seen_max_ms": round(1000 * max(ours), 1),
        "refresh_ms": round(1000 * anew, 1), "refresh_p99_ms": percentiles(theirs)["p99_ms"],
        "refresh_to_seen": round(anew / seen, 2), "wrong": len(kept ^ refreshed),
    }  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
