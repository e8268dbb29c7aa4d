"""Goal: stored queries, dead letters and the audit log over HTTP say and do what their commands do.

Method: a view published by hand and an outbox filled by hand; answers are compared with what was put there, and what
was changed with the files afterwards.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
import yaml
from contract import agreed
from served_project import Site, site

from headrace.api.routes import changes, queries
from headrace.catalog.searches import StoredQueries
from headrace.governance.roles import Role
from headrace.model.schema import Column, Relation
from headrace.serve.fitting import Room
from headrace.sinks.alerts.dead import DeadLetters
from headrace.sinks.alerts.happened import Message
from headrace.sinks.alerts.notices import Notices
from headrace.sinks.alerts.outbox import Outbox
from headrace.sinks.tenure import Tenure
from published_view import Published, Rows

pytestmark = pytest.mark.together
STEPS = 6


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    made, rng = Published(tmp_path_factory.mktemp("settled") / "shop"), random.Random(3)
    for _ in range(STEPS):
        made.step([made.changes(rng)])
    return made


@pytest.fixture(scope="module")
def served(published: Published) -> Iterator[Site]:
    with site(published.folder) as running:
        yield running


def asking(served: Site) -> httpx.Client:
    """Asks as the owner; every answer is held against the contract."""
    client = served.client()
    client.event_hooks = {"response": [agreed]}
    return client


def refusal(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def test_a_query_is_stored_changed_matched_and_removed(served: Site, published: Published) -> None:
    held = published.held[-1]
    n = max(row[1] for row in held)
    file = published.folder / "searches/most.yaml"
    with asking(served) as owner:
        made = owner.post("/api/queries", json={"name": "most", "view": "SUMS", "query": "n:>=0"}).json()
        assert made == {"name": "most", "view": "sums", "query": "n:>=0", "problem": None}
        assert yaml.safe_load(file.read_text()) == {"view": "sums", "query": "n:>=0"}
        again = {"name": "Most", "view": "sums", "query": "n:1"}
        assert refusal(owner.post("/api/queries", json=again)) == (409, "search.exists")
        assert refusal(owner.put("/api/queries/most", json={"view": "sums", "query": "n:("})) == (400, "search.query")
        assert refusal(owner.put("/api/queries/none", json={"view": "sums", "query": "n:1"})) == (404, "search.unknown")
        wrong = owner.put("/api/queries/most", json={"view": "sum", "query": "n:1"})
        assert (*refusal(wrong), wrong.json()["next"]) == (404, "view.unknown", "did you mean 'sums'?")
        owner.put("/api/queries/most", json={"view": "sums", "query": f"n:{n}"}).raise_for_status()
        assert StoredQueries(published.folder).read()[0]["most"].query == f"n:{n}"
        found = owner.get("/api/queries/MOST/matches").json()
        assert (found["query"], found["view"], found["commit"]) == ("most", "sums", STEPS)
        wanted = {row: copies for row, copies in held.items() if row[1] == n}
        assert {(m["row"]["id"], m["row"]["n"]): m["copies"] for m in found["matches"]} == wanted
        assert found["total"] == sum(wanted.values()) > 0
        assert [column["name"] for column in found["columns"]] == ["id", "n"]
        assert owner.get("/api/queries/most/matches?at=0").json()["matches"] == []
        assert owner.get("/api/queries/most/matches?limit=0").json()["total"] == found["total"]
        (published.folder / "searches/broken.yaml").write_text("view: sums\n")
        broken, most = owner.get("/api/queries").json()
        assert (broken["name"], broken["problem"]["code"], most["problem"]) == ("broken", "config.invalid", None)
        assert refusal(owner.get("/api/queries/broken/matches")) == (422, "config.invalid")
        for name in ("broken", "most"):
            assert owner.delete(f"/api/queries/{name}").json() == {"removed": name}
        assert owner.get("/api/queries").json() == [] and not file.exists()
        assert refusal(owner.delete("/api/queries/most")) == (404, "search.unknown")


def test_what_began_and_ceased_to_match_is_looked_back_at(served: Site, published: Published) -> None:
    rng = random.Random(8)
    begun = published.upto
    for _ in range(30):
        published.step([published.changes(rng) for _ in range(rng.choice([1, 2]))], each=True)
    deltas = {}
    for commit in range(begun + 1, published.upto + 1):
        before, now = published.held[commit - 1], published.held[commit]
        changed = {row: now[row] - before[row] for row in {*before, *now} if row[1] >= 3}
        deltas[commit] = {row: n for row, n in changed.items() if n}
    with asking(served) as client:
        client.post("/api/queries", json={"name": "large", "view": "SUMS", "query": "n:>=3"}).raise_for_status()
        told = list[dict[str, Any]]()
        at = {"after": str(begun), "limit": "4"}
        while page := client.get("/api/queries/LARGE/transactions", params=at).json():
            told += page
            at["before"] = str(page[-1]["commit"])
        found = {
            each["commit"]: {(c["row"]["id"], c["row"]["n"]): c["weight"] for c in each["changes"]} for each in told
        }
        assert found == {commit: delta for commit, delta in deltas.items() if delta}
        assert list(found) == sorted(found, reverse=True)
        middle = begun + 10
        upto = client.get(f"/api/queries/large/transactions?at={middle}&after={begun}&limit=1000").json()
        assert [each["commit"] for each in upto] == [n for n in range(middle, begun, -1) if deltas[n]]
        assert refusal(client.get("/api/queries/none/transactions")) == (404, "search.unknown")
        listed = client.get("/api/feeds").json()
        assert {"name": "large", "kind": "query", "view": "sums"} in [
            {**each, "view": str(each["view"]).lower()} for each in listed
        ]
        assert client.get(f"/api/feeds/LARGE/transactions?at={middle}&after={begun}&limit=1000").json() == upto
        text = str(next(iter(told[3]["changes"]))["row"]["n"])
        looked = client.get("/api/feeds/large/search", params={"q": text, "limit": "1000"}).json()
        whole = client.get("/api/feeds/large/transactions?limit=1000").json()
        assert looked["transactions"] == [
            each for each in whole if any(text in str(value) for c in each["changes"] for value in c["row"].values())
        ]
        assert looked["before"] is None and len(looked["transactions"]) > 0
        hidden = {"name": "SUMS", "view": "sums", "query": "n:>=3"}  # the name means the view
        client.post("/api/queries", json=hidden).raise_for_status()
        assert [each["kind"] for each in client.get("/api/feeds").json() if each["name"].lower() == "sums"] == ["view"]
        of_view = client.get("/api/feeds/SUMS/transactions?limit=1000").json()
        assert of_view != whole == client.get("/api/queries/SUMS/transactions?limit=1000").json()
        client.put("/api/queries/SUMS", json={"view": "sums", "query": "n:>=99"}).raise_for_status()
        client.delete("/api/queries/SUMS").raise_for_status()
        unknown = client.get("/api/feeds/larg/transactions")
        assert (*refusal(unknown), unknown.json()["next"]) == (404, "view.unknown", "did you mean 'large'?")
        (published.folder / "searches/wrong.yaml").write_text("view: sums\nquery: 'n:('\n")
        for route in ("transactions", "search?q=1"):
            assert refusal(client.get(f"/api/feeds/wrong/{route}")) == (400, "search.query")
        (published.folder / "searches/wrong.yaml").unlink()
        stray = published.folder / "searches/stray.yml"  # it ends nothing
        stray.write_text("")
        assert client.get("/api/feeds").json() == listed
        assert client.get("/api/feeds/large/transactions?limit=1000").json() == whole
        client.post("/api/queries", json=hidden).raise_for_status()
        problems = {each["name"]: each["problem"] for each in client.get("/api/queries").json()}
        assert problems.pop("stray.yml")["what"] == "searches/stray.yml is not read"
        assert {"large", "SUMS"} <= problems.keys() and not any(problems.values())
        client.delete("/api/queries/SUMS").raise_for_status()
        stray.unlink()
    for token, reaches in ((["sums"], True), (["large"], False), (["large", "other_*"], False)):
        secret = served.tokens.create("-".join(token)[:20].replace("_*", ""), Role.VIEWER, token)[1]
        with served.client(secret) as limited:
            names = [each["name"] for each in limited.get("/api/feeds").json()]
            assert ("large" in names) is reaches
            for route in ("transactions", "search?q=1"):
                answer = limited.get(f"/api/feeds/large/{route}")
                assert (answer.status_code, answer.is_success or answer.json()["code"]) == (
                    (200, True) if reaches else (404, "view.unknown")
                )
    with asking(served) as client:
        client.delete("/api/queries/large").raise_for_status()


def test_a_query_of_the_name_of_a_relation_that_a_token_does_not_reach_is_there_for_it(
    served: Site, published: Published
) -> None:
    secret = served.tokens.create("of_sums", Role.EDITOR, ["sums"])[1]
    with served.client(secret) as limited, asking(served) as owner:
        limited.post("/api/queries", json={"name": "pay", "view": "sums", "query": "n:>=3"}).raise_for_status()
        told = [limited.get(f"/api/feeds{route}").json() for route in ("", "/PAY/transactions", "/pay/search?q=3")]
        assert {"name": "pay", "kind": "query", "view": "sums"} in told[0]
        published.catalog.put_relation("shop", Relation("Pay", (Column("id", "bigint"),), ("id",)))
        assert [each["kind"] for each in owner.get("/api/feeds").json() if each["name"].lower() == "pay"] == ["table"]
        assert [
            limited.get(f"/api/feeds{route}").json() for route in ("", "/PAY/transactions", "/pay/search?q=3")
        ] == told
        limited.delete("/api/queries/pay").raise_for_status()
        there = limited.get("/api/feeds/pay/transactions")
        published.catalog.drop_relation("Pay")
        assert (there.status_code, there.json()) == (404, limited.get("/api/feeds/pay/transactions").json())
        assert refusal(there) == (404, "view.unknown")


def test_what_a_query_matches_is_followed_also_when_it_becomes_another(served: Site, published: Published) -> None:
    held = published.held[published.upto]
    with asking(served) as owner:
        owner.post("/api/queries", json={"name": "some", "view": "sums", "query": "id:1"}).raise_for_status()
        with owner.stream("GET", "/api/queries/SOME/changes") as response:
            told = events(response)
            kind, first, place = next(told)
            assert (kind, counted(first)) == ("snapshot", {row: n for row, n in held.items() if row[0] == 1})
            owner.put("/api/queries/some", json={"view": "sums", "query": "id:2"}).raise_for_status()
            assert next(told)[0] == "behind"
            kind, anew, other = next(told)
            assert place.partition("-")[0] == other.partition("-")[0] and place != other  # of another query now
            assert (kind, counted(anew)) == ("snapshot", {row: n for row, n in held.items() if row[0] == 2})
            published.step([Rows({(1, 77): 1, (2, 78): 1})])
            published.held.append(held + Rows({(1, 77): 1, (2, 78): 1}))
            kind, change, _ = next(each for each in told if each[0] != "progress")
            assert (kind, counted(change)) == ("change", {(2, 78): 1})
            owner.delete("/api/queries/some").raise_for_status()
            end = [(kind, each.get("rows")) for kind, each, _ in told if kind != "progress"]
            assert end == [("behind", None), ("snapshot", [])]  # what it matched is to be forgotten
        assert owner.get("/api/queries/some/changes").status_code == 404


def test_of_matches_come_as_many_as_find_room(served: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with asking(served) as owner:
        owner.post("/api/queries", json={"name": "all", "view": "sums", "query": "*"}).raise_for_status()
        whole = owner.get("/api/queries/all/matches").json()
        monkeypatch.setattr(queries, "Room", lambda: Room(60))
        some = owner.get("/api/queries/all/matches").json()
        assert 0 < len(some["matches"]) < len(whole["matches"]) and some["total"] == whole["total"]
        assert some["matches"] == whole["matches"][: len(some["matches"])]
        owner.delete("/api/queries/all").raise_for_status()


def test_who_comes_back_to_a_query_misses_nothing_and_counts_nothing_twice(served: Site, published: Published) -> None:
    """By the id of an event, as long as the text is the one that it was of; oracle: the rows that are held."""

    def told(place: str, how: str = "headers") -> list[tuple[str, Rows, str]]:
        """Until all of the last commit is there: the kind, the rows and the id of each event."""
        found = list[tuple[str, Rows, str]]()
        asked = {how: {"Last-Event-ID" if how == "headers" else "after": place} if place else {}}
        with owner.stream("GET", "/api/queries/back/changes", **asked) as response:  # type: ignore[arg-type]
            for kind, each, number in events(response.raise_for_status()):
                found.append((kind, Rows(counted(each)), number))
                if number.startswith(f"{published.upto}-"):
                    return found
        raise AssertionError("it ended")

    def step(rows: dict[tuple[int, int], int]) -> None:
        published.step([Rows(rows)])
        published.held.append(published.held[-1] + Rows(rows))

    def matched(id: int) -> Rows:
        return Rows({row: n for row, n in published.held[-1].items() if row[0] == id})

    def change(query: str) -> None:
        owner.put("/api/queries/back", json={"view": "sums", "query": query}).raise_for_status()

    with asking(served) as owner:
        owner.post("/api/queries", json={"name": "back", "view": "sums", "query": "id:3"}).raise_for_status()
        ((kind, had, place),) = told("")
        assert (kind, had) == ("snapshot", matched(3))
        step({(3, 90): 1, (4, 91): 2})
        step({(4, 92): 1})
        missed = told(place)
        assert [(kind, rows) for kind, rows, _ in missed] == [("change", Rows({(3, 90): 1})), ("progress", Rows())]
        assert had + missed[0][1] == matched(3) and told(place, "params") == missed
        bare = owner.stream("GET", "/api/queries/back/changes", params={"snapshot": False})
        with bare as response:
            assert next(events(response))[0] == "progress"
        after = missed[-1][2]
        assert after.partition("-")[2] == place.partition("-")[2]
        step({(3, 93): 1})
        assert told(after)[0][:2] == ("change", Rows({(3, 93): 1}))
        # A commit alone does not say of which query what is had is.
        for other in (str(published.upto), f"{published.upto}-0"):
            assert [(kind, rows) for kind, rows, _ in told(other)] == [("behind", Rows()), ("snapshot", matched(3))]
        change("id:4")
        anew = told(after)
        assert [(kind, rows) for kind, rows, _ in anew] == [("behind", Rows()), ("snapshot", matched(4))]
        change("id:3")
        assert [kind for kind, *_ in told(anew[-1][2])] == ["behind", "snapshot"]
        assert told(after)[0][:2] == ("change", Rows({(3, 93): 1}))
        for wrong in ("x", "-1", "1 -2"):
            refused = owner.get("/api/queries/back/changes", headers={"Last-Event-ID": wrong})
            assert refusal(refused) == (400, "api.request")
            assert refusal(owner.get("/api/queries/back/changes", params={"after": wrong})) == (400, "api.request")
        owner.delete("/api/queries/back").raise_for_status()


def test_a_stream_ends_with_what_opened_it(served: Site, published: Published, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a view and of a query: a token that is revoked, one that is over, a session that is ended."""
    monkeypatch.setattr(changes, "PROGRESS_S", 0.1)
    with asking(served) as owner:
        owner.post("/api/queries", json={"name": "open", "view": "sums", "query": "id:1"}).raise_for_status()
        for path in ("views/sums/changes", "queries/open/changes"):
            made = owner.post("/api/tokens", json={"name": "leaves", "role": "viewer"}).json()
            with served.client(made["token"]) as viewer, viewer.stream("GET", f"/api/{path}") as response:
                told = follow(response)
                assert next(told)[0] == "snapshot"
                owner.delete("/api/tokens/leaves").raise_for_status()
                assert [kind for kind, _ in told if kind != "progress"] == []
            made = owner.post("/api/tokens", json={"name": "browser", "role": "viewer"}).json()
            with httpx.Client(base_url=owner.base_url, headers={"X-Headrace": "1"}, timeout=20) as browser:
                browser.post("/api/session", json={"token": made["token"]}).raise_for_status()
                with browser.stream("GET", f"/api/{path}") as response:
                    told = follow(response)
                    assert next(told)[0] == "snapshot"
                    browser.delete("/api/session").raise_for_status()
                    assert [kind for kind, _ in told if kind != "progress"] == []
            owner.delete("/api/tokens/browser").raise_for_status()
        brief = owner.post("/api/tokens", json={"name": "brief", "role": "viewer", "seconds": 6}).json()
        with (
            served.client(brief["token"]) as viewer,
            viewer.stream("GET", "/api/views/sums/changes") as view,
            viewer.stream("GET", "/api/queries/open/changes") as query,
        ):
            assert [{kind for kind, _ in follow(each)} for each in (view, query)] == [{"snapshot"}] * 2
        owner.delete("/api/queries/open").raise_for_status()


def events(response: httpx.Response) -> Iterator[tuple[str, Any, str]]:
    """The kind, the data and the id of each event of a stream."""
    kind, number, end = "", "", time.monotonic() + 20
    for line in response.iter_lines():
        assert time.monotonic() < end, "it goes on"
        name, _, value = line.partition(": ")
        if name == "event":
            kind, number = value, ""
        elif name == "id":
            number = value
        elif name == "data":
            yield kind, orjson.loads(value), number


def follow(response: httpx.Response) -> Iterator[tuple[str, Any]]:
    """The events of a stream."""
    for kind, data, _ in events(response):
        yield kind, data


def counted(told: dict[str, Any]) -> dict[tuple[int, int], int]:
    return {(each["row"]["id"], each["row"]["n"]): each["weight"] for each in told.get("rows", ())}


def test_queries_of_views_that_a_token_does_not_reach_are_not_there(served: Site) -> None:
    with asking(served) as owner:
        owner.post("/api/queries", json={"name": "hidden", "view": "sums", "query": "n:1"}).raise_for_status()
        token = served.tokens.create("elsewhere", Role.EDITOR, ["other_*"])[1]
        with served.client(token) as client:
            assert client.get("/api/queries").json() == []
            for method, path in (("GET", "/hidden/matches"), ("DELETE", "/hidden"), ("PUT", "/hidden")):
                sent = {"view": "other_view", "query": "n:1"} if method == "PUT" else None
                there, absent = (
                    client.request(method, f"/api/queries{path.replace('hidden', name)}", json=sent)
                    for name in ("hidden", "absent")
                )
                assert there.status_code == absent.status_code == 404
                assert there.text.replace("hidden", "?") == absent.text.replace("absent", "?")
            assert refusal(client.post("/api/queries", json={"name": "n", "view": "sums", "query": "1"})) == (404, "view.unknown")  # fmt: skip
            unbuilt = client.post("/api/queries", json={"name": "n", "view": "other_view", "query": "1"})
            assert refusal(unbuilt) == (404, "view.unknown") and "sums" not in unbuilt.text
        owner.delete("/api/queries/hidden").raise_for_status()


def test_a_dead_letter_is_shown_sent_again_and_dropped(served: Site, published: Published) -> None:
    def told(number: int) -> Message:
        return Message(f"msg_{number}", "sums", b'{"n": %d}' % number, (1, 0, 0))

    outbox, tenure = Outbox(published.state / "outbox/hook.db"), Tenure()
    outbox.take_over(tenure)
    outbox.take(tenure, 4, [told(1)], [], [], [(told(2), "HTTP 400: not that"), (told(3), "HTTP 404")])
    outbox.close()
    with asking(served) as owner:
        found = owner.get("/api/alerts").json()
        assert found["waiting"] == {"hook": 1}
        assert [(d["sink"], d["number"], d["view"], d["commit"], d["rows"], d["reason"]) for d in found["dead"]] == [
            ("hook", 2, "sums", 4, 1, "HTTP 400: not that"), ("hook", 3, "sums", 4, 1, "HTTP 404"),
        ]  # fmt: skip
        for limit, numbers, more in (("", [2, 3], "false"), ("?limit=2", [2, 3], "false"), ("?limit=1", [2], "true")):
            page = owner.get(f"/api/alerts{limit}")
            assert ([letter["number"] for letter in page.json()["dead"]], page.headers["x-headrace-more"]) == (
                numbers, more
            )  # fmt: skip
            assert (page.json()["waiting"], page.json()["letters"]) == ({"hook": 1}, {"hook": 2})
        other = Outbox(published.state / "outbox/after.db")
        other.take_over(Tenure())
        other.close()
        for sink, numbers in (("after", []), ("hook", [2, 3])):
            page = owner.get("/api/alerts", params={"sink": sink}).json()
            assert ([letter["number"] for letter in page["dead"]], page["letters"]) == (
                numbers,
                {"after": 0, "hook": 2},
            )
        assert refusal(owner.get("/api/alerts?sink=nobody")) == (404, "sink.unknown")
        (published.state / "outbox/after.db").unlink()
        assert owner.get("/api/alerts/hook/3").json()["messages"] == [{"n": 3}]
        assert owner.post("/api/alerts/hook/2/replay").json() == {"replayed": 1}
        assert owner.delete("/api/alerts/hook/3").json() == {"dropped": 1}
        after = owner.get("/api/alerts").json()
        assert after == {"waiting": {"hook": 2}, "letters": {"hook": 0}, "dead": []}
        assert DeadLetters(published.folder).ls("hook") == []
        assert refusal(owner.delete("/api/alerts/hook/3")) == (404, "sink.letter")
        assert refusal(owner.get("/api/alerts/nobody/3")) == (404, "sink.unknown")


def test_notices_are_told_after_a_number_to_those_who_may_read_the_view(served: Site, published: Published) -> None:
    kept = Notices(published.folder)
    for number in range(1, 6):
        view, query = ("sums", "most") if number % 2 else ("near", None)
        body = {"view": view, **({"query": query} if query else {}), "commit": number, "entered": [{"id": number}]}
        kept.keep("page", f"msg_{number}", number, (1, 0, 0), [orjson.dumps(body)])
    limited = served.tokens.create("near", Role.VIEWER, ["near*"])[1]
    with asking(served) as owner, served.client(limited) as client:
        whole = owner.get("/api/notices").json()
        assert [(n["number"], n["view"], n["query"]) for n in whole["notices"]] == [
            (5, "sums", "most"), (4, "near", None), (3, "sums", "most"), (2, "near", None), (1, "sums", "most"),
        ]  # fmt: skip
        assert whole["notices"][0]["rows"] == {"entered": [{"id": 5}], "left": [], "changed": []}
        assert [n["number"] for n in owner.get("/api/notices?after=3").json()["notices"]] == [5, 4]
        assert [n["number"] for n in client.get("/api/notices?limit=1").json()["notices"]] == [4]
        assert [n["number"] for n in client.get("/api/notices").json()["notices"]] == [4, 2]
        assert owner.get("/api/notices?after=5").json() == {"made": whole["made"], "notices": []}


def test_the_audit_log_is_read_page_by_page_and_its_chain_checked(served: Site) -> None:
    with served.client() as owner:
        for _ in range(3):
            owner.post("/api/apply")
        owner.get("/api/audit").raise_for_status()  # itself an entry, as the first look in a minute is
        whole = agreed(owner.get("/api/audit?limit=1000")).json()
        pages, before = list[dict[str, Any]](), ""
        while len(pages) < len(whole):
            page = owner.get(f"/api/audit?limit=4{before}").json()
            pages, before = page + pages, f"&before={page[0]['number']}"
        assert pages == whole and len(whole) > 8
        assert owner.get("/api/audit?before=1").json() == []
        verdict = owner.get("/api/audit/verdict").json()
        assert (verdict["entries"], verdict["damage"]) == (whole[-1]["number"], None)
        looks = owner.get("/api/audit?action=audit").json()
        assert [look["detail"] for look in looks] == [{}, {"verify": "yes"}]
        owner.post("/api/apply")
        assert owner.get("/api/audit/verdict", params={"head": verdict["head"]}).json()["damage"] is None
        log = next(Path(served.access.log.folder).glob("*.log"))
        text = log.read_text()
        log.write_text(text.replace('"apply"', '"appli"', 1))
        damage = owner.get("/api/audit/verdict").json()["damage"]
        log.write_text(text)
        assert damage["number"] == next(e["number"] for e in whole if e["action"] == "apply")
        written = {(e["action"], e["relation"], e["outcome"]) for e in whole}
        assert {
            ("query_add", "sums", "done"),
            ("query_remove", "sums", "done"),
            ("alert_drop", None, "done"),
        } <= written
