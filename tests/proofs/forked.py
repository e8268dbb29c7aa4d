"""Processes that are at work at once: forked from a server that has loaded what they need and started nothing."""

from __future__ import annotations

import multiprocessing

# Only what is installed: the server does not look where the tests are.
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(
    [
        "unittest.mock",
        "headrace.engine.deliver",
        "headrace.engine.ingest",
        "headrace.engine.maintain",
        "headrace.sinks.connectors.duckdb.connector",
        "headrace.sinks.connectors.postgres.connector",
        "headrace.sources.connectors.postgres.connector",
    ]
)
