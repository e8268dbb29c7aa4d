"""Many who follow one view: how long after a step was published each of them has it, and what the server takes.

python -m benchmarks.subscribers [--readers 200] [--parts 0] [--steps 30] [--per-second 5] [--rows 20] [--reads 200]

A server of the API in a process of its own over a view whose steps are published here; this process holds the readers,
each a connection that takes server-sent events, one in ten of which stands still; ``--parts`` of them each follow
another part of the view, by filters. Meanwhile rows are asked by
key, ``--reads`` a second. Each reader is held to the sum of what was published. One JSON line.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import orjson
import psutil
import pyarrow as pa

from benchmarks.bench import report
from headrace.catalog.searches import StoredQueries
from headrace.catalog.store import Catalog, Output, StepShape, ViewRecord
from headrace.governance.access import Access
from headrace.governance.roles import Role
from headrace.model.schema import Column, ViewSchema
from headrace.state.run import write_run

VIEW = ViewSchema("followed", 1, (Column("id", "bigint"), Column("n", "bigint")), ("id",))
CONNECTING = 100  # connections that are opened at a time
PATIENCE_S = 30.0


class Published:
    """A view of which each step takes some rows away and brings others."""

    def __init__(self, folder: Path, rows: int) -> None:
        self.state, self.rows, self.number = folder / ".headrace", rows, 0
        self.state.mkdir(parents=True)
        self.catalog = Catalog(self.state / "catalog.db")
        self.catalog.put_view(ViewRecord(VIEW, "SELECT 1", "f", "live", "", 0))
        self.published_at: dict[int, float] = {}
        self.sums = {0: 0}

    def step(self) -> None:
        self.number += 1
        ids = np.arange(self.rows)
        gone = np.full(self.rows, self.number - 1)
        come = np.full(self.rows, self.number)
        first = self.number == 1
        table = pa.table({
            "c0": ids if first else np.concatenate([ids, ids]),
            "c1": come if first else np.concatenate([gone, come]),
            "_w": np.ones(self.rows, int) if first else np.repeat([-1, 1], self.rows),
        })  # fmt: skip
        path = self.state / f"{self.number}.arrow"
        write_run(path, table)
        self.catalog.record_step(self.number, self.number - 1, self.number, StepShape(), 0)
        self.sums[self.number] = self.number * self.rows
        self.published_at[self.number] = time.monotonic()
        self.catalog.publish(self.number, [Output(self.number, "followed@1", str(path), table.num_rows, "")], 1)


def serve(folder: Path, port: multiprocessing.Queue[int]) -> None:
    """The API over a folder, until the process is ended."""
    from headrace.api.app import make_app
    from headrace.api.bells import Bells
    from headrace.api.descriptors import bounds, raise_limit
    from headrace.api.project import Served
    from headrace.api.who import Gate
    from headrace.serve.live import Live
    from headrace.serve.mirror import Mirror
    from headrace.serve.questions import Questions
    from headrace.web.addresses import SEND_BYTES
    from headrace.web.listening import listen
    from headrace.web.server import ServerThread

    questions, bells = Questions(Mirror(folder)), Bells()
    most = bounds(raise_limit(), 0)
    live = Live(folder, questions.mirror, bells.ring, most.readers)
    gate, stored = Gate(Access(folder / ".headrace")), StoredQueries(folder)
    project = Served(folder, lambda verb, arguments, progress: {}, questions, live, bells, gate, stored)
    listener = listen("127.0.0.1", 0, "", code="api.port", next="", send_bytes=SEND_BYTES)
    port.put(ServerThread(make_app(project), listener, connections=most.connections).port)
    while True:
        time.sleep(1)


class Follower:
    """A connection that follows the view; ``late``: seconds from published to received, of each change.

    ``part``: it follows one row alone, by a filter that no other has.
    """

    def __init__(self, part: int | None = None) -> None:
        self.part = part
        self.sum, self.commit, self.behind = 0, 0, 0
        self.late: list[float] = []
        self.wrong = 0

    async def follow(self, port: int, token: str, published: Published, begun: asyncio.Event) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
        asked = "" if self.part is None else f"?id=eq.{self.part % published.rows}&n=gt.-{self.part + 1}"
        writer.write(_request(f"/api/views/followed/changes{asked}", token))
        kind = ""
        try:
            while line := await reader.readline():
                if line.startswith(b"event: "):
                    kind = line[7:].strip().decode()
                elif line.startswith(b"data: "):
                    self._take(kind, orjson.loads(line[6:]), published)
                    begun.set()
        finally:
            writer.close()

    def _take(self, kind: str, told: dict, published: Published) -> None:  # type: ignore[type-arg]
        if kind == "behind":
            self.sum, self.behind = 0, self.behind + 1
        self.sum += sum(change["weight"] * change["row"]["n"] for change in told.get("rows", ()))
        self.commit = told["commit"]
        if kind == "change":
            self.late.append(time.monotonic() - published.published_at[self.commit])
        if kind != "behind":
            held = published.sums[self.commit]
            self.wrong += self.sum != (held if self.part is None else held // published.rows)


def _request(path: str, token: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n".encode()


async def stand_still(port: int, token: str) -> asyncio.StreamWriter:
    """A connection that asks to follow, and reads nothing."""
    _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
    writer.write(_request("/api/views/followed/changes", token))
    return writer


async def read_by_key(port: int, token: str, per_second: float, took: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    due = time.monotonic()
    while True:
        due += 1 / per_second
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        began = time.monotonic()
        writer.write(_request("/api/views/followed/row?id=1", token))
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        assert head.startswith(b"HTTP/1.1 200"), head
        await reader.readexactly(length)
        took.append(time.monotonic() - began)


async def measure(
    asked: argparse.Namespace, published: Published, port: int, tokens: Sequence[str], server: psutil.Process
) -> None:
    alone = server.memory_info().rss
    whole = [None] * (asked.readers - asked.readers // 10 - asked.parts)
    followers = [Follower(part) for part in (*range(asked.parts), *whole)]
    tasks, took = list[asyncio.Task[None]](), list[float]()
    for at in range(0, len(followers), CONNECTING):
        begun = [asyncio.Event() for _ in followers[at : at + CONNECTING]]
        tasks += [
            asyncio.create_task(follower.follow(port, tokens[place % len(tokens)], published, event))
            for place, (follower, event) in enumerate(zip(followers[at : at + CONNECTING], begun, strict=True))
        ]
        await asyncio.gather(*(event.wait() for event in begun))
    still = [await stand_still(port, tokens[0]) for _ in range(asked.readers // 10)]
    tasks.append(asyncio.create_task(read_by_key(port, tokens[0], asked.reads, took)))
    cpu, began = server.cpu_times(), time.monotonic()
    for step in range(asked.steps):
        await asyncio.sleep(max(0.0, began + step / asked.per_second - time.monotonic()))
        await asyncio.to_thread(published.step)
    end = time.monotonic() + PATIENCE_S
    while any(follower.commit < published.number for follower in followers) and time.monotonic() < end:
        await asyncio.sleep(0.05)
    seconds, spent = time.monotonic() - began, server.cpu_times()
    late, reads = np.array([x for follower in followers for x in follower.late]), np.array(took)
    report(
        readers=asked.readers, parts=asked.parts, still=len(still), steps=asked.steps, rows=2 * asked.rows,
        p50_ms=round(float(np.median(late)) * 1e3, 1), p99_ms=round(float(np.quantile(late, 0.99)) * 1e3, 1),
        max_ms=round(float(late.max()) * 1e3, 1), starved=sum(f.commit < published.number for f in followers),
        wrong=sum(follower.wrong for follower in followers), behind=sum(follower.behind for follower in followers),
        reads=len(reads), read_p50_ms=round(float(np.median(reads)) * 1e3, 1),
        read_p99_ms=round(float(np.quantile(reads, 0.99)) * 1e3, 1),
        cores=round((spent.user + spent.system - cpu.user - cpu.system) / seconds, 2),
        mib_a_reader=round((server.memory_info().rss - alone) / asked.readers / (1 << 20), 3),
    )  # fmt: skip
    for task in tasks:
        task.cancel()
    for writer in still:
        writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readers", type=int, default=200)
    parser.add_argument("--parts", type=int, default=0, help="of the readers, that each follow another part")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--per-second", type=float, default=5.0)
    parser.add_argument("--rows", type=int, default=20, help="that each step changes")
    parser.add_argument("--reads", type=float, default=200.0, help="rows by key, a second")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        published = Published(Path(folder) / "project", asked.rows)
        published.step()
        spawned = multiprocessing.get_context("spawn")
        port: multiprocessing.Queue[int] = spawned.Queue()
        process = spawned.Process(target=serve, args=(Path(folder) / "project", port), daemon=True)
        process.start()
        try:
            access = Access(Path(folder) / "project" / ".headrace")
            tokens = access.tokens.owners(), access.tokens.create("other", Role.VIEWER)[1]  # each has a share
            asyncio.run(measure(asked, published, port.get(timeout=60), tokens, psutil.Process(process.pid)))
        finally:
            process.terminate()
            process.join()


if __name__ == "__main__":
    main()
