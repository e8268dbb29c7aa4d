"""Goal: every route lets through whom it should, and nobody else.

Method: each route over real HTTP with each kind of token; oracle: the least role of each, and what it says to whom it
lets through where that is no success, written here by hand.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from contract import agreed
from served_project import COLUMNS, EXPLAINED, LINEAGE, STATUS, Site, site

from headrace.api.actions import ACTIONS
from headrace.api.app import ROUTERS, routes
from headrace.catalog.store import ErrorRow
from headrace.governance.audit import Wanted
from headrace.governance.roles import Role
from headrace.model.errors import CODES
from headrace.model.remedies import REMEDIES
from headrace.model.schema import Relation
from headrace.model.transaction import RefusedRow
from published_view import SCHEMA, Published

LEAST = {
    "GET /health": None, "POST /session": None, "DELETE /session": None, "GET /session": None, "GET /errors/{code}": None,
    "GET /me": "viewer", "GET /status": "viewer", "GET /sources": "viewer", "GET /sinks": "viewer",
    "GET /lineage": "viewer", "GET /metrics": "viewer", "GET /top": "viewer", "GET /frontier": "viewer",
    "GET /views": "viewer", "GET /views/{name}": "viewer", "GET /views/{name}/versions": "viewer", "GET /views/{name}/series": "viewer",
    "GET /views/{name}/rows": "viewer",
    "GET /views/{name}/row": "viewer", "GET /views/{name}/changes": "viewer", "GET /views/{name}/search": "viewer", "GET /views/{name}/explain": "viewer", "GET /views/{name}/lineage": "viewer",
    "GET /feeds": "viewer", "GET /feeds/{feed}/transactions": "viewer", "GET /feeds/{feed}/search": "viewer", "POST /sql": "viewer", "POST /wait": "viewer",
    "GET /quarantine": "viewer", "POST /plan": "editor", "POST /apply": "editor",
    "POST /quarantine/{id}/replay": "editor", "POST /quarantine/{id}/fix": "editor", "DELETE /quarantine/{id}": "editor",
    "GET /queries": "viewer", "GET /queries/{query}/matches": "viewer", "GET /queries/{query}/changes": "viewer", "GET /queries/{query}/transactions": "viewer", "GET /notices": "viewer", "GET /alerts": "viewer", "GET /alerts/{sink}/{number}": "viewer",
    "POST /queries": "editor", "PUT /queries/{query}": "editor", "DELETE /queries/{query}": "editor",
    "POST /alerts/{sink}/{number}/replay": "operator", "DELETE /alerts/{sink}/{number}": "operator",
    "POST /sinks/{sink}/pause": "operator", "POST /sinks/{sink}/resume": "operator",
    "GET /tokens": "admin", "POST /tokens": "admin", "DELETE /tokens/{id}": "admin", "GET /audit": "admin", "GET /audit/verdict": "admin",
}  # fmt: skip
# What a token that is limited to some views may ask at all.
LIMITED = {
    "GET /me", "GET /status", "GET /lineage", "GET /views/{name}/explain", "GET /views/{name}/lineage", "GET /views", "GET /views/{name}", "GET /views/{name}/versions", "GET /views/{name}/series", "GET /views/{name}/rows", "GET /views/{name}/row",
    "GET /views/{name}/changes", "GET /views/{name}/search", "GET /feeds", "GET /feeds/{feed}/transactions", "GET /feeds/{feed}/search", "POST /sql", "POST /wait",
    "GET /notices", "GET /queries", "POST /queries", "PUT /queries/{query}", "DELETE /queries/{query}", "GET /queries/{query}/matches", "GET /queries/{query}/changes", "GET /queries/{query}/transactions",
    "GET /quarantine", "POST /quarantine/{id}/replay", "POST /quarantine/{id}/fix", "DELETE /quarantine/{id}",
}  # fmt: skip
BODIES = {"POST /sql": {"sql": "SELECT 1"}, "POST /wait": {"token": 1, "view": "sums"}, "POST /tokens": {"name": "!"},
          "POST /queries": {"name": "!", "view": "sums", "query": "x"}, "PUT /queries/{query}": {"view": "sums", "query": "x"},
          "POST /quarantine/{id}/fix": {"row": {"id": 1}}}  # fmt: skip
ASKED = {"GET /feeds/{feed}/search": {"q": "3"}, "GET /views/{name}/search": {"q": "id:3"}, "GET /views/{name}/row": {"id": 3},
         "GET /views/{name}/series": {"time": "n", "every": "1h"}}  # fmt: skip
# What a route says to whom it lets through, where that is no success: none of it is there, or what is asked is wrong.
SAYS = {
    **dict.fromkeys(("GET /alerts/{sink}/{number}", "DELETE /alerts/{sink}/{number}", "POST /alerts/{sink}/{number}/replay"),
                    (404, "sink.unknown")),
    **dict.fromkeys(("POST /quarantine/{id}/replay", "POST /quarantine/{id}/fix", "DELETE /quarantine/{id}"),
                    (404, "quarantine.unknown")),
    **dict.fromkeys(("GET /queries/{query}/matches", "GET /queries/{query}/changes", "GET /queries/{query}/transactions", "PUT /queries/{query}", "DELETE /queries/{query}"),
                    (404, "search.unknown")),
    "DELETE /tokens/{id}": (404, "access.unknown"), "POST /tokens": (400, "access.invalid"), "POST /queries": (400, "search.query"),
    "POST /session": (400, "api.request"), "GET /views/{name}/series": (400, "query.filter"),
}  # fmt: skip
ROLES = [role.value for role in Role]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    made, rng = Published(tmp_path_factory.mktemp("access") / "shop"), random.Random(1)
    for _ in range(6):
        made.step([made.changes(rng)])
    return made


@pytest.fixture(scope="module")
def served(published: Published) -> Iterator[Site]:
    with site(published.folder) as running:
        yield running


@pytest.fixture(scope="module")
def tokens(served: Site) -> dict[str, str]:
    made = {role: served.tokens.create(f"of-{role}", Role(role))[1] for role in ROLES}
    made |= {f"limited {role}": served.tokens.create(f"l-{role}", Role(role), ["sums"])[1] for role in ROLES[:-1]}
    return made | {"elsewhere": served.tokens.create("elsewhere", Role.VIEWER, ["other_*"])[1]}


def ask(served: Site, token: str, route: str, name: str = "sums") -> httpx.Response:
    method, path = route.split()
    path = ("" if path == "/metrics" else "/api") + path.format(
        name=name, feed=name, id="orders:1:1", sink="store", query="none", number=1, code="internal"
    )
    with (
        served.client(token) as client,
        client.stream(method, path, json=BODIES.get(route), params=ASKED.get(route)) as response,
    ):
        if "event-stream" not in response.headers.get("content-type", ""):
            response.read()
        return response


def said(answer: httpx.Response) -> tuple[int, str]:
    """Status and code of an error; of a success no code."""
    return answer.status_code, answer.json()["code"] if answer.is_error else ""


def test_every_route_has_an_action_and_a_line_here() -> None:
    known = {route for router in ROUTERS for route in routes(router)} | {"GET /metrics"}
    assert known == set(ACTIONS) == set(LEAST)


@pytest.mark.parametrize("route", sorted(LEAST))
def test_a_route_takes_its_least_role_and_those_above(served: Site, tokens: dict[str, str], route: str) -> None:
    least = LEAST[route]
    passes = SAYS.get(route, (200, ""))
    if least is None:
        assert said(ask(served, "", route)) == passes
        return
    for token in ("", "headrace_" + "x" * 43):
        refused = ask(served, token, route)
        assert said(refused) == (401, "access.token")
        assert refused.headers["www-authenticate"] == "Bearer"
    for role in ROLES:
        expected = passes if ROLES.index(role) >= ROLES.index(least) else (403, "access.denied")
        assert said(ask(served, tokens[role], route)) == expected, role


@pytest.mark.parametrize("route", sorted(route for route, least in LEAST.items() if least))
def test_a_limited_token_knows_of_nothing_else(served: Site, tokens: dict[str, str], route: str) -> None:
    """It may ask for what it reaches; another relation is as unknown to it as one that is not there."""
    for role in ROLES[:-1]:
        may = route in LIMITED and ROLES.index(role) >= ROLES.index(LEAST[route] or "viewer")
        expected = SAYS.get(route, (200, "")) if may else (403, "access.denied")
        assert said(ask(served, tokens[f"limited {role}"], route)) == expected, role
    if "{name}" in route and route in LIMITED:
        there, absent = (ask(served, tokens["elsewhere"], route, name) for name in ("sums", "sumz"))
        assert there.status_code == absent.status_code == 404
        assert there.text.replace("sums", "?") == absent.text.replace("sumz", "?")


def test_lists_and_queries_tell_a_limited_token_only_of_what_it_reaches(served: Site, tokens: dict[str, str]) -> None:
    with served.client(tokens["elsewhere"]) as client:
        assert client.get("/api/views").json() == client.get("/api/feeds").json() == []
        refused = client.post("/api/sql", json={"sql": "SELECT * FROM sums"})
        assert (refused.status_code, refused.json()["code"]) == (422, "sql.unknown_relation")
        assert client.post("/api/wait", json={"token": 1, "view": "sums"}).json()["code"] == "view.unknown"
        assert client.post("/api/sql", json={"sql": "SELECT 1", "engine": "spark"}).status_code == 403
    with served.client(tokens["limited viewer"]) as client:
        assert [view["name"] for view in client.get("/api/views").json()] == ["sums"]
        assert client.post("/api/sql", json={"sql": "SELECT count(*) AS n FROM sums"}).status_code == 200


def test_no_answer_tells_a_limited_token_a_name_that_it_does_not_reach(served: Site, published: Published) -> None:
    """Not where a wrong name would be told the near ones, nor beside what it does reach."""
    for name in ("orders", "near_orders"):
        published.catalog.put_relation("shop", Relation(name, SCHEMA.columns, SCHEMA.key))
    shown = ['{"table": "orders", "row": {"id": 7}}', '{"view": "sums", "row": {"id": 8}}', "{}"]
    published.catalog.put_error_rows("sums", 1, [ErrorRow("t", n, b"", row, 1, 1, "no") for n, row in enumerate(shown)])
    (refused,) = published.catalog.keep_refused("shop", [RefusedRow("orders", "", "no", b"{}", "json")], 1)
    (published.folder / "searches").mkdir()
    (published.folder / "searches/lost.yaml").write_text("view: near_sums\nquery: x\n")
    token, limits = served.tokens.create("near", Role.EDITOR, ["near_*", "SUM?"])[1], "this token reaches: near_*, SUM?"
    unknown = (
        "views/sumz", "views/near_sums/versions", "views/sumz/rows", "views/sumz/row?id=1", "views/sumz/changes",
        "views/sumz/series?time=t&every=1h", "views/sumz/search?q=x", "feeds/near_order/transactions", "feeds/near_order/search?q=x",
        "quarantine?table=near_order", "queries/lost/matches", "queries/lost/changes", "queries/lost/transactions",
    )  # fmt: skip
    with served.client() as owner, served.client(token) as client:
        for path in unknown:
            told, kept = (asked.get(f"/api/{path}").json() for asked in (owner, client))
            assert "sums" in told["next"] or "orders" in told["next"], (path, told)
            assert kept == {**told, "why": "", "next": limits}, path
        there, absent = (client.get(f"/api/quarantine?table={name}") for name in ("orders", "nowhere"))
        assert there.status_code == 404 and there.text.replace("orders", "?") == absent.text.replace("nowhere", "?")
        kept, never = (client.delete(f"/api/quarantine/shop:{number}") for number in (refused, 99))
        assert kept.status_code == 404 and kept.text.replace(f":{refused} ", "? ") == never.text.replace(":99 ", "? ")
        (lost,) = client.get("/api/queries").json()
        assert (lost["name"], lost["problem"]["code"], lost["problem"]["next"]) == ("lost", "view.unknown", limits)
        (listed,) = client.get("/api/views").json()
        whole, known = (asked.get("/api/views/sums").json() for asked in (client, owner))
        assert listed["reads"] == whole["reads"] == whole["sinks"] == []
        assert (known["reads"], known["sinks"]) == (["orders"], ["store"])
        assert [row["row"] for row in known["failing"]] == [{"id": 7}, {"id": 8}, None]
        assert whole["failing"] == known["failing"][1:]


def test_a_request_that_is_kept_whole_is_for_who_reaches_every_table(served: Site, published: Published) -> None:
    """Its body names other tables than the one that it is filed under; a row of that table is for who reaches this."""
    body = b'{"tables": {"orders": {"insert": [{"id": "x"}]}, "salaries": {"insert": [{"name": "Ann", "pay": 9}]}}}'
    rows = [RefusedRow("orders", "", "no", body, "request"), RefusedRow("orders", "line 7", "no", b"{}", "json")]
    whole, row = (f"shop:{number}" for number in published.catalog.keep_refused("shop", rows, 1))
    limited = served.tokens.create("clerk", Role.EDITOR, ["orders"])[1]
    raised = served.tokens.create("settler", Role.VIEWER, raised=[(Role.EDITOR, "orders")])[1]
    settling = [("POST", "replay", {}), ("POST", "fix", {"row": {"tables": {"salaries": {"delete": [{"name": "Ann"}]}}}}),
                ("DELETE", "", None)]  # fmt: skip
    for token, shown, settled in (
        (limited, {row}, {row}),
        (raised, {whole, row}, {row}),
        (None, {whole, row}, {whole, row}),
    ):
        with served.client(token) as client:
            listed = client.get("/api/quarantine")
            assert {whole, row} & {entry["id"] for entry in listed.json()} == shown
            assert listed.headers["x-headrace-more"] == "false" and ("salaries" in listed.text) == (whole in shown)
            for id in (whole, row):
                for method, how, json in settling:
                    before = len(served.verbs.calls)
                    asked = client.request(method, f"/api/quarantine/{id}/{how}".rstrip("/"), json=json)
                    expected = (200, "") if id in settled else (404, "quarantine.unknown")
                    assert said(asked) == expected and len(served.verbs.calls) == before + (id in settled), (id, how)


def test_a_limited_token_is_told_that_a_view_has_failed_and_not_by_what(served: Site, published: Published) -> None:
    """The reason names what the view reads, and quotes its rows."""
    reason = "view sums fails on table orders, row {id: 7}: [DIVIDE_BY_ZERO]"
    record = published.catalog.views()["sums"]
    published.catalog.put_view(replace(record, state="failed", reason=reason))
    token = served.tokens.create("limited", Role.VIEWER, ["sums"])[1]
    with served.client() as owner, served.client(token) as client:
        for asked, why in ((owner, reason), (client, "it has failed")):
            assert asked.get("/api/views/sums").json()["reason"] == why
            assert asked.get("/api/views/sums/rows").json()["stale"] == {"sums": why}
            assert asked.post("/api/sql", json={"sql": "SELECT * FROM sums"}).json()["stale"] == {"sums": why}
            assert asked.get("/api/views/sums/search?q=id:3").json()["reason"] == why
        for path in ("views", "views/sums", "views/sums/rows", "views/sums/search?q=id:3"):
            assert "orders" not in client.get(f"/api/{path}").text, path


def test_a_limited_token_sees_of_the_project_what_it_reaches(served: Site, tokens: dict[str, str]) -> None:
    """Its views with their state, plan and lineage; the names of all else are hidden."""
    with served.client(tokens["limited viewer"]) as client, served.client() as owner:
        status, whole = agreed(client.get("/api/status")).json(), owner.get("/api/status").json()
        assert status.keys() == {"state", "commit", "frontier", "views", "sources", "sinks"}
        assert [view["name"] for view in status["views"]] == ["sums"] and status["views"][0]["reads"] == []
        assert (status["sources"], status["sinks"]) == ([], []) and whole == STATUS
        graph = client.get("/api/lineage?columns=true").json()
        hidden = {"relation": "(hidden)", "column": "(hidden)"}
        assert [node["id"] for node in graph["nodes"]] == ["view:sums"] and graph["edges"] == []
        assert graph["columns"] == [{**COLUMNS[1], "value": [hidden]}]
        lineage = client.get("/api/views/sums/lineage").json()
        assert (lineage["rows"], lineage["sinks"]) == ([hidden], [])
        (column,) = lineage["columns"]
        assert column["value"] == [hidden]
        assert column["into"] == [{**hidden, "by": "value"}, {"relation": "sums", "column": "n", "by": "rows"}]
        plan = client.get("/api/views/sums/explain").json()
        assert plan["operators"][0]["detail"] == "(hidden)"
        assert plan["operators"][0]["arrangements"] == [{"name": "a1", "of": "table (hidden)"}]
        assert plan["text"] == "aggregate  by id\n  read  (hidden)"
        assert plan["sql"] == EXPLAINED["sql"]  # its definition is told as it is
        assert owner.get("/api/views/sums/explain").json() == EXPLAINED
        assert owner.get("/api/views/sums/lineage").json() == LINEAGE
        assert owner.get("/api/lineage?columns=true").json()["columns"] == COLUMNS


def test_a_browser_asks_who_has_logged_in_and_is_refused_nothing(served: Site, tokens: dict[str, str]) -> None:
    """No session is no fault, and to the page no refusal is a request that failed; other programs get its status."""
    with httpx.Client(base_url=served.url) as browser:
        before = len(served.access.log.recent(Wanted(action="connect"), 1_000)[0])
        assert browser.get("/api/session").json() == {"me": None}
        browser.post("/api/session", json={"token": tokens["limited editor"]})
        assert browser.get("/api/session").json()["me"] == {
            "name": "l-editor",
            "role": "editor",
            "only": ["sums"],
            "grants": [],
        }
        ((cookie, name),) = browser.cookies.items()
        browser.delete("/api/session")
        browser.cookies.set(cookie, name)  # a browser that kept it all the same
        assert browser.get("/api/session").json() == {"me": None}
        assert len(served.access.log.recent(Wanted(action="connect"), 1_000)[0]) == before
        browser.cookies.clear()
        browser.post("/api/session", json={"token": tokens["limited editor"]})
        page = {"X-Headrace": "page"}
        for path, status, code in (("views/none", 404, "view.unknown"), ("sinks", 403, "access.denied")):
            told, plain = (browser.get(f"/api/{path}", headers=headers) for headers in (page, {}))
            assert (told.status_code, told.headers["x-headrace-status"]) == (200, str(status))
            assert plain.status_code == status and plain.json() == told.json() and told.json()["code"] == code
        passed = browser.get("/api/views/sums", headers=page)
        assert passed.status_code == 200 and "x-headrace-status" not in passed.headers


def test_a_code_is_explained_as_on_the_command_line(served: Site) -> None:
    with served.client("") as client:
        remedy = REMEDIES["view.unknown"]
        meaning = {"code": "view.unknown", "meaning": CODES["view.unknown"], "cause": remedy.cause}
        assert client.get("/api/errors/view.unknown").json() == {**meaning, "repair": remedy.repair}
        refused = client.get("/api/errors/view.unknwn")
        assert (refused.status_code, refused.json()["next"]) == (404, "did you mean 'view.unknown'?")


def test_a_token_that_is_revoked_opens_nothing_from_the_next_request_on(served: Site) -> None:
    with served.client() as owner:
        made = owner.post("/api/tokens", json={"name": "short", "role": "viewer", "only": ["sums"]}).json()
        with served.client(made["token"]) as client:
            assert client.get("/api/me").json() == {"name": "short", "role": "viewer", "only": ["sums"], "grants": []}
            assert owner.delete(f"/api/tokens/{made['id']}").json()["state"] == "revoked"
            assert client.get("/api/me").status_code == 401
        assert made["token"] not in owner.get("/api/tokens").text
        again = owner.post("/api/tokens", json={"name": "of-viewer"})
        assert (again.status_code, again.json()["code"]) == (409, "access.exists")


def test_a_cookie_reads_and_changes_only_with_the_header_of_the_page(served: Site) -> None:
    with httpx.Client(base_url=served.url) as browser:
        assert browser.post("/api/session", json={"token": "headrace_" + "y" * 43}).status_code == 401
        logged = browser.post("/api/session", json={"token": served.owner})
        assert logged.json() == {"name": "owner", "role": "admin", "only": [], "grants": []}
        cookie = logged.headers["set-cookie"].lower()
        assert "httponly" in cookie and "samesite=strict" in cookie and "secure" not in cookie
        proxied = httpx.post(
            f"{served.url}/api/session", json={"token": served.owner}, headers={"Origin": "https://shop.example"}
        )
        assert "; secure" in proxied.headers["set-cookie"].lower()
        assert browser.get("/api/me").json()["name"] == "owner"
        refused = browser.post("/api/plan")
        assert (refused.status_code, refused.json()["code"]) == (401, "access.token")
        assert browser.post("/api/plan", headers={"X-Headrace": "1"}).json() == {"verb": "plan"}
        ((cookie, first),) = browser.cookies.items()
        browser.post("/api/session", json={"token": served.owner})
        name = browser.cookies[cookie]
        with httpx.Client(base_url=served.url, cookies={cookie: first}) as before:
            assert before.get("/api/me").status_code == 401  # a new log-in ends the session before
        assert served.owner not in str(logged.headers) and len(name) == 43
        browser.delete("/api/session")
        assert browser.get("/api/me").status_code == 401
        browser.cookies.set(cookie, name)  # a browser that kept it all the same
        assert browser.get("/api/me").json()["what"] == "the session is over, or its token was revoked"
        browser.cookies.set(cookie, served.owner)
        assert browser.get("/api/me").status_code == 401


def test_who_is_refused_does_not_choose_the_address_that_is_written_down(tmp_path: Path) -> None:
    with site(Published(tmp_path / "shop").folder) as running:
        for n in range(3):
            with running.client("") as nobody:
                headers = {"X-Forwarded-For": f"10.0.0.{n}", "X-Forwarded-Proto": "https"}
                assert nobody.get("/api/me", headers=headers).status_code == 401
        entries = running.access.log.recent(Wanted(action="connect"), 10)[0]
        assert [entry["address"] for entry in entries] == ["127.0.0.1"]


def test_a_session_ends_with_its_token(served: Site) -> None:
    with served.client() as owner, httpx.Client(base_url=served.url) as browser:
        made = owner.post("/api/tokens", json={"name": "guest", "role": "viewer", "only": ["sums"]}).json()
        browser.post("/api/session", json={"token": made["token"]})
        assert browser.get("/api/me").json() == {"name": "guest", "role": "viewer", "only": ["sums"], "grants": []}
        served.tokens.revoke("guest")  # by another process, say, that knows of no sessions
        assert browser.get("/api/me").status_code == 401


def test_two_projects_of_one_machine_are_logged_in_to_side_by_side(served: Site, tmp_path: Path) -> None:
    with site(Published(tmp_path / "other").folder) as other, httpx.Client() as browser:
        for each in (served, other):
            assert browser.post(f"{each.url}/api/session", json={"token": each.owner}).status_code == 200
        for each in (served, other):
            assert browser.get(f"{each.url}/api/me").json()["name"] == "owner"
        browser.delete(f"{served.url}/api/session")
        assert browser.get(f"{other.url}/api/me").json()["name"] == "owner"


def test_without_tokens_only_programs_that_name_this_machine_are_answered(tmp_path: Path) -> None:
    """A page whose name was pointed at the loopback, or one that makes a browser send a form, changes nothing."""
    published = Published(tmp_path / "shop")
    with site(published.folder, asks=False) as running, running.client("") as client:
        assert client.get("/api/me").json()["role"] == "admin"
        rebound = client.get("/api/views", headers={"Host": "evil.example:7070"})
        assert (rebound.status_code, rebound.json()["code"]) == (401, "access.token")
        assert client.post("/api/apply").status_code == 401
        assert client.post("/api/apply", headers={"X-Headrace": "1"}).json() == {"verb": "apply"}


def test_what_changes_something_is_written_down_and_what_is_refused_too(served: Site, tokens: dict[str, str]) -> None:
    """By whom, what, and how it ended; no secret and no row stands there."""
    with served.client(tokens["operator"]) as operator, served.client() as owner:
        operator.post("/api/apply")
        operator.post("/api/sinks/store/pause")
        operator.post("/api/tokens", json={"name": "more"})
        made = owner.post("/api/tokens", json={"name": "more"}).json()
        entries = owner.get("/api/audit?limit=1000").json()
        own = owner.get("/api/audit?who=of-operator").json()
    told = [(e["who"], e["action"], e["outcome"]) for e in entries]
    for entry in (
        ("of-operator", "apply", "done"), ("of-operator", "sink_pause", "done"),
        ("of-operator", "token_create", "refused"), ("owner", "token_create", "done"), ("", "connect", "refused"),
    ):  # fmt: skip
        assert entry in told, entry
    assert {e["who"] for e in own} == {"of-operator"} and own[-1]["address"] == "127.0.0.1"
    text = str(entries)
    assert made["token"] not in text and served.owner not in text
    assert served.access.log.verify().damage is None


def test_a_role_on_some_views_counts_there_alone(served: Site) -> None:
    with served.client() as owner:
        tokens = {
            name: owner.post("/api/tokens", json={"name": name, "grants": grants}).json()["token"]
            for name, grants in (("ann", ["editor:su*"]), ("bob", ["editor:sales_*"]), ("eve", []))
        }
        assert owner.post("/api/tokens", json={"name": "x", "grants": ["editor"]}).json()["code"] == "access.invalid"
    answers = {}
    for name, token in tokens.items():
        with served.client(token) as client:
            asked = client.post("/api/queries", json={"name": f"of_{name}", "view": "sums", "query": "1"})
            answers[name] = asked.status_code, asked.json().get("code")
            assert client.get("/api/me").json()["grants"] == {"ann": ["editor:su*"], "bob": ["editor:sales_*"]}.get(
                name, []
            )
            assert client.post("/api/sinks/store/pause").status_code == 403
    with served.client(tokens["ann"]) as client:
        assert client.delete("/api/queries/of_ann").status_code == 200
    assert answers == {"ann": (200, None), "bob": (403, "access.denied"), "eve": (403, "access.denied")}
