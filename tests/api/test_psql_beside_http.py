"""Goal: whatever a viewer asks by psql, the process that serves keeps its memory, and rows by key are answered over HTTP.

Method: both servers over one project; texts of gigabytes, made of little in several ways, twenty at once.
"""

from __future__ import annotations

import statistics
import threading
import time
from pathlib import Path

import psutil
import psycopg
from served_project import site

from psql_project import Views, connect, serving

GROWTH_BYTES = 100_000_000
DOUBLED = "WITH a0 AS (SELECT 'x' || n AS s FROM sums)" + "".join(
    f", a{step} AS (SELECT s || s AS s FROM a{step - 1})" for step in range(1, 33)
)
HUGE = {
    "SELECT repeat('x', 1500000000)": "53200",
    DOUBLED + " SELECT length(s) FROM a32": "53200",
    "SELECT list(s) FROM (SELECT repeat('x', 1000) AS s FROM sums a, sums b)": "53200",
    "SELECT n FROM sums LIMIT length(repeat('x', 1500000000))": "53200",
    "SELECT repeat('x', 100000000) FROM sums": "5.*",  # of memory, or of bytes
}


def test_statements_of_gigabytes_take_nothing_of_the_process_that_serves(tmp_path: Path) -> None:
    views = Views(tmp_path / "p")
    views.view("sums", {"id": "int", "n": "bigint"}, ("id",))
    views.step(sums=[(i, i * 10, 1) for i in range(2_000)])
    waited, most, over, process = list[float](), [0], threading.Event(), psutil.Process()
    with serving(views, memory="128MB") as served, site(views.folder, asks=False) as http, http.client() as client:

        def row() -> None:
            answer = client.get("/api/views/sums/row?id=5")
            assert answer.json()["row"] == {"id": 5, "n": 50}, answer.text

        def read() -> None:
            while not over.is_set():
                began = time.monotonic()
                row()
                waited.append(time.monotonic() - began)
                most[0] = max(most[0], process.memory_info().rss)
                time.sleep(0.005)

        def ask(statement: str, ended: list[str]) -> None:
            with connect(served, autocommit=True) as connection:
                try:
                    connection.execute(statement.encode()).fetchall()
                except psycopg.Error as error:
                    ended.append(str(error.sqlstate))

        row()
        with connect(served, autocommit=True) as connection:
            connection.execute("DECLARE c CURSOR WITH HOLD FOR SELECT id FROM sums ORDER BY id")
            assert connection.execute("SELECT repeat('x', 3)").fetchone() == ("xxx",)
            before = process.memory_info().rss
            reading = threading.Thread(target=read)
            reading.start()
            try:
                for statement, state in HUGE.items():
                    ended = list[str]()
                    ask(statement, ended)
                    assert len(ended) == 1 and ended[0].startswith(state.removesuffix(".*")), statement
                every = list[str]()
                threads = [
                    threading.Thread(target=ask, args=(statement, every))
                    for statement in list(HUGE)[:2]
                    for _ in range(10)
                ]
                for thread in threads:
                    thread.start()
                assert connection.execute("SELECT sum(n) FROM sums").fetchone() == (19_990_000,)
                for thread in threads:
                    thread.join()
            finally:
                over.set()
                reading.join()
            assert every == ["53200"] * 20
            assert len(connection.execute("FETCH ALL FROM c").fetchall()) == 2_000
    assert most[0] - before < GROWTH_BYTES, f"{(most[0] - before) / 1e6:,.0f} MB"
    assert statistics.median(waited) < 1 and max(waited) < 15, sorted(waited)[-10:]
