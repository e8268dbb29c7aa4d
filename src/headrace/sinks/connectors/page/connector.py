"""The page sink: what it tells is a notice on the page, for all who may read the view."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from headrace.formats.options import validate
from headrace.model.errors import HeadraceError
from headrace.model.finding import OK, Finding
from headrace.sinks.alerts.notices import Notices
from headrace.sinks.alerts.options import AlertOptions, Rate
from headrace.sinks.alerts.outbox import Letter, Outbox
from headrace.sinks.alerts.sink import Again, AlertSink


class PageOptions(AlertOptions):
    """``sinks/NAME.yaml`` of type ``page``."""

    at_most: Annotated[Rate | None, *AlertOptions.model_fields["at_most"].metadata] = Rate(60, 60)


class PageSink(AlertSink):
    """Options: see ``PageOptions``. ``base``: the project's folder; ``log``: the id of its log."""

    together = True

    def __init__(
        self,
        name: str,
        options: Mapping[str, Any],
        keys: Mapping[str, tuple[str, ...]],
        where: str = "",
        project: str = "headrace",
        *,
        base: Path | None = None,
        log: str = "",
    ) -> None:
        super().__init__(name, validate(PageOptions, options, where), keys, where, project, base, log)
        self._notices = Notices(self._base)

    def send(self, letter: Letter, outbox: Outbox) -> None:
        """One notice. One that is there already, as of a sink that was killed behind it, stays the only one."""
        try:
            self._notices.keep(self.name, letter.id, letter.commit, letter.counts, outbox.bodies(letter))
        except sqlite3.Error as error:
            raise Again(
                HeadraceError(
                    "sink.connect", "notices for the page cannot be written", where=self._where, why=str(error),
                    next="look at the disk's space and rights",
                )
            ) from error  # fmt: skip

    def examine(self) -> Iterator[Finding]:
        yield Finding(OK, "tells the page, under Notices")

    def drop(self) -> None:
        """Removes the outbox, and the notices that came from it."""
        super().drop()
        self._notices.forget(self.name)
