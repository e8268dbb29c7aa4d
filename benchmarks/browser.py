"""What a browser itself says of a page: when it was painted, when it showed what it is about, how its layout moved."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
# A page shows what it is about once its heading is there and nothing waits any more.
_WATCH = """
window.moved = []
new PerformanceObserver(list => {
  for (const shift of list.getEntries()) if (!shift.hadRecentInput) window.moved.push(
    [shift.value, shift.sources.map(source => source.node?.parentElement?.outerHTML.slice(0, 120) ?? '')])
}).observe({ type: 'layout-shift', buffered: true })
window.painted = new Promise(resolve => new PerformanceObserver(list => {
  for (const entry of list.getEntriesByName('first-contentful-paint')) resolve(entry.startTime)
}).observe({ type: 'paint', buffered: true }))
window.shown = new Promise(resolve => {
  const watched = new MutationObserver(() => {
    if (document.querySelector('h1') === null || document.querySelector('.waiting') !== null) return
    watched.disconnect()
    requestAnimationFrame(() => setTimeout(() => resolve(performance.mark('shown').startTime)))
  })
  watched.observe(document, { childList: true, subtree: true })
})
"""


@dataclass(frozen=True)
class Figures:
    """``painted_ms``, ``shown_ms``: since the page was asked for; ``shift``: how much of the layout moved by itself."""

    painted_ms: float
    shown_ms: float
    shift: float
    moved: list[tuple[float, list[str]]]


class Measured:
    """A page that is measured, with what it told in the console as an error, and what it asked of another origin."""

    def __init__(self, context: BrowserContext, origin: str) -> None:
        self.page: Page = context.new_page()
        self.errors: list[str] = []
        self.elsewhere: list[str] = []
        self.page.add_init_script(_WATCH)
        self.page.on("console", lambda told: self.errors.append(told.text) if told.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on(
            "request", lambda asked: None if asked.url.startswith(origin) else self.elsewhere.append(asked.url)
        )

    def open(self, address: str) -> None:
        """Until it shows what it is about."""
        self.page.goto(address)
        self.page.evaluate("window.shown")

    def figures_of(self, address: str) -> Figures:
        """Of the page there, once it shows what it is about."""
        self.open(address)
        return self.figures()

    def figures(self) -> Figures:
        """Of the page that was opened last, up to now."""
        painted, shown = self.page.evaluate("Promise.all([window.painted, window.shown])")
        moved = self.page.evaluate("window.moved")
        return Figures(painted, shown, sum(value for value, _ in moved), moved)


def program() -> str | None:
    """The browser that is installed here."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


@contextmanager
def chromium(path: str) -> Iterator[Browser]:
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*root, "--disable-gpu"])
        yield browser
        browser.close()
