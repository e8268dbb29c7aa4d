"""Goal: a session is its token's for a while, and opens nothing once it, or the token, is over.

Method: a clock that the test puts forward.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from headrace.governance import sessions
from headrace.governance.access import Access
from headrace.governance.principal import local
from headrace.governance.roles import Role
from headrace.governance.sessions import IDLE_US, LIFE_US, USED_EVERY_US, Sessions
from headrace.model.errors import HeadraceError


def test_a_session_ends_when_it_is_not_used_when_it_is_old_and_when_it_is_ended(tmp_path: Path) -> None:
    now = [0]
    kept = Sessions(tmp_path / "access.db", lambda: now[0])
    name = kept.begin("t1")
    while now[0] + IDLE_US // 2 < LIFE_US:
        now[0] += IDLE_US // 2
        assert kept.find(name) == "t1"
    now[0] = LIFE_US
    assert kept.find(name) is None
    idle, ended = kept.begin("t1"), kept.begin("t1")
    kept.end(ended)
    assert (kept.find(ended), kept.find(idle), kept.find("t1")) == (None, "t1", None)
    now[0] += IDLE_US
    assert kept.find(idle) is None
    first, other, second = kept.begin("t1"), kept.begin("t2"), kept.begin("t1")
    kept.end_of("t1")
    assert [kept.find(each) for each in (first, other, second)] == [None, "t2", None]
    kept.close()


def test_of_too_many_the_one_used_longest_ago_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 2)
    now = [0]
    kept = Sessions(tmp_path / "access.db", lambda: now[0])
    first, second = kept.begin("a"), kept.begin("b")
    now[0] += USED_EVERY_US
    kept.find(first)
    third = kept.begin("c")
    assert [kept.find(each) for each in (first, second, third)] == ["a", None, "c"]
    kept.close()


def test_log_ins_by_one_token_end_no_session_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "OF_TOKEN_MAX", 2)
    now = [0]
    kept = Sessions(tmp_path / "access.db", lambda: now[0])
    other, first, second = kept.begin("b"), kept.begin("a"), kept.begin("a")
    now[0] += USED_EVERY_US
    kept.find(first)
    third = kept.begin("a")
    assert [kept.find(each) for each in (other, first, second, third)] == ["b", "a", None, "a"]
    kept.close()


def test_who_has_a_session_is_who_its_token_is_now(tmp_path: Path) -> None:
    clock = [1_772_352_000_000_000]
    access = Access(tmp_path, lambda: clock[0])
    made, token = access.create_token(local(), "reports", Role.VIEWER, ("sales_*",), 60)
    name = access.sessions.begin(made.id)
    now = access.known_session(name)
    assert (now.name, now.grants, now.token) == ("reports", ("sales_*",), made.id) and token not in name
    clock[0] += 60_000_000  # the token's own end
    with pytest.raises(HeadraceError, match="the session is over"):
        access.known_session(name)
    clock[0] -= 60_000_000
    assert access.known_session(name) == now
    access.revoke_token(local(), "reports")
    assert access.sessions.find(name) is None
    access.close()


def test_a_session_outlives_the_process_and_nothing_that_ends_it(tmp_path: Path) -> None:
    clock = [1_772_352_000_000_000]

    def started() -> Access:
        return Access(tmp_path / "kept", lambda: clock[0])

    before = started()
    made, _ = before.create_token(local(), "reports", Role.VIEWER)
    kept, ended, revoked = (before.sessions.begin(made.id) for _ in range(3))
    before.sessions.end(ended)
    files = list((tmp_path / "kept").glob("access.db*"))
    assert files and not any(kept.encode() in file.read_bytes() for file in files)  # its hash alone
    before.tokens.copy_to(tmp_path / "copy.db")
    before.close()
    assert hashlib.sha256(kept.encode()).digest() not in (tmp_path / "copy.db").read_bytes()

    after = started()
    assert after.known_session(kept).name == "reports"
    with pytest.raises(HeadraceError, match="the session is over"):
        after.known_session(ended)
    clock[0] += IDLE_US - 1
    assert after.known_session(kept).name == "reports"
    clock[0] += IDLE_US - 1
    after.close()
    again = started()
    assert again.known_session(kept).name == "reports"
    assert again.sessions.find(revoked) is None  # idle since it began
    again.revoke_token(local(), "reports")
    again.close()
    last = started()
    assert last.sessions.find(kept) is None
    last.close()
