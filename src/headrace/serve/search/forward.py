"""Indexes that were searched lately, brought forward as steps are published: a search finds little left to add."""

from __future__ import annotations

import logging
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

from headrace.catalog.store import Catalog
from headrace.model.errors import HeadraceError
from headrace.serve import snapshot
from headrace.serve.search import found

LOOK_S = 0.5  # between two looks for a published step
LATELY_S = 600.0  # an index that was not searched for so long is left to the next search

_log = logging.getLogger(__name__)


class Forward:
    """A thread of a server that is searched. One index at a time, so that it takes no more than a part of a core."""

    def __init__(self, project: Path) -> None:
        self._project, self._closed = project, threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-search-forward", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()

    def look(self) -> None:
        """Bring all of them to the last published step. What cannot be is left to the next search, which tells."""
        indexes = found.lately(self._project, LATELY_S)
        if not indexes:
            return
        with closing(Catalog(snapshot.catalog_path(self._project), read_only=True)) as catalog:
            for index in indexes:
                if self._closed.is_set():
                    return
                index.state(catalog, 0, lambda event: None)

    def _run(self) -> None:
        while not self._closed.wait(LOOK_S):
            try:
                self.look()
            except (HeadraceError, OSError, ValueError, sqlite3.Error) as error:
                _log.debug("an index stays as it was: %s", error)
