"""A real Chromium, a running project, and pages of it that tell every error of the browser's console."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from benchmarks.browser import PROGRAMS, chromium, program
from given_answers import ORIGIN, Given, opened
from playwright.sync_api import Browser, BrowserContext, Page, expect
from shop_with_page import ServedProject
from watched_page import Watched, picture

WAIT_MS = 15_000
expect.set_options(timeout=WAIT_MS)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = program()
    if path is None:
        pytest.skip(f"there is none of {', '.join(PROGRAMS)}: apt-get install chromium")
    with chromium(path) as started:
        yield started


@pytest.fixture
def given(browser: Browser) -> Iterator[Given]:
    context = browser.new_context(base_url=ORIGIN, viewport={"width": 1280, "height": 800})
    context.set_default_timeout(10_000)
    yield partial(opened, context)
    context.close()


@pytest.fixture(scope="module")  # a project that runs is not to stand beside other tests
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedProject]:
    """The starter project, running, with two customers and two orders."""
    project = ServedProject.shop(tmp_path_factory.mktemp("e2e") / "shop")
    project.start()
    try:
        project.begin_anew()
        yield project
    finally:
        project.stop()


@pytest.fixture(scope="module")
def logged_in(browser: Browser, shop: ServedProject) -> Iterator[BrowserContext]:
    """A browser that has the owner's session."""
    context = browser.new_context(base_url=shop.url, viewport={"width": 1280, "height": 800})
    context.set_default_timeout(WAIT_MS)
    answer = context.request.post("/api/session", data={"token": shop.token})
    assert answer.ok, answer.text()
    yield context
    context.close()


@pytest.fixture
def page(logged_in: BrowserContext, shop: ServedProject, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page of the running shop; at the end its console has told no error, and the shop is as at the beginning."""
    page = logged_in.new_page()
    watched = Watched(page)
    yield page
    picture(page, request.node.name)
    page.close()
    shop.begin_anew()
    assert watched.errors == []
