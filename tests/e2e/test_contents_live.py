"""Goal: rows and charts of a view's page go on with the view: what has changed is read anew, and what is there stays meanwhile.

Method: the built page in a real Chromium; answers of the API are given, among them the stream of changes.
"""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from given_answers import Given
from playwright.sync_api import Route, expect
from watched_page import picture

pytestmark = pytest.mark.browser

NUMBERS = [{"name": "n", "type": "int"}]
VIEW = {"name": "sums", "version": 1, "sql": "SELECT 1", "columns": NUMBERS, "key": [], "state": "live", "reason": "",
        "commit": 7, "created_commit": 1, "rows": 1, "reads": [], "read_by": [], "sinks": []}  # fmt: skip
LOOKING = "Object.defineProperty(navigator, 'locks', { value: undefined })"  # then there is no stream
STREAMING = "Object.defineProperty(navigator, 'locks', { value: { request: (...asked) => asked.at(-1)({}) } })"


def test_a_version_that_came_at_the_commit_looked_at_is_read_once(given: Given) -> None:
    """The page says which version's contents it has once it was told that they may be those of the one before."""
    answers = {"view": VIEW, "n": 1}
    page = given({})
    page.add_init_script(LOOKING)
    asked: list[str] = []

    def rows(route: Route) -> None:
        asked.append(route.request.url)
        told = {"commit": 7, "columns": NUMBERS, "rows": [{"n": answers["n"]}], "more": False, "stale": {}}
        route.fulfill(json=told)

    def transactions(route: Route) -> None:
        if answers["n"] == 1 or "version=2" in route.request.url:
            route.fulfill(json=[])
        else:
            lost = {"code": "view.not_at", "what": "what version 2 changed as it came is not kept"}
            route.fulfill(json=lost, headers={"X-Headrace-Status": "410"})

    page.route("**/api/views/sums", lambda route: route.fulfill(json=answers["view"]))
    page.route("**/api/views/sums/rows?*", rows)
    page.route("**/api/feeds/sums/transactions?*", transactions)
    page.goto("/views/sums")
    cell = page.get_by_role("region", name="rows of sums").get_by_role("cell").first
    expect(cell).to_have_text("1")
    with page.expect_request("**/transactions?after=7*"):
        answers |= {"view": {**VIEW, "version": 2, "created_commit": 7}, "n": 2}
    expect(cell).to_have_text("2")
    read = len(asked)
    for _ in range(2):
        with page.expect_request("**/transactions?after=7&version=2*"):
            pass
    assert len(asked) == read


def test_who_was_away_too_long_reads_what_is_shown_and_not_the_view(given: Given) -> None:
    """The stream is asked for no contents; once it says that changes were missed the rows are read anew."""
    page = given({"views/sums": VIEW})
    page.add_init_script(STREAMING)
    commits, followed = [7], list[dict[str, list[str]]]()

    def rows(route: Route) -> None:
        found = {"commit": commits[-1], "columns": NUMBERS, "rows": [{"n": commits[-1]}], "more": False, "stale": {}}
        route.fulfill(json=found)

    def changes(route: Route) -> None:
        followed.append(parse_qs(urlsplit(route.request.url).query))
        commits.append(900)
        behind = 'event: behind\ndata: {"commit":7,"reason":"not kept"}\n\n' if len(followed) == 1 else ""
        progress = 'event: progress\nid: 900\ndata: {"commit":900}\n\n'
        route.fulfill(body=behind + progress, content_type="text/event-stream")

    page.route("**/api/views/sums/rows?*", rows)
    page.route("**/api/views/sums/changes?*", changes)
    with page.expect_request("**/changes?after=900*"):
        page.goto("/views/sums")
    cell = page.get_by_role("region", name="rows of sums").get_by_role("cell").first
    expect(cell).to_have_text("900", timeout=3_000)  # before all is looked at again
    expect(page.get_by_text("commit 900", exact=True)).to_be_visible()
    assert followed[:2] == [{"after": [after], "snapshot": ["false"]} for after in ("7", "900")]


def test_rows_and_charts_stay_while_the_server_is_busy(given: Given) -> None:
    """What is refused for now is asked again by itself; what is there stays, but below the refusal of another question."""
    columns = [{"name": "id", "type": "bigint"}, {"name": "n", "type": "bigint"}]
    view = {**VIEW, "columns": columns, "key": ["id"], "rows": 3}
    came = [{"commit": 8, "committed_at": None, "changes": [{"weight": 1, "row": {"id": 3, "n": 3}}], "more": False}]
    page = given({"views/sums": view})
    page.add_init_script(LOOKING)
    commit, refused = 7, False

    def transactions(route: Route) -> None:
        after = int(parse_qs(urlsplit(route.request.url).query)["after"][0])
        route.fulfill(json=came if after < commit else [])

    def rows(route: Route) -> None:
        if refused:
            busy = {"code": "wait.busy", "what": "8 queries run already", "next": "try again, or make it a view"}
            route.fulfill(json=busy, headers={"X-Headrace-Status": "503"})
            return
        found = [{"id": n, "n": n} for n in range(commit - 4)]
        route.fulfill(json={"commit": commit, "columns": columns, "rows": found, "more": False, "stale": {}})

    page.route("**/api/feeds/sums/transactions?*", transactions)
    page.route("**/api/views/sums/rows?*", rows)
    alert = page.get_by_role("alert")
    table = page.get_by_role("region", name="rows of sums").locator("tbody tr:not(.space)")
    chart = page.get_by_role("img", name="bar chart of n by id")
    three, four = (page.get_by_role("img", name=f"bar chart of n by id, {values} values") for values in (3, 4))
    for address, all_of_it, first, then in (
        ("/views/sums", table, table.nth(2), table.nth(3)), ("/views/sums/chart", chart, three, four),
    ):  # fmt: skip
        commit, refused = 7, False
        page.goto(address)
        expect(first).to_be_visible()
        expect(page.get_by_text("live", exact=True).last).to_be_visible()
        many = all_of_it.count()
        commit, refused = 8, True
        expect(alert).to_contain_text("8 queries run already")
        assert first.is_visible() and all_of_it.count() == many
        for _ in range(2):
            with page.expect_request("**/api/views/sums/rows?*", timeout=3_000):
                pass
        assert first.is_visible() and all_of_it.count() == many
        picture(page, "busy")
        refused = False
        expect(alert).to_have_count(0)
        expect(then).to_be_visible()
    page.goto("/views/sums")
    expect(table).to_have_count(4)
    refused = True
    page.get_by_role("button", name="n", exact=True).click()  # in another order
    expect(alert).to_contain_text("8 queries run already")
    expect(table).to_have_count(0)
    refused = False
    expect(table).to_have_count(4)


def test_rows_that_take_longer_to_read_than_changes_are_apart_come_all_the_same(given: Given) -> None:
    """Each read is let finish, and what has changed meanwhile is read by the next."""
    page = given({"views/sums": VIEW})
    page.add_init_script(STREAMING)
    page.add_init_script(
        """
        window.commit = 7
        window.EventSource = class extends EventTarget {
          constructor() {
            super()
            setInterval(() => {
              const data = JSON.stringify({ commit: ++window.commit, rows: [] })
              this.dispatchEvent(new MessageEvent('change', { data }))
            }, 50)
          }
          close() {}
        }
        const asked = window.fetch
        window.fetch = async (address, request) => {
          if (!address.includes('/rows')) return asked(address, request)
          const { commit } = window
          await new Promise((next) => setTimeout(next, 400))
          request.signal.throwIfAborted()
          const columns = [{ name: 'n', type: 'int' }]
          return new Response(JSON.stringify({ commit, columns, rows: [{ n: commit }], more: false, stale: {} }))
        }
        """
    )
    page.goto("/views/sums")
    cell = page.get_by_role("region", name="rows of sums").get_by_role("cell").first
    told = list[str]()
    for _ in range(3):
        expect(cell).not_to_have_text(told[-1] if told else "", timeout=2_000)
        told.append(cell.inner_text())
    assert [int(text) for text in told] == sorted(set(map(int, told)))
