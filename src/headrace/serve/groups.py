"""Consumer groups at work: a feed's transactions leased to readers, settled, delivered again, given up.

Beside a running product or without one, from any process: all that is shared is in the file of ``catalog.groups``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from headrace.catalog import searches
from headrace.catalog.document import did_you_mean
from headrace.catalog.groups import FILE, GroupStore
from headrace.catalog.project import check_name
from headrace.catalog.store import Catalog
from headrace.model.errors import HeadraceError
from headrace.model.group import QUERY, TABLE, VIEW, DeadLetter, Group, GroupDelivery, Open, delivery_id
from headrace.serve import history
from headrace.serve.feed import Entry, Feed, NotKept, Part, TableFeed, ViewFeed
from headrace.serve.history import time_text
from headrace.serve.parts import Keep
from headrace.serve.snapshot import STATE, catalog_path
from headrace.serve.subscription import Subscription

LEASE_S, LEASE_MAX_S = 30.0, 43_200.0
MAX_DELIVERIES = 5
IN_FLIGHT = 1_000
MOST = 1_000  # deliveries of one read
ROWS_MAX = 50_000  # a read that has so many rows takes no further transaction
SKIPPED = 1_024  # commits that do not concern a group before that is written down
LOOK_S = (0.01, 0.25)  # between two looks for something to deliver: at first, and after a while
TOLD = "delivered {} times, never acknowledged in time"


class Groups:
    """The consumer groups of a project. From any thread; ``clock_us`` gives microseconds since the epoch."""

    def __init__(self, project_path: Path, clock_us: Callable[[], int] = lambda: time.time_ns() // 1000) -> None:
        self._path, self._clock_us = project_path, clock_us
        self._lock = threading.RLock()
        self._store: GroupStore | None = None
        self._catalog: Catalog | None = None
        self._feeds: dict[tuple[str, str], Feed] = {}

    def subscribe(
        self, name: str, relation: str | None = None, consumer: str | None = None, **options: Any
    ) -> Subscription:
        """A reader of the group, in this process; see ``Subscription``."""
        return Subscription(self, name, relation, consumer, **options)

    def close(self) -> None:
        with self._lock:
            for opened in (self._store, self._catalog):
                if opened is not None:
                    opened.close()
            self._store = self._catalog = None
            self._feeds.clear()

    # -- groups ---------------------------------------------------------------------------------------------

    def create(
        self, name: str, relation: str, *, start: str | int = "beginning", lease_s: float = LEASE_S,
        max_deliveries: int = MAX_DELIVERIES, ordered: bool = False, in_flight: int = IN_FLIGHT, hold: bool = True,
    ) -> dict[str, Any]:  # fmt: skip
        """A new group over the feed of a table or view, or the matches of a stored query; as ``entries`` shows it.

        ``start``: beginning (of a view or query: its contents, as the first delivery), now, or the commit after which
        it begins. ``ordered``: one delivery at a time. Raises ``HeadraceError``: group.exists, group.invalid,
        group.position, source.no_table, project.not_running, and what is wrong with a query.
        """
        check_name("the group's name", name)
        _within("lease", lease_s, 0.001, LEASE_MAX_S)
        _within("max_deliveries", max_deliveries, 1, 1_000_000)
        _within("in_flight", in_flight, 1, 100_000)
        kind, spelled = self._named(relation)
        feed = self._feed(kind, spelled)
        read = self._start(start, kind, feed)
        group = Group(
            name, feed.relation, kind, feed.version, read, int(lease_s * 1e6), max_deliveries,
            1 if ordered else in_flight, hold, self._clock_us(), spelled if kind == QUERY else None,
        )  # fmt: skip
        with self._lock:
            if self._store is None:
                self._store = GroupStore(self._path / STATE / FILE)
        self._store.create(group, read if kind != TABLE and start == "beginning" else None)
        return self._shown(group)

    def drop(self, name: str) -> None:
        """The group with its dead letters. Raises ``group.unknown``."""
        self.group(name)
        self._opened().drop(name)

    def group(self, name: str) -> Group:
        """Raises ``group.unknown``."""
        store = self._existing()
        group = store.find(name) if store is not None else None
        if group is None:
            names = [other.name for other in store.groups()] if store is not None else []
            hint = did_you_mean(name, names) or (f"groups: {', '.join(names)}" if names else "")
            raise HeadraceError(
                "group.unknown", f"there is no group '{name}'",
                next=hint or f"headrace groups create {name} FEED",
            )  # fmt: skip
        return group

    def entries(self) -> list[dict[str, Any]]:
        """Each group: what it follows, how far it is, how many of its transactions are with readers, wait, are dead.

        ``frontier``: the commit up to which all is acknowledged or given up; ``end``: that of the feed.
        """
        store = self._existing()
        return [self._shown(group) for group in store.groups()] if store is not None else []

    # -- reading --------------------------------------------------------------------------------------------

    def read(
        self, name: str, consumer: str = "", most: int = 1, wait_s: float = 0.0,
        stop: Callable[[], bool] = lambda: False,
    ) -> list[GroupDelivery]:  # fmt: skip
        """The next transactions, leased to ``consumer``: first what is due again, then what is new, in order.

        Waits up to ``wait_s``, or until ``stop`` says so, while there is none. Raises ``HeadraceError``:
        group.unknown, group.position (what it needs is not kept any more), view.unknown,
        search.unknown, search.query.
        """
        _within("most", most, 1, MOST)
        end, pause = time.monotonic() + wait_s, LOOK_S[0]
        while True:
            found = self.read_now(name, consumer, most)
            left = end - time.monotonic()
            if found or left <= 0 or stop():
                return found
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, LOOK_S[1])

    def read_now(self, name: str, consumer: str, most: int) -> list[GroupDelivery]:
        """As ``read``, without waiting."""
        while True:
            group = self.group(name)
            feed = self._feed(group.kind, group.follows)
            try:
                if feed.version != group.version or group.read > feed.end:
                    raise NotKept
                self._bury(group)
                found = self._again(group, feed, consumer, most)
                rows = sum(len(delivery.changes) for delivery in found)
                if len(found) < most and rows < ROWS_MAX:
                    new = self._new(group, feed, consumer, most - len(found), ROWS_MAX - rows)
                    if new is None and not found:
                        continue
                    found += new or []
                return found
            except NotKept:
                if group.kind == TABLE:
                    raise _gone(group, feed) from None
                self._opened().begin_anew(group, feed.relation, feed.version, feed.end, self._clock_us())

    def ack(self, name: str, *ids: str) -> int:
        """These deliveries are done with, durably; how many were not yet.

        Raises ``group.lease``, with those in time acknowledged, where the lease of one is over.
        """
        self.group(name)
        return self._opened().ack(name, ids, self._clock_us())

    def ack_upto(self, name: str, id: str, consumer: str) -> int:
        """This delivery and all before it that ``consumer`` has; how many."""
        self.group(name)
        if not consumer:
            raise HeadraceError(
                "group.invalid", "only a reader with a name can acknowledge all up to a delivery",
                why="others without a name may have some of them", next="read and acknowledge under a consumer's name",
            )  # fmt: skip
        return self._opened().ack_upto(name, id, consumer, self._clock_us())

    def nack(self, name: str, *ids: str, delay_s: float = 0.0, reason: str = "") -> int:
        """These deliveries are given back, to come again after ``delay_s`` or become dead letters; how many."""
        group = self.group(name)
        _within("delay", delay_s, 0, LEASE_MAX_S)
        done = self._opened().nack(name, ids, int(delay_s * 1e6), reason[:2_000], self._clock_us())
        self._bury(group)
        return done

    def extend(self, name: str, *ids: str, lease_s: float | None = None) -> int:
        """These deliveries are worked on: their leases end ``lease_s`` (default: the group's) from now; how many.

        As often as the reader likes. Raises ``group.lease``, with those in time extended, where the lease of one is
        over: another reader may have it.
        """
        group = self.group(name)
        lease_us = group.lease_us if lease_s is None else int(lease_s * 1e6)
        _within("lease", lease_us / 1e6, 0.001, LEASE_MAX_S)
        return self._opened().extend(name, ids, lease_us, self._clock_us())

    # -- dead letters ---------------------------------------------------------------------------------------

    def dead(self, name: str) -> list[DeadLetter]:
        """The dead letters of a group, oldest first, without what they hold (see ``letter``)."""
        self._bury(self.group(name))
        return self._opened().dead(name)

    def letter(self, name: str, number: int) -> tuple[DeadLetter, dict[str, Any]]:
        """A dead letter, and what it holds: ``changes`` None where that was not kept. Raises ``group.letter``."""
        self.group(name)
        found = self._opened().letter(name, number)
        if found is None:
            raise HeadraceError(
                "group.letter",
                f"the group '{name}' has no dead letter {number}",
                next=f"headrace groups dead ls {name}",
            )
        return found, orjson.loads(found.payload)

    def replay_dead(self, name: str, *numbers: int) -> int:
        """These dead letters (all, without any) are delivered again, as often as new ones; how many."""
        group, chosen = self.group(name), self._letters(name, numbers)
        for number in chosen:
            if self.letter(name, number)[1]["changes"] is None:
                raise HeadraceError(
                    "group.letter", f"the dead letter {number} cannot be delivered again",
                    why="what it held was not kept any more when it was given up",
                    next=f"headrace groups dead drop {name} {number}",
                )  # fmt: skip
        return self._opened().replay_dead(group, chosen)

    def drop_dead(self, name: str, *numbers: int) -> int:
        """These dead letters (all, without any) go for good; how many."""
        return self._opened().drop_dead(name, self._letters(name, numbers))

    def _letters(self, name: str, numbers: Sequence[int]) -> list[int]:
        known = [letter.number for letter in self.dead(name)]
        for number in numbers:
            if number not in known:
                self.letter(name, number)
        return list(numbers) or known

    # -- inside ---------------------------------------------------------------------------------------------

    def _again(self, group: Group, feed: Feed, consumer: str, most: int) -> list[GroupDelivery]:
        now_us = self._clock_us()
        entries, rows, count = dict[int, Entry](), list[Open](), 0
        for row in self._opened().due(group, now_us)[:most]:
            entries[row.commit] = _kept(row) or feed.at(row.commit, row.snapshot)
            rows.append(row)
            count += len(entries[row.commit].changes)
            if count >= ROWS_MAX:
                break
        if not rows:
            return []
        return [
            _delivery(row, entries[row.commit]) for row in self._opened().lease_again(group, rows, consumer, now_us)
        ]

    def _new(self, group: Group, feed: Feed, consumer: str, most: int, most_rows: int) -> list[GroupDelivery] | None:
        """None: another reader was first."""
        store = self._opened()
        room = min(most, group.in_flight - len(store.open(group.name)))
        if room <= 0:
            return []
        part = Part([], group.read)
        while not part.entries and part.upto < feed.end:
            part = feed.after(part.upto, room, most_rows)
        if part.entries:
            by_commit = {entry.commit: entry for entry in part.entries}
            leased = store.lease_new(group, list(by_commit), part.upto, consumer, self._clock_us())
            return [_delivery(row, by_commit[row.commit]) for row in leased] or None
        if part.upto - group.read >= SKIPPED:
            store.advance(group, part.upto)
        return []

    def _bury(self, group: Group) -> None:
        """What was delivered often enough becomes a dead letter, with all that it holds; where the view or the query is
        away, once it is there again."""
        store, now_us = self._opened(), self._clock_us()
        if not (dying := store.dying(group.name, now_us)):
            return
        try:
            feed = self._feed(group.kind, group.follows)
            version = feed.version
        except HeadraceError:
            return
        for row in dying:
            reason = row.reason if not row.leased and row.reason else TOLD.format(row.attempt)
            try:
                if row.payload is None and version != group.version:
                    raise NotKept
                entry = _kept(row) or feed.at(row.commit, row.snapshot)
                payload = orjson.dumps(_entry_dict(entry))
            except NotKept:
                payload = orjson.dumps({"changes": None})
            store.bury(group, row, reason, payload, now_us)

    def _shown(self, group: Group) -> dict[str, Any]:
        store, problem, end = self._opened(), "", group.read
        try:
            self._bury(group)
            feed = self._feed(group.kind, group.follows)
            end, _ = feed.end, feed.version  # which a view that is gone has not
        except HeadraceError as error:  # the view is gone, say, or the query
            problem = error.what
        now_us, rows = self._clock_us(), store.open(group.name)
        leased = sum(row.leased and row.until_us > now_us for row in rows)
        frontier = store.frontier(group)
        return {
            "name": group.name, "relation": group.follows, "kind": group.kind, "frontier": frontier,
            "read": group.read, "end": end, "lag": max(0, end - frontier), "in_flight": leased,
            "waiting": len(rows) - leased, "dead": store.dead_count(group.name), "lease_s": group.lease_us / 1e6,
            "max_deliveries": group.max_deliveries, "ordered": group.in_flight == 1, "hold": group.hold,
            "problem": problem,
        }  # fmt: skip

    def _named(self, name: str) -> tuple[str, str]:
        """(kind, name as it is spelled) of a feed: a view, else a table, else a stored query. A table that is dropped
        may be in the log still, which is looked through for it. Raises ``source.no_table``."""
        known = set[str]()
        for kind, names in self._feeds_by_kind():
            for spelled in names:
                if spelled.lower() == name.lower():
                    return kind, spelled
            known.update(names)
        raise history.unknown("view, table or stored query", name, known)

    def _feeds_by_kind(self) -> Iterator[tuple[str, Collection[str]]]:
        yield VIEW, self._catalogue().views()
        yield TABLE, self._catalogue().relations()
        yield QUERY, searches.names(self._path)
        yield TABLE, history.logged(self._path)

    def _start(self, start: str | int, kind: str, feed: Feed) -> int:
        if start == "now" or (start == "beginning" and kind != TABLE):
            return feed.end
        if start == "beginning":
            return feed.first
        if not isinstance(start, int) or isinstance(start, bool):
            raise HeadraceError(
                "group.invalid", f"a group cannot start at '{start}'", next="beginning, now, or a commit number"
            )
        if not feed.first <= start <= feed.end:
            raise HeadraceError(
                "group.position", f"the group cannot start after commit {start}",
                why=f"the feed is kept from commit {feed.first + 1} to {feed.end}",
                next="start at beginning, or at now",
            )  # fmt: skip
        return start

    def _feed(self, kind: str, name: str) -> Feed:
        """That of a query is of its file as it is now."""
        with self._lock:
            if kind == QUERY:
                view, keep = self._matched(name)
                feed = self._feeds.get((kind, name))
                if not isinstance(feed, ViewFeed) or (feed.relation, feed.keep) != (view, keep):
                    self._feeds[kind, name] = ViewFeed(self._catalogue(), view, keep)
            elif (kind, name) not in self._feeds:
                made = TableFeed(self._path, name) if kind == TABLE else ViewFeed(self._catalogue(), name)
                self._feeds[kind, name] = made
            return self._feeds[kind, name]

    def _matched(self, name: str) -> tuple[str, Keep]:
        """(view, what of it a stored query wants). Raises what is wrong with it: search.unknown, view.unknown, ..."""
        from headrace.serve.search.matching import Matched  # loads what search stands on
        from headrace.serve.search.stored import built

        query = built(searches.find(self._path, name), self._catalogue().views())
        return query.view, Matched(query.query)

    def _catalogue(self) -> Catalog:
        with self._lock:
            if self._catalog is None:
                self._catalog = Catalog(catalog_path(self._path), read_only=True)
            return self._catalog

    def _existing(self) -> GroupStore | None:
        """The groups there are; None before there was one."""
        with self._lock:
            if self._store is None and (self._path / STATE / FILE).exists():
                self._store = GroupStore(self._path / STATE / FILE)
            return self._store

    def _opened(self) -> GroupStore:
        store = self._existing()
        assert store is not None  # a group of it was found before
        return store


def _within(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise HeadraceError("group.invalid", f"'{name}' is from {least:g} to {most:g}, not {value:g}")


def _gone(group: Group, feed: Feed) -> HeadraceError:
    return HeadraceError(
        "group.position",
        f"the group '{group.name}' needs commits of {group.relation} that are not there",
        why=f"it has read up to commit {group.read}; the log has commits {feed.first + 1} to {feed.end}",
        next=f"headrace groups drop {group.name}, and create it anew where it shall begin",
    )


def _entry_dict(entry: Entry) -> dict[str, Any]:
    return {
        "committed_us": entry.committed_us, "source": entry.source, "snapshot": entry.snapshot,
        "changes": entry.changes,
    }  # fmt: skip


def _kept(row: Open) -> Entry | None:
    """What a dead letter that is sent again holds."""
    if row.payload is None:
        return None
    held = orjson.loads(row.payload)
    return Entry(row.commit, held["changes"], held["committed_us"], held["source"], held["snapshot"])


def _delivery(row: Open, entry: Entry) -> GroupDelivery:
    return GroupDelivery(
        delivery_id(row.commit, row.attempt), row.commit, row.attempt, entry.snapshot, time_text(entry.committed_us),
        entry.source, entry.changes,
    )  # fmt: skip
