"""The log of a running project, and its audit log, are kept as short as its settings say, at a calm pace; and the log
by hand, at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.engine import retain
from headrace.governance.audit import AuditLog
from headrace.log.base import Base
from headrace.log.read import LogReader
from headrace.model.definition import Retention
from headrace.model.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.engine.pipeline import Pipeline

LOOK_S = 30.0  # between two looks
PACE = 1.0  # seconds of rest for each second of work on a base
WORTH = 0.25  # a base is written again when what goes is at least this part of it
CATCH_UP_S = 10.0  # how long a compaction waits for sinks that are about to be there


class RetentionThread:
    """One thread of a pipeline; every method from any thread. ``audit``: held, nothing of the audit log is removed."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._closed = threading.Event()
        self.audit = threading.Lock()
        self._one = threading.Lock()  # by hand or in the background
        self._thread: threading.Thread | None = None
        self._ages = retain.Ages(pipeline.folder / "log")
        self._failed = ""
        self._worked = 0.0

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="headrace-retain", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Leaves off; a base that is half written goes at the next start."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def by_hand(self, before: int | None, *, dry_run: bool, closing: bool = False) -> dict[str, Any]:
        """Removes the commits before ``before``, or what the settings say; ``retain.told`` of it.

        ``closing``: all that may go, the present segment too.
        """
        pipeline = self._pipeline
        if not dry_run:
            if closing:
                pipeline.log.roll()
            pipeline.on_engine(self._checkpoint)
        if closing and not dry_run:
            self._caught_up(pipeline.log.end)
        wait_for = self._settings.wait_for
        with self._one:
            wanted = pipeline.log.end if closing else self._wanted(before)
            plan = retain.planned(pipeline.folder / "log", pipeline.catalog, wanted, wait_for)
            return retain.told(plan, removed=not dry_run and self._carried_out(plan, lambda: None) is not None)

    @property
    def _settings(self) -> Retention:
        return self._pipeline.project.settings.retention

    def _wanted(self, before: int | None) -> int:
        return before - 1 if before is not None else self._ages.outlived(self._settings, time.time_ns() // 1000)

    def _checkpoint(self) -> None:
        maintainer, end = self._pipeline.maintainer, self._pipeline.log.end
        while maintainer.frontier < end and maintainer.step():
            pass
        maintainer.checkpoint()

    def _caught_up(self, commit: int) -> None:
        end = time.monotonic() + CATCH_UP_S
        while time.monotonic() < end and any(d.reached < commit for d in list(self._pipeline.delivers.values())):
            for deliver in list(self._pipeline.delivers.values()):
                deliver.wake()
            time.sleep(0.05)

    def _run(self) -> None:
        while not self._closed.wait(LOOK_S):
            try:
                self._look()
                self._look_at_audit()
                self._failed = ""
            except Exception as error:
                if self._closed.is_set():
                    return
                if str(error) != self._failed:
                    self._pipeline.tell({"event": "log.retention_failed", "error": str(error)})
                self._failed = str(error)

    def _look(self) -> None:
        settings, pipeline = self._settings, self._pipeline
        if settings.keep_s is None and settings.keep_bytes is None:
            return
        with self._one:
            plan = retain.planned(pipeline.folder / "log", pipeline.catalog, self._wanted(None), settings.wait_for)
            if plan.segments and plan.bytes >= WORTH * LogReader(pipeline.folder / "log").base.size:
                self._worked = time.monotonic()
                self._carried_out(plan, self._rest)

    def _look_at_audit(self) -> None:
        settings, pipeline = self._pipeline.project.settings.audit, self._pipeline
        if settings.keep_s is None and settings.keep_bytes is None:
            return
        with self.audit:
            gone = AuditLog(pipeline.folder).retain(settings.keep_s, settings.keep_bytes)
        if gone:
            text = f"{gone:,} of the oldest entries of the audit log are removed, as headrace.yaml says"
            pipeline.tell({"event": "audit.retained", "entries": gone, "text": text})

    def _rest(self) -> None:
        """As long as was worked since the last rest; raises when the project stops."""
        if self._closed.wait(PACE * (time.monotonic() - self._worked)):
            raise HeadraceError("project.not_running", "the product is stopping")
        self._worked = time.monotonic()

    def _let_go(self, plan: retain.Plan) -> None:
        """Between two steps: neither live state nor the newest checkpoint refers to what the plan removes."""
        self._pipeline.maintainer.kept.take_out_of(plan.names)
        self._pipeline.maintainer.checkpoint()

    def _carried_out(self, plan: retain.Plan, rest: Callable[[], None]) -> Base | None:
        pipeline = self._pipeline
        if not plan.segments:
            return None
        pipeline.maintainer.kept.take_out_of(plan.names, rest)  # most of it beside the steps
        pipeline.on_engine(lambda: self._let_go(plan))
        base = retain.carry_out(pipeline.folder, pipeline.catalog, pipeline.log, plan, rest)
        if base is not None:
            pipeline.tell({
                "event": "log.retained", "first": base.commit + 1, "segments": len(plan.segments), "bytes": plan.bytes,
                "base_bytes": base.size,
            })  # fmt: skip
        return base
