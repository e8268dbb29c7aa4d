"""Goal: a session is its token's for a while, and opens nothing once it, or the token, is over.

Method: a clock that the test puts forward.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.governance import sessions
from headrace.governance.access import Access
from headrace.governance.principal import local
from headrace.governance.roles import Role
from headrace.governance.sessions import IDLE_US, LIFE_US, Sessions
from headrace.model.errors import HeadraceError


def test_a_session_ends_when_it_is_not_used_when_it_is_old_and_when_it_is_ended() -> None:
    now = [0]
    kept = Sessions(lambda: now[0])
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


def test_of_too_many_the_one_used_longest_ago_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 2)
    kept = Sessions(lambda: 0)
    first, second = kept.begin("a"), kept.begin("b")
    kept.find(first)
    third = kept.begin("c")
    assert [kept.find(each) for each in (first, second, third)] == ["a", None, "c"]


def test_log_ins_by_one_token_end_no_session_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "OF_TOKEN_MAX", 2)
    kept = Sessions(lambda: 0)
    other, first, second = kept.begin("b"), kept.begin("a"), kept.begin("a")
    kept.find(first)
    third = kept.begin("a")
    assert [kept.find(each) for each in (other, first, second, third)] == ["b", "a", None, "a"]


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
