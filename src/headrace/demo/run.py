"""The demo from its first line to its exit status."""

from __future__ import annotations

import signal
import threading
import time
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from headrace.demo import proof
from headrace.demo.followed import Followed, Latency
from headrace.demo.producer import Producer
from headrace.demo.product import Product
from headrace.demo.project import VIEWS, DemoProject, make
from headrace.demo.screen import Figures, Screen, open_screen
from headrace.model.errors import HeadraceError

REFRESH_S = 0.25
FIRST_VIEW_S = 120.0
RATE_SPAN = 20  # refreshes over which the rates are taken


@dataclass(frozen=True, slots=True)
class Options:
    """``seconds`` None: until Ctrl-C."""

    path: Path
    keep: bool = False
    rate: float = 75.0
    seconds: float | None = None
    seed: int = 1
    json: bool = False


class Interrupts:
    """The first Ctrl-C (or SIGTERM) while the shop runs ends it in order; any other one interrupts."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._orderly = False

    def take(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._signal)

    def orderly(self) -> None:
        """From now on the first one only sets ``asked``."""
        self._orderly = True

    def _signal(self, number: int, frame: FrameType | None) -> None:
        if not self._orderly or self.asked.is_set():
            raise KeyboardInterrupt
        self.asked.set()


def run(options: Options) -> dict[str, Any]:
    """The summary; its ``differences`` is 0 when everything agrees. Raises ``HeadraceError``, KeyboardInterrupt."""
    began = time.monotonic()
    interrupts = Interrupts()
    interrupts.take()
    screen = open_screen(options.json)
    project = make(options.path, options.keep)
    screen.say(f"the project is in {project.path}; `headrace up` starts")
    product = Product(project)
    with ExitStack() as ends:
        ends.callback(screen.close)
        ends.callback(product.stop)
        product.start()
        product.wait_ready(lambda: None)
        screen.say(f"`headrace up` is ready after {time.monotonic() - began:.1f} s")
        demo = Demo(options, project, product, screen, ends)
        demo.begin()
        first_view_s = round(time.monotonic() - began, 1)
        screen.say(f"the first view is here after {first_view_s} s")
        interrupts.orderly()
        demo.show_until(interrupts.asked)
        screen.close()
        summary = demo.prove()
    return {"first_view_s": first_view_s, **summary}


class Demo:
    """The parts at work: the producer, a subscriber for each view, the screen."""

    def __init__(
        self, options: Options, project: DemoProject, product: Product, screen: Screen, ends: ExitStack
    ) -> None:
        self._options, self._project, self._product, self._screen = options, project, product, screen
        self._frontiers = proof.Frontiers(project.path)
        ends.callback(self._frontiers.close)
        self._latency = Latency()
        self._views = [Followed(project.path, view, self._latency.seen) for view in VIEWS]
        token = project.token_file.read_text(encoding="utf-8").strip()
        before = self._frontiers.views()
        self._producer = Producer(project.port, token, options.rate, options.seed, before)
        self._began = time.monotonic()
        self._past: deque[tuple[float, int, int]] = deque(maxlen=RATE_SPAN)  # at, transactions, rows
        for view in self._views:
            ends.callback(view.stop)

    def begin(self) -> None:
        """Push the opening transaction and wait until a view shows its rows."""
        self._producer.open()
        for view in self._views:
            view.start()
        end = time.monotonic() + FIRST_VIEW_S
        while not any(view.rows()[0] for view in self._views):
            self._check()
            if time.monotonic() > end:
                raise HeadraceError(
                    "internal", f"no view shows a row after {FIRST_VIEW_S:.0f} s", where=str(self._project.up_log)
                )
            time.sleep(0.02)
        self._producer.pushed()  # the opening waited for subscribers that were not there yet: no latency of the product
        self._show()

    def show_until(self, asked: threading.Event) -> None:
        """Let the shop run, and show it, until the time is over or somebody asks."""
        self._began = time.monotonic()
        self._producer.start()
        while not asked.wait(REFRESH_S):
            self._check()
            self._show()
            seconds = self._options.seconds
            if seconds is not None and time.monotonic() - self._began >= seconds:
                return

    def prove(self) -> dict[str, Any]:
        """End the production, wait until everything is everywhere, and compare."""
        seconds = time.monotonic() - self._began
        self._producer.stop()
        last = self._producer.last_commit
        self._screen.say(f"the producer has stopped at commit {last:,}; waiting for the views and the DuckDB file")
        proof.wait_reached(self._frontiers, last, self._check)
        self._latency.pushed(self._producer.pushed())
        verdict = proof.verify(self._project, lambda event: None)
        for view in self._views:
            view.stop()
        status = self._product.stop()
        compared = {item["view"]: item for item in proof.compare(self._project, self._views)}
        views = []
        for item in verdict["views"]:
            checks = compared[item["view"]]
            views.append({**item, **{name: checks[name] for name in ("duckdb_differences", "followed_differences")}})
        everywhere = sum(
            item["differences"] + item["duckdb_differences"] + item["followed_differences"] for item in views
        )
        missing = sorted(set(VIEWS) - {item["view"] for item in views})
        return {
            "seconds": round(seconds, 1),
            "commit": verdict["commit"],
            "transactions": self._producer.transactions,
            "rows": self._producer.rows,
            "rate": round(self._producer.transactions / seconds, 1),
            "latency_ms": self._latency.overall(),
            "views": views,
            "missing": missing,
            "differences": everywhere,
            "exit_status": status,
            "ok": everywhere == 0 and not missing and status == 0,
        }

    def _check(self) -> None:
        self._product.check()
        for failed in (self._producer.error, *(view.error for view in self._views)):
            if failed is not None:
                raise failed

    def _show(self) -> None:
        now = time.monotonic()
        self._latency.pushed(self._producer.pushed())
        self._past.append((now, self._producer.transactions, self._producer.rows))
        then, transactions, rows = self._past[0]
        span = max(now - then, 0.001)
        sink, error = self._frontiers.sink()
        figures = Figures(
            seconds=now - self._began,
            commit=self._producer.last_commit,
            frontier=self._latency.commit,
            transactions=self._producer.transactions,
            rows=self._producer.rows,
            rate=(self._producer.transactions - transactions) / span,
            row_rate=(self._producer.rows - rows) / span,
            latency=self._latency.recent(),
            sink=sink,
            sink_error=error,
        )
        self._screen.show(figures, self._views)
