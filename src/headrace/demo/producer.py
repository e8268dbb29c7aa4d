"""Pushes the shop's transactions to the HTTP source, in order and at an even rate, and remembers when."""

from __future__ import annotations

import http.client
import json
import threading
import time
from datetime import UTC, datetime
from typing import Any

from headrace.demo.shop import IDS_PER_TRANSACTION, Shop, rows_in
from headrace.model.errors import HeadraceError

REQUEST_MAX = 200  # transactions in one request: when the product is slow, they come together
ANSWER_S = 60.0


class Producer:
    """A thread that pushes ``rate`` transactions a second until it is stopped.

    All transactions that are due go in one request, each a transaction of its own; the next request waits for the
    answer, so that they arrive in the order in which they were made.
    """

    def __init__(self, port: int, token: str, rate: float, seed: int, commits_before: int = 0) -> None:
        self.rate = rate
        self.transactions = self.rows = 0
        self.last_commit = commits_before
        self.error: Exception | None = None
        self._shop = Shop(seed, datetime.now(UTC), first_id=commits_before * IDS_PER_TRANSACTION + 1)
        self._port, self._token = port, token
        self._connection: http.client.HTTPConnection | None = None
        self._pushed: list[tuple[int, float, float]] = []  # last commit of a request, sent at, answered at
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)

    def open(self) -> None:
        """Push the opening transaction: the shop's tables before the first order."""
        self._push([self._shop.opening()])

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop after the request under way. Raises what made it stop before."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(ANSWER_S)
        if self._connection is not None:
            self._connection.close()
        if self.error is not None:
            raise self.error

    @property
    def stopped(self) -> bool:
        return self._stopping.is_set() or self.error is not None

    def pushed(self) -> list[tuple[int, float, float]]:
        """(last commit, sent at, answered at) of each request answered since the last call; times are monotonic."""
        with self._lock:
            taken, self._pushed = self._pushed, []
        return taken

    def _run(self) -> None:
        began, due = time.monotonic(), 0
        try:
            while not self._stopping.is_set():
                elapsed = time.monotonic() - began
                wanted = min(int(elapsed * self.rate) - due, REQUEST_MAX)
                if wanted <= 0:
                    self._stopping.wait((due + 1) / self.rate - elapsed)
                    continue
                self._push([self._shop.next(elapsed) for _ in range(wanted)])
                # What could not be pushed in time is not made up for: the rate is a wish, not a debt.
                due = max(due + wanted, int((time.monotonic() - began) * self.rate) - REQUEST_MAX)
        except Exception as error:
            self.error = error

    def _push(self, transactions: list[dict[str, Any]]) -> None:
        sent = time.monotonic()
        first, last = self._request(json.dumps(transactions).encode())
        if last - first + 1 != len(transactions):
            raise HeadraceError("internal", f"{len(transactions)} transactions got the commits {first} to {last}")
        with self._lock:
            self._pushed.append((last, sent, time.monotonic()))
        self.transactions += len(transactions)
        self.rows += sum(rows_in(transaction) for transaction in transactions)
        self.last_commit = last

    def _request(self, body: bytes) -> tuple[int, int]:
        """POST the transactions; the commit numbers of the first and the last."""
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=ANSWER_S)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        self._connection.request("POST", "/transactions", body, headers)
        response = self._connection.getresponse()
        answer = json.loads(response.read())
        if response.status != 200:
            raise HeadraceError(
                "source.request",
                f"the source refused the demo's transactions: {answer.get('what', response.reason)}",
                where=str(answer.get("where", "")),
                why=str(answer.get("why", "")),
            )
        first, last = answer["commits"]
        return first, last
