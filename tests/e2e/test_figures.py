"""Goal: each page is there at once, stands still while it loads and while rows come, and asks nothing of anybody else;
whoever reads it with other means than a large window and eyes for every colour can.

Method: a real browser's own performance entries, and the rules of axe-core, on every page of a running project that
rows are pushed into.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from benchmarks.browser import Measured
from playwright.sync_api import BrowserContext, Page
from shop_with_page import ServedProject

pytestmark = [pytest.mark.spark, pytest.mark.browser, pytest.mark.timeout(300)]

PAGES = (
    "/", "/lineage", "/lineage?of=view%3Arevenue", "/views", "/views/revenue", "/views/all_orders", "/views/revenue/changes",
    "/views/by_day/chart", "/views/revenue/definition", "/views/revenue/circuit", "/views/revenue/versions", "/feeds",
    "/feeds/orders", "/quarantine", "/queries", "/queries/large", "/sinks", "/alerts", "/notices", "/sql", "/dashboards", "/tokens", "/audit",
)  # fmt: skip
OTHERS = ("/lineage?of=view%3Arevenue&column=revenue", "/views/all_customers", "/views/revenue/search", "/views/revenue/chart",
          "/views/none", "/errors/sql.syntax", "/nowhere")  # fmt: skip
NEWEST_FIRST = ("/feeds/orders",)  # where what comes moves what is there: nothing comes while these are looked at
AXE = Path(__file__).parents[2] / "console/node_modules/axe-core/axe.min.js"
GRAVE = ("serious", "critical")
NARROW_PX = 375  # a telephone
# What reaches over the edge of the window by itself, and not within what scrolls there.
WIDTH = "Math.max(document.documentElement.scrollWidth, document.querySelector('main').scrollWidth)"
SHOWN_MS, SHIFT, LOOK_S = 1_000, 0.01, 0.6


def test_every_page_is_there_at_once_and_stands_still(logged_in: BrowserContext, shop: ServedProject) -> None:
    (shop.folder / "searches").mkdir()
    (shop.folder / "searches/large.yaml").write_text("view: all_orders\nquery: 'amount:>=0'\n")
    # Into the quarantine, before the overview is looked at: what is wrong comes first there.
    shop.wait(shop.push(orders={"insert": [{"id": 10, "customer_id": 1, "amount": "1.00"}]}))
    seen, slow, moved = Measured(logged_in, shop.url), {}, {}
    for number, address in enumerate(PAGES):
        for _ in range(3):  # the machine may be busy with other things
            seen.open(address)
            if (took := seen.figures().shown_ms) <= SHOWN_MS:
                break
        else:
            slow[address] = took
        for order in range(0 if address in NEWEST_FIRST else 3):  # rows that come live, one above those that are there
            day = f"2026-02-{number % 27 + 1:02}T08:00:00Z"
            shop.push(orders={"upsert": [{"id": -number * 3 - order, "customer_id": 1, "amount": "7.00", "placed_at": day}]})  # fmt: skip
            time.sleep(LOOK_S / 3)
        figures = seen.figures()
        if figures.shift >= SHIFT:
            moved[address] = figures.moved
    assert slow == {}
    assert moved == {}
    assert seen.errors == []
    assert seen.elsewhere == []
    seen.page.close()


def faults(page: Page) -> list[str]:
    """The rules that a page breaks gravely: rule, and the first place."""
    broken = page.evaluate(
        """async () => (await axe.run(document, {
            resultTypes: ['violations'], rules: { 'label-content-name-mismatch': { enabled: true } },
        })).violations.map(each => [each.impact, each.id, each.nodes[0].html])"""
    )
    return [f"{rule}: {place}" for impact, rule, place in broken if impact in GRAVE]


def test_every_page_is_for_everybody(logged_in: BrowserContext, shop: ServedProject) -> None:
    """In light and dark no rule of axe-core is gravely broken, and none is wider than a telephone."""
    assert AXE.is_file(), "axe-core is not there: `npm ci` in console"
    shop.wait(shop.push(customers={"upsert": [{"id": 3, "name": None, "region": None}]}))  # null is grey
    seen, axe = Measured(logged_in, shop.url), AXE.read_text()
    page = seen.page
    broken, wide = {}, {}
    for address in (*PAGES, *OTHERS):
        seen.open(address)
        page.evaluate(axe)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            if found := faults(page):
                broken[f"{address}, {scheme}"] = found
        page.set_viewport_size({"width": NARROW_PX, "height": 800})
        page.evaluate("new Promise(next => requestAnimationFrame(() => requestAnimationFrame(next)))")
        if (width := page.evaluate(WIDTH)) > NARROW_PX:
            wide[address] = width
        page.set_viewport_size({"width": 1280, "height": 800})
    page.close()
    assert broken == {}
    assert wide == {}
