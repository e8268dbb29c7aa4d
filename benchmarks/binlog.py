"""Changes a second from MariaDB's binary log to Arrow, and rows a second of the first copy, from a live server.

python -m benchmarks.binlog [--changes 200000] [--rounds 2]

A table of six columns (bigint, int, varchar, decimal, timestamp(6), tinyint), its log in transactions of 100 rows by
one statement each, of 100 rows by 100 statements, and of updates; each round a JSON line. ``per_processor_second`` is
what one core does, however busy the machine. What comes out is compared with sums of what went in. ``library`` is the
same log read by mysql-replication alone, values decoded by it, row by row.
"""

from __future__ import annotations

import argparse
import json
import time

import pyarrow.compute as pc
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import WriteRowsEvent

from benchmarks.log import show
from headrace.sources.connectors.mysql.connector import MysqlSource
from headrace.testing.mariadb import MariadbServer

ROWS = 100  # of a transaction
TABLE = """CREATE TABLE orders (id bigint PRIMARY KEY, customer int, note varchar(60), amount decimal(12,2),
 at timestamp(6) NULL, open tinyint)"""
ORDER = (
    "SELECT seq, seq % 1000, concat('order ', seq, ' of today'), seq * 0.25, "
    "'2026-03-01' + INTERVAL seq * 1.000001 SECOND, seq % 2 FROM seq_{0}_to_{1}"
)

EACH = """BEGIN NOT ATOMIC DECLARE i int DEFAULT {0}; START TRANSACTION;
WHILE i < {0} + 100 DO
  INSERT INTO orders VALUES (i, 1, 'order of today', i * 0.25, now(6), 0); SET i = i + 1;
END WHILE; COMMIT; END"""
UPDATE = "UPDATE orders SET amount = amount + 1, open = 1 - open WHERE id BETWEEN {} AND {}"


def main() -> None:
    parser = argparse.ArgumentParser(description="rate of the MySQL source")
    parser.add_argument("--changes", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    with MariadbServer() as server:
        for number in range(arguments.rounds):
            measure(server, f"round{number}", arguments.changes)


def measure(server: MariadbServer, database: str, count: int) -> None:
    server.sql(f"CREATE DATABASE {database}")
    server.sql(TABLE, database)
    source = MysqlSource("shop", server.options(database))
    source.start(frozenset({"orders"}), None)
    batch = source.poll(10)
    assert batch is not None
    position = start = batch.origins[-1].position
    write(server, database, [f"INSERT INTO orders {ORDER.format(n, n + ROWS - 1)}" for n in range(0, count, ROWS)])
    position = followed(source, position, 0, count, "inserts, a statement for 100 rows")
    file, offset = json.loads(start)["at"].split(":")
    by_library(server, file, offset, count)
    between = ((n, n + ROWS - 1) for n in range(0, count, ROWS))
    write(server, database, [UPDATE.format(*one) for one in between])
    position = followed(source, position, 0, count, "updates, a statement for 100 rows")
    few = count // 4
    write(server, database, [EACH.format(count + n) for n in range(0, few, ROWS)])
    followed(source, position, count, few, "inserts, a statement for each row")
    source.close()

    source = MysqlSource("shop", server.options(database))
    busy, began = time.process_time(), time.perf_counter()
    source.start(frozenset({"orders"}), None)
    while (batch := source.poll(10)) is None:
        pass
    told("first copy", batch.rows, began, busy)
    source.close()


def write(server: MariadbServer, database: str, statements: list[str]) -> None:
    with server.connect(database) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def followed(source: MysqlSource, position: str, first: int, count: int, name: str) -> str:
    """Read all that was written after the position, from a standing start."""
    busy, began, rows, ids = time.process_time(), time.perf_counter(), 0, 0
    source.start(frozenset({"orders"}), position)
    transactions = 0
    while rows < count:
        batch = source.poll(10)
        assert batch is not None, (name, rows)
        table = batch.changes["orders"]
        rows, ids = rows + table.num_rows, ids + pc.sum(table["id"]).as_py()
        transactions += len(batch.origins)
        position = batch.origins[-1].position
    told(name, rows, began, busy)
    assert (rows, transactions) == (count, count // ROWS)
    assert ids == count * first + count * (count - 1) // 2, name
    return position


def by_library(server: MariadbServer, file: str, offset: str, count: int) -> None:
    settings = {"host": "127.0.0.1", "port": server.port, "user": "root"}
    reader = BinLogStreamReader(
        settings, server_id=99, blocking=True, slave_heartbeat=5, resume_stream=True, log_file=file,
        log_pos=int(offset), only_events=[WriteRowsEvent], enable_logging=False,
    )  # fmt: skip
    busy, began, rows = time.process_time(), time.perf_counter(), 0
    while rows < count:
        rows += len(reader.fetchone().rows)
    told("library, values decoded", rows, began, busy)
    reader.close()


def told(name: str, rows: int, began: float, busy: float) -> None:
    wall, cpu = time.perf_counter() - began, time.process_time() - busy
    show(benchmark=name, rows=rows, per_second=round(rows / wall), per_processor_second=round(rows / cpu))


if __name__ == "__main__":
    main()
