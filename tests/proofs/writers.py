"""A bank at a real PostgreSQL: tables a, b and c, and clients that commit a thousand transactions a second to them.

What the rows of a and b have in ``n`` adds up to the same after every transaction.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from headrace.testing.postgres import PostgresServer

TABLES = {"a": "id", "b": "id", "c": ""}  # with their keys; c is a multiset
EACH = 100  # in every row at first
RATE = 1200  # transactions a second, of which 1,000 are left where clients begin and end within
CLIENTS = 4
SCRIPT = """
\\set a random(1, :rows)
\\set b random(1, :rows)
\\set c random(1, 50)
\\set d random(1, 100)
\\set kind random(1, 10)
BEGIN;
\\if :kind <= 6
WITH moved AS (UPDATE a SET n = n - :d WHERE id = :a RETURNING 1)
UPDATE b SET n = n + :d * (SELECT count(*) FROM moved) WHERE id = :b;
\\elif :kind <= 8
WITH gone AS (DELETE FROM a WHERE id = :a RETURNING n)
UPDATE b SET n = n + (SELECT coalesce(sum(n), 0)::bigint FROM gone) WHERE id = :b;
INSERT INTO c VALUES (:c, :d);
\\else
INSERT INTO a VALUES (:a, 0, md5(:d::text)) ON CONFLICT DO NOTHING;
DELETE FROM c WHERE id = :c;
\\endif
END;
"""


class Bank:
    """The three tables in a database of their own, with ``rows`` rows in each of a and b."""

    def __init__(self, server: PostgresServer, database: str, rows: int, folder: Path) -> None:
        self.server, self.database, self.rows, self.folder = server, database, rows, folder
        self.total = 2 * rows * EACH
        self.dsn = server.create_database(database)
        self.process: subprocess.Popen[bytes] | None = None
        (folder / "transactions.sql").write_text(SCRIPT)
        self.run(f"""
            CREATE TABLE a AS SELECT g::int AS id, {EACH}::bigint AS n, md5(g::text) AS x FROM generate_series(1, {rows}) g;
            CREATE TABLE b AS TABLE a; CREATE TABLE c (id int, n int);
            ALTER TABLE a ADD PRIMARY KEY (id); ALTER TABLE b ADD PRIMARY KEY (id);
            CREATE INDEX ON c (id); ALTER TABLE c REPLICA IDENTITY FULL""")

    def run(self, statement: str) -> list[tuple[object, ...]]:
        return self.server.psql(statement, self.database)

    def begin(self) -> None:
        """The clients begin."""
        script, log = self.folder / "transactions.sql", self.folder / "pgbench.log"
        options = ["-n", "-c", str(CLIENTS), "-j", "1", "-R", str(RATE), "-T", "86400", "-M", "prepared"]
        options += ["--max-tries", "100", "-D", f"rows={self.rows}", "-f", str(script)]
        command = self.server.tool_command("pgbench", *options, database=self.database)
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=self.server.tool_environment()
            )

    def end(self) -> None:
        """They end; returns when none of their transactions is open."""
        process, self.process = self.process, None
        if process is None:
            return
        assert process.poll() is None, (self.folder / "pgbench.log").read_text()
        process.terminate()
        process.wait(30)
        while self.run("SELECT 1 FROM pg_stat_activity WHERE application_name = 'pgbench' LIMIT 1"):
            time.sleep(0.01)

    def transactions(self) -> int:
        """How many there have been at the server that wrote something."""
        return int(str(self.run("SELECT pg_current_xact_id()::text")[0][0]))

    def mark(self) -> str:
        """A last transaction over all tables; the LSN after it."""
        self.run("BEGIN; UPDATE a SET x = 'last' WHERE id = (SELECT min(id) FROM a); "
                 "UPDATE b SET x = 'last' WHERE id = 1; INSERT INTO c VALUES (0, 0); COMMIT")  # fmt: skip
        return str(self.run("SELECT pg_current_wal_lsn()")[0][0])
