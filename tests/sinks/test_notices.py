"""Goal: what enters, leaves and changes becomes notices for the page: once each, in order, bounded, at a rate.

Method: the page sink on a folder; the notices as whoever asks reads them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hook_sinks import WHERE, begun, caught, changed, sales, until_taken

from headrace.sinks.alerts import notices, sink
from headrace.sinks.alerts.notices import Notices
from headrace.sinks.alerts.outbox import Outbox
from headrace.sinks.connectors.page.connector import PageSink

Open = Callable[..., PageSink]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Page sinks of one project folder, open; closed after the test."""
    made: list[PageSink] = []

    def make(name: str = "tell", **options: Any) -> PageSink:
        made.append(PageSink(name, options, {}, WHERE, "shop", base=tmp_path, log="the log"))
        made[-1].open()
        return made[-1]

    yield make
    for each in made:
        each.close()


def told(folder: Path, after: int = 0) -> list[dict[str, Any]]:
    """Oldest first, without the time."""
    found = [notice.as_dict() for notice in Notices(folder).since(after)][::-1]
    return [{name: value for name, value in notice.items() if name != "at"} for notice in found]


def test_a_delivery_is_a_notice_with_what_it_counts_and_its_first_rows(opened: Open, tmp_path: Path) -> None:
    some = sales((1, "a"), (2, "b"))
    tells = begun(opened(), some)
    assert (told(tmp_path), Notices(tmp_path).made()) == ([], "")
    changed(tells, some, 7, ((1, "a"), -1), ((2, "b"), -1), ((2, "B"), 1), ((3, "c"), 1))
    changed(tells, some, 8, *((((n, "many"), 1)) for n in range(10, 40)))
    first, second = told(tmp_path)
    assert first == {
        "number": 1, "view": "sales", "query": None, "commit": 7, "entered": 1, "left": 1, "changed": 1,
        "rows": {"entered": [{"id": 3, "note": "c"}], "left": [{"id": 1, "note": "a"}],
                 "changed": [{"before": {"id": 2, "note": "b"}, "after": {"id": 2, "note": "B"}}]},
    }  # fmt: skip
    assert (second["number"], second["entered"]) == (2, 30)
    assert [row["id"] for row in second["rows"]["entered"]] == list(range(10, 20))
    changed(tells, some, 9, ((50, "x" * 20_000), 1), ((51, "short"), 1))
    assert told(tmp_path, 2)[0]["rows"]["entered"] == [] and told(tmp_path, 2)[0]["entered"] == 2
    assert (tmp_path / ".headrace/notices.db").stat().st_mode & 0o777 == 0o600


def test_a_notice_that_was_kept_before_a_kill_is_not_kept_again(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sink dies behind the notice, before its outbox knows of it."""
    some, tells = sales((1, "a")), opened()
    begun(tells, some)
    with monkeypatch.context() as patch:
        patch.setattr(Outbox, "sent", lambda *rest: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            changed(tells, some, 2, ((2, "b"), 1))
    tells.close()
    changed(opened(), some, 3, ((3, "c"), 1))
    first, second = told(tmp_path)
    assert (first["number"], first["commit"], second["commit"]) == (1, 2, 3)


def test_what_is_beyond_the_rate_comes_later_as_one_notice(opened: Open, tmp_path: Path) -> None:
    some, tells = sales((1, "a")), opened(at_most="2/second")
    begun(tells, some)
    begins = time.monotonic()
    for commit in range(2, 8):
        changed(tells, some, commit, ((commit, "b"), 1))
    slow = time.monotonic() - begins > 1
    while len(told(tmp_path)) < 3:
        assert time.monotonic() - begins < 10
        until_taken(tells)
    counts = [notice["entered"] for notice in told(tmp_path)]
    assert sum(counts) == 6
    assert slow or counts == [1, 1, 4]
    assert told(tmp_path)[-1]["commit"] == 7


def test_the_newest_are_kept_and_those_of_a_dropped_sink_go(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "KEPT", 5)
    some, other = sales((1, "a")), sales((1, "a"), name="other")
    tells, beside = begun(opened(at_most="1000/second"), some), begun(opened("beside"), other)
    for commit in range(2, 12):
        changed(tells, some, commit, ((commit, "b"), 1))
    changed(beside, other, 12, ((2, "b"), 1))
    made = Notices(tmp_path).made()
    assert [(notice["number"], notice["view"]) for notice in told(tmp_path)] == [
        (7, "sales"), (8, "sales"), (9, "sales"), (10, "sales"), (11, "other"),
    ]  # fmt: skip
    tells.drop()
    assert [notice["number"] for notice in told(tmp_path)] == [11]
    changed(beside, other, 13, ((3, "b"), 1))
    assert [notice["number"] for notice in told(tmp_path)] == [11, 12]
    assert Notices(tmp_path).made() == made != ""


def test_notices_that_cannot_be_written_are_told_later(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "AGAIN_S", 0.05)
    some, tells = sales((1, "a")), opened()
    begun(tells, some)
    path = tmp_path / ".headrace/notices.db"
    path.write_bytes(b"no database at all" * 100)
    error = caught(tells, some, 2, ((2, "b"), 1))
    assert (error.code, error.what) == ("sink.connect", "notices for the page cannot be written")
    path.unlink()
    until_taken(tells)
    assert [notice["commit"] for notice in told(tmp_path)] == [2]
