"""Goal: whoever comes sees what they may, in as many tabs as they like: nobody yet, a limited token, seven tabs, a wall of charts.

Method: a real browser on a running project; what a page shows is compared with what was pushed, and what the browser's
console tells as an error is counted.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from shop_with_page import ServedProject
from watched_page import Watched, picture

pytestmark = [pytest.mark.spark, pytest.mark.browser, pytest.mark.timeout(300)]
ROOT = Path(__file__).parents[2]
TABS = 8  # a browser has six connections to a server
HIDE = "Object.defineProperty(document, 'hidden', { get: () => %s, configurable: true });" \
       "document.dispatchEvent(new Event('visibilitychange'))"  # fmt: skip


@contextmanager
def visit(browser: Browser, shop: ServedProject) -> Iterator[tuple[Page, Watched]]:
    """A page of a browser that has no session."""
    context = browser.new_context(base_url=shop.url, viewport={"width": 1280, "height": 800})
    page = context.new_page()
    try:
        yield page, Watched(page)
    finally:
        context.close()


def test_a_first_visit_and_refusals_are_no_faults_of_the_page(browser: Browser, shop: ServedProject) -> None:
    with visit(browser, shop) as (page, watched):
        page.goto("/")
        expect(page.get_by_label("Token")).to_be_visible()
        page.evaluate("location.hash = '#token=headrace_wrong'")  # as one types it into the tab that is there
        expect(page).to_have_url(f"{shop.url}/")
        expect(page.get_by_label("Token")).to_be_visible()
        page.evaluate(f"location.hash = '#token={shop.token}'")
        expect(page.get_by_text("Nothing is wrong")).to_be_visible()
        assert page.url == f"{shop.url}/"
        page.goto("/views/no_such_view")
        expect(page.get_by_role("alert")).to_contain_text("view.unknown")
        page.goto("/sql")
        page.get_by_label("one SELECT").fill("SELECT * FROM revenu")
        page.get_by_role("button", name="Run").click()
        page.get_by_role("alert").get_by_role("link", name="sql.unknown_relation").click()
        expect(page.get_by_role("heading", name="sql.unknown_relation")).to_be_visible()
        told = httpx.get(f"{shop.url}/api/errors/sql.unknown_relation").json()
        expect(page.locator("dd")).to_have_text([told[part].replace("`", "") for part in ("cause", "repair")])
        page.goto("/errors/nope")
        expect(page.get_by_role("alert")).to_contain_text("there is no error code 'nope'")
        assert watched.errors == []


def test_a_limited_token_sees_what_it_reaches_and_is_offered_nothing_else(
    browser: Browser, shop: ServedProject
) -> None:
    owner = {"Authorization": f"Bearer {shop.token}"}
    made = httpx.post(f"{shop.url}/api/tokens", json={"name": "guest", "only": ["revenue", "orders"]}, headers=owner)
    with visit(browser, shop) as (page, watched):
        page.goto(f"/#token={made.json()['token']}")
        expect(page.get_by_text("Nothing is wrong: this token reaches 1 view.")).to_be_visible()
        views = page.locator("section", has=page.get_by_role("heading", name="Views", exact=True))
        expect(views.get_by_role("link")).to_have_text(["revenue"])
        places = page.get_by_role("navigation", name="pages").get_by_role("listitem")
        shown = [title.split("\n")[0] for title in places.all_inner_texts()]
        picture(page, "limited_overview")
        assert not {"Sinks", "Alerts", "Tokens", "Audit log"} & set(shown) and {"Views", "Lineage", "SQL"} <= set(shown)
        page.goto("/views")
        expect(page.locator("tbody tr")).to_have_count(1)
        page.goto("/lineage")
        graph = page.get_by_role("group", name="lineage").get_by_role("link")
        expect(graph).to_have_count(2)
        graph.and_(page.get_by_label("revenue")).click()
        page.get_by_role("complementary").get_by_role("link", name="revenue decimal").click()
        came = page.get_by_role("region", name="revenue comes from").get_by_role("listitem")
        expect(came.filter(has_text="amount")).to_be_visible()
        expect(came.filter(has_text="of a relation that this token does not reach")).to_be_visible()
        page.goto("/views/revenue/circuit")
        expect(page.get_by_role("list", name="operators of revenue")).to_contain_text("(hidden)")  # customers
        for place in ("/sinks", "/tokens"):
            page.goto(place)
            expect(page.get_by_text("This page is not for the token guest.")).to_be_visible()
        page.goto("/quarantine")
        expect(page.get_by_text("Nothing is set aside.")).to_be_visible()
        page.goto("/queries")
        expect(page.get_by_text("No stored query yet.")).to_be_visible()
        expect(page.get_by_role("button", name="New query")).to_have_count(0)
        assert watched.errors == []
    made = httpx.post(f"{shop.url}/api/tokens", json={"name": "reader"}, headers=owner)
    with visit(browser, shop) as (page, watched):  # a viewer of all: looks at everything, and changes nothing
        page.goto(f"/sinks#token={made.json()['token']}")
        expect(page.get_by_role("row", name="local")).to_contain_text("running")
        expect(page.get_by_role("button", name="Pause local")).to_have_count(0)
        links = page.get_by_role("navigation", name="pages").get_by_role("link")
        expect(links.filter(has_text="Alerts")).to_be_visible()
        expect(links.filter(has_text="Tokens")).to_have_count(0)
        assert watched.errors == []


def test_as_many_tabs_as_one_likes_all_move(logged_in: BrowserContext, shop: ServedProject) -> None:
    """All on one view, then each on another: those in the background ask nothing, and go on where they were."""
    tabs = [logged_in.new_page() for _ in range(TABS)]
    south = [tab.locator("tbody tr", has_text="south") for tab in tabs]
    try:
        for tab, row in zip(tabs, south, strict=True):
            tab.goto("/views/revenue")
            expect(row).to_contain_text("5.00")
            expect(tab.get_by_text("live", exact=True).last).to_be_visible()
        shop.push(orders={"upsert": [{"id": 11, "customer_id": 2, "amount": "6.00"}]})
        for row in south:
            expect(row).to_contain_text("6.00")
        tabs[0].close()  # who asked for all: another takes over
        shop.push(orders={"upsert": [{"id": 11, "customer_id": 2, "amount": "7.00"}]})
        for row in south[1:]:
            expect(row).to_contain_text("7.00")
        tabs[1].evaluate(HIDE % "true")
        shop.push(orders={"upsert": [{"id": 11, "customer_id": 2, "amount": "8.00"}]})
        for row in south[2:]:
            expect(row).to_contain_text("8.00")
        expect(south[1]).to_contain_text("7.00")
        tabs[1].evaluate(HIDE % "false")
        expect(south[1]).to_contain_text("8.00")
        # Other views: more than there are streams.
        others = ["all_orders", "all_customers", "by_day", "idle_customers"]
        for tab, view in zip(tabs[1:], others, strict=False):
            tab.goto(f"/views/{view}")
            expect(tab.get_by_text("live", exact=True).last).to_be_visible()
        shop.push(
            customers={"upsert": [{"id": 7, "name": "Gil", "region": "far"}]},
            orders={"upsert": [{"id": 77, "customer_id": 7, "amount": "77.00", "placed_at": "2026-04-05T08:00:00Z"}]},
        )
        for tab, text in zip(tabs[1:4], ("77.00", "Gil", "77.00"), strict=True):
            expect(tab.locator("tbody tr", has_text=text)).to_be_visible()
        for tab in tabs[5:]:
            expect(tab.locator("tbody tr", has_text="far")).to_contain_text("77.00")
    finally:
        for tab in tabs:
            tab.close()
        shop.begin_anew()


def test_another_version_is_seen_where_there_is_no_stream(logged_in: BrowserContext, shop: ServedProject) -> None:
    """The page looks every second: it takes the new version's rows, once."""
    page = logged_in.new_page()
    page.add_init_script("Object.defineProperty(navigator, 'locks', { value: undefined })")  # as without https
    row = page.get_by_role("region", name="rows of by_day").locator("tbody tr").first
    file = shop.folder / "views/by_day.sql"
    before = file.read_text()
    page.goto("/views/by_day")
    try:
        expect(row).to_contain_text("19.90")
        expect(page.get_by_text("live", exact=True).last).to_be_visible()
        file.write_text(before.replace("sum(amount)", "sum(amount + amount)"))
        assert logged_in.request.post("/api/apply", headers={"X-Headrace": "page"}, timeout=60_000).ok
        expect(row).to_contain_text("39.80")
        expect(page.get_by_text("version 2")).to_be_visible()
        read: list[str] = []
        page.on("request", lambda asked: read.append(asked.url) if "/rows?" in asked.url else None)
        page.wait_for_timeout(2_500)  # two looks
        assert read == []
        shop.push(
            orders={"upsert": [{"id": 10, "customer_id": 1, "amount": "1.00", "placed_at": "2026-03-01T08:00:00Z"}]}
        )
        expect(row).to_contain_text("2.00")
    finally:
        page.close()
        file.write_text(before)
        logged_in.request.post("/api/apply", headers={"X-Headrace": "page"}, timeout=60_000)
        shop.begin_anew()


def test_a_chart_shows_what_is_last_and_says_what_it_leaves_out(page: Page, shop: ServedProject) -> None:
    rows = [{"id": 1000 + n, "customer_id": 2, "amount": f"{n}.00"} for n in range(1100)]
    shop.wait(shop.push(orders={"upsert": rows}))
    page.goto("/views/all_orders/chart")
    page.get_by_role("button", name="line", exact=True).click()
    page.get_by_role("combobox", name="value").select_option("amount")
    page.get_by_role("combobox", name="by").select_option("id")
    line = page.get_by_role("img", name="line chart of amount by id, 1000 values, from 100 to 1.1K")
    expect(line).to_be_visible()
    expect(page.get_by_text("the last 1,000 of 1,102 rows, by id")).to_be_visible()
    shop.push(orders={"upsert": [{"id": 9000, "customer_id": 1, "amount": "9999.00"}]})  # the last of all
    expect(page.get_by_role("img", name="to 10K")).to_be_visible()
    page.get_by_role("button", name="bar", exact=True).click()
    expect(page.get_by_role("img", name="bar chart of amount by id, 40 values")).to_be_visible()
    expect(page.get_by_text("the last 40 of 1,103 rows, by id")).to_be_visible()
    page.get_by_text("As a table").click()
    values = page.get_by_role("region", name="values of the chart").locator("tbody tr")
    expect(values).to_have_count(40)
    expect(values.last).to_have_text("90009999")
    page.get_by_role("button", name="number", exact=True).click()
    expect(page.get_by_text("where id is 9000, the last of 1,103 rows")).to_be_visible()
    page.get_by_role("button", name="line", exact=True).click()
    page.get_by_role("combobox", name="by").select_option("customer_id")
    expect(page.get_by_text("several rows have one customer_id: each is a dot")).to_be_visible()
    expect(page.locator(".chart polyline")).to_have_count(0)
    picture(page, "chart_of_dots")
    page.goto("/views/revenue/chart")
    page.get_by_role("button", name="number", exact=True).click()
    expect(page.get_by_text("where region is north, the first of 2 rows")).to_be_visible()


def test_a_feed_is_looked_through_further_back(page: Page, shop: ServedProject) -> None:
    found = shop.push(customers={"upsert": [{"id": 50, "name": "Needle", "region": "hay"}]}).json()["commit"]
    straws = [{"id": 51, "name": f"Straw {number}", "region": "hay"} for number in range(60)]
    with ThreadPoolExecutor(8) as pushing:
        list(pushing.map(lambda straw: shop.push(customers={"upsert": [straw]}), straws))
    page.goto("/feeds/customers")
    letters = page.get_by_label("transactions, newest first").locator("> li")
    expect(letters).to_have_count(50)
    page.get_by_label("find transactions with a text").fill("needle")
    expect(letters).to_have_count(1)
    expect(letters.locator("strong")).to_have_text(f"{found:,}")
    expect(page.get_by_text("1 transaction with it; all that are kept are looked through")).to_be_visible()
    again = shop.push(customers={"upsert": [{"id": 52, "name": "A second needle", "region": "hay"}]}).json()["commit"]
    expect(letters.locator("strong")).to_have_text([f"{again:,}", f"{found:,}"])  # what comes in is found as well
    page.get_by_label("find transactions with a text").fill("straw")
    expect(letters).to_have_count(50)
    page.get_by_role("button", name="Look further back").click()
    expect(letters).to_have_count(60)
    page.get_by_label("find transactions with a text").fill("no such text")
    expect(page.get_by_text("None that was looked through has “no such text”.")).to_be_visible()
    page.get_by_label("find transactions with a text").fill("")
    expect(letters).to_have_count(51)  # with what came meanwhile


@contextmanager
def reactive(shop: ServedProject, port: int = 0) -> Iterator[str]:
    """The server of examples/reactive as a process; gives its address."""
    command = [sys.executable, "-m", "examples.reactive.run", "--project", str(shop.folder), "--view", "revenue"]
    with subprocess.Popen([*command, "--port", str(port)], stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()


def test_a_front_end_of_ones_own_follows_a_view(browser: Browser, shop: ServedProject) -> None:
    """That of examples/reactive moves as its view does, and goes on where it was after a restart of its server."""
    page = browser.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    rows = page.locator("#rows tr")
    with reactive(shop) as url:
        page.goto(url)
        expect(rows).to_have_text(["north119.90", "south15.00"])
        shop.push(orders={"upsert": [{"id": 12, "customer_id": 1, "amount": "1.00"}]})
        expect(rows).to_have_text(["north220.90", "south15.00"])
        assert "new" in (rows.first.get_attribute("class") or "")
    expect(page.locator("#state")).to_have_text("connecting again")
    shop.push(customers={"upsert": [{"id": 3, "name": "<b>Cy</b>", "region": "<b>east</b>"}]},
              orders={"upsert": [{"id": 13, "customer_id": 3, "amount": "2.00"}]})  # fmt: skip
    with reactive(shop, int(url.rpartition(":")[2])):
        expect(rows).to_have_text(["<b>east</b>12.00", "north220.90", "south15.00"])
    page.close()
    shop.begin_anew()
    assert errors == []
