"""Goal: of what is longer than an answer, or than what a browser can hold, the page shows a part and says so: no hole is unseen.

Method: the built page in a real Chromium; answers of the API are given, by a feed that grows as the test says.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from given_answers import Given
from playwright.sync_api import Page, Route, expect
from watched_page import picture

pytestmark = pytest.mark.browser


class Growing:
    """A list of the API that is read from its head back; ``made`` makes each of its numbers, up to ``end``, what is answered."""

    def __init__(
        self, page: Page, path: str, made: Callable[[int], dict[str, Any]], end: int, *, oldest_first: bool = False
    ) -> None:
        self.made, self.end, self.oldest_first = made, end, oldest_first
        page.route(f"**/api/{path}?*", self.answer)

    def answer(self, route: Route) -> None:
        asked = {name: int(values[0]) for name, values in parse_qs(urlsplit(route.request.url).query).items()}
        upto = min(self.end, asked.get("before", self.end + 1) - 1, asked.get("at", self.end))
        numbers = range(upto, 0, -1)[: asked["limit"]]
        route.fulfill(json=[self.made(number) for number in (reversed(numbers) if self.oldest_first else numbers)])


def transaction(commit: int) -> dict[str, Any]:
    """One of a table; that of commit 61 alone has a needle."""
    changes = [{"op": "insert", "row": {"name": "needle" if commit == 61 else "straw"}}]
    return {
        "commit": commit,
        "source": "shop",
        "position": "1",
        "committed_at": None,
        "changes": changes,
        "more": False,
    }


def test_what_comes_to_a_feed_leaves_no_hole_that_is_not_shown(given: Given) -> None:
    page = given({})
    fed = Growing(page, "feeds/orders/transactions", transaction, end=120)
    page.goto("/feeds/orders")
    lines = page.get_by_label("transactions, newest first").locator("> li")
    gap = lines.filter(has=page.get_by_role("button", name="Load them"))

    def commits() -> list[int]:
        return [int(text.replace(",", "")) for text in lines.locator("strong").all_inner_texts()]

    expect(lines).to_have_count(50)
    fed.end = 125
    expect(lines.first.locator("strong")).to_have_text("125")
    assert commits() == list(range(125, 75, -1))  # as long as nobody asks for older ones, the newest
    page.get_by_role("button", name="Older").click()
    expect(lines).to_have_count(100)
    fed.end = 230  # more than a page, between two looks
    expect(lines).to_have_count(205)
    assert commits() == list(range(230, 25, -1))
    fed.end = 750  # more than is read by itself
    expect(gap).to_have_text("Between commits 230 and 501 there may be others. Load them")
    assert commits() == [*range(750, 500, -1), *range(230, 25, -1)]
    assert lines.nth(250).get_by_role("button").all_inner_texts() == ["Load them"]
    picture(page, "gap")
    gap.get_by_role("button").click()
    expect(gap).to_contain_text("Between commits 230 and 301")
    gap.get_by_role("button").click()
    expect(gap).to_have_count(0)
    assert commits() == list(range(750, 25, -1))
    page.get_by_role("button", name="Older").click()
    expect(page.get_by_text("the beginning of what the log has")).to_be_visible()
    assert commits() == list(range(750, 0, -1))
    page.get_by_label("commit or time", exact=True).fill("60")
    page.get_by_role("button", name="Jump", exact=True).click()
    expect(lines.first.locator("strong")).to_have_text("60")
    page.get_by_role("button", name="Older").click()
    expect(lines).to_have_count(60)
    page.get_by_role("link", name="Newest").click()
    expect(lines.first.locator("strong")).to_have_text("750")
    assert commits() == list(range(750, 700, -1))  # and nothing of what was looked at before


def test_what_comes_while_a_feed_is_looked_through_is_found(given: Given) -> None:
    page = given({"feeds/orders/search": {"transactions": [], "before": None}})
    fed = Growing(page, "feeds/orders/transactions", transaction, end=60)
    page.goto("/feeds/orders")
    lines = page.get_by_label("transactions, newest first").locator("> li")
    expect(lines).to_have_count(50)
    page.get_by_label("find transactions with a text").fill("needle")
    expect(page.get_by_text("None that was looked through")).to_be_visible()
    fed.end = 160  # the first of a hundred that come between two looks
    expect(lines.locator("strong")).to_have_text(["61"])
    fed.end = 600
    expect(lines).to_have_count(2)
    expect(lines.first).to_have_text("Between commits 160 and 351 there may be others. Load them")


def test_what_comes_to_the_audit_log_leaves_no_hole_that_is_not_shown(given: Given) -> None:
    entry = {"at": "2026-03-01T08:00:00Z", "who": "owner", "action": "apply", "relation": None, "address": "", "outcome": "done",
             "of": None, "detail": {}}  # fmt: skip
    page = given({"audit/verdict": {"entries": 350, "head": "", "damage": None}})
    page.clock.install()
    log = Growing(page, "audit", lambda number: {**entry, "number": number}, end=350, oldest_first=True)
    page.goto("/audit")
    rows = page.get_by_role("region", name="entries, newest first").locator("tbody tr")
    expect(rows).to_have_count(100)
    page.get_by_role("button", name="Older").click()
    expect(rows).to_have_count(200)
    log.end = 900
    page.clock.fast_forward(5_000)
    expect(rows.filter(has_text="there may be others")).to_have_text(
        "Between entries 350 and 401 there may be others. Load them"
    )
    expect(rows).to_have_count(701)
    rows.get_by_role("button", name="Load them").click()
    expect(rows).to_have_count(750)
    assert rows.locator("td:first-child").all_inner_texts() == [f"{number}" for number in range(900, 150, -1)]


def test_a_transaction_says_how_all_of_it_is_seen(given: Given) -> None:
    """By the command of its kind; `log cat` knows no view."""
    rows = [{"n": n} for n in range(150)]

    def of_table(commit: int, shown: int, more: bool) -> dict[str, Any]:
        changes = [{"op": "insert", "row": row} for row in rows[:shown]]
        return {
            "commit": commit,
            "source": "shop",
            "position": "1",
            "committed_at": None,
            "changes": changes,
            "more": more,
        }

    of_view = [{"commit": 7, "committed_at": None, "changes": [{"weight": 1, "row": rows[0]}], "more": True}]
    page = given({
        "feeds/orders/transactions": [of_table(9, 150, False), of_table(8, 0, True), of_table(7, 100, False)],
        "feeds/sums/transactions": of_view, "feeds/small/transactions": of_view,
        "feeds": [{"name": "small", "kind": "query", "view": "sums"}],
    })  # fmt: skip
    page.goto("/feeds/orders")
    letters = page.get_by_label("transactions, newest first").locator("> li")
    expect(letters.locator(".changes")).to_have_text(["150 changes", "not shown", "100 changes"])
    for at, note in enumerate([
        "the first 100 changes; headrace log cat orders --from 9 --to 9 has all",
        "its changes find no room in one answer; headrace log cat orders --from 8 --to 8 has all",
    ]):  # fmt: skip
        letters.nth(at).get_by_role("button").click()
        expect(letters.nth(at).locator(".letter > p").last).to_have_text(note)
    letters.last.get_by_role("button").click()
    expect(letters.last.locator(".letter > p")).to_have_text(["position 1"])
    page.goto("/feeds/sums")
    expect(letters.locator(".changes")).to_have_text("over 1")
    letters.get_by_role("button").click()
    expect(letters.locator(".letter > p")).to_have_text(
        "the first 1 change; headrace watch sums --after 6 begins with all, as long as they are kept"
    )
    page.goto("/feeds/small")
    expect(page.get_by_text("what a stored query matches")).to_be_visible()
    letters.get_by_role("button").click()
    expect(letters.locator(".letter > p")).to_have_text(
        "the first 1 change; headrace queries show small --at 7 has all that it matched then"
    )


def test_copies_of_a_row_are_told_and_not_made(given: Given) -> None:
    many = 50_000_000
    matches = {"query": "sent", "view": "events", "commit": 7, "columns": [{"name": "kind", "type": "string"}], "total": many + 9,
               "matches": [{"copies": many, "row": {"kind": "sent"}}, {"copies": 1, "row": {"kind": "resent"}}]}  # fmt: skip
    page = given(
        {
            "queries": [{"name": "sent", "view": "events", "query": "sent", "problem": None}],
            "queries/sent/matches": matches,
        }
    )
    page.goto("/queries/sent")
    rows = page.get_by_role("region", name="rows that sent matches").locator("tbody tr")
    expect(rows).to_have_count(2)
    assert [[cell.strip() for cell in row.locator("td").all_inner_texts()] for row in rows.all()] == [
        ["sent", "50,000,000 times", ""], ["resent", "", ""],
    ]  # fmt: skip
    expect(page.get_by_text("50,000,009 rows, 50,000,001 are shown; commit 7")).to_be_visible()
    picture(page, "copies")


def test_a_file_of_less_than_all_rows_says_so(given: Given, tmp_path: Path) -> None:
    columns = [{"name": "n", "type": "int"}]
    view = {"name": "sums", "version": 1, "sql": "SELECT 1", "columns": columns, "key": [], "state": "live", "reason": "",
            "commit": 7, "created_commit": 1, "reads": [], "read_by": [], "sinks": []}  # fmt: skip
    rows = {"commit": 7, "columns": columns, "rows": [{"n": n} for n in range(200)], "more": True, "stale": {}}
    page, files, told = given({}), list[str](), {"rows": 0, "fits": True}

    def answer(route: Route) -> None:
        asked = urlsplit(route.request.url).query
        if "format=csv" not in asked:
            route.fulfill(json=rows)
            return
        files.append(asked)
        if told["fits"]:
            route.fulfill(body='"n"\n1\n', content_type="text/csv")
        else:
            large = {"code": "query.size", "what": "the answer has more than 64 MiB", "next": "ask for fewer columns"}
            route.fulfill(json=large, headers={"X-Headrace-Status": "413"})

    page.route("**/api/views/sums", lambda route: route.fulfill(json={**view, "rows": told["rows"]}))
    page.route("**/api/views/sums/rows?*", answer)
    button = page.get_by_role("button", name="CSV")
    for count, query, words in (
        (100_000, "", "CSV"), (100_001, "", "CSV of the first 100,000 rows"),
        (100_001, "n=gt.5", "CSV of at most 100,000 rows"), (100_000, "n=gt.5", "CSV"), (5, "at=3", "CSV of at most 100,000 rows"),
    ):  # fmt: skip
        told["rows"] = count
        page.goto(f"/views/sums?{query}")
        expect(button).to_have_text(words)
        with page.expect_download() as download:
            button.click()
        download.value.save_as(tmp_path / "sums.csv")
        assert (tmp_path / "sums.csv").read_text() == '"n"\n1\n'
        assert files.pop() == f"{query}&limit=100000&format=csv".removeprefix("&")
    told["fits"] = False
    button.click()
    expect(page.get_by_role("alert")).to_contain_text("the answer has more than 64 MiB")
    expect(page.get_by_role("region", name="rows of sums").get_by_role("cell").first).to_have_text("0")
    told["fits"] = True
    with page.expect_download():
        page.get_by_role("alert").get_by_role("button", name="Try again").click()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_dead_letters_of_more_than_one_answer_are_counted_and_reached_sink_by_sink(given: Given) -> None:
    def letters(sink: str, many: int) -> list[dict[str, Any]]:
        return [{"sink": sink, "number": number, "view": "sums", "commit": 1, "rows": 1, "recipients": [], "reason": "HTTP 400",
                 "given_up_at": "2026-03-01T08:00:00Z"} for number in range(1, many + 1)]  # fmt: skip

    counts = {"waiting": {"a": 2, "b": 0}, "letters": {"a": 4_000, "b": 7}}
    page = given({})

    def answer(route: Route) -> None:
        sink = parse_qs(urlsplit(route.request.url).query).get("sink", ["a"])[0]
        dead = letters(sink, min(counts["letters"][sink], 100))
        more = "true" if sink == "a" else "false"
        route.fulfill(json={**counts, "dead": dead}, headers={"X-Headrace-More": more})

    page.route(re.compile(r"/api/alerts(\?|$)"), answer)
    page.goto("/alerts")
    sinks = page.get_by_role("region", name="Sinks").locator("tbody tr")
    expect(sinks).to_have_count(2)
    told = [row.locator("th, td").all_inner_texts() for row in sinks.all()]
    assert [(cells[0], cells[4], cells[6]) for cells in told] == [("a", "2", "4,000"), ("b", "0", "7")]
    said = page.get_by_role("status").filter(has_text="dead letters of")
    expect(said).to_have_text(
        "100 dead letters of 4,007, the oldest, sink by sink: the others are shown as these are settled, and by "
        "headrace alerts ls --json."
    )
    expect(page.get_by_role("list", name="100 dead letters")).to_be_visible()
    picture(page, "dead_letters_more")
    page.get_by_label("of sink").select_option("of b")
    listed = page.get_by_role("list", name="7 dead letters").get_by_role("listitem")
    expect(listed.locator("strong")).to_have_text([f"b {number}" for number in range(1, 8)])
    expect(said).to_have_count(0)
    assert page.url.endswith("/alerts?sink=b")
    page.reload()  # the address holds it
    expect(listed).to_have_count(7)
    page.get_by_label("of sink").select_option("of a")
    expect(said).to_contain_text("100 dead letters of 4,000, the oldest: ")
    page.get_by_label("of sink").select_option("of all sinks")
    expect(said).to_contain_text("of 4,007")
