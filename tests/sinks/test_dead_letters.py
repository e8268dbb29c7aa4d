"""Goal: what could not be told can be looked at, is told after all by the id that it had, or is dropped.

Method: the installed command beside a sink that a real receiver refuses; its letters, before and after.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hook_sinks import Hooks, begun, caught, changed, sales

from alert_receivers import HookReceiver, MailServer
from headrace.model.errors import HeadraceError
from headrace.sinks.alerts.dead import DeadLetters
from headrace.sinks.connectors.mail.connector import MailSink

COMMAND = str(Path(sys.executable).with_name("headrace"))


def headrace(folder: Path, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [COMMAND, "alerts", *arguments, "--json"], cwd=folder, check=False, capture_output=True, text=True
    )
    return dict(json.loads((done.stdout or done.stderr).splitlines()[-1]))


@pytest.fixture
def refused(sinks: Hooks, receiver: HookReceiver, tmp_path: Path) -> Hooks:
    """A sink with two dead letters and a message between them that was taken."""
    (tmp_path / "headrace.yaml").write_text("name: shop\n")
    some = sales()
    sink = begun(sinks.opened(), some)
    receiver.answers += [(400, {}, "not that"), 204, 404]
    changed(sink, some, 2, ((1, "a"), 1), ((2, "b"), 1))
    changed(sink, some, 3, ((3, "c"), 1))
    changed(sink, some, 4, ((4, "d"), 1))
    return sinks


def test_dead_letters_are_listed_with_their_reasons(refused: Hooks, tmp_path: Path) -> None:
    answer = headrace(tmp_path, "ls")
    assert answer["waiting"] == {"alerts": 0}
    told = [{key: one[key] for key in ("sink", "number", "view", "commit", "rows", "reason")} for one in answer["dead"]]
    assert told == [
        {"sink": "alerts", "number": 1, "view": "sales", "commit": 2, "rows": 2, "reason": "HTTP 400: not that"},
        {"sink": "alerts", "number": 3, "view": "sales", "commit": 4, "rows": 1, "reason": "HTTP 404"},
    ]
    assert answer["letters"] == {"alerts": 2}  # of three messages: those of one letter are dead together
    first = headrace(tmp_path, "ls", "--limit", "1")
    assert ([one["number"] for one in first["dead"]], first["letters"]) == ([1], {"alerts": 2})
    found, more = DeadLetters(tmp_path).first(["alerts", "alerts"], 3)
    assert ([one.number for one in found], more) == ([1, 3, 1], True)
    assert DeadLetters(tmp_path).first(["alerts", "alerts"], 4)[1] is False
    (message,) = headrace(tmp_path, "show", "alerts", "3")["messages"]
    assert message["entered"] == [{"id": 4, "note": "d"}]
    error = headrace(tmp_path, "show", "alert", "3")["error"]
    assert (error["code"], error["next"]) == ("sink.unknown", "did you mean 'alerts'?")
    for ask in (DeadLetters(tmp_path).show, DeadLetters(tmp_path).drop, DeadLetters(tmp_path).replay):
        with pytest.raises(HeadraceError) as caught:
            ask("alerts", 2)
        assert caught.value.code == "sink.letter"


def test_a_dead_letter_is_sent_again_by_its_id(refused: Hooks, receiver: HookReceiver, tmp_path: Path) -> None:
    sink = refused.made[0]
    assert headrace(tmp_path, "replay", "alerts", "3") == {"replayed": 1}
    assert sink.ready()
    assert receiver.requests[-1].id == receiver.requests[2].id
    assert receiver.requests[-1].body == receiver.requests[2].body
    assert sink.quarantined == {"sales": 2}
    assert headrace(tmp_path, "drop", "alerts", "--all", "--yes") == {"dropped": 1}
    assert sink.ready()
    assert sink.quarantined == {}
    assert len(receiver.requests) == 4


def test_a_mail_is_sent_again_to_those_who_lack_it(tmp_path: Path) -> None:
    (tmp_path / "headrace.yaml").write_text("name: shop\n")
    some = sales()
    with MailServer() as server:
        options = {"host": "127.0.0.1", "port": server.port, "from": "a@b.test", "to": ["ann@b.test", "bob@b.test"]}
        sink = MailSink("mail", options, {}, base=tmp_path)
        sink.open()
        begun(sink, some)
        server.refuses = {"bob@b.test": "550 nobody here"}
        changed(sink, some, 2, ((1, "a"), 1))
        (letter,) = headrace(tmp_path, "ls", "mail")["dead"]
        assert (letter["recipients"], letter["reason"]) == (["bob@b.test"], "bob@b.test: 550 nobody here")
        server.refuses = {}
        headrace(tmp_path, "replay", "mail", "--all")
        sink.ready()
        assert [mail.to for mail in server.mails] == [("ann@b.test",), ("bob@b.test",)]
        sink.close()


def test_what_a_mail_gathered_is_no_request_and_holds_up_none(
    sinks: Hooks, receiver: HookReceiver, tmp_path: Path
) -> None:
    """The sink's file names another type now."""
    some = sales()
    with MailServer() as server:
        options = {"host": "127.0.0.1", "port": server.port, "from": "a@b.test", "to": "ann@b.test"}
        mail = MailSink("alerts", options, {}, base=tmp_path)
        mail.open()
        begun(mail, some)
        server.answers += ["451 try later"] * 9
        for commit in (2, 3, 4):
            caught(mail, some, commit, ((commit, "a"), 1))
        server.answers.clear()
        server.answers += ["250 taken", *["451 try later"] * 9]
        while not server.mails:  # the first alone; then the other two, as one
            with suppress(HeadraceError):
                mail.ready()
        mail.close()
    sink = sinks.opened()
    (letter,) = DeadLetters(tmp_path).ls("alerts")
    assert (letter.rows, letter.commit, "of another type" in letter.reason) == (2, 4, True)
    changed(sink, some, 5, ((5, "b"), 1))
    assert [request.told["commit"] for request in receiver.requests] == [5]
