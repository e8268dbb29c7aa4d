"""The catalogue's part about the quarantine: what is kept there, what has left it, and how."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from headrace.catalog.database import Database
from headrace.model.transaction import RefusedRow

_ID = re.compile(r"(.+):(\d{1,18}):(\d{1,18})", re.ASCII)
_REFUSED = re.compile(r"(.+):(\d{1,18})", re.ASCII)
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
class Refused:
    """A row, or a request, that a source could not read; ``commit``: of the transaction that it would have been in.

    ``commit`` is None where the whole transaction was refused. ``at_us``: when, microseconds since the epoch.
    """

    number: int
    source: str
    row: RefusedRow
    at_us: int
    commit: int | None

    @property
    def id(self) -> str:
        return refused_id(self.source, self.number)


def refused_id(source: str, number: int) -> str:
    return f"{source}:{number}"


def refused_number(id: str) -> tuple[str, int] | None:
    """(source, number) of an id; None for what is none, or that of a change."""
    found = _REFUSED.fullmatch(id)
    return (found[1], int(found[2])) if found and not _ID.fullmatch(id) else None


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
        """(commit, place) of the table's changes that have left the quarantine.

        They stay known as long as the log has their transactions: a table whose contents are made again from the log
        sets the same changes aside again.
        """
        sql = f"select settled.log_commit, place from {_LEFT} where relation = ? and {_GONE}"  # noqa: S608
        return set(self._rows(sql, relation))

    def forget_gone(self, upto: int, written: Mapping[str, Collection[tuple[int, int]]]) -> None:
        """Of changes that have left, those up to that commit that no file of the quarantine has, by ``written``."""
        old = self._rows(
            "select relation, log_commit, place from settled where log_commit <= ?"
            " and (replay is null or replay in (select number from replay where log_commit is not null))",
            upto,
        )
        with self.transaction():
            self._db.executemany(
                "delete from settled where (relation, log_commit, place) = (?, ?, ?)",
                [row for row in old if row[1:] not in written.get(row[0], ())],
            )
            self._db.execute(
                "delete from replay where log_commit <= ? and number not in (select replay from settled"
                " where replay is not null union select replay from refused where replay is not null)",
                (upto,),
            )

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

    def begin_replay(self, changes: Iterable[Change], refused: Iterable[int], after: int, at_us: int) -> int:
        """These changes and rows are about to be sent again; the log ends at ``after``. Gives the replay's number."""
        with self.transaction():
            self._db.execute("insert into replay (after, at_us) values (?, ?)", (after, at_us))
            number: int = self._db.execute("select last_insert_rowid()").fetchone()[0]
            self.settle(changes, at_us, number)
            self._db.executemany("update refused set replay = ? where number = ?", ((number, n) for n in refused))
        return number

    def end_replay(self, number: int, commit: int | None) -> None:
        """The log has it as ``commit``; with None it has not, and what was meant stays in the quarantine."""
        with self.transaction():
            if commit is None:
                self._db.execute("delete from settled where replay = ?", (number,))
                self._db.execute("update refused set replay = null where replay = ?", (number,))
                self._db.execute("delete from replay where number = ?", (number,))
            else:
                sql = "update refused set gone_us = (select at_us from replay where number = ?1), payload = x''"
                self._db.execute(f"{sql} where replay = ?1", (number,))
                self._db.execute("update replay set log_commit = ? where number = ?", (commit, number))

    def open_replays(self) -> list[tuple[int, int]]:
        """(number, the log's end before) of replays of which it is not known whether the log has them."""
        return self._rows("select number, after from replay where log_commit is null order by number")

    # -- rows that sources could not read -------------------------------------------------------------------

    def keep_refused(
        self,
        source: str,
        rows: Sequence[RefusedRow],
        at_us: int,
        after: int | None = None,
        positions: Sequence[str] = (),
    ) -> list[int]:
        """Keep them; their numbers.

        With ``positions``, of the transactions without them, they count only once the log, which ends at ``after``, has
        these: see ``took_refused``.
        """
        numbers = []
        with self.transaction():
            for row in rows:
                position = positions[row.ordinal] if positions else None
                self._db.execute(
                    "insert into refused (source, relation, place, reason, form, payload, at_us, after, position)"
                    " values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (source, row.relation, row.place, row.reason, row.form, row.payload, at_us, after, position),
                )
                numbers.append(self._db.execute("select last_insert_rowid()").fetchone()[0])
        return numbers

    def took_refused(self, commits: Iterable[tuple[int, int]]) -> None:
        """(number, the commit that the log has for its transaction) of rows that were kept before."""
        with self.transaction():
            self._db.executemany("update refused set log_commit = ?2 where number = ?1", commits)

    def forget_refused(self, numbers: Iterable[int]) -> None:
        """The log has not taken their transactions: the source will bring them again."""
        with self.transaction():
            self._db.executemany("delete from refused where number = ?", ((n,) for n in numbers))

    def untaken_refused(self) -> list[tuple[int, str, int, str]]:
        """(number, source, the log's end before, position) of which it is not known whether the log took it."""
        return self._rows(
            "select number, source, after, position from refused"
            " where position is not null and log_commit is null order by number"
        )

    def refused(self) -> list[Refused]:
        """What sources could not read and is still in the quarantine, in order of its numbers."""
        rows = self._rows(
            "select number, source, at_us, log_commit, relation, place, reason, payload, form from refused"
            " where gone_us is null and (position is null or log_commit is not null) order by number"
        )
        return [
            Refused(number, source, RefusedRow(*row), at_us, commit) for number, source, at_us, commit, *row in rows
        ]

    def refused_counts(self) -> dict[str, int]:
        """Table -> rows of it that sources could not read and are still in the quarantine."""
        return dict(
            self._rows(
                "select relation, count(*) from refused"
                " where gone_us is null and (position is null or log_commit is not null) group by relation"
            )
        )

    def drop_refused(self, numbers: Iterable[int], at_us: int) -> None:
        """These leave the quarantine for good; that they were there stays known."""
        with self.transaction():
            self._db.executemany(
                "update refused set gone_us = ?, payload = x'' where number = ?", ((at_us, n) for n in numbers)
            )

    def left_refused(self, source: str, number: int) -> Left | None:
        """As ``left``, of a row that a source could not read."""
        rows = self._rows(
            "select refused.gone_us, replay.log_commit from refused left join replay on replay.number = refused.replay"
            " where refused.number = ? and source = ? and gone_us is not null", number, source,
        )  # fmt: skip
        return Left(*rows[0]) if rows else None
