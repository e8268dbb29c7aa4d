"""Webhook sinks under test: of one project folder, and what is written to them."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from sink_histories import EVERY_TYPE, Row, View, delivery, view, weighted

from headrace.formats.types import spelled
from headrace.model.errors import HeadraceError
from headrace.sinks.alerts.sink import AlertSink
from headrace.sinks.connectors.webhook.connector import WebhookSink

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
KEY = ("id", "bigint", lambda rng: rng.randrange(60))
NOTE = ("note", "string", EVERY_TYPE[9][2])
WHERE = "sinks/alerts.yaml"


class Hooks:
    """Sinks of one project folder; each call is another instance, closed after the test."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url, self.made = folder, url, list[WebhookSink]()

    def __call__(self, keys: dict[str, tuple[str, ...]] | None = None, **options: Any) -> WebhookSink:
        given = {"url": self.url, "secret": SECRET, "timeout_s": 1.0, **options}
        self.made.append(WebhookSink("alerts", given, keys or {}, WHERE, "shop", base=self.folder, log="the log"))
        return self.made[-1]

    def opened(self, keys: dict[str, tuple[str, ...]] | None = None, **options: Any) -> WebhookSink:
        sink = self(keys, **options)
        sink.open()
        return sink


def sales(*rows: Row, key: tuple[str, ...] = ("id",), name: str = "sales") -> View:
    made = view(name, [KEY, NOTE], key)
    made.rows = list(rows)
    return made


def begun(sink: AlertSink, *views: View, commit: int = 1) -> AlertSink:
    """The sink after the first contents of these views."""
    sink.write(delivery(commit, views, replacements={v.schema.name: v.whole() for v in views}))
    return sink


def changed(sink: AlertSink, some: View, commit: int, *rows: tuple[Row, int]) -> None:
    sink.write(delivery(commit, [some], deltas={some.schema.name: weighted(some.schema, rows)}))


def caught(sink: AlertSink, some: View, commit: int, *rows: tuple[Row, int]) -> HeadraceError:
    with pytest.raises(HeadraceError) as found:
        changed(sink, some, commit, *rows)
    return found.value


def until_taken(sink: AlertSink, seconds: float = 5.0) -> None:
    """As the sink's thread does: again and again until nothing is in the way."""
    end = time.monotonic() + seconds
    while True:
        try:
            sink.ready()
            return
        except HeadraceError:
            assert time.monotonic() < end
            time.sleep(0.02)


def as_told(some: View) -> Counter[str]:
    """The model's rows as JSON has them."""
    rows = weighted(some.schema, ((row, 1) for row in some.rows)).drop_columns("_w").to_pylist()
    return Counter(json.dumps({n: spelled.value(v) for n, v in row.items()}, sort_keys=True) for row in rows)
