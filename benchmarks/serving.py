"""What readers of a running project wait for: rows by key, ad-hoc SQL, changes as they are published.

python -m benchmarks.serving [--rows 1000000] [--reads 500] [--seconds 30] [--writes 20]

A project over HTTP with a view of ``--rows`` rows, run by `headrace up`. ``--writes`` transactions of 10 rows a second
change it while point reads come at ``--reads`` a second at appointed times, a tenth of them of rows that were just
changed; an aggregate over the whole view is asked once a second; a subscriber notes when each change reaches it,
against the time at which the step was published. The first aggregate, which finds no process that answers such, is
told by itself. Each answer is held to what was pushed. One JSON line; the exit status is 1 when an answer was wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import math
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import orjson
import psutil
import yaml

from benchmarks.bench import Memory, report, size_of
from headrace.catalog.store import Catalog
from headrace.serve import snapshot

GROUPS, FILLING, CHANGED = 1_000, 10_000, 10  # groups; rows of a transaction that fills, and that changes
AGGREGATE = "SELECT g, count(*) AS n, sum(v) AS v FROM kept GROUP BY g ORDER BY v DESC LIMIT 10"
CONNECTIONS = 8
LOOK_S = 5.0  # between two looks at the memory, so seldom that they are not seen in a row's 99 of 100
REST_S = 5.0  # a row that was not changed for so long is at rest: what was pushed before is published by far


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--reads", type=int, default=500, help="a second")
    parser.add_argument("--writes", type=int, default=20, help="transactions a second")
    parser.add_argument("--seconds", type=float, default=30)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        _make(project)
        command = [str(Path(sys.executable).with_name("headrace")), "up", "--project", str(project), "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                return asyncio.run(_measured(project, process, chosen))
            finally:
                process.send_signal(signal.SIGINT)
                process.wait(60)


def _make(project: Path) -> None:
    table = {"columns": {"id": "bigint", "g": "int", "v": "bigint"}, "key": ["id"]}
    for name, text in {
        "headrace.yaml": "name: serving\napi: {port: 0}\n",
        "sources/push.yaml": yaml.safe_dump({"type": "http", "port": 0, "tables": {"kept_rows": table}}),
        "views/kept.sql": "SELECT id, g, v FROM kept_rows",
    }.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(text)


class Plain:
    """Requests over a few connections that stay open; a client that takes little of the machine itself."""

    def __init__(self, url: str, token: str) -> None:
        self._url, self._head = urlsplit(url), f"Host: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        self._idle: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()

    async def open(self, connections: int) -> None:
        for _ in range(connections):
            self._idle.put_nowait(await asyncio.open_connection(self._url.hostname, self._url.port))

    async def get(self, path: str) -> tuple[int, Any]:
        """(status, JSON)."""
        return await self._asked(f"GET {path} HTTP/1.1\r\n{self._head}\r\n".encode())

    async def post(self, path: str, content: Any) -> tuple[int, Any]:
        """(status, JSON) of an answer to JSON."""
        body = orjson.dumps(content)
        head = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        return await self._asked(f"POST {path} HTTP/1.1\r\n{self._head}{head}".encode() + body)

    async def lines(self, path: str) -> AsyncIterator[bytes]:
        """Of a stream that does not end, on a connection of its own; lengths of its chunks among them."""
        reader, writer = await asyncio.open_connection(self._url.hostname, self._url.port, limit=1 << 30)
        writer.write(f"GET {path} HTTP/1.1\r\n{self._head}\r\n".encode())
        try:
            async for line in reader:
                yield line
        finally:
            writer.close()

    async def _asked(self, request: bytes) -> tuple[int, Any]:
        reader, writer = await self._idle.get()
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        body = await reader.readexactly(int(head.split("content-length: ")[1].split("\r\n")[0]))
        self._idle.put_nowait((reader, writer))
        return int(head.split(" ", 2)[1]), orjson.loads(body)


class Serving:
    """The running project's two addresses, and what it must hold: ``values[id]``."""

    def __init__(self, push: Plain, api: Plain, rows: int) -> None:
        self.push, self.api = push, api
        self.random = np.random.default_rng(0)
        self.values = self.random.integers(0, 1_000_000, rows)
        self.recent: list[int] = []
        self.changed_at: dict[int, float] = {}
        self.pushed: list[int] = []  # commits of the changes
        self.wrong = 0

    async def fill(self) -> None:
        ids = np.arange(len(self.values))
        for begin in range(0, len(ids), FILLING):
            commit = await self._pushed(ids[begin : begin + FILLING])
        status, _ = await self.api.post("/api/wait", {"token": commit, "timeout": 60})
        assert status == 200

    async def change(self) -> None:
        ids = self.random.integers(0, len(self.values), CHANGED)
        self.values[ids] = self.random.integers(0, 1_000_000, CHANGED)
        self.changed_at.update(dict.fromkeys(ids.tolist(), time.monotonic()))
        self.pushed.append(await self._pushed(np.unique(ids)))
        self.recent = ids.tolist()

    async def read(self) -> None:
        """One row; it may be older than what was pushed just now, so only rows at rest are held to their value."""
        recent = self.recent and self.random.random() < 0.1
        id = int(self.random.choice(self.recent)) if recent else int(self.random.integers(0, len(self.values)))
        before, resting = int(self.values[id]), time.monotonic() - self.changed_at.get(id, -math.inf) > REST_S
        status, found = await self.api.get(f"/api/views/kept/row?id={id}")
        row = found.get("row", {})
        self.wrong += status != 200 or row["id"] != id or (resting and row["v"] not in (before, self.values[id]))

    async def aggregate(self) -> float:
        began = time.perf_counter()
        status, answer = await self.api.post("/api/sql", {"sql": AGGREGATE})
        took = time.perf_counter() - began
        self.wrong += status != 200 or len(answer["rows"]) != 10
        return took

    async def _pushed(self, ids: np.ndarray) -> int:
        rows = [{"id": int(id), "g": int(id) % GROUPS, "v": int(self.values[id])} for id in ids]
        changes = [{"table": "kept_rows", "op": "upsert", "row": row} for row in rows]
        status, answer = await self.push.post("/transactions", {"changes": changes})
        assert status == 200
        return int(answer["commit"])


async def _measured(project: Path, process: subprocess.Popen[str], chosen: argparse.Namespace) -> int:
    push_url, api_url = await asyncio.to_thread(addresses, process)
    tokens = project / ".headrace/tokens"
    push, api = (
        Plain(url, (tokens / name).read_text().strip()) for url, name in ((push_url, "push"), (api_url, "api"))
    )
    await push.open(1)
    await api.open(1)
    serving = Serving(push, api, chosen.rows)
    began = time.monotonic()
    await serving.fill()
    filled = time.monotonic() - began
    await push.open(CONNECTIONS - 1)  # a connection that asks nothing for ten seconds is ended
    await api.open(CONNECTIONS - 1)
    await serving.read()  # the first of each makes its process
    first = await serving.aggregate()
    gc.freeze()  # the pauses of who asks are not those of who answers
    seen: dict[int, float] = {}
    reader = asyncio.create_task(_follow(api, seen))
    while not seen:
        await asyncio.sleep(0.05)
    aggregates: list[float] = []
    with Memory(LOOK_S, psutil.Process(process.pid)) as memory:
        waits, _, _ = await asyncio.gather(
            at_times(serving.read, chosen.reads, chosen.seconds),
            at_times(serving.change, chosen.writes, chosen.seconds),
            at_times(lambda: _noted(serving.aggregate, aggregates), 1, chosen.seconds),
        )
    await asyncio.sleep(2)
    reader.cancel()
    published = _published(project)
    late = [(seen[c] - published[c]) * 1000 for c in seen if c in published and c >= serving.pushed[0]]
    report(
        benchmark="serving", rows=chosen.rows, reads=len(waits), reads_per_s=round(len(waits) / chosen.seconds),
        writes=len(serving.pushed), filled_s=round(filled, 1), read_p50_ms=_ms(waits, 50), read_p99_ms=_ms(waits, 99),
        sql_first_ms=_ms([first], 100), sql_p50_ms=_ms(aggregates, 50), sql_max_ms=_ms(aggregates, 100),
        changes_seen=len(late),
        seen_p50_ms=round(statistics.median(late), 1), seen_p99_ms=round(float(np.percentile(late, 99)), 1),
        peak_mib=round(memory.peak), state_bytes=size_of(project / ".headrace/state"), wrong=serving.wrong,
    )  # fmt: skip
    return 1 if serving.wrong else 0


async def _noted(work: Any, into: list[float]) -> None:
    into.append(await work())


async def at_times(work: Any, rate: float, seconds: float) -> list[float]:
    """Seconds from each appointed time to its answer: who comes late to its start has waited too."""
    waits: list[float] = []
    tasks = set()

    async def one(due: float) -> None:
        await work()
        waits.append(time.perf_counter() - due)

    began = time.perf_counter()
    for number in range(int(rate * seconds)):
        due = began + number / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        task = asyncio.create_task(one(due))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    return waits


async def _follow(api: Plain, seen: dict[int, float]) -> None:
    """When each commit's change was here, in the system's clock."""
    async for line in api.lines("/api/views/kept/changes"):
        if line.startswith(b"id: "):
            seen.setdefault(int(line[4:]), time.time())


def _published(project: Path) -> dict[int, float]:
    catalog = Catalog(snapshot.catalog_path(project), read_only=True)
    try:
        return {step.upto: step.published_us / 1e6 for step in catalog.steps() if step.published_us is not None}
    finally:
        catalog.close()


def addresses(process: subprocess.Popen[str]) -> tuple[str, str]:
    push = api = ""
    assert process.stdout is not None
    for line in process.stdout:
        event = json.loads(line)
        if event["event"] == "api.started":
            api = event["url"]
        if event["event"] == "ready":
            push = next(source["endpoint"] for source in event["sources"] if source.get("endpoint"))
        if push and api:
            return push, api
    raise RuntimeError("headrace up ended before it was ready")


def _ms(seconds: list[float], of: int) -> float:
    return round(float(np.percentile(seconds, of)) * 1000, 1)


if __name__ == "__main__":
    raise SystemExit(main())
