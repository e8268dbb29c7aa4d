"""A process that tells transfers by webhook, and goes on where it was: URL FOLDER SEED COUNT."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from sink_histories import transfers

from headrace.model.errors import HeadraceError
from headrace.sinks.connectors.webhook.connector import WebhookSink


def main(url: str, folder: str, seed: str, count: str) -> None:
    options = {"url": url, "secret": "env:HOOK_SECRET", "initial": "send"}
    sink = WebhookSink("alerts", options, {}, base=Path(folder), log="the log")
    deliveries = [delivery for delivery, _, _ in transfers(int(seed), int(count))]
    frontier = None
    while frontier is None or frontier < int(count) or not sink.ready():
        try:
            frontier = sink.open() or 0
            for delivery in deliveries[frontier:]:
                sink.write(delivery)
        except HeadraceError:
            time.sleep(0.05)
    sink.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
