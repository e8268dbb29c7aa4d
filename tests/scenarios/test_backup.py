"""Goal: a backup taken while changes come is the project at one commit, and a project again elsewhere; damage is told.

Method: the installed command. A client pushes transactions over HTTP while `headrace backup` copies; each copy is made a
project again and held against Spark batch over its own log, its sink against its views, and both against a model in
plain Python of what was pushed up to the end of its log. Every file of a copy is damaged in turn.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

import warm_command
from project_folder import ProjectFolder

COMMAND = str(Path(sys.executable).with_name("headrace"))
TABLES = {
    "orders": {"columns": {"id": "int not null", "region": "string", "amount": "int"}, "key": "id"},
    "regions": {"columns": {"name": "string not null", "manager": "string"}, "key": "name"},
}
VIEW = (
    "SELECT r.manager, count(*) AS n, sum(o.amount) AS t FROM orders o JOIN regions r ON o.region = r.name GROUP BY 1"
)


def headrace(folder: Path, *arguments: str) -> dict[str, Any]:
    done = warm_command.run(folder, *arguments, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def refused(folder: Path, *arguments: str) -> dict[str, Any]:
    done = warm_command.run(folder, *arguments, "--json")
    assert done.returncode == 1, done.stdout + done.stderr
    return dict(json.loads(done.stderr.splitlines()[-1])["error"])


@contextmanager
def up(folder: Path) -> Iterator[str]:
    """The address of the project's HTTP source while `headrace up` runs."""
    with subprocess.Popen([COMMAND, "up", "--json"], cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            ready = next(event for event in map(json.loads, process.stdout) if event["event"] == "ready")
            threading.Thread(target=lambda: [None for _ in process.stdout or ()], daemon=True).start()
            yield ready["sources"][0]["endpoint"]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def push(folder: Path, endpoint: str, changes: dict[str, Any]) -> int:
    token = (folder / ".headrace/tokens/shop").read_text().strip()
    request = urllib.request.Request(
        f"{endpoint}/transactions", json.dumps({"tables": changes}).encode(), {"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return int(json.loads(answer.read())["commit"])


def drawn(rng: random.Random) -> list[dict[str, Any]]:
    return [
        {"id": rng.randrange(60), "region": rng.choice("abc"), "amount": rng.randrange(9)}
        for _ in range(rng.randrange(1, 5))
    ]


def managed(orders: dict[int, dict[str, Any]]) -> list[tuple[str, int, int]]:
    """What the view shows."""
    regions = sorted({row["region"] for row in orders.values()})
    amounts = {region: [row["amount"] for row in orders.values() if row["region"] == region] for region in regions}
    return [(region.upper(), len(found), sum(found)) for region, found in amounts.items()]


@pytest.fixture
def shop(project: ProjectFolder) -> Path:
    project.source("shop", "http", port=0, tables=TABLES)
    project.view("managed", VIEW)
    project.sink("local", "duckdb", path="views.duckdb")
    return project.path


@pytest.mark.spark
def test_a_backup_of_a_running_project_is_the_project_at_one_commit(shop: Path, tmp_path: Path) -> None:
    rng, stop = random.Random(5), threading.Event()
    history: dict[int, list[dict[str, Any]]] = {}
    with up(shop) as endpoint:
        push(shop, endpoint, {"regions": {"insert": [{"name": n, "manager": n.upper()} for n in "abc"]}})

        def client() -> None:
            while not stop.is_set():
                rows = drawn(rng)
                history[push(shop, endpoint, {"orders": {"upsert": rows}})] = rows

        headrace(shop, "queries", "add", "large", "--view", "managed", "t:>5")
        headrace(shop, "search", "managed", "*")
        pusher = threading.Thread(target=client)
        pusher.start()
        taken = [headrace(shop, "backup", str(tmp_path / f"backup{number}")) for number in range(2)]
        stop.set()
        pusher.join()
        headrace(shop, "wait", "--token", str(max(history)))
        assert refused(shop, "backup", str(tmp_path / "backup0"))["code"] == "project.exists"
    assert taken[0]["commit"] < taken[1]["commit"]
    told, target = taken[0], tmp_path / "again"
    answer = headrace(tmp_path, "restore", str(tmp_path / "backup0"), str(target))
    assert (answer["commit"], answer["log_end"], answer["copied_anew"]) == (told["commit"], told["log_end"], [])
    assert (target / "searches/large.yaml").exists() and not (target / ".headrace/search").exists()
    shutil.copy(shop / "views.duckdb", target / "views.duckdb")  # the sink has gone on since
    with up(target) as endpoint:
        row = {"id": 100, "region": "a", "amount": 1000}
        commit = push(target, endpoint, {"orders": {"insert": [row]}})
        assert commit == told["log_end"] + 1
        headrace(target, "wait", "--token", str(commit))
        assert headrace(target, "verify")["differences"] == 0
        assert headrace(target, "verify", "--sink", "local")["differences"] == 0
    orders = {r["id"]: r for number, rows in sorted(history.items()) if number <= told["log_end"] for r in rows}
    with duckdb.connect(target / "views.duckdb", read_only=True) as store:
        found = store.execute("SELECT manager, n, t FROM managed ORDER BY 1").fetchall()
    assert found == managed({**orders, 100: row})
    damage_is_told(tmp_path / "backup1", tmp_path)


def damage_is_told(backup: Path, tmp_path: Path) -> None:
    """Of one file of each kind."""
    places = sorted(json.loads((backup / "backup.json").read_text())["files"])
    kinds = {Path(place).suffix or Path(place).parts[1]: place for place in places}
    for number, place in enumerate(kinds.values()):
        damaged = tmp_path / f"damaged{number}"
        shutil.copytree(backup, damaged)
        file = damaged / place
        data = bytearray(file.read_bytes())
        if number % 3 == 0:
            file.unlink()
        elif number % 3 == 1:
            data[random.Random(number).randrange(len(data))] ^= 4
            file.write_bytes(data)
        else:
            file.write_bytes(data[:-1])
        error = refused(tmp_path, "restore", str(damaged), str(tmp_path / f"restored{number}"))
        assert error["code"] == "backup.damaged" and place in error["where"]
    assert len(kinds) >= 6
    (backup / "backup.json").unlink()
    assert refused(tmp_path, "restore", str(backup), str(tmp_path / "never"))["code"] == "backup.damaged"
