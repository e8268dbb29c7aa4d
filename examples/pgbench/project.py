"""The Headrace project of the example, and the same views as PostgreSQL itself computes them."""

from __future__ import annotations

import shutil
from pathlib import Path

from headrace.testing.postgres import PostgresServer

SOURCE_DATABASE, SINK_DATABASE = "bench", "views"
PASSWORD_VARIABLE = "PGBENCH_PASSWORD"

SETTINGS = """\
name: pgbench
checkpoint_seconds: 10
"""

SOURCE = """\
# The database that pgbench works on. Publication and slot are made by Headrace.
type: postgres
host: 127.0.0.1
port: {port}
database: bench
user: postgres
password: env:PGBENCH_PASSWORD
"""

SINK = """\
# The views as tables of a second database: a step with all its views and the progress row in one transaction.
type: postgres
host: 127.0.0.1
port: {port}
database: views
user: postgres
password: env:PGBENCH_PASSWORD
"""

# name -> (the view in Spark SQL, the same question to PostgreSQL, which has other names for some functions)
VIEWS: dict[str, tuple[str, str]] = {
    "branch_balance": (
        """\
-- Balance of each branch, joined with its tellers.
SELECT b.bid, b.bbalance AS balance, count(*) AS tellers, sum(t.tbalance) AS teller_balance
FROM pgbench_branches b
JOIN pgbench_tellers t ON t.bid = b.bid
GROUP BY b.bid, b.bbalance
""",
        """\
SELECT b.bid, b.bbalance AS balance, count(*) AS tellers, sum(t.tbalance) AS teller_balance
FROM pgbench_branches b JOIN pgbench_tellers t ON t.bid = b.bid GROUP BY b.bid, b.bbalance
""",
    ),
    "history_per_hour": (
        """\
-- What was booked, per hour and branch. The history has no key: rows are only ever added.
SELECT date_trunc('hour', mtime) AS hour, bid, count(*) AS bookings, sum(delta) AS booked
FROM pgbench_history
GROUP BY date_trunc('hour', mtime), bid
""",
        """\
SELECT date_trunc('hour', mtime) AT TIME ZONE 'UTC' AS hour, bid, count(*) AS bookings, sum(delta) AS booked
FROM pgbench_history GROUP BY 1, 2
""",
    ),
    "accounts_in_disagreement": (
        """\
-- Accounts whose balance is not what their history says.
SELECT a.aid, a.bid, a.abalance AS balance, coalesce(h.booked, 0) AS booked
FROM pgbench_accounts a
LEFT JOIN (SELECT aid, sum(delta) AS booked FROM pgbench_history GROUP BY aid) h ON h.aid = a.aid
WHERE a.abalance <> coalesce(h.booked, 0)
""",
        """\
SELECT a.aid, a.bid, a.abalance AS balance, coalesce(h.booked, 0) AS booked
FROM pgbench_accounts a
LEFT JOIN (SELECT aid, sum(delta) AS booked FROM pgbench_history GROUP BY aid) h ON h.aid = a.aid
WHERE a.abalance <> coalesce(h.booked, 0)
""",
    ),
    "account_balance": (
        """\
-- The accounts' side of the sums that every transaction leaves equal.
SELECT bid, count(*) AS accounts, sum(abalance) AS balance
FROM pgbench_accounts
GROUP BY bid
""",
        """\
SELECT bid, count(*) AS accounts, sum(abalance) AS balance FROM pgbench_accounts GROUP BY bid
""",
    ),
}


def write(folder: Path, server: PostgresServer) -> Path:
    """The project's files in ``folder``, which is emptied first."""
    if folder.exists():
        shutil.rmtree(folder)
    texts = {
        "headrace.yaml": SETTINGS,
        "sources/bench.yaml": SOURCE.format(port=server.port),
        "sinks/views.yaml": SINK.format(port=server.port),
        **{f"views/{name}.sql": spark for name, (spark, _) in VIEWS.items()},
    }
    for name, text in texts.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    return folder
