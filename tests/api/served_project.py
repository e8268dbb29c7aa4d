"""A project that is served over HTTP without a pipeline: views published by hand, verbs that are recorded."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from headrace.api.app import make_app
from headrace.api.bells import Bells
from headrace.api.project import Served
from headrace.api.who import Gate
from headrace.catalog.searches import StoredQueries
from headrace.governance.access import Access
from headrace.serve.asking import Asking
from headrace.serve.live import Live
from headrace.serve.mirror import Mirror
from headrace.serve.questions import Questions
from headrace.web.addresses import SEND_BYTES
from headrace.web.listening import listen
from headrace.web.server import ServerThread

STATUS: dict[str, Any] = {
    "pid": 1, "state": "running", "commit": 12, "first": 1, "frontier": 11, "steps": 7, "step_seconds": 0.25,
    "published_us": 1_700_000_000_000_000,
    "views": [
        {"name": "sums", "version": 1, "state": "live", "reason": "", "commit": 11, "behind_s": 0.5,
         "failing": [], "quarantined": {"sums": 2}, "reads": ["orders"]},
        {"name": "top", "version": 0, "state": "refused", "reason": "no", "commit": 0, "failing": [], "reads": ["sums"]},
    ],
    "sources": [
        {"name": "shop", "tables": ["orders"], "rows": 40, "position": "7", "state": "running", "backlog": 3,
         "queued_bytes": 0, "error": None, "warnings": [], "quarantined": {"orders": 1},
         "copying": [{"table": "orders", "done": 40, "total": 100, "per_s": 20.0, "left_s": 3.0}]},
    ],
    "sinks": [
        {"name": "store", "frontier": 10, "rows": 9, "lag": 1, "behind_s": 2.0, "state": "failed", "attempts": 0,
         "error": {"code": "sink.connect", "what": "no", "where": "", "why": "", "next": ""}, "quarantined": {"sums": 4},
         "quarantine": {"what": "its store cannot hold", "where": "its table"}, "tells": False, "views": ["sums"]},
    ],
}  # fmt: skip
# As of a view over a table; what is kept is of the table.
EXPLAINED: dict[str, Any] = {
    "view": "sums", "sql": "SELECT sum(amount) FROM orders",
    "operators": [{"id": 0, "name": "read", "detail": "orders", "arrangements": [{"name": "a1", "of": "table orders"}]}],
    "text": "aggregate  by id\n  read  Orders",
}  # fmt: skip
LINEAGE: dict[str, Any] = {
    "relation": "sums", "kind": "view", "rows": [{"relation": "orders", "column": "id"}], "sinks": ["store"],
    "columns": [{
        "column": "total", "type": "int",
        "value": [{"relation": "orders", "column": "amount"}, {"relation": "orders", "column": "rate"}], "rows": [],
        "into": [{"relation": "top", "column": "place", "by": "value"}, {"relation": "sums", "column": "n", "by": "rows"}],
    }],
}  # fmt: skip
COLUMNS: list[dict[str, Any]] = [
    {"relation": "orders", "column": "amount", "type": "int", "value": [], "rows": []},
    {"relation": "sums", "column": "total", "type": "int", "value": [{"relation": "orders", "column": "amount"}], "rows": []},
]  # fmt: skip
TOP: dict[str, Any] = {
    "files": [{"name": "log", "files": 1, "bytes": 4096, "cached": 0}],
    "processes": [{"name": "engine", "pid": 1, "own": 100}, {"name": "JVM", "pid": 2, "own": 50}],
    "jvm": {"heap": 7},
}


class Verbs:
    """Answers as the dispatcher does, and records the calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def __call__(
        self, verb: str, arguments: dict[str, Any], progress: Callable[[dict[str, Any]], None]
    ) -> dict[str, Any]:
        self.calls.append((verb, arguments))
        known = {
            "status": STATUS, "top": TOP, "frontier": {"commit": 12, "least": 10, "views": [], "sinks": []},
            "explain": EXPLAINED, "lineage": LINEAGE if "relation" in arguments else {"columns": COLUMNS},
        }  # fmt: skip
        return known.get(verb, {"verb": verb})


_TLS = ssl.create_default_context()  # made once: a client of its own each takes 30 ms


class Site:
    """A server at work. ``client()`` asks as the owner; with a token as who has it, with "" as nobody."""

    def __init__(self, url: str, access: Access, verbs: Verbs, live: Live) -> None:
        self.url, self.access, self.verbs, self.live = url, access, verbs, live
        self.tokens = access.tokens
        self.owner = access.tokens.owners()

    def client(self, token: str | None = None) -> httpx.Client:
        given = self.owner if token is None else token
        headers = {"Authorization": f"Bearer {given}"} if given else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=20, verify=_TLS)


@contextmanager
def site(folder: Path, *, asks: bool = True) -> Iterator[Site]:
    """``asks``: whether a token is asked for."""
    verbs, bells, access = Verbs(), Bells(), Access(folder / ".headrace")
    questions = Questions(Mirror(folder), asking=Asking(folder))
    live = Live(folder, questions.mirror, bells.ring)
    gate = Gate(access, None if asks else frozenset({"127.0.0.1"}))
    app = make_app(Served(folder, verbs, questions, live, bells, gate, StoredQueries(folder)))
    server = ServerThread(app, listen("127.0.0.1", 0, "", code="api.port", next="", send_bytes=SEND_BYTES))
    try:
        yield Site(f"http://127.0.0.1:{server.port}", access, verbs, live)
    finally:
        live.end()
        server.close()
        live.close()
        questions.close()
        access.close()
