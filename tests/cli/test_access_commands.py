"""Goal: `headrace token` and `headrace audit` do what their help says, on a project that does not run.

Method: the commands as a user types them, in this process; tokens are then sent to what the servers ask.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.cli import display
from headrace.cli.main import main
from headrace.governance.access import Access
from headrace.governance.principal import Principal, local
from headrace.governance.roles import Action, Role


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "headrace.yaml").write_text("name: shop\n")
    return tmp_path


def run(shop: Path, *arguments: str) -> tuple[int, str, str]:
    """Exit status, stdout, stderr."""
    out, err, status = io.StringIO(), io.StringIO(), 0
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        patched = stack.enter_context(pytest.MonkeyPatch.context())
        patched.setattr(sys, "argv", ["headrace", *arguments, "--project", str(shop)])
        patched.setattr(display.OUTPUT, "json", False)
        try:
            main()
        except SystemExit as end:
            status = int(end.code or 0)
    return status, out.getvalue(), err.getvalue()


def answer(shop: Path, *arguments: str, status: int = 0) -> Any:
    ended, out, err = run(shop, *arguments, "--json")
    assert ended == status, err
    return json.loads(out)


def refused(shop: Path, *arguments: str) -> str:
    status, out, err = run(shop, *arguments, "--json")
    assert (status, out) == (1, "")
    code: str = json.loads(err)["error"]["code"]
    return code


def who(shop: Path, token: str) -> Principal | None:
    access = Access(shop / ".headrace")
    try:
        return access.find(token)
    finally:
        access.close()


def test_a_token_from_its_making_to_its_end(shop: Path) -> None:
    limits = ("--only", "sales_*", "--only", "orders")
    made = answer(shop, "token", "create", "dashboard", *limits, "--expires", "30d")
    token = made.pop("token")
    assert who(shop, token) == Principal("dashboard", Role.VIEWER, ("sales_*", "orders"), made["id"])
    (listed,) = answer(shop, "token", "ls")["tokens"]
    assert re.fullmatch(r"\d{4}-.+Z", listed.pop("last_used"))
    assert made.pop("last_used") is None
    assert listed == made
    assert (listed["role"], listed["only"], listed["state"]) == ("viewer", ["sales_*", "orders"], "live")
    begins, ends = (datetime.fromisoformat(listed[name]) for name in ("created", "expires"))
    assert ends - begins == timedelta(days=30)
    assert refused(shop, "token", "create", "dashboard") == "access.exists"
    assert answer(shop, "token", "revoke", "dashboard")["state"] == "revoked"
    assert who(shop, token) is None
    assert answer(shop, "token", "ls") == {"tokens": []}
    assert [entry["id"] for entry in answer(shop, "token", "ls", "--all")["tokens"]] == [made["id"]]
    assert answer(shop, "token", "revoke", made["id"])["state"] == "revoked"
    assert refused(shop, "token", "revoke", "dashboard") == "access.unknown"


def test_the_text_of_create_is_the_token_alone_and_nothing_else_shows_it(shop: Path) -> None:
    status, out, err = run(shop, "token", "create", "deploy", "--role", "editor")
    assert status == 0
    assert re.fullmatch(r"headrace_[\w-]{43}\n", out)
    found = who(shop, out.strip())
    assert found == Principal("deploy", Role.EDITOR, (), found.token if found else "")
    assert f"{found.token if found else ''}: deploy, editor. It is not shown again.\n" == err
    shown = [run(shop, "token", "ls", "--all")[1], run(shop, "token", "revoke", "deploy")[1], run(shop, "audit")[1]]
    assert not [text for text in shown if out.strip()[9:] in text]
    assert re.search(r"^\w{8}  deploy +editor  all +live ", shown[0], re.MULTILINE)
    assert re.fullmatch(r"revoked \w{8}: deploy\n", shown[1])
    assert run(shop, "token", "ls")[1] == "no tokens; `headrace token create NAME` makes one\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("token", "create", "a", "--role", "king"), ("token", "create", "a", "--expires", "soon"),
        ("token", "create", "a", "--expires", "0d"), ("token", "create"), ("token", "revoke"),
        ("audit", "--since", "1042"), ("audit", "--since", "yesterday"), ("audit", "--head", "1:ab"),
        ("audit", "--action", "applause"), ("audit", "--outcome", "fine"), ("audit", "-n", "0"),
    ],
)  # fmt: skip
def test_wrong_usage_has_status_two_and_does_nothing(shop: Path, arguments: tuple[str, ...]) -> None:
    assert run(shop, *arguments)[0] == 2
    assert not (shop / ".headrace/access.db").exists()


@pytest.mark.parametrize(
    "arguments", [("owner",), ("a b",), ("a", "--only", "[x]"), ("a", "--role", "admin", "--only", "x")]
)
def test_what_no_token_can_be_is_refused_by_name(shop: Path, arguments: tuple[str, ...]) -> None:
    assert refused(shop, "token", "create", *arguments) == "access.invalid"


def test_the_audit_log_is_shown_filtered_and_verified(shop: Path) -> None:
    assert run(shop, "audit")[1] == "no entries\n"
    empty = {"entries": 0, "head": f"0:{'0' * 64}", "damage": None, "removed": 0}
    assert answer(shop, "audit", "--verify") == empty
    run(shop, "token", "create", "dashboard", "--only", "sales_*")
    refused(shop, "token", "create", "dashboard")
    access = Access(shop / ".headrace")
    with access.doing(local(), Action.REBUILD, "orders"):  # begun, and not ended
        shown = run(shop, "audit")[1].splitlines()[2:]
    with contextlib.suppress(Exception):
        access.require(Principal("dashboard", Role.VIEWER), Action.STOP)
    access.close()
    user = local().name
    patterns = [
        rf"     2  \S+Z  {user} +token_create +done +local +name=dashboard role=viewer only=sales_\*",
        rf"     4  \S+Z  {user} +token_create +failed +local +name=dashboard role=viewer code=access.exists",
        rf"     5  \S+Z  {user} +rebuild +orders +begun",
    ]
    assert len(shown) == len(patterns)
    for line, pattern in zip(shown, patterns, strict=True):
        assert re.match(pattern, line), line
    for arguments, numbers in (
        (["--who", "dashboard"], [8]), (["--action", "rebuild"], [5, 7]), (["--relation", "orders"], [5, 7]),
        (["--outcome", "failed"], [4]), (["--since", "2999-01-01T00:00"], []), (["-n", "2"], [12, 13]),
        (["--since", "1h", "--outcome", "done", "--action", "token_create"], [2]),
        (["--since", "2020-01-01", "--action", "token_create"], [1, 2, 3, 4]),
    ):  # fmt: skip
        assert [entry["number"] for entry in answer(shop, "audit", *arguments)["entries"]] == numbers, arguments
    reads = answer(shop, "audit", "--action", "audit")["entries"]  # each of these looks is an entry
    assert [entry["number"] for entry in reads] == [6, *range(9, 17)]
    assert (reads[1]["who"], reads[1]["detail"]) == (user, {"who": "dashboard"})
    head = answer(shop, "audit", "--verify")["head"]
    assert re.fullmatch(r"sound: 18 entries are as written\nhead 18:\w{64}\n", run(shop, "audit", "--verify")[1])
    assert run(shop, "audit", "--verify", "--head", head)[0] == 0
    (file,) = (shop / ".headrace/audit").glob("*.log")
    file.write_text(file.read_text().replace('"code":"access.exists"', '"code":"access.fine"'))
    status, out, err = run(shop, "audit", "--verify")
    assert (status, out) == (1, "")
    assert "[audit.damaged] entry 4 of the audit log is not as it was written" in err
    assert re.search(r"where: 0{11}1\.log, offset [\d,]+\n +why: +it was changed: .+; before it 3 entries are as", err)
    assert answer(shop, "audit", "--verify", status=1)["damage"]["number"] == 4
    assert "1 line cannot be read: `headrace audit --verify` names the first" in run(shop, "audit")[2]
