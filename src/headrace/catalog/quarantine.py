"""The catalogue's part about the quarantine: what is kept there, what has left it, and how."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from headrace.catalog.database import Database

_ID = re.compile(r"(.+):(\d+):(\d+)")
_LEFT = "settled left join replay on replay.number = settled.replay"
_GONE = "(settled.replay is null or replay.log_commit is not null)"  # not only meant to be replayed


@dataclass(frozen=True, slots=True)
class SetAside:
    """A file with the changes of a table that a step could not take; ``rows`` of them are still in the quarantine."""

    relation: str
    step: int
    path: str
    rows: int


@dataclass(frozen=True, slots=True)
class Change:
    """A change in the log: the ``place``-th of those of ``relation`` in ``commit``, from 1. It never changes."""

    relation: str
    commit: int
    place: int

    @classmethod
    def of(cls, id: str) -> Change | None:
        """The change with that id; None for what is no id."""
        found = _ID.fullmatch(id)
        return cls(found[1], int(found[2]), int(found[3])) if found else None

    @property
    def id(self) -> str:
        return f"{self.relation}:{self.commit}:{self.place}"


@dataclass(frozen=True, slots=True)
class Left:
    """When a change left the quarantine (microseconds since the epoch), and the commit that it was sent again in.

    Without ``commit`` it was dropped.
    """

    at_us: int
    commit: int | None


class QuarantineTables(Database):
    """Files of what was set aside; which changes have left; replays, which are begun before the log has them."""

    def set_aside(self) -> list[SetAside]:
        """Files with changes that tables could not take, by table and step."""
        rows = self._rows("select relation, step, path, rows from set_aside order by relation, step")
        return [SetAside(relation, step, self.found(path), count) for relation, step, path, count in rows]

    def put_set_aside(self, entries: Iterable[SetAside]) -> None:
        """These files, in place of those there are of the same table and step; one without rows goes."""
        with self.transaction():
            for e in entries:
                self._db.execute("delete from set_aside where relation = ? and step = ?", (e.relation, e.step))
                if e.rows:
                    values = (e.relation, e.step, self.stored(e.path), e.rows)
                    self._db.execute("insert into set_aside values (?, ?, ?, ?)", values)

    def forget_set_aside(self, relation: str) -> None:
        with self.transaction():
            self._db.execute("delete from set_aside where relation = ?", (relation,))

    def gone(self, relation: str) -> set[tuple[int, int]]:
        """(commit, place) of the table's changes that have left the quarantine. They stay known for ever.

        A table whose contents are made again from the log sets the same changes aside again.
        """
        sql = f"select settled.log_commit, place from {_LEFT} where relation = ? and {_GONE}"  # noqa: S608
        return set(self._rows(sql, relation))

    def left(self, change: Change) -> Left | None:
        """How a change left the quarantine; None when it is there, or never was."""
        sql = f"select settled.at_us, replay.log_commit from {_LEFT} where {_GONE}"  # noqa: S608
        key = (change.relation, change.commit, change.place)
        rows = self._rows(f"{sql} and (relation, settled.log_commit, place) = (?, ?, ?)", *key)
        return Left(*rows[0]) if rows else None

    def settle(self, changes: Iterable[Change], at_us: int, replay: int | None = None) -> None:
        """These changes leave the quarantine: dropped, or with a replay, once that is in the log."""
        with self.transaction():
            self._db.executemany(
                "insert or replace into settled values (?, ?, ?, ?, ?)",
                ((c.relation, c.commit, c.place, replay, at_us) for c in changes),
            )

    def begin_replay(self, changes: Iterable[Change], after: int, at_us: int) -> int:
        """These changes are about to be sent again; the log ends at ``after`` now. Gives the replay's number."""
        with self.transaction():
            self._db.execute("insert into replay (after, at_us) values (?, ?)", (after, at_us))
            number: int = self._db.execute("select last_insert_rowid()").fetchone()[0]
            self.settle(changes, at_us, number)
        return number

    def end_replay(self, number: int, commit: int | None) -> None:
        """The log has it as ``commit``; with None it has not, and the changes stay in the quarantine."""
        with self.transaction():
            if commit is None:
                self._db.execute("delete from settled where replay = ?", (number,))
                self._db.execute("delete from replay where number = ?", (number,))
            else:
                self._db.execute("update replay set log_commit = ? where number = ?", (commit, number))

    def open_replays(self) -> list[tuple[int, int]]:
        """(number, the log's end before) of replays of which it is not known whether the log has them."""
        return self._rows("select number, after from replay where log_commit is null order by number")
