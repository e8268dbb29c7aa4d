"""The built page under the policy that it is served with, where a test gives the answers of the API."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, Page, Route

BUILD = Path(__file__).parents[2] / "src/headrace/api/static"
ORIGIN = "http://console.test"
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html"}
POLICY = {"Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"}
STATUS = {"state": "running", "commit": 7, "frontier": 7, "step_seconds": 0.02, "steps": 3, "published_us": 0, "views": [],
          "sources": [], "sinks": []}  # fmt: skip

Given = Callable[[dict[str, Any]], Page]


def opened(context: BrowserContext, answers: dict[str, Any]) -> Page:
    """A page where the API answers what is given: path -> JSON, or (status, JSON[, headers]); an iterator's one by one."""
    known = {
        "session": {"me": {"name": "owner", "role": "admin", "only": []}},
        "status": STATUS,
        "feeds": [],
        **answers,
    }

    def answer(route: Route) -> None:
        path = route.request.url.removeprefix(ORIGIN).partition("?")[0]
        if path.startswith("/api/"):
            body = known.get(path.removeprefix("/api/"), {})
            body = next(body) if isinstance(body, Iterator) else body
            status, body, headers = (*body, {})[:3] if isinstance(body, tuple) else (200, body, {})
            route.fulfill(
                status=status,
                headers=headers,
                body=body if isinstance(body, str) else json.dumps(body),
                content_type="application/json",
            )
            return
        file = BUILD / path[1:]
        file = file if file.is_file() else BUILD / "index.html"
        route.fulfill(path=file, content_type=TYPES[file.suffix], headers=POLICY)

    context.route("**/*", answer)
    return context.new_page()
