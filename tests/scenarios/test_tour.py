"""Goal: the five minutes and the Python of README.md work as they stand there.

Method: its blocks are taken out of the document and run, on a project that `headrace init` has made.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml

from headrace.testing.ports import free_port

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("own_jvm")]

README = Path(__file__).parents[2] / "README.md"
WAIT_S = 180
PORT = 7071  # of the tour; the test asks for a free one


def blocks(language: str) -> list[str]:
    """The code of README.md in one language (or, without one, its commands), in order."""
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", README.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [code for name, code in fences if name == language]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    shell("headrace init shop", tmp_path)
    folder = tmp_path / "shop"
    source = folder / "sources/shop.yaml"
    assert yaml.safe_load(source.read_text()) == yaml.safe_load(blocks("yaml")[0])
    assert yaml.safe_load((folder / "sinks/local.yaml").read_text()) == yaml.safe_load(blocks("yaml")[1])
    assert re.sub("--.*\n", "", (folder / "views/revenue.sql").read_text()) == blocks("sql")[0]
    source.write_text(source.read_text().replace(f"port: {PORT}", f"port: {free_port()}"))
    settings = folder / "headrace.yaml"  # in the prose: psql, and functions in Python
    settings.write_text(f"{settings.read_text()}\npsql: {{port: {free_port()}}}\ncode: true\n")
    return folder


def shell(command: str, folder: Path, stdin: str = "") -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env={**os.environ, "PATH": path}, check=False, input=stdin,
        capture_output=True, text=True, timeout=WAIT_S,
    )  # fmt: skip
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


@pytest.fixture
def up(shop: Path) -> Iterator[str]:
    """`headrace up` of the tour; gives the address that it listens at."""
    begin = [line.partition("#")[0].strip() for line in blocks("")[1].splitlines()]
    assert begin == ["headrace init shop && cd shop", "headrace plan", "headrace up"]
    planned = shell(begin[1], shop)
    assert "+ view revenue" in planned and "incremental: " in planned and "Plan: 4 to create." in planned
    command = [str(Path(sys.executable).with_name("headrace")), *begin[-1].split()[1:], "--json"]
    with subprocess.Popen(command, cwd=shop, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        ready: dict[str, Any] = next(e for e in map(json.loads, process.stdout) if e["event"] == "ready")
        try:
            yield next(s["endpoint"] for s in ready["sources"]).removeprefix("http://")
        finally:
            process.send_signal(signal.SIGTERM)


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.5)


def in_duckdb(path: Path) -> list[Any]:
    """The view in the sink; nothing while the sink has the file, or has not made the table."""
    try:
        with duckdb.connect(str(path), read_only=True) as reader:
            return reader.sql("SELECT region, orders, CAST(revenue AS varchar) FROM revenue").fetchall()
    except duckdb.Error:
        return []


def test_the_five_minutes(shop: Path, up: str) -> None:
    push, asked, beside = blocks("")[2:5]
    assert push.startswith(f"curl -s 127.0.0.1:{PORT}/transactions ")
    assert json.loads(shell(push.replace(f"127.0.0.1:{PORT}", up), shop)) == {"commit": 2}
    until(lambda: "12.50" in shell("headrace show revenue", shop))
    until(lambda: in_duckdb(shop / "views.duckdb") == [("north", 1, "12.50")])
    rows, *changes = shell(asked, shop).splitlines()
    assert json.loads(rows)["rows"] == [{"region": "north", "orders": 1, "revenue": "12.50"}]
    assert changes[0] == "event: snapshot" and '"region":"north"' in changes[2]
    told: dict[str, str] = {}
    for line in beside.splitlines():
        command = line.partition("  #")[0].strip()
        verb = command.split()[1]
        if verb == "watch":
            command = f"timeout --preserve-status --signal INT 10 {command}"
        if verb == "drop":
            command += " --yes"
        told[verb] = told.get(verb, "") + shell(command, shop)
    assert (
        " ".join(told)
        == "doctor views show search queries watch wait frontier sql token explain profile top verify repair test log quarantine drop"
    )
    assert (
        "north" in told["show"]
        and told["show"].count("12.50") == 2
        and "north" in told["watch"]
        and "12.50" in told["sql"]
    )
    assert "12.50" in told["search"] and "12.50" in told["queries"]
    assert (shop / "searches/big.yaml").exists()
    assert "has reached commit 2" in told["wait"]
    assert "every live view and every sink has reached commit 2" in told["frontier"]
    assert "aggregate" in told["explain"]
    assert all(name in told["top"] for name in ("engine", "JVM", "Python worker", "log", "state"))
    assert "nothing is missing, 0 warnings" in told["doctor"] and "the running `headrace up` listens" in told["doctor"]
    assert told["quarantine"] == "nothing is set aside\n"
    assert "12.50" in told["log"] and "revenue" in told["profile"]
    assert "0 differences" in told["verify"] and "0 differences" in told["repair"]
    edited = shop / "views/idle_customers.sql"  # in the prose below: an edit, and a copy
    edited.write_text("SELECT region, count(*) AS customers FROM customers GROUP BY region")
    assert "~ view idle_customers" in shell("headrace apply", shop)
    shown = json.loads(shell("headrace show idle_customers --json", shop))
    assert shown["rows"] == [["north", 1]]
    prose(shop)
    shell("headrace backup ../copy && headrace restore ../copy ../again", shop)
    assert (shop.parent / "again/views/idle_customers.sql").read_text() == edited.read_text()


def prose(shop: Path) -> None:
    """What the tour says beside its blocks: templates, definitions as SQL, psql, functions in Python."""
    assert {"ctr", "files", "http", "postgres"} <= set(re.findall(r"^\w+", shell("headrace init --list", shop), re.M))
    shell('headrace sql "CREATE VIEW names AS SELECT id, name FROM customers"', shop)
    assert (shop / "views/names.sql").exists()
    (shop / "functions").mkdir()
    (shop / "functions/prices.py").write_text(
        "import headrace\n\n@headrace.function\ndef shout(text: str) -> str:\n    return text.upper()\n"
    )
    (shop / "views/loud.sql").write_text("SELECT id, shout(name) AS name FROM customers")
    assert "+ view loud" in shell("headrace apply", shop)
    port = yaml.safe_load((shop / "headrace.yaml").read_text())["psql"]["port"]
    psql = f"PGPASSWORD=$(cat .headrace/tokens/api) psql -XAt -F' ' -h 127.0.0.1 -p {port} -U me -d shop"
    assert shell(f"{psql} -c 'SELECT n.name, l.name FROM names n JOIN loud l USING (id)'", shop) == "Ada ADA\n"
    entries = json.loads(shell("headrace audit --json", shop))["entries"]
    assert {"token_create", "create", "apply"} <= {entry["action"] for entry in entries}


def test_from_python(shop: Path) -> None:
    running, testing = blocks("python")
    assert len([line for line in running.splitlines() if line]) <= 10
    told = shell(f"{sys.executable} - <<'END'\nfrom decimal import Decimal\n{running}\n{testing}\nEND", shop.parent)
    assert told == "[{'region': 'south', 'orders': 1, 'revenue': Decimal('7.00')}]\n0\n"
