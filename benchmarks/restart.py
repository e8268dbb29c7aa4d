"""Start again after SIGKILL beside much state: seconds until a row that came meanwhile is in the view and in the sink.

python -m benchmarks.restart [--rows 5000000] [--rounds 3] [--folder FOLDER]

A project of files, a view (join and aggregate) and a DuckDB sink is filled, and killed between two checkpoints with
steps after the last one. Then, each round: a row is put into the folder, `headrace up` starts, and the clock stops when
the row is published and when the sink has it; again SIGKILL. What view and sink hold at the end is compared with sums.
A folder that is given is kept, and filled only once. Spark's own start is in the seconds. One JSON line a result.
"""

from __future__ import annotations

import argparse
import json
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import duckdb
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as parquet

from benchmarks.log import show

COMMAND = str(Path(sys.executable).with_name("headrace"))
VIEW = """select c.region, count(*) orders, sum(o.amount) revenue
from orders o join customers c on o.customer = c.id where o.amount > 0 group by c.region"""
SOURCE = "type: files\npath: incoming/{name}\nkey: [id]\npoll_seconds: 0.1\ncolumns: {columns}\n"
ORDERS, CUSTOMERS = "{id: bigint, customer: bigint, amount: bigint}", "{id: bigint, region: string}"
CUSTOMER_COUNT, FILE_ROWS = 100_000, 500_000
FILL_SECONDS_MAX, START_SECONDS_MAX, LOOK_SECONDS = 3600.0, 600.0, 0.02
AFTER_CHECKPOINT = 5  # small steps that a start has to take again


class Project:
    """The folder, what lies in it, and the process that works on it."""

    def __init__(self, folder: Path, rows: int) -> None:
        self.folder, self.rows = folder, rows
        self.events: list[tuple[float, str]] = []
        self.process: subprocess.Popen[str] | None = None

    def make(self) -> None:
        for name in ("sources", "views", "sinks", "incoming/orders", "incoming/customers"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "headrace.yaml").write_text("name: restart\n")
        for name, columns in (("orders", ORDERS), ("customers", CUSTOMERS)):
            (self.folder / f"sources/{name}.yaml").write_text(SOURCE.format(name=name, columns=columns))
        (self.folder / "views/revenue.sql").write_text(VIEW)
        (self.folder / "sinks/warehouse.yaml").write_text("type: duckdb\npath: warehouse.duckdb\n")
        ids = np.arange(CUSTOMER_COUNT)
        regions = pa.array(np.char.add("region ", (ids % 1000).astype(str)))
        parquet.write_table(
            pa.table({"id": pa.array(ids), "region": regions}), self.folder / "incoming/customers/all.parquet"
        )
        for at in range(0, self.rows, FILE_ROWS):
            ids = np.arange(at, min(at + FILE_ROWS, self.rows))
            table = pa.table({"id": ids, "customer": ids * 7919 % CUSTOMER_COUNT, "amount": ids % 1000 + 1})
            parquet.write_table(table, self.folder / f"incoming/orders/a{at:010d}.parquet")

    def put(self) -> None:
        """One more order, of amount 1."""
        folder = self.folder / "incoming/orders"
        number = len(list(folder.iterdir()))
        new = folder / f"b{number:010d}.jsonl"
        new.with_suffix(".tmp").write_text(json.dumps({"id": -number, "customer": 1, "amount": 1}) + "\n")
        new.with_suffix(".tmp").rename(new)

    def start(self) -> float:
        """Start the product; the time at which that was."""
        self.events, began = [], time.perf_counter()
        self.process = subprocess.Popen(
            [COMMAND, "up", "--json"], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        threading.Thread(target=self._listen, args=(self.process, began), daemon=True).start()
        return began

    def _listen(self, process: subprocess.Popen[str], began: float) -> None:
        for line in process.stdout or ():
            self.events.append((round(time.perf_counter() - began, 2), line.strip()))

    def kill(self) -> None:
        """SIGKILL, for the JVM and Spark's workers too."""
        assert self.process is not None
        processes = [psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children(recursive=True)]
        for process in processes:
            process.send_signal(signal.SIGKILL)
        psutil.wait_procs(processes[1:], 10)
        self.process.wait()

    def ask(self, query: str) -> int:
        """A number from the catalogue; 0 while there is none."""
        path = self.folder / ".headrace/catalog.db"
        try:
            with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=10)) as catalog:
                return int(catalog.execute(query).fetchone()[0] or 0)
        except sqlite3.OperationalError:
            return 0

    def published(self) -> int:
        return self.ask("select max(upto) from step where published_us is not null")

    def delivered(self) -> int:
        return self.ask("select min(frontier) from sink")

    def wait(self, what: Callable[[], bool], seconds: float) -> float:
        """Until it is so; the time then."""
        end = time.perf_counter() + seconds
        while not what():
            assert self.process is not None and self.process.poll() is None, self.events[-5:]
            assert time.perf_counter() < end, self.events[-5:]
            time.sleep(LOOK_SECONDS)
        return time.perf_counter()

    def fill(self) -> float:
        """From nothing to all rows, a checkpoint, and some steps after it; the seconds until all rows were there."""
        files = len(list((self.folder / "incoming/orders").iterdir())) + 1
        began = self.start()
        taken = self.wait(lambda: self.published() >= files, FILL_SECONDS_MAX) - began
        checkpointed = "select max(step) from checkpoint"
        last = self.ask("select max(number) from step")
        self.wait(lambda: self.ask(checkpointed) >= last or not self.slowly(self.put), FILL_SECONDS_MAX)
        for _ in range(AFTER_CHECKPOINT):
            reached = self.published()
            self.put()
            self.wait(lambda reached=reached: self.published() > reached, START_SECONDS_MAX)  # type: ignore[misc]
        self.kill()
        return taken

    def slowly(self, do: Callable[[], None]) -> bool:
        do()
        time.sleep(1.0)
        return True

    def same(self) -> bool:
        """Whether the sink holds what was put in."""
        ids = np.arange(self.rows)
        more = len(list((self.folder / "incoming/orders").glob("b*")))
        with duckdb.connect(str(self.folder / "warehouse.duckdb"), read_only=True) as sink:
            found = sink.execute("select sum(orders), sum(revenue) from revenue").fetchone()
        return found == (self.rows + more, int((ids % 1000 + 1).sum()) + more)


def kept_mib(project: Project) -> int:
    return sum(f.stat().st_size for f in (project.folder / ".headrace/state").rglob("*") if f.is_file()) >> 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--events", action="store_true", help="tell what `headrace up` told, and when")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        project = Project((chosen.folder or Path(temporary) / "project").absolute(), chosen.rows)
        if not project.folder.exists():
            project.make()
            show(name="filled", rows=chosen.rows, seconds=round(project.fill(), 1), state_mib=kept_mib(project))
        same = True
        for _ in range(chosen.rounds):
            commit = project.published() + 1
            again = project.ask("select count(*) from step where number > (select max(step) from checkpoint)")
            project.put()
            began = project.start()
            shown = project.wait(lambda: project.published() >= commit, START_SECONDS_MAX)  # noqa: B023
            sunk = project.wait(lambda: project.delivered() >= commit, START_SECONDS_MAX)  # noqa: B023
            assert project.process is not None
            inside = psutil.Process(project.process.pid)
            times = [p.cpu_times() for p in (inside, *inside.children(recursive=True))]
            project.kill()
            same = project.same() and same
            show(
                name="restart", rows=chosen.rows, view_seconds=round(shown - began, 2), same=same,
                sink_seconds=round(sunk - began, 2), steps_again=again,
                processor_seconds=round(sum(t.user + t.system for t in times), 2), state_mib=kept_mib(project),
            )  # fmt: skip
            for at, event in project.events if chosen.events else ():
                show(name="event", at=at, event=event)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
