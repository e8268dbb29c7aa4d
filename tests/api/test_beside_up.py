"""Goal: `headrace up` serves the API as its page of the reference says, tells where, and takes it away at the end.

Method: a real `up` in its own process; the commands of docs/reference/api.md are run as they stand there, and their
answers are those that stand below them.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import TypeAdapter

from headrace.api import shapes

PAGE = Path(__file__).parents[2] / "docs/reference/api.md"
COMMAND = Path(sys.executable).with_name("headrace")
WAIT_S = 120
pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


class Running:
    """A project that runs; ``told``: the events of its start, by their names."""

    def __init__(self, folder: Path, process: subprocess.Popen[str]) -> None:
        self.folder, self.process, self.told = folder, process, dict[str, dict[str, Any]]()
        assert process.stdout is not None
        while "api.started" not in self.told:
            line = process.stdout.readline()
            assert line, "it ended"
            event = json.loads(line)
            self.told[event["event"]] = event

    @property
    def url(self) -> str:
        return str(self.told["api.started"]["url"])


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("up") / "shop"
    subprocess.run([COMMAND, "init", str(folder)], check=True, capture_output=True)
    source = folder / "sources/shop.yaml"
    source.write_text(source.read_text().replace("port: 7071", "port: 0"))
    with (folder / "headrace.yaml").open("a") as settings:
        settings.write("\napi: {port: 0}\n")
    with (folder / "errors").open("w") as errors:
        process = subprocess.Popen(
            [COMMAND, "up", "--json"], cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        try:
            yield Running(folder, process)
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=WAIT_S)
    assert process.returncode == 0, (folder / "errors").read_text()
    assert not (folder / ".headrace/api.json").exists()


def test_the_page_of_the_reference_is_so(running: Running) -> None:
    source = next(s for s in running.told["ready"]["sources"] if s["name"] == "shop")["endpoint"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    examples = re.findall(r"^```sh\n(.*?)^```\n^```json\n(.*?)^```$", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert len(examples) == 6
    names = "".join(re.findall(r"^(?:URL|OWNER)=.*\n", examples[0][0], flags=re.MULTILINE))
    for commands, wanted in examples:
        done = subprocess.run(
            ["bash", "-euc", names + commands], cwd=running.folder, env={**os.environ, "PATH": path, "SOURCE": source},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert (done.stdout, done.returncode) == (wanted.rstrip("\n"), 0), done.stderr


def test_a_change_that_is_pushed_is_with_who_follows(running: Running) -> None:
    owner = {"Authorization": f"Bearer {(running.folder / '.headrace/tokens/api').read_text().strip()}"}
    pusher = {"Authorization": f"Bearer {(running.folder / '.headrace/tokens/shop').read_text().strip()}"}
    source = next(s for s in running.told["ready"]["sources"] if s["name"] == "shop")["endpoint"]
    with httpx.Client(base_url=running.url, headers=owner, timeout=30) as client:
        with client.stream("GET", "/api/views/idle_customers/changes") as response:
            lines = response.iter_lines()
            while not next(lines).startswith("data:"):
                pass
            row = {"id": 7, "name": "<script>alert(1)</script>", "region": "west"}
            began = time.monotonic()
            pushed = httpx.post(
                f"{source}/transactions", json={"tables": {"customers": {"upsert": [row]}}}, headers=pusher
            )
            commit = pushed.json()["commit"]
            data = next(line for line in lines if line.startswith("data:") and '"weight"' in line)
            assert json.loads(data[5:]) == {"commit": commit, "rows": [{"weight": 1, "row": row}]}
            assert time.monotonic() - began < 10
        told = client.get("/api/feeds/customers/transactions?limit=1").json()
        assert told[0]["commit"] == commit
        assert told[0]["changes"] == [{"table": "customers", "op": "upsert", "row": row}]
        at = client.get(f"/api/views/idle_customers/rows?at={commit - 1}").json()
        assert 7 not in [each["id"] for each in at["rows"]]


def test_a_sink_stands_still_while_it_is_paused(running: Running) -> None:
    def sink() -> dict[str, Any]:
        return dict(json.loads(ask("status", "--json"))["sinks"][0])

    def ask(*arguments: str) -> str:
        done = subprocess.run([COMMAND, *arguments], cwd=running.folder, capture_output=True, text=True, check=True)
        return done.stdout

    owner = {"Authorization": f"Bearer {(running.folder / '.headrace/tokens/api').read_text().strip()}"}
    pusher = {"Authorization": f"Bearer {(running.folder / '.headrace/tokens/shop').read_text().strip()}"}
    source = next(s for s in running.told["ready"]["sources"] if s["name"] == "shop")["endpoint"]
    with httpx.Client(base_url=running.url, headers=owner, timeout=30) as client:
        paused = client.post("/api/sinks/local/pause").json()
        assert (paused["sink"], paused["state"]) == ("local", "paused")
        before = sink()["frontier"]
        row = {"id": 8, "name": "Eve", "region": "east"}
        commit = httpx.post(
            f"{source}/transactions", json={"tables": {"customers": {"upsert": [row]}}}, headers=pusher
        ).json()["commit"]
        assert client.post("/api/wait", json={"token": commit, "view": "idle_customers"}).status_code == 200
        late = client.post("/api/wait", json={"token": commit, "sink": "local", "timeout": 1})
        assert (late.status_code, late.json()["code"]) == (504, "wait.timeout") and "paused" in late.json()["why"]
        assert (sink()["state"], sink()["frontier"]) == ("paused", before)
        assert ask("resume", "local").startswith("sink local is running")
        assert client.post("/api/wait", json={"token": commit, "sink": "local"}).status_code == 200
        assert client.post("/api/sinks/locl/pause").json()["next"] == "did you mean 'local'?"


def test_a_port_that_is_configured_and_taken_keeps_it_from_starting(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        (tmp_path / "headrace.yaml").write_text(f"api: {{port: {port}}}\n")
        done = subprocess.run([COMMAND, "up", "--json"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    error = json.loads(done.stderr.strip().splitlines()[-1])["error"]
    assert (error["code"], error["where"]) == ("api.port", "headrace.yaml: api.port") and str(port + 1) in error["next"]


def test_operators_columns_and_versions_of_a_view_are_told(running: Running) -> None:
    owner = {"Authorization": f"Bearer {(running.folder / '.headrace/tokens/api').read_text().strip()}"}
    with httpx.Client(base_url=f"{running.url}/api", headers=owner, timeout=WAIT_S) as client:
        told = TypeAdapter(shapes.Lineage).validate_python(client.get("/lineage?columns=true").json())
        one = TypeAdapter(shapes.ColumnLineage).validate_python(client.get("/views/Revenue/lineage").json())
        (revenue,) = [column for column in told.columns if (column.relation, column.column) == ("revenue", "revenue")]
        (same,) = [column for column in one.columns if column.column == "revenue"]
        assert (revenue.value, revenue.rows) == (same.value, same.rows) and revenue.value and revenue.rows
        assert {f"table:{place.relation}" for place in revenue.value} <= {node.id for node in told.nodes}
        assert client.get("/lineage").json().keys() == {"nodes", "edges"}
        assert client.get("/views/revenues/lineage").json()["code"] == "view.unknown"
        versions = TypeAdapter(shapes.Versions).validate_python(client.get("/views/revenue/versions").json()).versions
        assert [(v.version, v.state, v.gone_at) for v in versions] == [(1, "live", None)] and versions[0].came_at
        explained = client.get("/views/revenue/explain").json()
        assert {"in", "out", "read"} == explained["operators"][-1]["rows"].keys()
        assert explained["operators"][0]["rows"]["out"]["sum"] > 0
