"""A backlog of small transactions from PostgreSQL through a join and an aggregate into PostgreSQL: how many a second.

Each inserts and updates 5 orders, or as many as asked for. `up` starts over the backlog; the clock runs from its being
ready, everything open and nothing of the backlog read, until the last transaction is in the sink; the servers flush as
they do by default. The memory is that of all processes together, the server's too.

python -m benchmarks.each [--transactions 30000] [--rows 5] [--mode each grouped] [--flush batch]
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg
import yaml

from benchmarks.bench import Memory, report, size_of
from headrace.testing.postgres import PostgresServer

CUSTOMERS = 2_000
VIEW = """select c.region, count(*) orders, sum(o.amount) revenue
from orders o join customers c on o.customer = c.id group by c.region"""
TABLES = f"""
create table customers (id int primary key, region text);
insert into customers select n, 'region ' || n % 200 from generate_series(1, {CUSTOMERS}) n;
create table orders (id int primary key, customer int, amount numeric(12,2));
insert into orders select n, 1 + n % {CUSTOMERS}, n % 90 from generate_series(1, {CUSTOMERS}) n;
"""
BACKLOG = f"""
do $$ begin
  for t in 1..{{transactions}} loop
    insert into orders select {{known}} + t * {{rows}} + n, 1 + (random() * {CUSTOMERS - 1})::int,
      (random() * 90)::numeric(12,2) from generate_series(1, {{rows}} - 2) n;
    update orders set amount = (random() * 90)::numeric(12,2) where id in (1 + t % 1000, 1001 + t % 999);
    perform set_config('synchronous_commit', 'off', true);
    commit;
  end loop;
end $$"""
SERVER = {"fsync": "on", "full_page_writes": "on"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transactions", type=int, default=30_000)
    parser.add_argument("--rows", type=int, default=5, help="changes of a transaction")
    parser.add_argument("--mode", nargs="+", default=["each", "grouped"], choices=["each", "grouped"])
    parser.add_argument("--flush", default="batch", choices=["batch", "each"])
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, PostgresServer(Path(folder) / "server", settings=SERVER) as server:
        server.psql(TABLES)
        for mode in chosen.mode:
            measure(Path(folder) / mode, server, mode, chosen)


def measure(folder: Path, server: PostgresServer, mode: str, chosen: argparse.Namespace) -> None:
    transactions, rows, flush = chosen.transactions, chosen.rows, chosen.flush
    for part in ("sources", "views", "sinks"):
        (folder / part).mkdir(parents=True)
    store = server.create_database(f"store_{mode}")
    (folder / "headrace.yaml").write_text(f"name: {mode}\ntransactions: {mode}\n")
    source = {"type": "postgres", "dsn": server.dsn}
    (folder / "sources/shop.yaml").write_text(yaml.safe_dump(source))
    (folder / "views/revenue.sql").write_text(VIEW)
    (folder / "sinks/store.yaml").write_text(yaml.safe_dump({"type": "postgres", "dsn": store, "flush": flush}))
    up(folder, "--once")
    known = server.psql("select max(id) from orders")[0][0]
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(BACKLOG.format(transactions=transactions, known=known, rows=rows).encode())
    with (
        Memory() as memory,
        psycopg.connect(store, autocommit=True) as reader,
        psycopg.connect(server.dsn, autocommit=True) as writer,
    ):
        before = commit(reader)
        process = subprocess.Popen(command("--json"), cwd=folder, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        try:
            next(event for event in map(json.loads, process.stdout) if event["event"] == "ready")
            began = time.perf_counter()
            first = 0.0
            while (reached := commit(reader)) < before + transactions:
                first = first or (time.perf_counter() if reached > before else 0.0)
                time.sleep(0.005)
            seconds = time.perf_counter() - began
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate()
        differences = set(writer.execute(VIEW).fetchall()) ^ set(reader.execute("select * from revenue").fetchall())
    assert not differences, differences
    report(
        benchmark="transactions", mode=mode, flush=flush, transactions=transactions, changes=transactions * rows,
        seconds=round(seconds, 2), first_after=round((first or began + seconds) - began, 2),
        per_second=round(transactions / seconds), changes_per_second=round(transactions * rows / seconds),
        peak_mib=round(memory.peak), state_bytes=size_of(folder / ".headrace/state"),
    )  # fmt: skip


def command(*arguments: str) -> list[str]:
    return [str(Path(sys.executable).with_name("headrace")), "up", *arguments]


def up(folder: Path, *arguments: str) -> None:
    subprocess.run(command(*arguments), cwd=folder, check=True, stdout=subprocess.DEVNULL)


def commit(reader: psycopg.Connection[Any]) -> int:
    row = reader.execute("select commit from headrace_progress").fetchone()
    assert row is not None
    return int(row[0])


if __name__ == "__main__":
    main()
