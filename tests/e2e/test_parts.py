"""Goal: what a story on a running project does not reach: large lineages, large numbers, refusals.

Method: the built page in a real Chromium, under the policy that it is served with; answers of the API are given.
"""

from __future__ import annotations

import random
import time
from itertools import chain, repeat
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from given_answers import STATUS, Given
from playwright.sync_api import Route, expect
from watched_page import Watched, picture

pytestmark = pytest.mark.browser

LAYOUT_S = 1.0


def test_a_lineage_of_a_hundred_views(given: Given) -> None:
    draw = random.Random(7)
    tables = [f"table_{n}" for n in range(12)]
    views = [f"a_view_with_a_long_name_{n}" for n in range(100)]
    nodes = [{"id": "source:shop", "kind": "source", "name": "shop", "state": "running"}]
    nodes += [{"id": f"table:{name}", "kind": "table", "name": name, "state": "running"} for name in tables]
    nodes += [{"id": f"view:{name}", "kind": "view", "name": name, "state": "live"} for name in views]
    nodes += [{"id": "sink:local", "kind": "sink", "name": "local", "state": "running"}]
    edges = [{"from": "source:shop", "to": f"table:{name}"} for name in tables]
    for at, name in enumerate(views):
        read = draw.sample([f"table:{t}" for t in tables] + [f"view:{v}" for v in views[max(0, at - 40) : at]], 2)
        edges += [{"from": each, "to": f"view:{name}"} for each in read]
        edges.append({"from": f"view:{name}", "to": "sink:local"})
    page = given({"lineage": {"nodes": nodes, "edges": edges}})
    took = []
    for _ in range(3):  # the machine may be busy with other things
        page.goto("/views")
        expect(page.get_by_text("No view yet.")).to_be_visible()
        begun = time.monotonic()
        page.get_by_role("navigation").get_by_role("link", name="Lineage").click()
        links = page.get_by_role("group", name="lineage").get_by_role("link")
        links.last.wait_for()
        took.append(time.monotonic() - begun)
    assert links.count() == len(nodes)
    boxes = dict(
        page.locator("a.node").evaluate_all(
            """nodes => nodes.map(node => [
                node.dataset.node,
                node.querySelector('rect').getBoundingClientRect().toJSON(),
            ])"""
        )
    )
    assert all(boxes[edge["from"]]["right"] < boxes[edge["to"]]["left"] for edge in edges)  # each flows to the right
    assert len({(box["x"], box["y"]) for box in boxes.values()}) == len(nodes)  # none lies on another
    print(f"\n{len(nodes)} nodes, {len(edges)} edges drawn in {min(took) * 1000:.0f} ms")
    assert min(took) <= LAYOUT_S
    picture(page, "lineage_of_a_hundred")


def test_a_column_is_followed_to_where_it_comes_from_and_goes(given: Given) -> None:
    """orders.amount -> sums.total -> ranks.place; region only decides which rows; the view beside has none of it."""

    def column(relation: str, name: str, value: str = "", rows: str = "") -> dict[str, Any]:
        listed = {by: [dict(zip(("relation", "column"), text.split("."), strict=True)) for text in texts.split()]
                  for by, texts in (("value", value), ("rows", rows))}  # fmt: skip
        return {"relation": relation, "column": name, "type": "int", **listed}

    kinds = {"source": ["shop"], "table": ["orders"], "view": ["sums", "ranks", "beside"], "sink": ["store"]}
    nodes = [
        {"id": f"{kind}:{name}", "kind": kind, "name": name, "state": "live"} for kind in kinds for name in kinds[kind]
    ]
    flows = "source:shop>table:orders table:orders>view:sums table:orders>view:beside view:sums>view:ranks view:ranks>sink:store"
    edges = [dict(zip(("from", "to"), flow.split(">"), strict=True)) for flow in flows.split()]
    columns = [
        column("orders", "amount"), column("orders", "region"), column("orders", "note"),
        column("sums", "total", "orders.amount", "orders.region"), column("sums", "region", "orders.region"),
        column("beside", "note", "orders.note"), column("ranks", "place", "sums.total"),
        column("ranks", "region", "sums.region", "sums.total"),
    ]  # fmt: skip
    page = given({"lineage": {"nodes": nodes, "edges": edges, "columns": columns}})
    page.goto("/lineage")
    page.get_by_role("group", name="lineage").get_by_role("link", name="sums view").click()
    panel = page.get_by_role("complementary", name="columns of sums")
    expect(panel.locator(".own a")).to_have_text(["total int", "region int"])
    panel.get_by_role("link", name="total").click()

    def lit() -> list[str]:
        return sorted(page.locator("a.node:not(.dim)").evaluate_all("nodes => nodes.map(node => node.dataset.node)"))

    whole_way = ["sink:store", "source:shop", "table:orders", "view:ranks", "view:sums"]
    expect(page.locator("a.node.dim")).to_have_count(1)
    assert lit() == whole_way
    expect(page.get_by_role("region", name="total comes from").get_by_role("listitem")).to_have_text(
        ["amount", "region decides which rows"]
    )
    expect(page.get_by_role("region", name="total goes into").get_by_role("listitem")).to_have_text(
        ["place", "region decides which rows"]
    )
    expect(page.locator('[data-node="table:orders"] .kind')).to_have_text("amount, region")
    goes = page.get_by_role("region", name="total goes into")
    expect(goes.get_by_role("link", name="store")).to_have_attribute("href", "/sinks")  # a sink that takes all columns
    frame = page.locator(".frame").bounding_box() or {}
    store = page.locator('[data-node="sink:store"] rect').first.bounding_box() or {}
    assert store["x"] + store["width"] <= frame["x"] + frame["width"]  # beside the panel too it is in sight
    page.get_by_role("link", name="amount").last.click()  # on to where it comes from
    expect(page.get_by_role("complementary", name="columns of orders")).to_be_visible()
    expect(page.get_by_role("region", name="amount goes into").get_by_role("listitem")).to_have_text(
        ["total", "place", "region decides which rows"]
    )
    assert lit() == whole_way
    page.locator(".own").get_by_role("link", name="region").click()
    expect(page.get_by_role("region", name="region goes into").get_by_role("listitem")).to_have_text(
        ["total decides which rows", "region", "place decides which rows", "region"]
    )
    page.get_by_role("link", name="note").click()
    expect(page.locator('[data-node="view:beside"] .kind')).to_have_text("note")
    assert lit() == ["source:shop", "table:orders", "view:beside"]
    picture(page, "column_lineage")
    page.get_by_role("link", name="close").click()
    expect(page.locator("a.node.dim")).to_have_count(0)


def test_operators_with_what_they_count_and_versions(given: Given) -> None:
    view = {"name": "sums", "version": 2, "sql": "SELECT 2", "columns": [], "key": [], "state": "live", "reason": "",
            "commit": 7, "created_commit": 1, "rows": 1, "reads": [], "read_by": [], "sinks": []}  # fmt: skip
    rule = {"rule": "the law", "bound": "groups", "cost": "the change"}

    def rows(*counts: int | None) -> dict[str, Any]:
        each = iter(counts)
        return {part: {"last": next(each), "sum": next(each)} for part in ("in", "out", "read")}

    read = {"id": 0, "inputs": [], "name": "read", "detail": "orders", "state": "none", **rule, "arrangements": [],
            "rows": rows(3, 1200, None, None, 0, 0)}  # fmt: skip
    kept = {"name": "7b0c", "rows": 1234, "bytes": 3456, "runs": 2, "of": "this view"}
    total = {"id": 1, "inputs": [0], "name": "aggregate", "detail": "sum", "state": "a row a group", **rule,
             "arrangements": [kept], "rows": rows(3, 1200, 2, 800, 3, 900)}  # fmt: skip
    explained = {"operators": [read, total], "state": {"rows": 5, "bytes": 99}, "counted_from": 120, "text": "tree"}

    def version(number: int, state: str, type: str, came: int, gone: int | None) -> dict[str, Any]:
        at = "2026-11-25T16:00:00.000000Z"
        return {"version": number, "state": state, "sql": f"SELECT {number}", "columns": [{"name": "n", "type": type}], "key": [],
                "came_commit": came, "came_at": at if number > 1 else None, "gone_commit": gone, "gone_at": at if gone else None}  # fmt: skip

    versions = {
        "view": "sums",
        "versions": [version(2, "live", "bigint", 120, None), version(1, "gone", "int", 1, 120)],
    }
    page = given({"views/sums": view, "views/sums/explain": explained, "views/sums/versions": versions})
    page.goto("/views/sums/circuit")
    operators = page.get_by_role("list", name="operators of sums").locator("> li")
    expect(operators).to_have_count(2)
    counted = [operators.nth(at).locator("tbody td").all_inner_texts() for at in range(operators.count())]
    assert counted == [["3", "1,200", "–", "–", "0", "0"], ["3", "1,200", "2", "800", "3", "900"]]
    expect(operators.nth(1)).to_contain_text("keeps 1,234 rows, 3.4 KiB in 2 runs, of this view")
    expect(operators.nth(1).get_by_role("link")).to_have_text("0 read")
    expect(page.get_by_text("Rows are counted from commit 120 on.")).to_be_visible()
    picture(page, "circuit")
    page.get_by_role("link", name="Versions").click()
    listed = page.get_by_role("list", name="versions of sums").locator("> li")
    expect(listed).to_have_count(2)
    expect(listed.first).to_contain_text("from commit 120 (2026-11-25 16:00:00 UTC) on")
    expect(listed.first.locator(".change")).to_have_text(["+ n bigint", "- n int"])
    expect(listed.last).to_contain_text("from commit 1 to 120 (2026-11-25 16:00:00 UTC)")
    listed.last.get_by_text("SQL", exact=True).click()
    expect(listed.last.locator("pre")).to_have_text("SELECT 1")
    picture(page, "versions")


def test_large_numbers_stay_whole(given: Given) -> None:
    page = given({})
    exact = '{"commit": 7, "columns": [{"name": "n", "type": "bigint"}], "rows": [{"n": 9007199254740993}], "more": false, "stale": {}}'
    page.route("**/api/sql", lambda route: route.fulfill(body=exact, content_type="application/json"))
    page.goto("/sql")
    page.get_by_label("one SELECT").fill("SELECT n FROM a")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("region", name="answer")).to_contain_text("9007199254740993")


def test_words_that_were_found_are_marked(given: Given) -> None:
    view = {"name": "notes", "version": 1, "sql": "SELECT 1", "columns": [{"name": "text", "type": "string"}], "key": [],
            "state": "live", "reason": "", "commit": 7, "created_commit": 1, "rows": 1, "reads": [], "read_by": [], "sinks": []}  # fmt: skip
    text = "\U0001f30a the <b>water</b> wheel"
    hit = {"score": 1.5, "copies": 1, "row": {"text": text},
           "snippets": [{"column": "text", "text": text, "marks": [[9, 14]]}]}  # fmt: skip
    page = given({"views/notes": view, "views/notes/search": {"commit": 7, "total": 1, "hits": [hit]}})
    page.goto("/views/notes/search")
    page.get_by_label("words to find in notes").fill("water")
    page.keyboard.press("Enter")
    expect(page.locator("mark")).to_have_text(["water"])
    expect(page.get_by_label("rows found").get_by_role("listitem")).to_contain_text(text)


def test_a_refusal_says_where_why_and_what_next(given: Given) -> None:
    refused = {"code": "access.denied", "what": "the role viewer may not do this", "where": "GET /api/quarantine",
               "why": "it is for editors", "next": "ask an admin"}  # fmt: skip
    page = given({"quarantine": (403, refused), "feeds": (500, "not JSON")})
    page.goto("/quarantine")
    alert = page.get_by_role("alert")
    for part in refused.values():
        expect(alert).to_contain_text(part)
    page.goto("/feeds")
    expect(page.get_by_role("alert")).to_contain_text("the server answered 500")


def test_what_is_wrong_comes_first(given: Given) -> None:
    error = {
        "code": "sink.failed",
        "what": "the store does not answer",
        "why": "connection refused",
        "next": "start it",
    }
    view = {"name": "shares", "version": 1, "state": "failed", "reason": "[DIVIDE_BY_ZERO] <b>Division</b> by zero", "commit": 5,
            "behind_s": 4000.0, "failing": [], "quarantined": {"orders": 3}}  # fmt: skip
    sink = {
        "name": "store",
        "state": "failed",
        "frontier": 3,
        "rows": 9,
        "lag": 4,
        "behind_s": 61.0,
        "error": error,
        "tells": False,
        "quarantined": {"sums": 4},
        "quarantine": {"what": "its store cannot hold", "where": "its table headrace_quarantine"},
    }
    hook = {**sink, "name": "hook", "state": "running", "error": None, "tells": True, "quarantined": {"sums": 500, "top": 1},
            "quarantine": {"what": "it could not tell", "where": "`headrace alerts ls hook`"}}  # fmt: skip
    source = {"name": "shop", "state": "running", "tables": ["orders"], "rows": 12, "position": "4", "error": None,
              "warnings": ["the slot keeps 3 GiB"], "quarantined": {"orders": 2}}  # fmt: skip
    page = given({
        "status": {**STATUS, "views": [view], "sinks": [sink, hook], "sources": [source]},
        "top": (403, {"code": "access.denied", "what": "the role viewer may not do this"}),
    })  # fmt: skip
    watched = Watched(page)
    page.goto("/")
    troubles = page.get_by_role("region", name="What is wrong").get_by_role("listitem")
    expect(troubles).to_have_count(8)
    assert troubles.locator(".what").all_inner_texts() == [
        "view shares is failed", "sink store: the store does not answer", "source shop: the slot keeps 3 GiB",
        "2 changes of orders in the quarantine", "view orders goes on without 3 rows",
        "sink store: its store cannot hold 4 rows of sums", "sink hook: it could not tell 500 rows of sums",
        "sink hook: it could not tell 1 row of top",
    ]  # fmt: skip
    led = [each.get_by_role("link").get_attribute("href") for each in troubles.all()[3:]]
    assert led == ["/quarantine", "/quarantine", "/sinks", "/alerts", "/alerts"]
    expect(troubles.last).to_contain_text("see `headrace alerts ls hook`")
    expect(troubles.first).to_contain_text("[DIVIDE_BY_ZERO] <b>Division</b> by zero")
    expect(page.get_by_text("67 min behind")).to_be_visible()
    picture(page, "what_is_wrong")
    page.goto("/sinks")
    rows = page.get_by_role("row")
    expect(rows.filter(has_text="cannot hold")).to_have_text(
        "its store cannot hold 4 rows of sums: see its table headrace_quarantine"
    )
    expect(rows.filter(has_text="could not tell")).to_have_count(2)
    expect(rows.filter(has_text="of top")).to_have_text("it could not tell 1 row of top: see `headrace alerts ls hook`")
    expect(rows.filter(has_text="of top").get_by_role("link")).to_have_attribute("href", "/views/top")
    picture(page, "sinks_that_set_aside")
    assert [error for error in watched.errors if "Content Security" in error] == []


def test_how_far_a_source_is_with_what_it_copies(given: Given) -> None:
    rows = {"table": "orders", "unit": "rows", "done": 300_000, "total": 1_200_000, "per_s": 31_000.0, "left_s": 28.6}
    size = {"table": "visits", "unit": "bytes", "done": 48 << 20, "total": None, "per_s": None, "left_s": None}
    source = {"name": "shop", "state": "running", "tables": ["orders", "visits"], "rows": 12, "position": "4",
              "error": None, "warnings": [], "quarantined": {}, "copying": [rows, size]}  # fmt: skip
    done = {**source, "copying": []}
    denied = {"code": "access.denied", "what": "the role viewer may not do this"}
    status = chain([{**STATUS, "sources": [source]}], repeat({**STATUS, "sources": [done]}))
    page = given({"status": status, "top": (403, denied)})
    page.clock.install(time=0)
    page.clock.pause_at(1)
    page.goto("/")
    bar = page.get_by_role("progressbar", name="copying orders")
    assert bar.evaluate("bar => bar.position") == 0.25
    assert page.get_by_role("progressbar", name="copying visits").evaluate("bar => bar.position") == -1  # none is known
    told = page.locator(".copying")
    expect(told).to_have_text([
        "copying orders: 300,000 of 1,200,000 rows, about 29 s left", "copying visits: 48 MiB",
    ])  # fmt: skip
    picture(page, "copying")
    page.clock.run_for(1_000)
    expect(told).to_have_count(0)


def test_a_quarantine_of_more_than_one_answer_says_so(given: Given) -> None:
    held = [
        {"id": f"orders:{n}:1", "operation": "insert", "reason": "its key is there", "row": {"id": n}} for n in (1, 2)
    ]
    page = given({"quarantine": (200, held, {"X-Headrace-More": "true"})})
    page.goto("/quarantine")
    expect(page.get_by_label("2 changes in the quarantine").locator("li")).to_have_count(2)
    expect(page.get_by_role("status").filter(has_text="oldest 2 changes")).to_contain_text("headrace quarantine list")
    page = given({"quarantine": held})
    page.goto("/quarantine")
    expect(page.get_by_label("2 changes in the quarantine")).to_be_visible()
    expect(page.get_by_text("These are the oldest")).to_have_count(0)


def test_rates_and_lag_are_those_of_one_status_after_the_other(given: Given) -> None:
    """Rows a second of all sources together, by the page's own clock; a server that was started anew counts from nothing."""

    def status(commit: int, frontier: int, steps: int, *rows: int, behind_s: float) -> dict[str, Any]:
        sources = [{"name": f"s{at}", "state": "running", "tables": [], "rows": each, "position": None, "error": None,
                    "warnings": [], "quarantined": {}} for at, each in enumerate(rows)]  # fmt: skip
        view = {"name": "sums", "version": 1, "state": "live", "reason": "", "commit": frontier, "behind_s": behind_s,
                "failing": [], "quarantined": {}}  # fmt: skip
        return {**STATUS, "commit": commit, "frontier": frontier, "steps": steps, "sources": sources, "views": [view]}

    first, second = status(10, 10, 3, 100, 40, behind_s=0.0), status(22, 19, 5, 2_600, 42, behind_s=4.2)
    started = status(23, 22, 1, 7, 0, behind_s=0.0)
    denied = {"code": "access.denied", "what": "the role viewer may not do this"}
    page = given({"status": chain([first, second], repeat(started)), "top": (403, denied)})
    page.clock.install(time=0)
    page.clock.pause_at(1)
    page.goto("/")

    def told(tile: str) -> list[str]:
        return (
            page.locator(".tiles > div").filter(has=page.locator("dt", has_text=tile)).locator("dd").all_inner_texts()
        )

    expect(page.get_by_text("views at 10 of 10")).to_be_visible()
    assert (told("Throughput")[0], told("Lag")[0], told("Freshness")[0]) == ("0 rows/s", "0 commits", "up to date")
    page.clock.run_for(1_000)
    expect(page.get_by_text("views at 19 of 22")).to_be_visible()
    assert (told("Throughput")[0], told("Transactions")[0]) == ("2,502 rows/s", "12 /s")
    assert (told("Lag")[0], told("Freshness")[0]) == ("3 commits", "4.2 s behind")
    picture(page, "rates")
    page.clock.run_for(1_000)
    expect(page.get_by_text("views at 22 of 23")).to_be_visible()
    assert (told("Throughput")[0], told("Lag")[0]) == ("2,502 rows/s", "1 commit")


def test_travel_to_a_time(given: Given) -> None:
    """A time goes to the server as it was written, which answers as of the last commit by then, or says what is wrong."""
    columns = [{"name": "n", "type": "int"}]
    view = {"name": "sums", "version": 1, "sql": "SELECT 1", "columns": columns, "key": [], "state": "live", "reason": "",
            "commit": 7, "created_commit": 1, "rows": 1, "reads": [], "read_by": [], "sinks": []}  # fmt: skip
    page = given({"views/sums": view})
    commits = {None: 7, "2026-03-01T08:00+01:00": 3, "4": 4}

    def answer(route: Route, at: str | None) -> None:
        if at in commits:
            told = {"commit": commits[at], "columns": columns, "rows": [{"n": commits[at]}], "more": False, "stale": {}}
            route.fulfill(json=told)
        else:
            refused = {"code": "api.request", "what": f"'{at}' is neither a commit number nor a time"}
            route.fulfill(json=refused, headers={"X-Headrace-Status": "422"})

    page.route(
        "**/api/views/sums/rows?*",
        lambda route: answer(route, parse_qs(urlsplit(route.request.url).query).get("at", [None])[0]),
    )
    page.route("**/api/sql", lambda route: answer(route, route.request.post_data_json.get("at")))
    page.goto("/views/sums")
    cell = page.get_by_role("region", name="rows of sums").get_by_role("cell").first
    expect(cell).to_have_text("7")
    time_ = page.get_by_role("group", name="time travel").get_by_label("or time")
    time_.fill("2026-03-01T08:00+01:00")
    time_.press("Enter")
    expect(cell).to_have_text("3")
    expect(page.get_by_label("commit", exact=True)).to_have_value("3")
    expect(page.get_by_text("as of a past commit")).to_be_visible()
    page.reload()  # the address holds it
    expect(cell).to_have_text("3")
    expect(time_).to_have_value("2026-03-01T08:00+01:00")
    page.get_by_role("button", name="the commit after").click()
    expect(cell).to_have_text("4")
    expect(time_).to_have_value("")
    time_.fill("yesterday")
    time_.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("'yesterday' is neither a commit number nor a time")
    page.get_by_role("button", name="Now", exact=True).click()
    expect(cell).to_have_text("7")
    page.goto("/sql")
    page.get_by_label("one SELECT").fill("SELECT n FROM sums")
    for at, told in (("", "7"), ("2026-03-01T08:00+01:00", "3"), ("4", "4")):
        page.get_by_label("at commit or time").fill(at)
        page.get_by_role("button", name="Run").click()
        expect(page.get_by_role("region", name="answer").get_by_role("cell").first).to_have_text(told)
    page.get_by_label("at commit or time").fill("yesterday")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("alert")).to_contain_text("'yesterday' is neither")
