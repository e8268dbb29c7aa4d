"""Goal: a token opens what it was made for, until it is over or revoked, and is found nowhere on the disk.

Method: tokens in a folder of their own, by a clock that the test puts forward.
"""

from __future__ import annotations

import sqlite3
import stat
import string
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.governance.principal import Principal
from headrace.governance.roles import Role
from headrace.governance.tokens import Tokens, grant
from headrace.model.errors import HeadraceError

LETTERS = set(string.ascii_letters + string.digits + "-_")
DAY_US = 86_400_000_000


class Clock:
    """The time, as a test sets it; microseconds since the epoch."""

    def __init__(self) -> None:
        self.us = 1_772_352_000_000_000  # 2026-03-01T08:00Z

    def __call__(self) -> int:
        return self.us


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tokens(tmp_path: Path, clock: Clock) -> Iterator[Tokens]:
    opened = Tokens(tmp_path / ".headrace", clock)
    yield opened
    opened.close()


def refused(code: str, tokens: Tokens, *arguments: object) -> HeadraceError:
    with pytest.raises(HeadraceError) as raised:
        tokens.create(*arguments)  # type: ignore[arg-type]
    assert raised.value.code == code
    return raised.value


def test_a_token_is_found_with_its_role_and_limits(tokens: Tokens) -> None:
    made, token = tokens.create("dashboard", Role.VIEWER, ["sales_*", "orders"])
    assert token.startswith("headrace_")
    assert len(token) == len("headrace_") + 43
    assert set(token.removeprefix("headrace_")) <= LETTERS
    assert tokens.find(token) == Principal("dashboard", Role.VIEWER, ("sales_*", "orders"), made.id)
    for wrong in ("", token[:-1], token + " ", token.swapcase(), token.removeprefix("headrace_"), "\udcff" * 52):
        assert tokens.find(wrong) is None


def test_a_token_has_roles_of_its_own_on_some_relations(tokens: Tokens) -> None:
    raised = [grant("editor:sales_*"), grant("operator:orders")]
    made, token = tokens.create("ann", Role.VIEWER, ["reports"], raised=raised)
    assert tokens.find(token) == Principal("ann", Role.VIEWER, ("reports",), made.id, tuple(raised))
    assert tokens.all()[-1].as_dict(0)["grants"] == ["editor:sales_*", "operator:orders"]
    for text in ("editor", "editor:", "boss:sales_*", "admin:x", "editor:a b"):
        with pytest.raises(HeadraceError) as caught:
            tokens.create("bob", Role.VIEWER, raised=[grant(text)])
        assert caught.value.code == "access.invalid"


def test_only_a_hash_is_on_the_disk_and_only_the_owner_reads_it(tmp_path: Path, tokens: Tokens) -> None:
    _, token = tokens.create("dashboard", Role.VIEWER)
    assert tokens.find(token)
    files = [path for path in (tmp_path / ".headrace").rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"access.db", "access.db-wal"}
    for path in files:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert token.removeprefix("headrace_").encode() not in path.read_bytes()
    assert stat.S_IMODE((tmp_path / ".headrace").stat().st_mode) == 0o700
    assert token not in repr(tokens.all()) + repr([known.as_dict(0) for known in tokens.all()])


def test_a_token_ends_at_its_time_to_the_microsecond(tokens: Tokens, clock: Clock) -> None:
    made, token = tokens.create("dashboard", Role.VIEWER, (), 30 * 86_400)
    assert made.expires_us == clock.us + 30 * DAY_US
    clock.us += 30 * DAY_US - 1
    assert tokens.find(token) is not None
    clock.us += 1
    assert tokens.find(token) is None
    assert tokens.all()[0].as_dict(clock.us) == {
        "id": made.id, "name": "dashboard", "role": "viewer", "only": [], "grants": [], "state": "expired",
        "created": "2026-03-01T08:00:00.000000Z", "expires": "2026-03-31T08:00:00.000000Z",
        "last_used": "2026-03-31T07:59:59.999999Z",
    }  # fmt: skip
    assert tokens.create("dashboard", Role.VIEWER)[0].id != made.id, "its name is free again"


def test_a_revoked_token_opens_nothing_at_the_next_request_in_any_process(
    tmp_path: Path, tokens: Tokens, clock: Clock
) -> None:
    first, token = tokens.create("dashboard", Role.VIEWER)
    second, other = tokens.create("deploy", Role.EDITOR)
    beside = Tokens(tmp_path / ".headrace", clock)
    try:
        assert tokens.find(token) is not None
        assert beside.revoke("dashboard").revoked_us == clock.us
        assert tokens.find(token) is None
        assert tokens.find(other) == Principal("deploy", Role.EDITOR, (), second.id)
        clock.us += 5
        assert beside.revoke(first.id).revoked_us == clock.us - 5, "a second time changes nothing"
        for unknown in ("dashboard", "no such", ""):
            with pytest.raises(HeadraceError, match=r"^\[access\.unknown\]"):
                beside.revoke(unknown)
    finally:
        beside.close()


def test_the_last_use_is_known_to_the_minute(tokens: Tokens, clock: Clock) -> None:
    _, token = tokens.create("dashboard", Role.VIEWER)
    seen = []
    for forward in (0, 59_999_999, 1, 3_600_000_000):
        clock.us += forward
        tokens.find(token)
        seen.append(clock.us - (tokens.all()[0].used_us or 0))
    assert seen == [0, 59_999_999, 0, 0]


def test_the_owners_token_is_made_once_and_anew_when_it_was_revoked_or_removed(
    tmp_path: Path, tokens: Tokens, clock: Clock
) -> None:
    path = tmp_path / ".headrace/tokens/api"
    first = tokens.owners()
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == (f"{first}\n", 0o600)
    assert tokens.owners() == first
    found = tokens.find(first)
    assert found == Principal("owner", Role.ADMIN, (), tokens.all()[0].id)
    tokens.revoke("owner")
    assert tokens.find(first) is None
    second = tokens.owners()
    assert second != first
    assert tokens.find(second) is not None
    path.write_text(f"{first}\n")
    third = tokens.owners()
    assert third not in (first, second), "what was revoked never comes back"
    path.unlink()
    fourth = tokens.owners()
    assert [tokens.find(token) is not None for token in (first, second, third, fourth)] == [False, False, False, True]
    path.write_text("")
    fifth = tokens.owners()
    assert len(fifth) > 50, "an empty file, as a power cut may leave it, is no token"
    assert tokens.find("") is None
    path.write_text("somebody-has-put-a-token-of-their-own-here\n")
    sixth = tokens.owners()
    assert path.read_text() == f"{sixth}\n"
    assert [tokens.find(token) for token in ("somebody-has-put-a-token-of-their-own-here", fifth)] == [None, None]
    other, made = tokens.create("dashboard", Role.VIEWER)
    path.write_text(f"{made}\n")
    assert tokens.owners() != made, "a viewer's token is no owner's, wherever it stands"
    assert tokens.find(made) == Principal("dashboard", Role.VIEWER, (), other.id)


@pytest.mark.parametrize(
    "name", ["", "-x", ".x", "a b", "a\nb", "a\x1b[2J", "ünder", "x" * 64, "owner", "a,b", "a/b", "a'b", "a\u202eb"]
)
def test_a_hostile_name_is_refused(tokens: Tokens, name: str) -> None:
    refused("access.invalid", tokens, name, Role.VIEWER)
    assert tokens.all() == []


@pytest.mark.parametrize("pattern", ["", "a,b", "[a]", "a b", "a\n", "a'", "x" * 129, "a\x00", "%", "a;b"])
def test_a_hostile_pattern_is_refused(tokens: Tokens, pattern: str) -> None:
    refused("access.invalid", tokens, "dashboard", Role.VIEWER, ["orders", pattern])
    assert tokens.all() == []


@given(pattern=st.text(min_size=1, max_size=20), name=st.text(min_size=1, max_size=20))
def test_what_is_taken_comes_back_as_it_was(pattern: str, name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    opened = Tokens(tmp_path_factory.mktemp("kept"))
    try:
        made, token = opened.create(name, Role.EDITOR, [pattern, "x"])
    except HeadraceError as error:
        assert error.code == "access.invalid"
    else:
        assert opened.find(token) == Principal(name, Role.EDITOR, (pattern, "x"), made.id)
    finally:
        opened.close()


def test_other_mistakes_are_told(tokens: Tokens) -> None:
    tokens.create("dashboard", Role.VIEWER)
    refused("access.exists", tokens, "dashboard", Role.EDITOR)
    assert "cannot be limited" in refused("access.invalid", tokens, "a", Role.ADMIN, ["orders"]).what
    assert "101 patterns" in refused("access.invalid", tokens, "a", Role.VIEWER, ["x"] * 101).what
    for seconds in (0.0, -1.0, float("nan"), float("inf")):
        refused("access.invalid", tokens, "a", Role.VIEWER, (), seconds)


def test_threads_and_processes_make_tokens_at_once(tmp_path: Path) -> None:
    """Each has one of its own; all are there, and one of the contested name."""
    kept = tmp_path / ".headrace"
    program = (
        "import sys; from pathlib import Path; from headrace.governance.roles import Role;"
        "from headrace.governance.tokens import Tokens; from headrace.model.errors import HeadraceError\n"
        "tokens = Tokens(Path(sys.argv[1])); tokens.owners()\n"
        "for n in range(20): assert tokens.find(tokens.create(f'{sys.argv[2]}_{n}', Role.VIEWER)[1])\n"
        "try: tokens.create('contested', Role.VIEWER); print('won')\n"
        "except HeadraceError as error: print(error.code)\n"
        "print(tokens.owners())"
    )
    runs = [
        subprocess.Popen([sys.executable, "-c", program, kept, f"p{n}"], stdout=subprocess.PIPE, text=True)
        for n in range(2)
    ]
    opened = Tokens(kept)
    threads = [
        threading.Thread(target=lambda n=n: [opened.create(f"t{n}_{m}", Role.VIEWER) for m in range(10)])
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = [run.communicate(timeout=60)[0].split() for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    assert sorted(lines[0] for lines in told) == ["access.exists", "won"]
    assert {lines[1] for lines in told} == {opened.owners()}
    names = sorted(token.name for token in opened.all())
    expected = [f"p{n}_{m}" for n in range(2) for m in range(20)] + [f"t{n}_{m}" for n in range(4) for m in range(10)]
    assert names == sorted([*expected, "contested", "owner"])
    opened.close()


def test_a_damaged_file_and_one_of_a_later_version_are_told(tmp_path: Path) -> None:
    kept = tmp_path / ".headrace"
    Tokens(kept).close()
    with sqlite3.connect(kept / "access.db") as db:
        db.execute("pragma user_version=99")
    db.close()
    with pytest.raises(HeadraceError, match=r"^\[state\.layout\] the tokens have layout 99"):
        Tokens(kept)
    (kept / "access.db").write_bytes(b"not a database" * 1000)
    with pytest.raises(HeadraceError, match=r"^\[state\.corrupt\] the file of the tokens is damaged"):
        Tokens(kept)
