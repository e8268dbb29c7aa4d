"""Consumer groups as they must survive a crash: where each is, what is handed out, what was given up. SQLite.

A file of its own beside the catalogue: readers are other processes, each writes here, and neither waits for a step
nor makes one wait. Every change is one durable transaction; the time is given by the caller.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from headrace.model.errors import HeadraceError
from headrace.model.group import TABLE, DeadLetter, Group, Open, delivery_id, parsed_id

FILE = "groups.db"
LAYOUT = 2
SCHEMA = """
create table meta (name text primary key, value text not null) strict;
create table consumer_group (name text primary key, relation text not null, kind text not null,
    version integer not null, read integer not null, lease_us integer not null, max_deliveries integer not null,
    in_flight integer not null, hold integer not null, created_us integer not null, query text,
    settled integer not null default 0) strict;
create table delivery (owner text not null, log_commit integer not null, attempt integer not null,
    last integer not null, snapshot integer not null, consumer text not null default '', leased integer not null,
    until_us integer not null, span_us integer not null, reason text not null default '', payload blob,
    primary key (owner, log_commit)) strict, without rowid;
create table dead (number integer primary key autoincrement, owner text not null, log_commit integer not null,
    attempt integer not null, reason text not null, at_us integer not null, payload blob not null,
    used integer not null default 0) strict;
create index dead_by_owner on dead (owner, number);
create index dead_by_commit on dead (owner, log_commit);
"""
_GROUP = "name, relation, kind, version, read, lease_us, max_deliveries, in_flight, hold, created_us, query"
_OPEN = "log_commit, attempt, last, snapshot, consumer, leased, until_us, reason, payload"
_DEAD = "owner, log_commit, attempt, reason, at_us, payload"
_DISPLACED = "sent again, and not acknowledged before the contents came anew as of its commit"


class GroupStore:
    """The groups of a project, in the file ``path``, which is made. From any thread, and from several processes."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.RLock()
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=30)
        self._db.execute("pragma busy_timeout=30000")
        self._check(path)
        self._db.execute("pragma journal_mode=wal")
        self._db.execute("pragma synchronous=full")
        with self.transaction():
            if not self._rows("select 1 from sqlite_master where name = 'meta'"):
                for statement in SCHEMA.split(";"):
                    self._db.execute(statement)
                self._db.execute("insert into meta values ('layout', ?)", (str(LAYOUT),))
            layout = int(self._rows("select value from meta where name = 'layout'")[0][0])
            if layout == 1:  # before groups of stored queries
                self._db.execute("alter table consumer_group add column query text")
                self._db.execute("alter table consumer_group add column settled integer not null default 0")
                self._db.execute("alter table dead add column used integer not null default 0")
                self._db.execute("create index dead_by_commit on dead (owner, log_commit)")
                self._db.execute("update meta set value = ? where name = 'layout'", (str(LAYOUT),))
                layout = LAYOUT
        if layout != LAYOUT:
            raise HeadraceError(
                "state.layout", f"the groups have layout {layout}, this version knows {LAYOUT}", where=str(path),
                next="use the version of Headrace that wrote them; nothing was changed",
            )  # fmt: skip

    def _check(self, path: Path) -> None:
        """Raises ``state.corrupt``. Work: one reading of the file, which is small."""
        try:
            found = self._db.execute("pragma integrity_check(1)").fetchone()[0]
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):  # busy, or not to be opened: not damaged
                raise
            found = str(error)
        if found != "ok":
            self._db.close()
            raise _damaged(path, found)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All changes inside become durable together, or none does; no other process writes meanwhile."""
        with self._lock:
            self._db.execute("begin immediate")
            try:
                yield
                self._db.execute("commit")
            except BaseException:
                if self._db.in_transaction:  # a full or failing disk has ended it already, or has not at all
                    self._db.execute("rollback")
                raise

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        with self._lock:
            return self._db.execute(sql, values).fetchall()

    # -- groups ---------------------------------------------------------------------------------------------

    def groups(self) -> list[Group]:
        return [_group(row) for row in self._rows(f"select {_GROUP} from consumer_group order by name")]  # noqa: S608

    def find(self, name: str) -> Group | None:
        rows = self._rows(f"select {_GROUP} from consumer_group where name = ?", name)  # noqa: S608
        return _group(rows[0]) if rows else None

    def create(self, group: Group, snapshot: int | None = None) -> None:
        """``snapshot``: the commit of the contents that come first. Raises ``group.exists``."""
        values = (
            group.name, group.relation, group.kind, group.version, group.read, group.lease_us, group.max_deliveries,
            group.in_flight, int(group.hold), group.created_us, group.query,
        )  # fmt: skip
        with self.transaction():
            if self.find(group.name) is not None:
                raise HeadraceError(
                    "group.exists", f"there is a group '{group.name}' already",
                    next=f"read it, or `headrace groups drop {group.name}` first",
                )  # fmt: skip
            places = ", ".join("?" for _ in values)
            self._db.execute(f"insert into consumer_group ({_GROUP}) values ({places})", values)  # noqa: S608
            if snapshot is not None:
                self._put_snapshot(group, snapshot, 0)

    def drop(self, name: str) -> bool:
        """The group with all that is kept of it; whether there was one."""
        with self.transaction():
            self._db.execute("delete from delivery where owner = ?", (name,))
            self._db.execute("delete from dead where owner = ?", (name,))
            return self._db.execute("delete from consumer_group where name = ?", (name,)).rowcount > 0

    def advance(self, group: Group, to: int) -> None:
        """Nothing up to commit ``to`` concerns the group, unless another reader has moved it."""
        with self.transaction():
            if self._has_read(group) == group.read:
                self._db.execute("update consumer_group set read = ?, settled = 0 where name = ?", (to, group.name))

    def _has_read(self, group: Group) -> int | None:
        """How far the group is now; None: it is another group, or follows another version, so that what was read of the
        feed for ``group`` is not of it."""
        now = self.find(group.name)
        same = now is not None and (now.version, now.created_us) == (group.version, group.created_us)
        return now.read if now is not None and same else None

    def begin_anew(self, group: Group, relation: str, version: int, commit: int, now_us: int) -> None:
        """The contents at ``commit``, of this view and version, in the place of all that is not settled, unless that
        was done already. A dead letter that is sent again at that commit is one again."""
        with self.transaction():
            if self.find(group.name) != group:
                return
            self._settle(group.name, [row.commit for row in self.open(group.name)])  # no delivery has another's id
            attempt = self._rows("select settled from consumer_group where name = ? and read = ?", group.name, commit)
            self._db.execute(
                f"insert into dead ({_DEAD}) select owner, log_commit, attempt, ?, ?, payload from delivery"  # noqa: S608
                " where owner = ? and log_commit = ? and payload is not null",
                (_DISPLACED, now_us, group.name, commit),
            )
            gone = "delete from delivery where owner = ? and (payload is null or log_commit = ?)"
            self._db.execute(gone, (group.name, commit))
            self._db.execute(
                "update consumer_group set relation = ?, version = ?, read = ?, settled = 0 where name = ?",
                (relation, version, commit, group.name),
            )
            self._put_snapshot(group, commit, attempt[0][0] if attempt else 0)

    def _put_snapshot(self, group: Group, commit: int, attempt: int) -> None:
        values = (group.name, commit, attempt, attempt + group.max_deliveries, 1, "", 0, 0, 0, "", None)
        self._db.execute("insert into delivery values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)

    # -- deliveries -----------------------------------------------------------------------------------------

    def open(self, name: str) -> list[Open]:
        """What is not settled, in order."""
        rows = self._rows(f"select {_OPEN} from delivery where owner = ? order by log_commit", name)  # noqa: S608
        return [_open(row) for row in rows]

    def due(self, group: Group, now_us: int) -> list[Open]:
        """What is to be delivered again now, in order: no more than may be in flight. Those that are dead are not."""
        self._settle_clock(group.name, now_us)
        rows = self.open(group.name)
        room = group.in_flight - sum(row.leased and row.until_us > now_us for row in rows)
        return [row for row in rows if row.until_us <= now_us and row.attempt < row.last][: max(0, room)]

    def dying(self, name: str, now_us: int) -> list[Open]:
        """What was delivered as often as may be, and is not with a reader any more."""
        self._settle_clock(name, now_us)
        rows = self.open(name)
        return [row for row in rows if row.attempt >= row.last and not (row.leased and row.until_us > now_us)]

    def lease_again(self, group: Group, rows: Sequence[Open], consumer: str, now_us: int) -> list[Open]:
        """These to ``consumer``, unless another reader was first or the version is another; as they are then."""
        sql = (
            "update delivery set attempt = attempt + 1, consumer = ?, leased = 1, until_us = ?, span_us = ?"
            " where owner = ? and log_commit = ? and attempt = ? and until_us <= ?"
        )
        taken = set[int]()
        with self.transaction():
            for row in rows if self._has_read(group) is not None else ():
                values = (
                    consumer,
                    now_us + group.lease_us,
                    group.lease_us,
                    group.name,
                    row.commit,
                    row.attempt,
                    now_us,
                )
                if self._db.execute(sql, values).rowcount:
                    taken.add(row.commit)
        return [row for row in self.open(group.name) if row.commit in taken]

    def lease_new(self, group: Group, commits: Sequence[int], upto: int, consumer: str, now_us: int) -> list[Open]:
        """The next ``commits`` of the feed, all there are up to ``upto``; none when another reader was first."""
        with self.transaction():
            if self._has_read(group) != group.read:
                return []
            until = now_us + group.lease_us
            self._db.executemany(
                "insert into delivery values (?, ?, 1, ?, 0, ?, 1, ?, ?, '', null)",
                [(group.name, c, group.max_deliveries, consumer, until, group.lease_us) for c in commits],
            )
            self._db.execute("update consumer_group set read = ?, settled = 0 where name = ?", (upto, group.name))
        wanted = set(commits)
        return [row for row in self.open(group.name) if row.commit in wanted]

    def ack(self, name: str, ids: Sequence[str], now_us: int) -> int:
        """Settles these deliveries; how many were not yet. Those in time are settled when ``group.lease`` is raised."""
        with self.transaction():
            kept, late = self._held(name, ids, now_us)
            self._forget(name, kept)
        _refuse(late, len(kept), "acknowledged")
        return len(kept)

    def ack_upto(self, name: str, id: str, consumer: str, now_us: int) -> int:
        """Settles this delivery and all before it that ``consumer`` has; how many."""
        with self.transaction():
            kept, late = self._held(name, [id], now_us)
            commit = parsed_id(id)[0]
            rows = self.open(name) if not late else []
            mine = [r for r in rows if r.commit <= commit and r.consumer == consumer and _with_reader(r, now_us)]
            kept = sorted({*kept, *(row.commit for row in mine)})
            self._forget(name, kept)
        _refuse(late, 0, "acknowledged")
        return len(kept)

    def nack(self, name: str, ids: Sequence[str], delay_us: int, reason: str, now_us: int) -> int:
        """Gives these deliveries back, to come again after ``delay_us``; how many. As ``ack`` where some are late."""
        with self.transaction():
            kept, late = self._held(name, ids, now_us)
            self._db.executemany(
                "update delivery set leased = 0, until_us = ?, span_us = ?, reason = ?"
                " where owner = ? and log_commit = ?",
                [(now_us + delay_us, delay_us, reason, name, commit) for commit in kept],
            )
        _refuse(late, len(kept), "given back")
        return len(kept)

    def extend(self, name: str, ids: Sequence[str], lease_us: int, now_us: int) -> int:
        """The leases of these deliveries end ``lease_us`` from now; how many. As ``ack`` where some are late."""
        with self.transaction():
            kept, late = self._held(name, ids, now_us)
            self._db.executemany(
                "update delivery set until_us = ?, span_us = ? where owner = ? and log_commit = ?",
                [(now_us + lease_us, lease_us, name, commit) for commit in kept],
            )
        _refuse(late, len(kept), "extended")
        return len(kept)

    def _settle(self, name: str, commits: Sequence[int]) -> None:
        """Of the last commit that was handed out the last attempt is kept: contents may come anew as of that commit. Of
        those of dead letters too: they may be sent again."""
        sql = (
            "update consumer_group set settled = max(settled, coalesce((select attempt from delivery"
            " where owner = name and log_commit = read), 0)) where name = ? and read = ?"
        )
        letters = (
            "update dead set used = max(used, coalesce((select attempt from delivery d"
            " where d.owner = dead.owner and d.log_commit = dead.log_commit), 0)) where owner = ? and log_commit = ?"
        )
        for each in (sql, letters):
            self._db.executemany(each, [(name, commit) for commit in commits])

    def _forget(self, name: str, commits: Sequence[int]) -> None:
        self._settle(name, commits)
        self._db.executemany("delete from delivery where owner = ? and log_commit = ?", [(name, c) for c in commits])

    def _held(self, name: str, ids: Sequence[str], now_us: int) -> tuple[list[int], list[str]]:
        """(commits of those that their readers still have, what is wrong with the others); settled ones are neither."""
        group = self.find(name)
        self._settle_clock(name, now_us)
        rows = {row.commit: row for row in self.open(name)}
        kept, late = set[int](), list[str]()
        for commit, attempt in map(parsed_id, ids):
            row = rows.get(commit)
            if row is not None and row.attempt == attempt and _with_reader(row, now_us):
                kept.add(commit)
            elif row is not None or group is None or commit > group.read or self._is_dead(name, commit, attempt):
                late.append(f"{delivery_id(commit, attempt)} {_why(row, attempt, now_us)}")
        return sorted(kept), late

    def _is_dead(self, name: str, commit: int, attempt: int) -> bool:
        sql = "select 1 from dead where owner = ? and log_commit = ? and attempt = ?"
        return bool(self._rows(sql, name, commit, attempt))

    def _settle_clock(self, name: str, now_us: int) -> None:
        """A clock that was put back may not make a lease, or a delay, longer than it was meant to be."""
        late = "owner = ? and until_us - span_us > ?"
        with self._lock:
            if self._rows(f"select 1 from delivery where {late} limit 1", name, now_us):  # noqa: S608
                self._db.execute(f"update delivery set until_us = ? + span_us where {late}", (now_us, name, now_us))  # noqa: S608

    # -- dead letters ---------------------------------------------------------------------------------------

    def bury(self, group: Group, row: Open, reason: str, payload: bytes, now_us: int) -> None:
        """Makes a dead letter of it, unless another reader did or the version is another."""
        gone = "delete from delivery where owner = ? and log_commit = ? and attempt = ? and leased = ?"
        with self.transaction():
            if self._has_read(group) is None:
                return
            self._settle(group.name, [row.commit])
            if self._db.execute(gone, (group.name, row.commit, row.attempt, int(row.leased))).rowcount:
                values = (group.name, row.commit, row.attempt, reason, now_us, payload)
                self._db.execute(f"insert into dead ({_DEAD}) values (?, ?, ?, ?, ?, ?)", values)  # noqa: S608

    def dead(self, name: str) -> list[DeadLetter]:
        """The dead letters of a group, oldest first, without what they hold."""
        sql = "select number, log_commit, attempt, reason, at_us, x'' from dead where owner = ? order by number"
        return [DeadLetter(*row) for row in self._rows(sql, name)]

    def letter(self, name: str, number: int) -> DeadLetter | None:
        """That dead letter, whole."""
        sql = "select number, log_commit, attempt, reason, at_us, payload from dead where owner = ? and number = ?"
        rows = self._rows(sql, name, number)
        return DeadLetter(*rows[0]) if rows else None

    def dead_count(self, name: str) -> int:
        return int(self._rows("select count(*) from dead where owner = ?", name)[0][0])

    def drop_dead(self, name: str, numbers: Sequence[int]) -> int:
        """These go for good; how many did."""
        with self.transaction():
            sql = "delete from dead where owner = ? and number = ?"
            return sum(self._db.execute(sql, (name, number)).rowcount for number in numbers)

    def replay_dead(self, group: Group, numbers: Sequence[int]) -> int:
        """These are delivered again, as often as new ones; how many."""
        again = (
            "insert into delivery select owner, log_commit, max(attempt, used), max(attempt, used) + ?, 0, '', 0, 0, 0,"
            " '', payload from dead where owner = ? and number = ? on conflict do nothing"
        )
        done = 0
        with self.transaction():
            for number in numbers:
                if self._db.execute(again, (group.max_deliveries, group.name, number)).rowcount:
                    self._db.execute("delete from dead where number = ?", (number,))
                    done += 1
        return done

    # -- what others need to know ---------------------------------------------------------------------------

    def frontier(self, group: Group) -> int:
        """The commit up to which all is acknowledged, or given up."""
        sql = "select min(log_commit) from delivery where owner = ? and payload is null"
        first = self._rows(sql, group.name)[0][0]
        return group.read if first is None else int(first) - 1

    def copy_to(self, path: Path) -> None:
        """All of it, as it is now, into a new file."""
        with self._lock, closing(sqlite3.connect(path)) as copy:
            self._db.backup(copy)
            copy.execute("pragma journal_mode=delete")


def needed(path: Path, *, tables: bool) -> dict[str, int] | None:
    """Table (or, without ``tables``, view) -> the least commit of its feed that a group with ``hold`` still needs;
    None: that cannot be read.

    One query that waits for no writer: the engine asks. It names no column that an earlier layout lacks.
    """
    least = (
        "select relation, min(coalesce((select min(log_commit) from delivery where owner = name and payload is null),"
        " read + 1)) from consumer_group where hold and (kind = ?) = ? group by relation"
    )
    if not path.exists():
        return {}
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            return dict(db.execute(least, (TABLE, tables)).fetchall()) if _made(db) else {}
    except sqlite3.Error:
        return None


def followed(path: Path) -> list[tuple[str, str, str]]:
    """(group, kind, name of its feed), by name; the file is left as it is. Raises ``state.corrupt``."""
    if not path.exists():
        return []
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            db.row_factory = sqlite3.Row
            rows = [dict(row) for row in db.execute("select * from consumer_group order by name")] if _made(db) else []
    except sqlite3.Error as error:
        raise _damaged(path, str(error)) from error
    return [(row["name"], row["kind"], row.get("query") or row["relation"]) for row in rows]


def _made(db: sqlite3.Connection) -> bool:
    """Whether it has its tables: a process that was killed as it made the file has left none."""
    named = "select count(*) from sqlite_master where name = 'consumer_group'"
    return bool(db.execute(named).fetchone()[0])


def _damaged(path: Path, why: str) -> HeadraceError:
    return HeadraceError(
        "state.corrupt", "the file of the consumer groups is damaged", where=str(path),
        why=" ".join(why.split()), next="put it back from a backup, or remove it and make the groups anew",
    )  # fmt: skip


def _with_reader(row: Open, now_us: int) -> bool:
    return row.leased and row.until_us > now_us


def _why(row: Open | None, attempt: int, now_us: int) -> str:
    if row is None:
        return "was never delivered, or was given up: see `headrace groups dead ls`"
    if row.attempt != attempt:
        return f"was delivered again as {row.id}" if row.attempt > attempt else "was never delivered"
    return f"ended {(now_us - row.until_us) / 1e6:.1f} s ago" if row.leased else "was given back"


def _refuse(late: Sequence[str], done: int, what: str) -> None:
    if late:
        raise HeadraceError(
            "group.lease",
            f"{len(late)} of {len(late) + done} deliveries cannot be {what}: their lease is over",
            why="; ".join(late[:10]) + (f"; and {len(late) - 10} more" if len(late) > 10 else ""),
            next="they are delivered again; a longer lease gives a reader more time",
        )


def _group(row: Sequence[Any]) -> Group:
    name, relation, kind, version, read, lease_us, max_deliveries, in_flight, hold, created_us, query = row
    return Group(
        name, relation, kind, version, read, lease_us, max_deliveries, in_flight, bool(hold), created_us, query
    )


def _open(row: Sequence[Any]) -> Open:
    commit, attempt, last, snapshot, consumer, leased, until_us, reason, payload = row
    return Open(commit, attempt, last, bool(snapshot), consumer, bool(leased), until_us, reason, payload)
