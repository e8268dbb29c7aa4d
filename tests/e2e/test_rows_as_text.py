"""Goal: whatever a row holds is text on every page: whole, or cut with a sign that it is, within the window, in light and dark.

Method: markup, marks that turn the direction of writing, control characters, words without an end and cells of 10 MB are
pushed into a running project; each place's text is compared with what was pushed.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator

import pytest
import yaml
from playwright.sync_api import BrowserContext, Locator, Page, expect
from shop_with_page import ServedProject
from watched_page import Watched, picture

from alert_receivers import HookReceiver

pytestmark = [pytest.mark.spark, pytest.mark.browser, pytest.mark.timeout(300)]

MARKUP = [
    "<script>window.hit=1</script>", "<img src=x onerror='window.hit=1'>", "\"><svg onload=window.hit=1>",
    "javascript:window.hit=1", "{{constructor.constructor('window.hit=1')()}}", "{@html '<b>x</b>'}",
    "<a href='javascript:window.hit=1'>x</a>", "</td></tr></table><script>window.hit=1</script>",
    "</script><script>window.hit=1</script>", "<style>*{display:none}</style>", "${window.hit=1}",
]  # fmt: skip
TURNED = "\u202eesrever\u2066 \u0645\u0631\u062d\u0628\u0627"
CONTROLS = "bell\x07 escape\x1b[31m tab\there\r\nnext\x7f"
SEEN = "bell\u2407 escape\u241b[31m tab\u2409here\u240d\u240anext\u2421"
WORD = "w" * 3_000
CORPUS = [*MARKUP, TURNED, CONTROLS, WORD]
SHOWN = 240  # characters of a cell
HUGE = "<b>" + "x" * 10_000_000
COLUMN = "<img src=x onerror='window.hit=1'>" + "c" * 200
FIRST = 5000  # the id of the first hostile row
# What markup would have made of itself, or reaches over the edge of the window by itself.
MADE = """() => ({
    hit: window.hit ?? null,
    made: document.querySelectorAll('main :is(script, style, img, iframe, [onload], [onerror], [href^="javascript:"])').length,
    clipped: [...document.querySelectorAll('main *, dialog *')].filter(each => each.scrollWidth > each.clientWidth + 1
        && getComputedStyle(each).overflowX === 'hidden' && getComputedStyle(each).textOverflow !== 'ellipsis'
        && !each.classList.contains('seen-by-readers')).map(each => each.outerHTML.slice(0, 200)),
    wide: Math.max(document.documentElement.scrollWidth, document.querySelector('main').scrollWidth) - innerWidth,
})"""
NAMED = [{"id": FIRST + number, "name": text, "region": "hostile"} for number, text in enumerate(CORPUS)]


@pytest.fixture(scope="module")
def receiver() -> Iterator[HookReceiver]:
    with HookReceiver(usual=(400, {}, MARKUP[0] + TURNED + WORD)) as hook:
        yield hook


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, receiver: HookReceiver) -> Iterator[ServedProject]:
    """The starter project; a webhook and notices tell of all_customers, a query is stored, a view has a hostile column."""
    project = ServedProject.shop(tmp_path_factory.mktemp("hostile") / "shop")
    hook = {"type": "webhook", "url": receiver.url, "secret": "file:secret", "views": ["all_customers"], "on": "both"}
    for file, text in {
        "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "sinks/hook.yaml": yaml.safe_dump(hook),
        "sinks/tell.yaml": "type: page\nviews: [all_customers]\n",
        "searches/hostile.yaml": "view: all_customers\nquery: region:hostile\n",
        "views/named.sql": f"SELECT id, name AS `{COLUMN}` FROM customers\n",
    }.items():
        (project.folder / file).parent.mkdir(exist_ok=True)
        (project.folder / file).write_text(text)
    project.start()
    try:
        project.begin_anew()
        yield project
    finally:
        project.stop()


@pytest.fixture(scope="module")
def pushed(shop: ServedProject) -> int:
    """The commit with the hostile rows."""
    answer = shop.push(customers={"upsert": NAMED})
    shop.wait(answer)
    commit: int = answer.json()["commit"]
    return commit


@pytest.fixture
def page(logged_in: BrowserContext, request: pytest.FixtureRequest) -> Iterator[Page]:
    page = logged_in.new_page()
    watched = Watched(page)
    yield page
    picture(page, request.node.name)
    page.close()
    assert watched.errors == []


def sound(page: Page, name: str) -> None:
    """No text has become anything else, and the page is as wide as its window, in light and dark."""
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        picture(page, f"hostile_{name}_{scheme}")
        assert page.evaluate(MADE) == {"hit": None, "made": 0, "clipped": [], "wide": 0}, (name, scheme)


def cell(text: str, *, lines: bool = False) -> str:
    """As a cell shows it, whole or cut."""
    seen = text if text != CONTROLS else SEEN.replace("\u2409", "\t").replace("\u240a", "\n") if lines else SEEN
    return seen if len(seen) <= SHOWN else seen[:SHOWN]


def told(cells: Locator) -> list[str]:
    """The texts of cells, each within its own direction of writing; what is cut has a button that shows all of it."""
    found: list[tuple[str, str]] = cells.evaluate_all(
        "cells => cells.map(cell => [cell.querySelector('bdi')?.textContent ?? '', cell.querySelector('button')?.ariaLabel ?? ''])"
    )
    for text, button in found:
        assert (len(text) == SHOWN) == button.startswith("show all of "), (text, button)
    return [text for text, _ in found]


def spelled(row: dict[str, object]) -> str:
    """A whole row as one cell."""
    return cell(json.dumps(row, ensure_ascii=False, separators=(",", ":")).replace("\x7f", "\u2421"))


def test_contents_now_and_then_are_text(page: Page, shop: ServedProject, pushed: int) -> None:
    table = page.get_by_role("region", name="rows of all_customers")
    for address in (
        "/views/all_customers?region=eq.hostile&order=id",
        f"/views/all_customers?region=eq.hostile&order=id&at={pushed}",
    ):
        page.goto(address)
        expect(table.locator("tbody tr")).to_have_count(len(CORPUS))
        assert told(table.locator("tbody td:nth-child(2)")) == [cell(text) for text in CORPUS]
        heights = table.locator("tbody tr").evaluate_all("rows => rows.map(row => Math.round(row.offsetHeight))")
        assert set(heights) == {28}  # no end of a line makes a row higher
        sound(page, "contents")
    page.get_by_role("button", name=f"show all of name, {len(WORD)} characters").click()
    dialog = page.get_by_role("dialog", name="name")
    expect(dialog.locator("pre")).to_have_text(WORD)
    sound(page, "whole")
    page.keyboard.press("Escape")
    table.locator("tbody tr").nth(CORPUS.index(CONTROLS)).focus()
    page.keyboard.press("Enter")
    opened = page.get_by_role("dialog", name="all_customers").locator("dd")
    expect(opened.nth(1)).to_be_visible()
    assert told(opened)[1] == cell(CONTROLS, lines=True)
    sound(page, "row")


def test_changes_and_the_feed_are_text(page: Page, shop: ServedProject, pushed: int) -> None:
    page.goto("/views/all_customers/changes")
    expect(page.get_by_text("live", exact=True).last).to_be_visible()
    again = [{**row, "id": FIRST + 100 + number} for number, row in enumerate(NAMED)]
    shop.push(customers={"upsert": again})
    change = page.get_by_label("changes, newest last").locator("li").last
    expect(change.locator("tbody tr")).to_have_count(len(CORPUS))
    assert sorted(told(change.locator("tbody td:nth-child(3)"))) == sorted(map(cell, CORPUS))
    sound(page, "changes")
    shop.push(customers={"delete": [{"id": row["id"]} for row in again]})
    page.goto(f"/feeds/customers?at={pushed}")
    letters = page.get_by_label("transactions, newest first").locator("> li")
    assert (letters.first.locator(".glance").text_content() or "").count("…") == 0
    letters.first.get_by_role("button").first.click()
    values, shown = letters.first.locator("dl > div:nth-child(2) dd"), [cell(text, lines=True) for text in CORPUS]
    expect(values).to_have_count(len(CORPUS))
    assert told(values) == shown
    sound(page, "feed")
    page.get_by_label("find transactions with a text").fill("onerror='WINDOW.hit")
    expect(page.get_by_text("1 transaction with it; all that are kept are looked through")).to_be_visible()
    expect(values).to_have_count(len(CORPUS))
    assert told(values) == shown
    sound(page, "looked")
    page.get_by_label("find transactions with a text").fill("<script>none</script>" + WORD)
    none = page.get_by_text(f"None that was looked through has “<script>none</script>{WORD}”.")
    expect(none).to_be_visible()
    assert (none.bounding_box() or {})["width"] < 1280
    sound(page, "looked_for_none")


def test_what_is_found_and_matched_is_text(page: Page, shop: ServedProject, pushed: int) -> None:
    page.goto("/views/all_customers/search")
    page.get_by_label("words to find in all_customers").fill("region:hostile")
    page.keyboard.press("Enter")
    found = page.get_by_label("rows found, the best first").get_by_role("listitem")
    expect(found).to_have_count(len(CORPUS))
    assert sorted(told(found.locator(".whole"))) == sorted(map(spelled, NAMED))
    sound(page, "found")
    page.get_by_label("words to find in all_customers").fill("name:script")
    page.keyboard.press("Enter")
    expect(found.locator("mark").first).to_have_text("script")
    snippets = found.locator("p:has(mark) > bdi").all_text_contents()
    assert sorted(snippets) == sorted(text[:-1] + "…" for text in MARKUP if text.endswith("</script>"))
    sound(page, "marked")
    page.goto("/queries/hostile")
    matched = page.get_by_role("region", name="rows that hostile matches")
    expect(matched.locator("tbody tr")).to_have_count(len(CORPUS))
    assert sorted(told(matched.locator("tbody td:nth-child(2)"))) == sorted(map(cell, CORPUS))
    sound(page, "matches")


def test_what_is_set_aside_is_text(page: Page, shop: ServedProject) -> None:
    rows = [
        {"id": 10, "customer_id": 1, "amount": "1.00", "placed_at": text}
        for text in (MARKUP[0], TURNED, CONTROLS, WORD)
    ]
    for row in rows:
        shop.push(orders={"upsert": [row]})
    page.goto("/quarantine")
    kept = page.get_by_label("4 changes in the quarantine").get_by_role("listitem")
    expect(kept).to_have_count(len(rows))
    payloads = told(kept.locator(".kept"))
    for row, payload in zip(rows, payloads, strict=True):
        assert payload and (len(payload) == SHOWN or json.loads(payload.replace("\u240a", "\n"))["tables"]), (
            row,
            payload,
        )
    sound(page, "quarantine")
    kept.last.get_by_role("button", name="Fix").click()
    assert WORD in page.get_by_role("textbox").input_value()
    sound(page, "fix")


def test_what_is_told_of_is_text(page: Page, shop: ServedProject, pushed: int) -> None:
    page.goto("/notices")
    listed = page.get_by_role("list", name="notices, newest first").get_by_role("listitem")
    expect(listed.filter(has_text=MARKUP[0]).first).to_be_visible()
    notice = listed.filter(has_text=f"commit {pushed}")
    rows = told(notice.locator("p[title]:has(bdi)"))
    assert rows and set(rows) <= set(map(spelled, NAMED))
    expect(notice).to_contain_text(f"… {len(CORPUS) - len(rows)} rows not shown here")
    sound(page, "notices")
    page.goto("/alerts")
    letter = page.get_by_role("listitem").filter(has_text="HTTP 400").first
    begun = f"{MARKUP[0]}esrever \u0645\u0631\u062d\u0628\u0627"  # of a receiver's answer one printable line
    expect(letter.locator(".reason")).to_have_text(f"HTTP 400: {begun}{'w' * (199 - len(begun))}…")
    sound(page, "alerts")
    page.get_by_role("listitem").filter(has_text=f"commit {pushed}").get_by_role("button", name="Show").click()
    expect(page.get_by_role("dialog").locator("pre").first).to_contain_text(MARKUP[0])
    sound(page, "letter")


def test_labels_are_text(page: Page, shop: ServedProject, pushed: int) -> None:
    page.goto("/views/all_customers/chart")
    page.get_by_role("combobox", name="value").select_option("number of rows")
    page.get_by_role("combobox", name="by").select_option("name")
    page.get_by_role("button", name="bar", exact=True).click()
    page.get_by_role("button", name="Add to the dashboard").click()
    expect(page).to_have_url(f"{shop.url}/dashboards")
    titles = page.locator(".chart rect title")
    expect(titles).to_have_count(len(CORPUS) + 2)
    labels = [re.sub(r": 1$", "", title) for title in titles.all_text_contents()]
    cut = {text: text[:199] + "…" for text in (WORD,)}
    assert sorted(labels) == sorted(["Ada", "Bo", *(cut.get(text, cell(text)) for text in CORPUS)])
    for label in page.locator(".chart text.label").all_text_contents():
        assert len(label) <= 24
    page.get_by_text("As a table").click()
    values = page.get_by_role("region", name="values of the chart").locator("tbody td:first-child")
    expect(values).to_have_count(len(CORPUS) + 2)
    assert sorted(told(values)) == sorted(["Ada", "Bo", *map(cell, CORPUS)])
    sound(page, "dashboard")
    page.goto("/lineage?of=view%3Anamed")
    columns = page.get_by_role("complementary", name="columns of named").locator(".own a bdi")
    expect(columns).to_have_text(["id", COLUMN])
    columns.last.click()
    expect(page.get_by_role("region", name="comes from").get_by_role("listitem").first).to_have_text("name")
    below = page.locator('[data-node="view:named"] .kind')
    expect(below).to_have_text(f"{COLUMN[:10]}…{COLUMN[-9:]}")
    sound(page, "lineage")
    page.goto("/views/named")
    expect(page.get_by_role("columnheader").nth(1)).to_have_text(COLUMN)
    sound(page, "column")


def test_cells_of_10_mb_are_cut(page: Page, shop: ServedProject, pushed: int) -> None:
    """More than an answer has room for, on every page that has them."""
    huge = [{"id": 6000 + number, "name": HUGE, "region": "huge"} for number in range(3)]
    for row in huge:
        pushing = shop.push(customers={"upsert": [row]})
    shop.wait(pushing, "all_customers")
    table = page.get_by_role("region", name="rows of all_customers")
    page.goto("/views/all_customers")
    expect(page.get_by_text(re.compile(r"the first [0-9,]+ rows"))).to_be_visible()
    page.goto("/views/all_customers?region=eq.huge")
    show = page.get_by_role("button", name="show all of name, 10000003 characters").first
    expect(show).to_be_visible()
    assert set(told(table.locator("tbody td:nth-child(2)"))) == {HUGE[:SHOWN]}
    begun = time.monotonic()
    show.click()
    expect(page.get_by_role("dialog", name="name")).to_contain_text("100,000 of 10,000,003 characters")
    assert time.monotonic() - begun < 3
    sound(page, "huge")
    page.goto("/feeds/customers")
    letters = page.get_by_label("transactions, newest first").locator("> li")
    expect(letters.first).to_be_visible()
    assert all(len(text) <= 400 for text in letters.locator(".glance").all_text_contents())
    sound(page, "huge_feed")
    page.goto("/notices")
    listed = page.get_by_role("list", name="notices, newest first").get_by_role("listitem")
    expect(listed.first).to_contain_text("not shown here")
    assert all(len(text) < 1_000 for text in page.locator("p[title]").all_text_contents())
    sound(page, "huge_notices")
