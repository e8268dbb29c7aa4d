"""What a page told in its console that is an error, and a picture of it."""

from __future__ import annotations

import os
from pathlib import Path

from playwright.sync_api import Page

PICTURES = os.environ.get("PICTURES", "")  # a folder for a picture of the page at the end of each story


class Watched:
    """What a page has told in the console that is an error; a story that expects none of it asserts so."""

    def __init__(self, page: Page) -> None:
        self.errors: list[str] = []
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))


def picture(page: Page, name: str) -> None:
    if PICTURES:
        Path(PICTURES).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=f"{PICTURES}/{name.removeprefix('test_')}.png")
