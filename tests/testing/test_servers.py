"""Goal: what the kit starts, it stops, also where the start itself is ended.

Method: real servers, whose start is ended while they do not answer yet.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.testing.mariadb import MariadbServer
from headrace.testing.mysqld import Mysqld
from headrace.testing.postgres import PostgresServer


@pytest.mark.postgres
def test_a_postgresql_whose_start_is_ended_does_not_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    server = PostgresServer()
    _is_gone(server, PostgresServer, monkeypatch)


@pytest.mark.binlog
def test_a_mariadb_whose_start_is_ended_does_not_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    server = MariadbServer()
    _is_gone(server, Mysqld, monkeypatch)


def _is_gone(
    server: PostgresServer | MariadbServer, kind: type[PostgresServer | Mysqld], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []

    def interrupted(self: PostgresServer | Mysqld) -> bool:
        begun.append(self._process)
        raise KeyboardInterrupt

    monkeypatch.setattr(kind, "_wait_ready", interrupted)
    with pytest.raises(KeyboardInterrupt), server:
        pass
    (process,) = begun
    assert process is not None and process.poll() is not None
    assert not server.running and not Path(server.folder).exists()
