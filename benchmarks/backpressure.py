"""A source ten times faster than its sink: memory stays where it is, and in the end the sink holds what was pushed.

python -m benchmarks.backpressure [--seconds 600]

Another process pushes over HTTP as fast as it is answered: updates of a table of constant size, one transaction a
request. First the sink is let go at its own speed, which shows how fast the source is; then it takes in a tenth of
that, and the source waits for it (``when_full: wait``, ``max_backlog``, ``waits_for``). The memory of every process is
sampled meanwhile. At the end the sink goes at its own speed again, and its tables are compared with what the pushing
process was told was taken. The last line is the result; the exit status is 1 when something grew, was over its bound,
or is wrong.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import duckdb
import psutil
import yaml

import headrace
from benchmarks.bench import report

KEYS, ROWS, CLIENTS = 20_000, 200, 4  # of the table, of a transaction; pushing at once
MAX_BACKLOG, MAX_QUEUE = 50_000, 4 << 20
SLOWER = 10  # times, than the source
WARM_S, FREE_S = 20.0, 10.0  # the sink at its own speed: until all is compiled, and then to see how fast the source is
SAMPLE_S = 1.0
BATCH_ROWS = 200_000  # a source may go over its bound by one batch
GROWTH, MARGIN_MIB = 1.3, 150  # what a process may grow between the second tenth of the slow part and its end
VIEWS = {
    "totals": "select grp, count(*) n, sum(amount) total from events group by grp",
    "tenths": "select id, amount from events where amount % 10 = 0",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--push", nargs=3, metavar=("URL", "TOKEN", "FOLDER"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.push:
        return push(*chosen.push)
    with tempfile.TemporaryDirectory() as folder:
        return run(Path(folder), chosen.seconds)


def run(folder: Path, seconds: float) -> int:
    project, told = folder / "shop", folder / "told"
    told.mkdir()
    make(project)
    with headrace.open(project) as pipeline:
        source, deliver = pipeline.sources["load"], pipeline.delivers["out"]
        slow = SlowSink(deliver)
        while not pipeline.ingests["load"].ready.wait(0.1):
            pass
        url, token = source.endpoint()["endpoint"], (project / ".headrace/tokens/load").read_text().strip()
        command = [sys.executable, "-m", "benchmarks.backpressure", "--push", url, token, str(told)]
        pusher = subprocess.Popen(command)
        try:
            until(lambda: deliver.reached > 0)
            pace(pipeline, min(WARM_S, seconds / 4))
            free = pace(pipeline, FREE_S)
            slow.rate = free / SLOWER
            report(benchmark="backpressure so far", source_per_s=round(free), sink_per_s=round(slow.rate))
            samples = sample(pipeline, pusher, seconds)
        finally:
            (told / "stop").touch()
        slow.rate = 0.0
        status = pusher.wait(120)
        end = pipeline.log.end
        pipeline.wait_for(end, 600, sink="out")
        held = pipeline.status()["sources"][0]
    wrong = [] if status == 0 else ["the pushing process failed"]
    pushed, model = 0, dict[int, int]()
    for file in told.glob("*.json"):
        found = json.loads(file.read_text())
        pushed += found["changes"]
        model |= {int(id): amount for id, amount in found["rows"].items()}
    wrong += different(project / "out.duckdb", model)
    early, late = samples[len(samples) // 5], samples[-1]
    grown = {k: (early[k], late[k]) for k in early if k.endswith("_mib") and late[k] > GROWTH * early[k] + MARGIN_MIB}
    most = {name: max(at[name] for at in samples) for name in samples[0] if name != "at"}
    if most["backlog"] > MAX_BACKLOG + BATCH_ROWS:
        wrong.append(f"{most['backlog']} changes were in the log that nobody had taken")
    if most["queued_bytes"] > MAX_QUEUE:
        wrong.append(f"{most['queued_bytes']} bytes waited to be logged")
    slowed = samples[-1]["changes"] - samples[0]["changes"]
    report(
        benchmark="backpressure", seconds=round(seconds), commits=end, changes=pushed, rows=len(model),
        source_per_s=round(free), slowed_per_s=round(slowed / max(1.0, samples[-1]["at"] - samples[0]["at"])),
        waited_s=held["waited_s"], refused=held["refused"], early=early, most=most, grown=grown, wrong=wrong,
    )  # fmt: skip
    return 1 if grown or wrong else 0


def make(project: Path) -> None:
    columns = {"id": "bigint", "grp": "int", "amount": "bigint"}
    source = {
        "type": "http", "port": 0, "tables": {"events": {"columns": columns, "key": "id"}}, "when_full": "wait",
        "max_queue": MAX_QUEUE, "max_backlog": MAX_BACKLOG, "waits_for": ["out"],
    }  # fmt: skip
    files = {
        "headrace.yaml": {"name": "shop", "checkpoint_seconds": 10.0},
        "sources/load.yaml": source,
        "sinks/out.yaml": {"type": "duckdb", "path": "out.duckdb"},
    }
    for name, values in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(yaml.safe_dump(values))
    (project / "views").mkdir()
    for name, sql in VIEWS.items():
        (project / f"views/{name}.sql").write_text(sql)


class SlowSink:
    """Makes a sink take ``rate`` changes of the source a second; 0: as many as it can."""

    def __init__(self, deliver: Any) -> None:
        self.rate, self._deliver = 0.0, deliver
        self._write, deliver.sink.write = deliver.sink.write, self.write

    def write(self, delivery: Any) -> None:
        changes = (delivery.commit - self._deliver.reached) * ROWS
        self._write(delivery)
        end = time.monotonic() + (changes / self.rate if self.rate else 0.0)
        while self.rate and time.monotonic() < end:
            time.sleep(0.1)


def pace(pipeline: Any, seconds: float) -> float:
    """Changes a second that the log takes."""
    began, commit = time.monotonic(), pipeline.log.end
    time.sleep(seconds)
    return float((pipeline.log.end - commit) * ROWS / (time.monotonic() - began))


def sample(pipeline: Any, pusher: subprocess.Popen[bytes], seconds: float) -> list[dict[str, float]]:
    """Memory that is not shared, in MiB, of each kind of process, and what waits where; every second."""
    me, began, found = psutil.Process(), time.monotonic(), []
    while time.monotonic() - began < seconds:
        used: Counter[str] = Counter()
        for process in [me, *me.children(recursive=True)]:
            try:
                kind = "jvm" if process.name() == "java" else "python"
                kind = "driver" if process == me else "pusher" if process.pid == pusher.pid else kind
                used[f"{kind}_mib"] += process.memory_full_info().uss >> 20
            except psutil.NoSuchProcess:
                continue
        source = next(s for s in pipeline.status()["sources"] if s["name"] == "load")
        waits = {name: source[name] for name in ("backlog", "queued_bytes")}
        lag = (pipeline.log.end - pipeline.delivers["out"].reached) * ROWS
        at = time.monotonic() - began
        kinds = {f"{kind}_mib": used[f"{kind}_mib"] for kind in ("driver", "jvm", "python", "pusher")}
        found.append({"at": round(at, 1), **kinds, **waits, "lag": lag, "changes": pipeline.log.end * ROWS})
        if len(found) % 60 == 0:
            report(benchmark="backpressure so far", **found[-1])
        time.sleep(SAMPLE_S)
    return found


def different(store: Path, model: dict[int, int]) -> list[str]:
    """What the sink's tables hold otherwise than the model."""
    totals: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for id, amount in model.items():
        totals[id % 100][0] += 1
        totals[id % 100][1] += amount
    expected: dict[str, list[tuple[int, ...]]] = {
        "totals": sorted((grp, n, total) for grp, (n, total) in totals.items()),
        "tenths": sorted((id, amount) for id, amount in model.items() if amount % 10 == 0),
    }
    wrong = []
    with duckdb.connect(str(store), read_only=True) as connection:
        for name, columns in (("totals", "grp, n, total"), ("tenths", "id, amount")):
            rows = connection.execute(f"select {columns} from {name} order by all").fetchall()
            if rows != expected[name]:
                wrong.append(f"{name} has {len(rows)} rows, not the {len(expected[name])} that were pushed")
    return wrong


def push(url: str, token: str, folder: str) -> int:
    """Pushes until the file ``stop`` is there; each client writes down what it was told was taken."""
    clients = [threading.Thread(target=client, args=(url, token, Path(folder), n)) for n in range(CLIENTS)]
    for one in clients:
        one.start()
    for one in clients:
        one.join()
    return 0 if len(list(Path(folder).glob("*.json"))) == CLIENTS else 1


def client(url: str, token: str, folder: Path, number: int) -> None:
    """Its own share of the keys, in turn, with amounts that change."""
    rows, turn, changes = dict[int, int](), 0, 0
    while not (folder / "stop").exists():
        ids = [((turn * ROWS + n) * CLIENTS + number) % KEYS for n in range(ROWS)]
        amounts = {id: (id * 7919 + turn * 104_729) % 100_003 for id in ids}
        upserts = [{"id": id, "grp": id % 100, "amount": amount} for id, amount in amounts.items()]
        body = json.dumps({"tables": {"events": {"upsert": upserts}}}).encode()
        headers = {
            "Authorization": f"Bearer {token}", "Content-Type": "application/json",
            "Idempotency-Key": f"{number}-{turn}",
        }  # fmt: skip
        while not sent(urllib.request.Request(f"{url}/transactions", body, headers)):
            time.sleep(0.5)
        rows |= amounts
        changes += len(amounts)
        turn += 1
    (folder / f"{number}.json").write_text(json.dumps({"changes": changes, "rows": rows}))


def sent(request: urllib.request.Request) -> bool:
    """False where the answer is to come again."""
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as error:
        if error.code != 503:
            raise
        return False


def until(holds: Any) -> None:
    while not holds():
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
