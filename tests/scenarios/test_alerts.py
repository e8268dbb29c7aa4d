"""Goal: a project tells what happens in its views by webhook and mail, through a kill, a backup and a failing receiver.

Method: the installed command. Transactions are pushed over HTTP; a real HTTP receiver and a real mail server keep what
they are sent. What the receiver was told, repeats dropped by id, adds up to the view after every commit; the view is
counted in plain Python.
"""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import warm_command
from alert_receivers import HookReceiver, MailServer, contents, once
from project_folder import ProjectFolder

COMMAND = str(Path(sys.executable).with_name("headrace"))
TABLES = {"orders": {"columns": {"id": "int not null", "region": "string", "amount": "int"}, "key": "id"}}
LARGE = "SELECT region, sum(amount) AS total FROM orders GROUP BY region HAVING sum(amount) > 100"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def headrace(folder: Path, *arguments: str) -> dict[str, Any]:
    done = warm_command.run(folder, *arguments, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


@contextmanager
def up(folder: Path, end: signal.Signals = signal.SIGTERM) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The address of the project's HTTP source while `headrace up` runs, and what it tells."""
    with subprocess.Popen([COMMAND, "up", "--json"], cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told: list[dict[str, Any]] = []
        try:
            ready = next(event for event in map(json.loads, process.stdout) if event["event"] == "ready")
            threading.Thread(target=lambda: told.extend(map(json.loads, process.stdout or ())), daemon=True).start()
            yield ready["sources"][0]["endpoint"], told
        finally:
            process.send_signal(end)
            process.wait(60)


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.spark
def test_what_happens_in_a_view_is_told_once_it_has_happened(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    shop = project.path
    orders: dict[int, tuple[str, int]] = {}
    after: dict[int, Counter[str]] = {}  # commit -> the view

    def asked(endpoint: str, question: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        token = (shop / ".headrace/tokens/shop").read_text().strip()
        given = json.dumps(body).encode() if body else None
        request = urllib.request.Request(f"{endpoint}/{question}", given, {"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return dict(json.loads(answer.read()))

    def push(endpoint: str, *rows: tuple[int, str, int], of: str = "view=large") -> None:
        given = [{"id": i, "region": region, "amount": amount} for i, region, amount in rows]
        commit = asked(endpoint, "transactions", {"tables": {"orders": {"upsert": given}}})["commit"]
        orders.update({i: (region, amount) for i, region, amount in rows})
        totals = Counter[str]()
        for region, amount in orders.values():
            totals[region] += amount
        after[commit] = Counter(json.dumps({"region": r, "total": t}) for r, t in totals.items() if t > 100)
        asked(endpoint, f"wait?token={commit}&timeout=20&{of}")

    with HookReceiver() as hook, HookReceiver() as matches, MailServer() as mails:
        project.source("shop", "http", port=0, tables=TABLES)
        project.view("large", LARGE)
        project.write(
            "sinks/hook.yaml", f"type: webhook\nurl: {hook.url}\nsecret: env:HOOK_SECRET\non: both\ntimeout_s: 2\n"
        )
        project.write("searches/larger.yaml", 'view: large\nquery: "total:>=160"\n')
        project.write(
            "sinks/larger.yaml", f"type: webhook\nurl: {matches.url}\nsecret: env:HOOK_SECRET\nsearches: [larger]\n"
        )
        project.sink("mail", "mail", host="127.0.0.1", port=mails.port, to="ann@example.com", **{"from": "shop@example.com"},
                     subject="{region} is {event}", at_most="1000/hour")  # fmt: skip
        findings = [
            f for part in headrace(shop, "doctor")["examined"] if part["kind"] == "sink" for f in part["findings"]
        ]
        assert {finding["state"] for finding in findings} == {"ok"}, findings
        with up(shop, signal.SIGKILL) as (endpoint, told):
            push(endpoint, (1, "north", 150))
            push(endpoint, (2, "south", 90), (1, "north", 160))
            push(endpoint, (3, "south", 90), (1, "north", 5))
            until(lambda: len({request.id for request in hook.requests}) == 3 and len(mails.mails) == 3)
            hook.usual = matches.usual = 503
            push(endpoint, (2, "south", 5))
            push(endpoint, (4, "west", 500))
            until(lambda: {event["sink"] for event in told if event["event"] == "sink.failed"} == {"hook", "larger"})
            until(lambda: len(mails.mails) == 5)  # one receiver that is down holds up nobody
            (failed,) = [e["error"] for e in told if e["event"] == "sink.failed" and e["sink"] == "hook"]
            assert (failed["code"], failed["where"]) == ("sink.refused", "sinks/hook.yaml")
            assert "HTTP 503" in failed["why"]
            until(lambda: headrace(shop, "alerts", "ls")["waiting"]["mail"] == 0)
            headrace(shop, "backup", str(tmp_path / "backup"))
        headrace(tmp_path, "restore", str(tmp_path / "backup"), str(tmp_path / "again"))
        assert headrace(tmp_path / "again", "alerts", "ls")["waiting"] == {"hook": 1, "larger": 1, "mail": 0}
        hook.usual = matches.usual = 204
        hook.answers.append((400, {}, "not this one"))
        with up(shop) as (endpoint, _):

            def known() -> dict[str, Any]:
                return next(s for s in headrace(shop, "status")["sinks"] if s["name"] == "hook")

            until(lambda: known()["quarantined"] == {"large": 1})
            assert known()["quarantine"] == {"what": "it could not tell", "where": "`headrace alerts ls hook`"}
            assert headrace(shop, "alerts", "replay", "hook", "--all") == {"replayed": 1}
            push(endpoint, (2, "south", 200), (5, "west", 1))
            push(endpoint, (6, "east", 101), of="")  # of all views and sinks
    messages = once(hook.requests)
    assert sorted(message["commit"] for message in messages) == sorted(after)
    for commit, expected in after.items():
        assert contents(m for m in messages if m["commit"] <= commit) == {"large": expected}, commit
    found = once(matches.requests)  # of the rows that the stored query matches, through the same kill
    assert {message["query"] for message in found} == {"larger"}
    for commit, every in after.items():
        larger = Counter({row: n for row, n in every.items() if json.loads(row)["total"] >= 160})
        assert contents(m for m in found if m["commit"] <= commit).get("large", Counter()) == larger, commit
    assert messages[1]["changed"] == [
        {"before": {"region": "north", "total": 150}, "after": {"region": "north", "total": 160}}
    ]
    subjects = [mail.message["Subject"] for mail in mails.mails]
    assert subjects[:3] == ["north is entered", "north is changed", "south is entered (and 1 more)"]
    assert subjects[-1] == "east is entered"
    with sqlite3.connect(tmp_path / "backup" / "kept" / "outbox" / "hook.db") as kept:
        assert kept.execute("select view, entered, left from message").fetchall() == [("large", 0, 1)]
    kept.close()
    assert not list((tmp_path / "backup" / "kept" / "outbox").glob("*-*"))
