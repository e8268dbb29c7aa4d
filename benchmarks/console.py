"""What the page of a running project takes until it is of use, and whether it stands still meanwhile.

python -m benchmarks.console [--views 100] [--seconds 10]

A project over HTTP with ``--views`` views, each of one table or of the view before it, run by `headrace up`. In a real
Chromium, by its own performance entries: the overview, from its address to its first paint and to its data; the graph
of the lineage, from its address to all its nodes; a view's contents, while five transactions a second change it for
``--seconds``. The least of three times counts where the machine may do other things. One JSON line; the exit status is
1 when the browser told an error, asked another origin, or a view did not show its last row.
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

import httpx
import yaml

from benchmarks.bench import report
from benchmarks.browser import Measured, chromium, program
from benchmarks.workload import UNAVAILABLE

TABLES = 12
ROUNDS = 3
PUSH_S = 0.2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--views", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=10)
    chosen = parser.parse_args()
    browser = program()
    if browser is None:
        sys.stderr.write("there is no Chromium: apt-get install chromium\n")
        return UNAVAILABLE
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        _make(project, chosen.views)
        command = [str(Path(sys.executable).with_name("headrace")), "up", "--project", str(project), "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                return _measured(project, process, browser, chosen)
            finally:
                process.send_signal(signal.SIGINT)
                process.wait(60)


def _make(project: Path, views: int) -> None:
    """Chains of up to eight views over each table."""
    (project / "sources").mkdir()
    (project / "views").mkdir()
    (project / "headrace.yaml").write_text("name: page\napi: {port: 0}\n")
    tables = {f"table_{n}": {"columns": {"id": "bigint not null", "v": "bigint"}, "key": "id"} for n in range(TABLES)}
    source = {"type": "http", "port": 0, "tables": tables}
    (project / "sources/shop.yaml").write_text(yaml.safe_dump(source))
    for n in range(views):
        read = f"table_{n % TABLES}" if n // TABLES % 8 == 0 else f"view_{n - TABLES}"
        (project / f"views/view_{n}.sql").write_text(f"SELECT id, v + {n} AS v FROM {read}\n")


def _measured(project: Path, process: subprocess.Popen[str], path: str, chosen: argparse.Namespace) -> int:
    endpoint = _ready(process)
    url = json.loads((project / ".headrace/api.json").read_text())["url"]
    token = (project / ".headrace/tokens/api").read_text().strip()
    pushed = httpx.Client(
        headers={"Authorization": f"Bearer {(project / '.headrace/tokens/shop').read_text().strip()}"}
    )
    with chromium(path) as browser, pushed:
        context = browser.new_context(base_url=url, viewport={"width": 1280, "height": 800})
        context.request.post("/api/session", data={"token": token})
        seen = Measured(context, url)
        overview = [seen.figures_of("/") for _ in range(ROUNDS)]
        graph = [seen.figures_of("/lineage") for _ in range(ROUNDS)]
        drawn = seen.page.locator("a.node").count()
        seen.open("/views/view_0")
        end, last = time.monotonic() + chosen.seconds, 0
        while time.monotonic() < end:
            last += 1
            rows = {"upsert": [{"id": -last, "v": last}]}
            pushed.post(f"{endpoint}/transactions", json={"tables": {"table_0": rows}}).raise_for_status()
            time.sleep(PUSH_S)
        seen.page.get_by_role("cell", name=str(-last), exact=True).wait_for()
        live = seen.figures()
        wrong = len(seen.errors) + len(seen.elsewhere) + int(drawn < chosen.views)
    report(
        benchmark="console", views=chosen.views,
        painted_ms=round(min(each.painted_ms for each in overview)),
        shown_ms=round(min(each.shown_ms for each in overview)),
        lineage_ms=round(min(each.shown_ms for each in graph)), nodes=drawn,
        shift=round(max(each.shift for each in (*overview, *graph)), 4),
        live_shift=round(live.shift, 4), changes=last,
        errors=len(seen.errors), elsewhere=len(seen.elsewhere), wrong=wrong,
    )  # fmt: skip
    return int(wrong > 0)


def _ready(process: subprocess.Popen[str]) -> str:
    """Where rows are pushed to, once views and page are there."""
    assert process.stdout is not None
    endpoint, served = "", False
    for line in process.stdout:
        event = json.loads(line)
        if event["event"] == "ready":
            endpoint = event["sources"][0]["endpoint"]
        served |= event["event"] == "api.started"
        if endpoint and served:
            return str(endpoint)
    raise RuntimeError("`headrace up` ended before it was ready")


if __name__ == "__main__":
    sys.exit(main())
