"""Goal: `headrace status` tells of a source that waits, and what was refused or dropped, and says nothing where all is well."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.cli.commands import status

QUIET = {"when_full": "drop", "queued_bytes": 0, "max_queue": 1024, "refused": 0, "dropped": 0, "dropped_bytes": 0}


def shown(capsys: pytest.CaptureFixture[str], **told: Any) -> str:
    source = {"name": "shop", "state": "running", "tables": ["orders"], "rows": 5, **QUIET, **told}
    status.show({"state": "running", "sources": [source]})
    return capsys.readouterr().out


def test_what_was_dropped_and_refused_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert "dropped" not in shown(capsys)
    told = shown(capsys, dropped=1_204, dropped_bytes=3 << 20, refused=1)
    assert "shop: dropped 1,204 requests since it was started, 3.0 MiB (when_full: drop)" in told
    assert "shop: refused 1 request since it was started: its queue was full" in told


def test_a_source_that_waits_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    bound = {"backlog": 1_000_123, "max_backlog": 1_000_000, "waited_s": 3.5}
    assert "waits" not in shown(capsys, **bound, waits=False)
    told = shown(capsys, **bound, waits=True)
    assert "shop: waits: 1,000,123 changes are not taken yet (max_backlog: 1,000,000)" in told
