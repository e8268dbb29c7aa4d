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
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import pyarrow as pa
import pytest
from contract import agreed
from pydantic import TypeAdapter

from headrace.api.shapes import reads
from headrace.api.shapes.lineage import ColumnLineage, Lineage
from headrace.engine.session import YIELDING
from headrace.governance.access import Access
from headrace.governance.roles import Role
from warm_jvm import own_jvm

PAGE = Path(__file__).parents[2] / "docs/reference/api.md"
COMMAND = Path(sys.executable).with_name("headrace")
WAIT_S = 120
pytestmark = [pytest.mark.spark, pytest.mark.together]


HUNDRED_THOUSAND = "(SELECT explode(sequence(1, 100000)) AS {0}) {0}"
ENDLESS = {
    "duckdb": "SELECT count(*) FROM range(1000000) a, range(1000000) b, range(1000000) c",
    "spark": "SELECT count(*) FROM " + " CROSS JOIN ".join(map(HUNDRED_THOUSAND.format, "abcd")),
}


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
    def source(self) -> str:
        return str(next(s for s in self.told["ready"]["sources"] if s["name"] == "shop")["endpoint"])

    def client(self) -> httpx.Client:
        """Asks as the owner; every answer is held against the contract."""
        url = self.told["api.started"]["url"]
        hooks = {"response": [agreed]}
        return httpx.Client(base_url=f"{url}/api", headers=self._bearer("api"), timeout=WAIT_S, event_hooks=hooks)

    def push(self, table: str, rows: list[dict[str, Any]], operation: str = "upsert") -> int:
        """The commit of a transaction that is pushed into the source."""
        pushed = httpx.post(
            f"{self.source}/transactions", json={"tables": {table: {operation: rows}}}, headers=self._bearer("shop")
        )
        return int(pushed.json()["commit"])

    def _bearer(self, name: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {(self.folder / '.headrace/tokens' / name).read_text().strip()}"}


def ask(running: Running, sql: str, engine: str, seconds: float = 60) -> httpx.Response:
    with running.client() as client:
        try:
            return client.post("/sql", json={"sql": sql, "engine": engine, "seconds": seconds})
        except httpx.TransportError:  # the server has ended
            return httpx.Response(503)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("up") / "shop"
    subprocess.run([COMMAND, "init", str(folder)], check=True, capture_output=True)
    source = folder / "sources/shop.yaml"
    aside = source.read_text().replace("  orders:\n", "    on_conflict: quarantine\n  orders:\n")  # of customers
    source.write_text(aside.replace("port: 7071", "port: 0"))
    with (folder / "headrace.yaml").open("a") as settings:
        settings.write("\napi: {port: 0}\n")
    with (folder / "errors").open("w") as errors:
        process = subprocess.Popen(
            [COMMAND, "up", "--json"], cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True, env=own_jvm()
        )
        try:
            made = Running(folder, process)
            yield made
            asked = [threading.Thread(target=ask, args=(made, sql, engine)) for engine, sql in ENDLESS.items()]
            for each in asked:
                each.start()
            time.sleep(1.5)  # they run, and are left so
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=WAIT_S)
        for each in asked:
            each.join()
    assert process.returncode == 0, (folder / "errors").read_text()
    assert "Traceback" not in (folder / "errors").read_text(), (folder / "errors").read_text()
    assert not (folder / ".headrace/api.json").exists()


def below(running: Running) -> dict[int, list[str]]:
    """The command lines of the processes of the project, by their numbers."""
    found = {}
    for process in psutil.Process(running.process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it has ended
            found[process.pid] = process.cmdline()
    return found


def test_what_answers_questions_is_there_before_the_first(running: Running) -> None:
    """Of all tests the first: nobody has asked yet."""
    with running.client() as client:
        assert client.get("/health").status_code == 200
    end = time.monotonic() + WAIT_S
    while not any("headrace.serve.asking" in line for line in below(running).values()):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_the_page_of_the_reference_is_so(running: Running) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    examples = re.findall(r"^```sh\n(.*?)^```\n^```json\n(.*?)^```$", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert len(examples) == 6
    names = "".join(re.findall(r"^(?:URL|OWNER)=.*\n", examples[0][0], flags=re.MULTILINE))
    for commands, wanted in examples:
        done = subprocess.run(
            ["bash", "-euc", names + commands], cwd=running.folder, env={**os.environ, "PATH": path, "SOURCE": running.source},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert (done.stdout, done.returncode) == (wanted.rstrip("\n"), 0), done.stderr


def test_a_change_that_is_pushed_is_with_who_follows(running: Running) -> None:
    with running.client() as client:
        with client.stream("GET", "/views/idle_customers/changes") as response:
            lines = response.iter_lines()
            while not next(lines).startswith("data:"):
                pass
            row = {"id": 7, "name": "<script>alert(1)</script>", "region": "west"}
            began = time.monotonic()
            commit = running.push("customers", [row])
            data = next(line for line in lines if line.startswith("data:") and '"weight"' in line)
            assert json.loads(data[5:]) == {"commit": commit, "rows": [{"weight": 1, "row": row}]}
            assert time.monotonic() - began < 10
        told = client.get("/feeds/customers/transactions?limit=1").json()
        assert told[0]["commit"] == commit
        assert told[0]["changes"] == [{"table": "customers", "op": "upsert", "row": row}]
        running.push("customers", [{**row, "region": "east"}])
        for moment in (commit, told[0]["committed_at"]):
            by_then = client.get("/feeds/customers/transactions", params={"limit": 1, "at": moment}).json()
            assert by_then == told, moment
            found = client.get("/feeds/customers/search", params={"q": "alert(1)", "at": moment}).json()
            assert found["transactions"] == told, moment
        at = client.get(f"/views/idle_customers/rows?at={commit - 1}").json()
        assert 7 not in [each["id"] for each in at["rows"]]


def test_spark_gives_way_to_who_answers_readers(running: Running) -> None:
    with running.client() as client:
        assert client.get("/views/revenue/rows").status_code == 200
    lines = below(running)
    own, nice = os.getpriority(os.PRIO_PROCESS, 0), dict[int, int]()
    for pid in lines:
        with suppress(ProcessLookupError):  # it has ended
            nice[pid] = os.getpriority(os.PRIO_PROCESS, pid) - own
    java = next(pid for pid, line in lines.items() if line and Path(line[0]).name == "java")
    spark = {java, *(each.pid for each in psutil.Process(java).children(recursive=True))}
    assert len(spark) > 1, "it has no Python worker"
    assert {nice[pid] for pid in spark & nice.keys()} == {YIELDING}
    for module in ("headrace.api.serving", "headrace.serve.asking"):
        assert [nice[pid] for pid, line in lines.items() if module in line and pid in nice] == [0], module


def test_a_query_that_does_not_end_is_ended_by_either_engine_and_the_next_has_its_turn(running: Running) -> None:
    small = {"duckdb": "SELECT 1 AS a", "spark": "SELECT count(*) AS a FROM orders"}
    assert ask(running, small["spark"], "spark", 60).status_code == 200  # what is loaded once is loaded
    for engine, sql in ENDLESS.items():
        began = time.monotonic()
        answer = ask(running, sql, engine, 2)
        assert (answer.status_code, answer.json()["code"]) == (504, "query.timeout"), answer.text
        assert answer.json()["what"] == "the query took more than 2 seconds, and was ended"
        assert time.monotonic() - began < 10
        began = time.monotonic()
        assert ask(running, small[engine], engine, 60).json()["more"] is False
        assert time.monotonic() - began < 20, "the one before goes on"


def test_a_sink_stands_still_while_it_is_paused(running: Running) -> None:
    def sink() -> dict[str, Any]:
        return dict(json.loads(ask("status", "--json"))["sinks"][0])

    def ask(*arguments: str) -> str:
        done = subprocess.run([COMMAND, *arguments], cwd=running.folder, capture_output=True, text=True, check=True)
        return done.stdout

    with running.client() as client:
        paused = client.post("/sinks/local/pause").json()
        assert (paused["sink"], paused["state"]) == ("local", "paused")
        before = sink()["frontier"]
        row = {"id": 8, "name": "Eve", "region": "east"}
        commit = running.push("customers", [row])
        assert client.post("/wait", json={"token": commit, "view": "idle_customers"}).status_code == 200
        late = client.post("/wait", json={"token": commit, "sink": "local", "timeout": 1})
        assert (late.status_code, late.json()["code"]) == (504, "wait.timeout") and "paused" in late.json()["why"]
        assert (sink()["state"], sink()["frontier"]) == ("paused", before)
        assert ask("resume", "local").startswith("sink local is running")
        assert client.post("/wait", json={"token": commit, "sink": "local"}).status_code == 200
        assert client.post("/sinks/locl/pause").json()["next"] == "did you mean 'local'?"


def test_orders_by_the_hour_with_those_of_the_day_before(running: Running) -> None:
    rows = [
        {"id": 100 + i, "customer_id": i % 2, "amount": f"{i}.50", "placed_at": at}
        for i, at in enumerate(("2026-03-28T06:10:00Z", "2026-03-29T05:59:00Z", "2026-03-29T07:00:00Z"))
    ]
    with running.client() as client:
        commit = running.push("orders", rows)
        client.post("/wait", json={"token": commit, "view": "revenue"})
        asked = {"time": "placed_at", "every": "1h", "value": "sum(amount)", "compare": "1d", "zone": "Europe/Berlin",
                 "from": "2026-03-29T05:00:00Z", "to": "2026-03-29T08:00:00Z", "id": "gte.100"}  # fmt: skip
        told = client.get("/views/orders/series", params=asked).json()
        assert [column["type"] for column in told["columns"]] == ["timestamp", "decimal(38,2)", "decimal(38,2)"]
        # The clock went forth that night: seven in the morning was an hour earlier than the day before.
        assert [tuple(row.values()) for row in told["rows"]] == [
            ("2026-03-29T05:00:00Z", "1.50", "0.50"), ("2026-03-29T06:00:00Z", None, None), ("2026-03-29T07:00:00Z", "2.50", None),
        ]  # fmt: skip
        counted = {**asked, "value": "count(*)", "by": "customer_id", "fill": "zero", "format": "csv", "limit": 4}
        csv = client.get("/views/orders/series", params=counted)
        assert csv.text.splitlines()[:3] == [
            '"time","customer_id","value","before"', '"2026-03-29T05:00:00Z",0,0,1', '"2026-03-29T05:00:00Z",1,1,0',
        ]  # fmt: skip
        assert csv.headers["x-headrace-more"] == "true"
        arrow = client.get("/views/orders/series", params={**asked, "format": "arrow", "fill": "linear", "at": commit})
        assert pa.ipc.open_stream(arrow.content).read_all()["value"].to_pylist() == [1.5, 2.0, 2.5]
        earlier = client.get("/views/orders/series", params={**asked, "at": commit - 1}).json()
        assert [row["value"] for row in earlier["rows"]] == [None] * 3
        refused = client.get("/views/orders/series", params={**asked, "every": "7h"})
        assert (refused.status_code, refused.json()["where"]) == (400, "every")
        assert client.get("/views/orders/series", params={**asked, "from": "noon"}).json()["where"] == "from"


def test_a_port_that_is_configured_and_taken_keeps_it_from_starting(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        (tmp_path / "headrace.yaml").write_text(f"api: {{port: {port}}}\n")
        done = subprocess.run([COMMAND, "up", "--json"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    error = json.loads(done.stderr.strip().splitlines()[-1])["error"]
    assert (error["code"], error["where"]) == ("api.port", "headrace.yaml: api.port") and str(port + 1) in error["next"]


def test_operators_columns_and_versions_of_a_view_are_told(running: Running) -> None:
    with running.client() as client:
        told = TypeAdapter(Lineage).validate_python(client.get("/lineage?columns=true").json())
        one = TypeAdapter(ColumnLineage).validate_python(client.get("/views/Revenue/lineage").json())
        (revenue,) = [column for column in told.columns if (column.relation, column.column) == ("revenue", "revenue")]
        (same,) = [column for column in one.columns if column.column == "revenue"]
        assert (revenue.value, revenue.rows) == (same.value, same.rows) and revenue.value and revenue.rows
        assert {f"table:{place.relation}" for place in revenue.value} <= {node.id for node in told.nodes}
        assert client.get("/lineage").json().keys() == {"nodes", "edges"}
        assert client.get("/views/revenues/lineage").json()["code"] == "view.unknown"
        versions = TypeAdapter(reads.Versions).validate_python(client.get("/views/revenue/versions").json()).versions
        assert [(v.version, v.state, v.gone_at) for v in versions] == [(1, "live", None)] and versions[0].came_at
        explained = client.get("/views/revenue/explain").json()
        assert {"in", "out", "read"} == explained["operators"][-1]["rows"].keys()
        assert explained["operators"][0]["rows"]["out"]["sum"] > 0


def test_a_view_is_edited_and_what_was_set_aside_is_sent_again(running: Running) -> None:
    """The verbs over HTTP carry out what is asked; oracle: the rows that were pushed, and the commands."""
    customer = {"id": 50, "name": "Mia", "region": "west"}
    running.push("customers", [customer])
    with running.client() as client:

        def names() -> list[str]:
            return [row["name"] for row in client.get("/views/idle_customers/rows").json()["rows"]]

        (running.folder / "views/idle_customers.sql").write_text(
            "SELECT id, upper(name) AS name FROM customers WHERE id >= 50"
        )
        planned = client.post("/plan").json()
        assert [(c["action"], c["kind"], c["name"]) for c in planned["changes"] if c["action"] != "keep"] == [
            ("replace", "view", "idle_customers")
        ]
        assert client.get("/views/idle_customers").json()["version"] == 1  # it is planned, and no more
        assert client.post("/apply").json()["changes"] == planned["changes"]
        assert (client.get("/views/idle_customers").json()["version"], names()) == (2, ["MIA"])

        commit = running.push("customers", [{**customer, "name": "Noa"}], "insert")
        assert client.post("/wait", json={"token": commit, "view": "idle_customers"}).status_code == 200
        (entry,) = client.get("/quarantine?table=customers").json()
        assert (entry["id"], entry["row"]["name"], names()) == (f"customers:{commit}:1", "Noa", ["MIA"])
        sent = client.post(f"/quarantine/{entry['id']}/replay", json={"as": "replace"}).json()
        assert sent == {"commit": commit + 1, "changes": 1, "again": []}
        assert names() == ["NOA"] and client.get("/quarantine?table=customers").json() == []

        assert client.post("/wait", json={"token": commit + 1}).status_code == 200
        told = client.get("/frontier").json()
        done = subprocess.run(
            [COMMAND, "frontier", "--json"], cwd=running.folder, capture_output=True, text=True, check=True
        )
        known = json.loads(done.stdout)
        assert (told["commit"], told["least"], told["lag"]) == (commit + 1, commit + 1, 0)
        for kind, every in (("views", ["idle_customers", "revenue"]), ("sinks", ["local"])):
            reached = sorted((each["name"], each["commit"]) for each in told[kind])
            assert reached == sorted((each["name"], each["commit"]) for each in known[kind])
            assert reached == [(name, commit + 1) for name in every]
        (source,), (sink,) = client.get("/sources").json(), client.get("/sinks").json()
        assert (source["name"], source["state"]) == ("shop", "running")
        assert sorted(source["tables"]) == ["customers", "orders"]
        assert (sink["name"], sink["frontier"], sink["state"]) == ("local", commit + 1, "running")


def test_what_is_kept_aside_is_told_corrected_and_dropped(running: Running) -> None:
    """Of tables, of a view that goes on without a row, one that fails on it and one that is refused."""
    for name, text in (
        ("without", "-- on_error: set_aside\nSELECT id, 100 div (id - 61) AS share FROM customers"),
        ("fails", "SELECT id, 100 div (id - 61) AS share FROM customers"),
        ("refused", "SELECT id FROM nowhere"),
    ):
        (running.folder / f"views/{name}.sql").write_text(text)
    row = {"id": 60, "name": "Ida", "region": "west"}
    with running.client() as client:
        planned = {view["name"]: view["refused"] for view in client.post("/plan").json()["views"]}
        assert planned["refused"]["code"] == "sql.unknown_relation" and planned["without"] is None
        client.post("/apply").raise_for_status()
        running.push("customers", [row])
        twice = [running.push("customers", [{**row, "name": name}], "insert") for name in ("Ada", "Eve")]
        commit = running.push("customers", [{**row, "id": 61}])
        assert client.post("/wait", json={"token": commit, "view": "without"}).json() == {
            "token": str(commit), "commit": commit, "reached": commit, "of": "view without"
        }  # fmt: skip
        kept = {entry["id"]: entry for entry in client.get("/quarantine").json()}
        ada, eve, of_view = kept
        assert (ada, eve) == tuple(f"customers:{each}:1" for each in twice)
        assert (kept[of_view]["view"], kept[of_view]["table"]) == ("without", "customers")
        assert (kept[of_view]["row"]["id"], kept[of_view]["weight"]) == (61, 1)
        end, views = time.monotonic() + WAIT_S, dict[str, Any]()
        while not views or "table" not in views["fails"]["failing"][0]:  # its rows are looked for between steps
            assert time.monotonic() < end, views["fails"]
            views = {view["name"]: view for view in client.get("/status").json()["views"]}
        assert views["without"]["quarantined"] == {"without": 1} and views["refused"]["state"] == "refused"
        (failing,) = views["fails"]["failing"]
        assert (failing["table"], failing["row"]["id"], failing["weight"]) == ("customers", 61, 1)
        assert client.get("/views/fails").json()["failing"] == [failing]
        assert {view["name"]: view["state"] for view in client.get("/frontier").json()["views"]}["fails"] == "failed"

        (again,) = client.post(f"/quarantine/{of_view}/replay").json()["again"]  # it still throws
        sent = client.post(f"/quarantine/{ada}/fix", json={"cells": {"id": "62"}}).json()
        assert (sent["changes"], sent["again"]) == (1, [])
        assert client.get("/views/customers/row?id=62").json()["row"] == {**row, "id": 62, "name": "Ada"}
        assert client.delete(f"/quarantine/{eve}").json() == {"dropped": 1}
        assert [entry["id"] for entry in client.get("/quarantine").json()] == [again] != [of_view]
        done = [(e["action"], e["outcome"]) for e in client.get("/audit").json() if e["detail"].get("id") in (ada, eve)]
        assert done == [
            ("quarantine_fix", "begun"), ("quarantine_fix", "done"),
            ("quarantine_drop", "begun"), ("quarantine_drop", "done"),
        ]  # fmt: skip
        assert client.get("/top").json()["rows"] >= commit - 1 and client.get("/views").status_code == 200


def test_an_error_names_to_a_limited_token_nothing_that_it_does_not_reach(running: Running) -> None:
    """Of a source that is not there, of a view that was refused, of views in a circle; the owner is told all."""
    for name, text in (
        ("near", "SELECT id FROM customer"),
        ("ring", "SELECT id FROM rong"),
        ("rong", "SELECT id FROM ring"),
    ):
        (running.folder / f"views/{name}.sql").write_text(text)
    access = Access(running.folder / ".headrace")
    limited = access.tokens.create("limited", Role.VIEWER, ["near", "ring"])[1]
    access.close()
    reaches = "this token reaches: near, ring"
    with running.client() as owner, running.client() as client:
        owner.post("/apply").raise_for_status()
        client.headers["Authorization"] = f"Bearer {limited}"
        for asked, code, known in (
            ({"token": "x:1", "view": "near"}, "wait.token", "shop"),
            ({"token": 0, "view": "near"}, "sql.unknown_relation", "customers"),
            ({"token": 0, "view": "ring"}, "view.cycle", "rong"),
        ):
            told, kept = (each.post("/wait", json=asked).json() for each in (owner, client))
            assert told["code"] == kept["code"] == code and known in str(told), told
            assert (kept["why"], kept["next"]) == ("", reaches) and known not in str(kept), kept
