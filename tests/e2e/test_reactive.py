"""Goal: the front end of examples/reactive moves as its view does, and goes on where it was after a restart of its server.

Method: its own server as a process, a real Chromium, a running project; what the page shows is held to what was pushed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from shop_with_page import ServedProject

pytestmark = [pytest.mark.spark, pytest.mark.browser, pytest.mark.timeout(300)]
ROOT = Path(__file__).parents[2]


@contextmanager
def served(shop: ServedProject, port: int = 0) -> Iterator[str]:
    command = [sys.executable, "-m", "examples.reactive.run", "--project", str(shop.folder), "--view", "revenue"]
    with subprocess.Popen([*command, "--port", str(port)], stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()


def test_a_page_follows_a_view(browser: Browser, shop: ServedProject) -> None:
    page = browser.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    rows = page.locator("#rows tr")
    with served(shop) as url:
        page.goto(url)
        expect(rows).to_have_text(["north119.90", "south15.00"])
        shop.push(orders={"upsert": [{"id": 12, "customer_id": 1, "amount": "1.00"}]})
        expect(rows).to_have_text(["north220.90", "south15.00"])
        assert "new" in (rows.first.get_attribute("class") or "")
    expect(page.locator("#state")).to_have_text("connecting again")
    shop.push(customers={"upsert": [{"id": 3, "name": "<b>Cy</b>", "region": "<b>east</b>"}]},
              orders={"upsert": [{"id": 13, "customer_id": 3, "amount": "2.00"}]})  # fmt: skip
    with served(shop, int(url.rpartition(":")[2])):
        expect(rows).to_have_text(["<b>east</b>12.00", "north220.90", "south15.00"])
    page.close()
    shop.begin_anew()
    assert errors == []
