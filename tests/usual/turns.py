"""Which worker runs which file: half of the workers have a Spark session each, the others none; files that look at what was
changed come first, then the longest.

Two sessions keep two cores busy; what waits for servers, clocks and commands of the product goes on beside them. A
worker without a session is never given a file that needs one; one with a session helps the others once no such file
is left.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from usual.reached import reached
from usual.times import Ledger


class Turns(LoadFileScheduling):
    def __init__(self, config: pytest.Config, log: object, ledger: Ledger) -> None:
        super().__init__(config, log)
        self.ledger, self.root = ledger, Path(config.rootpath)

    @cached_property
    def _reached(self) -> set[str]:
        return reached(self.workqueue, self.root)

    def _reschedule(self, node: WorkerController) -> None:
        """Without a file that it may take the worker ends: it holds its last test back as long as more may come."""
        if self.workqueue and self._next(node) is None and not node.shutting_down:
            node.shutdown()
            return
        super()._reschedule(node)

    def _assign_work_unit(self, node: WorkerController) -> None:
        file = self._next(node)
        if file is None:  # at the beginning, with fewer files than workers
            return
        self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)

    def _next(self, node: WorkerController) -> str | None:
        waiting = sorted(
            self.workqueue, key=lambda file: (file in self._reached, self.ledger.seconds(file)), reverse=True
        )
        with_session = [file for file in waiting if self.ledger.session(file)]
        without = [file for file in waiting if not self.ledger.session(file)]
        if self.numnodes > 1 and int(node.gateway.id.removeprefix("gw")) % 2:
            return next(iter(without), None)
        return next(iter(with_session or without), None)
