"""Goal: who hears the page is told where it is, what is there and what was done, goes on from there, and is not flooded.

Method: the built page in a real Chromium with given answers; its names, descriptions, live regions and the focus are
what a screen reader has.
"""

from __future__ import annotations

import re
from itertools import chain, repeat
from urllib.parse import parse_qs, urlsplit

import pytest
from given_answers import STATUS, Given
from playwright.sync_api import Page, Route, expect
from test_contents_live import LOOKING, NUMBERS, VIEW

pytestmark = pytest.mark.browser

SINK = {"name": "local", "state": "running", "frontier": 6, "rows": 9, "lag": 1, "behind_s": 0.5, "error": None,
        "tells": False, "quarantined": {}, "quarantine": {}}  # fmt: skip
ROWS = {"commit": 7, "columns": NUMBERS, "rows": [{"n": 1}, {"n": 2}], "more": False, "stale": {}}


def said(page: Page, text: str) -> None:
    expect(page.get_by_role("status").filter(has_text=text)).to_have_count(1)


def test_each_page_and_part_says_its_name(given: Given) -> None:
    me = {"me": {"name": "owner", "role": "admin", "only": []}}
    page = given({"session": chain([{"me": None}], repeat(me)), "views/sums": VIEW, "views/sums/rows": ROWS})
    page.goto("/")
    expect(page.get_by_label("Token")).to_be_focused()
    expect(page).to_have_title("Log in · Headrace")
    page.keyboard.type("headrace_x")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Overview")).to_be_focused()
    expect(page).to_have_title("Overview · Headrace")
    page.goto("/views/sums")
    page.get_by_role("link", name="Changes").press("Enter")
    expect(page.get_by_role("heading", name=re.compile("^sums ?, Changes$"))).to_be_focused()
    expect(page).to_have_title("sums, Changes · Headrace")


def test_the_focus_stays_near_what_goes(given: Given) -> None:
    held = [
        {"id": f"orders:{n}:1", "operation": "insert", "reason": "its key is there", "row": {"n": n}} for n in (1, 2)
    ]
    page = given({"quarantine": chain([held], repeat(held[1:]))})
    page.goto("/quarantine")
    page.get_by_role("button", name="Drop orders:1:1").press("Enter")
    dialog = page.get_by_role("dialog", name="Drop orders:1:1")
    expect(dialog).to_have_accessible_description(re.compile("^It leaves the quarantine for good"))
    dialog.get_by_role("button", name="Drop").press("Enter")
    expect(page.get_by_role("button", name="Fix orders:2:1")).to_be_focused()
    said(page, "orders:1:1 was dropped")


def test_a_button_that_acts_keeps_the_focus(given: Given) -> None:
    page = given({"status": {**STATUS, "sinks": [SINK]}})

    def slowly(route: Route) -> None:
        page.wait_for_function("document.activeElement === document.body")  # it is disabled meanwhile
        route.fulfill(json={})

    page.goto("/sinks")
    page.route("**/api/sinks/local/pause", slowly)
    pause = page.get_by_role("button", name="Pause local")
    pause.press("Enter")
    said(page, "local is paused")
    expect(pause).to_be_focused()


def test_tables_and_their_rows_have_names(given: Given) -> None:
    page = given({"status": {**STATUS, "sinks": [SINK]}})
    page.goto("/sinks")
    expect(page.get_by_role("table", name="sinks")).to_match_aria_snapshot("""
      - rowgroup:
        - row:
          - columnheader "name"
      - rowgroup:
        - row:
          - rowheader "local"
          - cell "running"
          - cell "6"
          - cell "6 of 7 commits":
            - progressbar "position of local"
    """)


def test_the_lines_of_the_lineage_are_told(given: Given) -> None:
    nodes = [
        {"id": id, "kind": id.split(":")[0], "name": id.split(":")[1], "state": "live"}
        for id in ("table:t", "view:v", "sink:s")
    ]
    edges = [{"from": "table:t", "to": "view:v"}, {"from": "view:v", "to": "sink:s"}]
    page = given({"lineage": {"nodes": nodes, "edges": edges}})
    page.goto("/lineage")
    view = page.get_by_role("link", name="v view")
    expect(view.locator("desc")).to_have_text("from t; into s")  # what describes it
    view.press("Enter")
    said(page, "columns of v, below the lineage")


def test_a_filter_says_what_is_left(given: Given) -> None:
    view = {"name": "sums", "version": 1, "state": "live", "reason": "", "commit": 7, "behind_s": 0, "quarantined": {}}
    page = given({"status": {**STATUS, "views": [view]}, "views/sums": VIEW, "views/sums/rows": ROWS})
    page.goto("/views")
    page.get_by_label("filter views by name").fill("none")
    said(page, "0 views")
    page.goto("/views/sums")
    page.get_by_label("value").fill("1")
    page.keyboard.press("Enter")
    said(page, "2 rows")


def test_many_changes_are_counted_and_not_read_out(given: Given) -> None:
    """One change comes with each look; they are more than what is told."""
    page = given({"views/sums": VIEW})
    page.add_init_script(LOOKING)
    page.clock.install()

    def transactions(route: Route) -> None:
        commit = int(parse_qs(urlsplit(route.request.url).query)["after"][0]) + 1
        change = {
            "commit": commit,
            "committed_at": None,
            "changes": [{"weight": 1, "row": {"n": commit}}],
            "more": False,
        }
        route.fulfill(json=[change])

    page.route("**/api/feeds/sums/transactions?*", transactions)
    page.goto("/views/sums/changes")
    changes = page.get_by_role("list", name="changes, newest last")
    said(page, "1 change more, up to commit 8")
    page.clock.run_for(5_000)
    expect(changes.get_by_role("listitem").nth(2)).to_be_visible()
    said(page, "1 change more, up to commit 8")
    page.clock.run_for(6_000)
    expect(page.get_by_role("status").filter(has_text="changes more, up to commit")).to_have_count(1)
    expect(page.locator("[aria-live=polite] table, [role=status] table")).to_have_count(0)
