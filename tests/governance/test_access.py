"""Goal: what a server asks is answered and written down: who is known, what is refused, which tokens are made.

Method: one folder, a clock that the test puts forward, and the audit log read back.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.control import verbs
from headrace.control.socket import ControlServer
from headrace.governance.access import REFUSED_MAX, Access
from headrace.governance.audit import AuditLog, Wanted
from headrace.governance.principal import Principal, local
from headrace.governance.repeated import Repeated
from headrace.governance.roles import Action, Role
from headrace.model.errors import HeadraceError

MINUTE_US = 60_000_000


class Clock:
    """The time, as a test sets it; microseconds since the epoch."""

    def __init__(self) -> None:
        self.us = 1_772_352_000_000_000

    def __call__(self) -> int:
        return self.us


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def access(tmp_path: Path, clock: Clock) -> Iterator[Access]:
    opened = Access(tmp_path / ".headrace", clock)
    yield opened
    opened.close()


def entries(log: AuditLog, *names: str) -> list[tuple[Any, ...]]:
    """These values of each entry."""
    assert log.verify().damage is None
    return [tuple(entry[name] for name in names) for entry in log.recent(Wanted(), 1_000)[0]]


def refused(call: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises(HeadraceError) as raised:
        call(*arguments, **options)
    return raised.value.code


def test_who_sends_a_token_is_known_or_refused(access: Access) -> None:
    owner = access.known(access.tokens.owners())
    _, token = access.create_token(owner, "dashboard", Role.VIEWER, ["sales_*"], address="10.0.0.7")
    assert access.known(token, address="10.0.0.7").name == "dashboard"
    for wrong in ("", "headrace_" + "x" * 43):
        assert refused(access.known, wrong, address="10.0.0.7") == "access.token"
    access.revoke_token(owner, "dashboard")
    assert refused(access.known, token) == "access.token"
    made = {"name": "dashboard", "role": "viewer", "only": "sales_*", "seconds": None}
    assert entries(access.log, "who", "token", "action", "outcome", "address", "detail") == [
        ("owner", owner.token, "token_create", "begun", "10.0.0.7", made),
        ("owner", owner.token, "token_create", "done", "10.0.0.7", made),
        ("", "", "connect", "refused", "10.0.0.7", {"code": "access.token"}),
        ("owner", owner.token, "token_revoke", "begun", "", {"name": "dashboard"}),
        ("owner", owner.token, "token_revoke", "done", "", {"name": "dashboard"}),
        ("", "", "connect", "refused", "", {"code": "access.token"}),
    ]


def test_no_token_is_in_the_audit_log(access: Access) -> None:
    sent = [access.tokens.owners(), access.create_token(local(), "a", Role.EDITOR)[1], "headrace_" + "guess" * 9]
    refused(access.known, sent[2])
    refused(access.revoke_token, local(), "b")
    text = b"".join(path.read_bytes() for path in access.log.folder.iterdir())
    assert not [token for token in sent if token.removeprefix("headrace_").encode() in text]


def test_only_an_admin_makes_and_revokes_tokens(access: Access) -> None:
    for role in ("viewer", "editor", "operator"):
        principal = Principal("p", Role(role), (), role)
        assert refused(access.create_token, principal, "mine", Role.ADMIN) == "access.denied"
        assert refused(access.revoke_token, principal, "mine") == "access.denied"
    assert access.tokens.all() == []
    assert entries(access.log, "token", "action", "outcome", "detail") == [
        (role, action, "refused", {"code": "access.denied"})
        for role in ("viewer", "editor", "operator")
        for action in ("token_create", "token_revoke")
    ]


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), 1e300, -1.0])
def test_a_time_that_no_token_lives_is_refused(access: Access, seconds: float) -> None:
    assert refused(access.create_token, local(), "mine", Role.VIEWER, (), seconds) == "access.invalid"
    assert access.tokens.all() == []


def test_the_owners_token_is_replaced_when_it_is_revoked(access: Access, tmp_path: Path) -> None:
    first = access.tokens.owners()
    access.revoke_token(local(), "owner")
    second = (tmp_path / ".headrace/tokens/api").read_text().strip()
    assert access.find(first) is None
    assert access.known(second).role is Role.ADMIN


def test_what_is_refused_is_written_down_and_what_is_allowed_is_not(access: Access) -> None:
    limited = Principal("dashboard", Role.VIEWER, ("sales_*",), "4fd9d7fc")
    access.require(limited, Action.READ, "sales_2026")
    assert refused(access.require, limited, Action.READ, "salaries", address="10.0.0.7") == "view.unknown"
    assert refused(access.require, limited, Action.STOP) == "access.denied"
    assert entries(access.log, "who", "token", "action", "relation", "outcome", "address", "detail") == [
        ("dashboard", "4fd9d7fc", "read", "salaries", "refused", "10.0.0.7", {"code": "view.unknown"}),
        ("dashboard", "4fd9d7fc", "stop", None, "refused", "", {"code": "access.denied"}),
    ]


def test_a_flood_of_refusals_is_counted_and_not_written_down_one_by_one(access: Access, clock: Clock) -> None:
    for _ in range(1_000):
        refused(access.known, "wrong", address="10.0.0.7")
    refused(access.known, "wrong", address="10.0.0.8")
    clock.us += MINUTE_US
    refused(access.known, "wrong", address="10.0.0.7")
    refused(access.known, "wrong", address="10.0.0.7")
    assert entries(access.log, "address", "detail") == [
        ("10.0.0.7", {"code": "access.token"}),
        ("10.0.0.8", {"code": "access.token"}),
        ("10.0.0.7", {"code": "access.token", "more_before": 999}),
    ]


def test_who_has_no_token_fills_no_log_from_however_many_addresses(
    access: Access, clock: Clock, tmp_path: Path
) -> None:
    for n in range(500):
        refused(access.known, "wrong", address=f"10.0.{n // 256}.{n % 256}")
    limited = Principal("dashboard", Role.VIEWER, ("sales_*",), "4fd9d7fc")
    refused(access.require, limited, Action.STOP)  # others are written down as ever
    clock.us += MINUTE_US
    refused(access.known, "wrong", address="10.1.0.0")
    refused(access.known, "wrong", address="10.1.0.0")
    access.close()
    written = entries(access.log, "token", "action", "address", "detail")
    assert [entry[2] for entry in written[:REFUSED_MAX]] == [f"10.0.0.{n}" for n in range(REFUSED_MAX)]
    assert written[REFUSED_MAX:] == [
        ("4fd9d7fc", "stop", "", {"code": "access.denied"}),
        ("", "connect", "10.1.0.0", {"code": "access.token", "others_before": 500 - REFUSED_MAX}),
        ("", "connect", "", {"others_before": 1}),  # what was counted when its process ended
    ]


def test_each_relation_that_is_refused_is_named_up_to_a_bound(access: Access, clock: Clock) -> None:
    _, token = access.create_token(local(), "dashboard", Role.VIEWER, ["sales_*"])
    limited = access.known(token)
    for name in ("decoy", "Decoy", "salaries"):
        refused(access.require, limited, Action.READ, name)
    for n in range(100):
        refused(access.require, limited, Action.READ, f"t{n}", address="10.0.0.7")
    access.close()
    assert entries(access.log, "who", "relation", "detail")[2:] == [
        *(("dashboard", name, {"code": "view.unknown"}) for name in ("decoy", "salaries")),
        *(("dashboard", f"t{n}", {"code": "view.unknown"}) for n in range(REFUSED_MAX - 2)),
        ("dashboard", None, {"others_before": 1 + 100 - (REFUSED_MAX - 2)}),
    ]


def test_what_is_counted_takes_no_more_memory_than_it_may_and_is_not_forgotten(clock: Clock) -> None:
    counts, told = Repeated(clock), list[dict[str, int] | None]()
    for n in range(1_100):
        told.append(counts.count("", f"event {n}"))
        assert counts.count("", f"event {n}") is None
    assert len(counts._equal) == 1_024
    assert told == [{}] * 1_025 + [{"others_before": 1}] * 75  # those whose place was taken are told by the next entry
    assert counts.ended() == {"": 1_100 - 75} and counts.ended() == {}


def test_a_refusal_stays_one_where_it_cannot_be_written_down(access: Access, caplog: pytest.LogCaptureFixture) -> None:
    access.log.folder.write_text("a file where the folder should be")
    assert refused(access.known, "wrong") == "access.token"
    assert "not in the audit log" in caplog.text


def test_what_commands_change_is_written_down_without_values_of_rows(tmp_path: Path) -> None:
    """As the user of the machine; beside a running project and without one. Reads are not."""
    folder = tmp_path / "shop"
    folder.mkdir()
    log = AuditLog(folder / ".headrace")
    (folder / "headrace.yaml").write_text("name: shop\n")
    assert refused(verbs.call, folder, "stop", {}, lambda event: None) == "project.not_running"
    assert not (folder / ".headrace").exists(), "nothing is kept yet, and nothing was changed"
    server = ControlServer(folder, lambda verb, arguments, progress: {"verb": verb})
    server.start()
    try:
        arguments = {
            "id": "3",
            "row": {"card": "card number 4111"},
            "cells": {"card": "card number 4111"},
            "as": "insert",
        }
        assert verbs.call(folder, "quarantine_fix", arguments, lambda event: None) == {"verb": "quarantine_fix"}
        verbs.call(folder, "rebuild", {"views": ["orders", "revenue"], "all": False}, lambda event: None)
        verbs.call(folder, "drop", {"view": "orders"}, lambda event: None)
        verbs.call(folder, "sql", {"sql": "SELECT card number 4111"}, lambda event: None)
        verbs.call(folder, "status", {}, lambda event: None)
    finally:
        server.close()
    assert refused(verbs.call, folder, "stop", {}, lambda event: None) == "project.not_running"
    user = local().name
    assert entries(log, "who", "action", "relation", "address", "outcome", "detail") == [
        (user, "quarantine_fix", None, "local", "begun", {"id": "3"}),
        (user, "quarantine_fix", None, "local", "done", {"id": "3"}),
        (user, "rebuild", None, "local", "begun", {"views": "orders, revenue"}),
        (user, "rebuild", None, "local", "done", {"views": "orders, revenue"}),
        (user, "drop", "orders", "local", "begun", {}),
        (user, "drop", "orders", "local", "done", {}),
        (user, "stop", None, "local", "begun", {}),
        (user, "stop", None, "local", "failed", {"code": "project.not_running"}),
    ]
    assert b"card number 4111" not in b"".join(path.read_bytes() for path in log.folder.iterdir())


def test_who_reads_the_audit_log_is_written_down_once_a_minute(access: Access, clock: Clock) -> None:
    owner = access.known(access.tokens.owners())
    assert access.audit(owner, Wanted(), 10) == ([], 0)
    for _ in range(3):
        found, _ = access.audit(owner, Wanted(outcome="refused"), 10, address="10.0.0.7")
        assert found == []
    access.audit(owner, Wanted(outcome="refused", before=9), 10, address="10.0.0.7")  # the page before
    clock.us += MINUTE_US
    access.audit(owner, Wanted(outcome="refused", before=9), 10, address="10.0.0.7")
    for noted in ("", access.verdict(owner).head):
        assert access.verdict(owner, noted).damage is None
    assert entries(access.log, "who", "action", "outcome", "address", "detail") == [
        ("owner", "audit", "done", "", {}),
        ("owner", "audit", "done", "10.0.0.7", {"outcome": "refused"}),
        ("owner", "audit", "done", "10.0.0.7", {"outcome": "refused", "before": 9, "more_before": 3}),
        ("owner", "audit", "done", "", {"verify": "yes"}),
    ]


def test_what_cannot_be_written_down_is_not_read(access: Access) -> None:
    owner = access.known(access.tokens.owners())
    access.audit(owner, Wanted(), 10)
    for path in access.log.folder.iterdir():
        path.unlink()
    access.log.folder.rmdir()
    access.log.folder.write_text("in the way")
    for _ in range(2):
        assert refused(access.audit, owner, Wanted(), 10, address="elsewhere") == "audit.failed"
        assert refused(access.verdict, owner, address="elsewhere") == "audit.failed"
