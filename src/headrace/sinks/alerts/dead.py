"""What the sinks of a project could not tell: looked at, sent again, dropped; beside a running project too."""

from __future__ import annotations

import datetime
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from headrace.catalog.document import did_you_mean
from headrace.catalog.project import STATE
from headrace.formats.types.spelled import value
from headrace.model.errors import HeadraceError
from headrace.sinks.alerts import FOLDER

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
# The messages of one letter are dead together; a row that nothing could be made of is a letter of its own.
_DEAD = """
select min(number), view, max(log_commit), sum(entered + left + changed), max(dead_us), max(reason), max(rest)
from message where dead_us is not null group by coalesce(letter, id) order by 1 limit ?
"""
_COUNT = "select count(distinct coalesce(letter, id)) from message where dead_us is not null"
_BODIES = """
select body from message where dead_us is not null
and coalesce(letter, id) = (select coalesce(letter, id) from message where number = ?) order by number
"""
_REPLAY = """
update message set dead_us = null, reason = null, taken_us = ?2 where dead_us is not null
and coalesce(letter, id) = (select coalesce(letter, id) from message where number = ?1)
"""
_DROP = """
delete from message where dead_us < ?2
and coalesce(letter, id) = (select coalesce(letter, id) from message where number = ?1)
"""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """``number`` is its own within the sink; ``recipients``: who of a mail's lack it, empty when all do."""

    sink: str
    number: int
    view: str
    commit: int
    rows: int
    at_us: int
    reason: str
    recipients: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """As JSON tells it."""
        return {
            "sink": self.sink, "number": self.number, "view": self.view, "commit": self.commit, "rows": self.rows,
            "given_up_at": value(_EPOCH + datetime.timedelta(microseconds=self.at_us)),
            "recipients": list(self.recipients), "reason": self.reason,
        }  # fmt: skip


class DeadLetters:
    """Those of the project in ``folder``. Every method opens the outboxes that it needs, and closes them."""

    def __init__(self, folder: Path) -> None:
        self._home = folder / STATE / FOLDER

    def sinks(self) -> list[str]:
        """The sinks that tell of changes and have run."""
        return sorted(path.stem for path in self._home.glob("*.db"))

    def waiting(self, sink: str) -> int:
        """How many of its messages are still to be sent. Raises ``sink.unknown``."""
        with self._opened(sink) as outbox:
            return int(outbox.execute("select count(*) from message where dead_us is null").fetchone()[0])

    def count(self, sink: str) -> int:
        """How many dead letters it has. Raises ``sink.unknown``."""
        with self._opened(sink) as outbox:
            return int(outbox.execute(_COUNT).fetchone()[0])

    def first(self, sinks: Sequence[str], limit: int | None) -> tuple[list[DeadLetter], bool]:
        """The first ``limit`` of these sinks (None: all), sink by sink, oldest first; whether there are more.

        Raises ``sink.unknown``.
        """
        found = list[DeadLetter]()
        for sink in sinks:
            found += self.ls(sink, None if limit is None else limit + 1 - len(found))
        return found[:limit], limit is not None and len(found) > limit

    def ls(self, sink: str, limit: int | None = None) -> list[DeadLetter]:
        """Oldest first, at most ``limit``. Raises ``sink.unknown``."""
        with self._opened(sink) as outbox:
            found = outbox.execute(_DEAD, (-1 if limit is None else limit,)).fetchall()
        return [
            DeadLetter(sink, number, view, commit, rows, at_us, reason, tuple(orjson.loads(rest or "[]")))
            for number, view, commit, rows, at_us, reason, rest in found
        ]

    def show(self, sink: str, number: int) -> tuple[DeadLetter, list[str]]:
        """A dead letter, and its messages as JSON text. Raises ``sink.unknown``, ``sink.letter``."""
        letter = next((one for one in self.ls(sink) if one.number == number), None)
        if letter is None:
            raise self._unknown(sink, number)
        with self._opened(sink) as outbox:
            rows = outbox.execute(_BODIES, (number,)).fetchall()
        return letter, [row[0].decode() for row in rows]

    def replay(self, sink: str, *numbers: int) -> int:
        """These (all, without any) are sent again, by the ids that they had, before what waits; how many."""
        return self._each(sink, numbers, _REPLAY)

    def drop(self, sink: str, *numbers: int) -> int:
        """These (all, without any) go for good; how many."""
        return self._each(sink, numbers, _DROP)

    def _each(self, sink: str, numbers: Sequence[int], change: str) -> int:
        known = [letter.number for letter in self.ls(sink)]
        for number in numbers:
            if number not in known:
                raise self._unknown(sink, number)
        now_us, chosen = time.time_ns() // 1000, list(numbers) or known
        with self._opened(sink) as outbox:
            outbox.execute("begin immediate")
            outbox.executemany(change, ((number, now_us) for number in chosen))
            outbox.execute("commit")
        return len(chosen)

    @contextmanager
    def _opened(self, sink: str) -> Iterator[Any]:
        if sink not in self.sinks():
            raise HeadraceError(
                "sink.unknown", f"there is no outbox of a sink '{sink}'", where=str(self._home),
                next=did_you_mean(sink, self.sinks()) or f"outboxes: {', '.join(self.sinks()) or 'none yet'}",
            )  # fmt: skip
        path = self._home / f"{sink}.db"
        with closing(sqlite3.connect(path, isolation_level=None, timeout=30)) as outbox:
            yield outbox

    def _unknown(self, sink: str, number: int) -> HeadraceError:
        return HeadraceError(
            "sink.letter", f"the sink '{sink}' has no dead letter {number}", next=f"headrace alerts ls {sink}"
        )
