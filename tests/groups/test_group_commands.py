"""Goal: `headrace groups` and `headrace.subscribe` do what their help says, on a project that does not run.

Method: the commands as a user types them, over a random log whose transactions the test has made itself.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from grouped import World

import headrace
from headrace.catalog.store import Catalog
from headrace.cli import display
from headrace.cli.commands import groups_read
from headrace.cli.main import main
from headrace.governance.audit import AuditLog, Wanted
from headrace.model.errors import HeadraceError
from headrace.model.group import GroupDelivery
from headrace.serve.groups import Groups

COMMAND = Path(sys.executable).with_name("headrace")
UNKNOWN = "there is no view, table or stored query '{}'"


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """As a user types it, but in this process."""
    command = ["headrace", "groups", *arguments, "--project", str(folder)]
    out, err, status = io.StringIO(), io.StringIO(), 0
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        patched = stack.enter_context(pytest.MonkeyPatch.context())
        patched.setattr(sys, "argv", command)
        patched.setattr(sys, "stdin", io.StringIO())
        patched.setattr(display.OUTPUT, "json", False)
        try:
            main()
        except SystemExit as end:
            status = int(end.code or 0)
    return subprocess.CompletedProcess(command, status, out.getvalue(), err.getvalue())


def answer(folder: Path, *arguments: str) -> Any:
    done = run(folder, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def refused(folder: Path, *arguments: str) -> str:
    done = run(folder, *arguments, "--json")
    assert done.returncode == 1, done.stdout
    code: str = json.loads(done.stderr)["error"]["code"]
    return code


def test_a_group_from_its_making_to_its_end(tmp_path: Path) -> None:
    world = World(tmp_path, 7, 40)
    feed = world.feed("orders")
    (made,) = answer(tmp_path, "create", "billing", "ORDERS", "--max-deliveries", "2")
    assert (made["relation"], made["kind"], made["lag"]) == ("orders", "table", 40)
    assert refused(tmp_path, "create", "billing", "orders") == "group.exists"
    first, second = answer(tmp_path, "read", "billing", "-n", "2")
    assert [first["commit"], second["commit"]] == feed[:2]
    assert first["changes"] == world.holds("orders", feed[0])
    assert answer(tmp_path, "ack", "billing", first["id"]) == [{"acknowledged": 1}]
    assert answer(tmp_path, "nack", "billing", second["id"], "--reason", "closed\tfor today") == [{"given_back": 1}]
    assert refused(tmp_path, "ack", "billing", second["id"]) == "group.lease"
    assert refused(tmp_path, "extend", "billing", second["id"]) == "group.lease"
    (again,) = answer(tmp_path, "read", "billing")
    assert (again["commit"], again["attempt"]) == (feed[1], 2)
    assert answer(tmp_path, "extend", "billing", again["id"], "--lease", "600") == [{"extended": 1}]
    assert run(tmp_path, "extend", "billing", again["id"]).stdout == "extended 1\n"
    assert refused(tmp_path, "extend", "billing", again["id"], "--lease", "0") == "group.invalid"
    answer(tmp_path, "nack", "billing", again["id"], "--reason", "closed\tfor good")
    (dead,) = answer(tmp_path, "dead", "ls", "billing")
    assert [(d["commit"], d["deliveries"], d["reason"]) for d in dead["dead"]] == [(feed[1], 2, "closed\tfor good")]
    number = str(dead["dead"][0]["number"])
    assert answer(tmp_path, "dead", "show", "billing", number)[0]["changes"] == world.holds("orders", feed[1])
    assert "closed\\tfor good" in run(tmp_path, "dead", "show", "billing", number).stdout
    (listed,) = answer(tmp_path, "ls")
    assert (listed["groups"][0]["frontier"], listed["groups"][0]["dead"]) == (feed[1], 1)
    assert answer(tmp_path, "dead", "replay", "billing", number) == [{"replayed": 1}]
    (back,) = answer(tmp_path, "read", "billing", "--ack")
    assert (back["commit"], back["attempt"], back["changes"]) == (feed[1], 3, world.holds("orders", feed[1]))
    rest = answer(tmp_path, "read", "billing", "-n", "999", "--consumer", "w")
    assert [entry["commit"] for entry in rest] == feed[2:]
    assert refused(tmp_path, "ack", "billing", "--upto", rest[-1]["id"]) == "group.invalid"
    done = answer(tmp_path, "ack", "billing", "--upto", rest[-1]["id"], "--consumer", "w")
    assert done == [{"acknowledged": len(rest)}]
    assert run(tmp_path, "read", "billing").stderr == "nothing to read in billing\n"
    assert run(tmp_path, "drop", "billing").returncode == 2  # nobody was asked
    assert answer(tmp_path, "drop", "billing", "--yes") == [{"dropped": "billing", "dead": 0}]
    assert refused(tmp_path, "read", "billing") == "group.unknown"
    entries, _ = AuditLog(tmp_path / ".headrace").recent(Wanted(), 99)
    assert [(e["action"], e["relation"], e["outcome"], e["detail"]["group"]) for e in entries if e["of"]] == [
        ("group_create", "ORDERS", "done", "billing"), ("group_create", "orders", "failed", "billing"),
        ("group_dead_replay", None, "done", "billing"), ("group_drop", None, "done", "billing"),
    ]  # fmt: skip


def test_errors_name_what_is_near(tmp_path: Path) -> None:
    World(tmp_path, 7, 5)
    assert run(tmp_path, "ls").stdout.startswith("no groups; `headrace groups create")
    answer(tmp_path, "create", "billing", "orders", "--from", "now")
    assert "did you mean 'billing'?" in run(tmp_path, "read", "biling").stderr
    assert "did you mean 'orders'?" in run(tmp_path, "create", "other", "ordrs").stderr
    (tmp_path / "searches").mkdir()
    (tmp_path / "searches/urgent.yaml").write_text("view: v\nquery: late\n")
    assert "did you mean 'urgent'?" in run(tmp_path, "create", "other", "urgnt").stderr
    error = json.loads(run(tmp_path, "create", "other", "nosuch", "--json").stderr)["error"]
    assert (error["what"], error["next"]) == (UNKNOWN.format("nosuch"), "there are: clicks, orders, urgent")
    assert refused(tmp_path, "create", "other", "orders", "--from", "6") == "group.position"
    assert refused(tmp_path, "create", "other", "orders", "--from", "soon") == "group.invalid"
    assert refused(tmp_path, "create", "other", "orders", "--lease", "0") == "group.invalid"
    assert refused(tmp_path, "ack", "billing", "5") == "group.lease"
    assert refused(tmp_path, "ack", "billing", "6.1") == "group.lease"
    assert refused(tmp_path, "dead", "show", "billing", "1") == "group.letter"


def test_before_anything_has_run_it_says_what_to_run(tmp_path: Path) -> None:
    (tmp_path / "headrace.yaml").write_text("")
    assert "headrace up" in run(tmp_path, "create", "billing", "ordes").stderr
    (tmp_path / ".headrace").mkdir(exist_ok=True)
    Catalog(tmp_path / ".headrace/catalog.db").close()  # as `headrace plan` leaves it
    done = run(tmp_path, "create", "billing", "ordes", "--json")
    error = json.loads(done.stderr)["error"]
    assert (done.returncode, error["code"], error["what"]) == (1, "source.no_table", UNKNOWN.format("ordes"))
    assert error["why"].startswith("nothing has come in yet: `headrace up` has not run")
    assert error["next"].startswith("headrace up, and ask again")


def test_a_reader_that_follows_gets_what_comes_until_it_is_interrupted(tmp_path: Path) -> None:
    world = World(tmp_path, 7, 10)
    answer(tmp_path, "create", "g", "orders")
    follower = subprocess.Popen(
        [COMMAND, "groups", "read", "g", "--follow", "--ack", "--json", "-n", "5"],
        stdout=subprocess.PIPE, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert follower.stdout is not None
    seen = [json.loads(follower.stdout.readline())["commit"] for _ in world.feed("orders")]
    world.grow(10)
    while len(seen) < len(world.feed("orders")):
        seen.append(json.loads(follower.stdout.readline())["commit"])
    deadline = time.monotonic() + 20
    while answer(tmp_path, "ls")[0]["groups"][0]["in_flight"] and time.monotonic() < deadline:
        time.sleep(0.05)  # what was printed last is acknowledged a moment later
    os.kill(follower.pid, signal.SIGINT)
    assert follower.wait(20) == 0
    follower.stdout.close()
    assert seen == world.feed("orders")
    assert answer(tmp_path, "ls")[0]["groups"][0]["in_flight"] == 0


@pytest.mark.parametrize("follow", [False, True])
def test_a_reader_that_is_interrupted_before_anything_has_come_ends_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], follow: bool
) -> None:
    World(tmp_path, 7, 10)
    answer(tmp_path, "create", "g", "orders")

    def interrupted(*given: Any) -> list[GroupDelivery]:
        signal.raise_signal(signal.SIGINT)
        return []

    monkeypatch.setattr(Groups, "read", interrupted)
    before = signal.getsignal(signal.SIGINT)
    try:
        groups_read.run("g", wait=60.0, follow=follow, project=tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    out, err = capsys.readouterr()
    assert (out, err.strip()) == ("", "")


def test_two_readers_in_python_share_a_group_and_each_transaction_goes_to_one(tmp_path: Path) -> None:
    world = World(tmp_path, 9, 60)
    seen: dict[str, list[int]] = {"a": [], "b": []}

    def reader(name: str) -> None:
        with headrace.subscribe("g", "orders", project=tmp_path, consumer=name, lease_s=60) as mine:
            while found := mine.read(2, 0.5):
                seen[name] += [delivery.commit for delivery in found]
                mine.ack(*found)

    threads = [threading.Thread(target=reader, args=(name,)) for name in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen["a"] + seen["b"]) == world.feed("orders")
    assert all(commits == sorted(commits) for commits in seen.values())


def test_a_subscription_iterates_until_it_is_closed_and_follows_only_its_own(tmp_path: Path) -> None:
    world = World(tmp_path, 9, 12)
    with headrace.subscribe("g", "orders", project=tmp_path) as mine:
        commits = []
        for delivery in mine:
            commits.append(delivery.commit)
            if len(commits) == len(world.feed("orders")):
                assert mine.ack_upto(delivery) == len(commits)
                mine.close()
        assert commits == world.feed("orders")
    for relation, code in (("clicks", "group.relation"), (None, None)):
        try:
            with headrace.subscribe("g", relation, project=tmp_path) as same:
                assert (same.read(), code) == ([], None)
        except HeadraceError as error:
            assert error.code == code
    with pytest.raises(HeadraceError) as unknown, headrace.subscribe("h", project=tmp_path):
        pass
    assert unknown.value.code == "group.unknown"
