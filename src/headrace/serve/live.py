"""Views as they change, followed once for all who follow them: whole steps, without gap or repeat.

One thread reads every published step of the views that somebody follows, takes at once all parts of it that filters
want, and spells each once. Each view, and each part of one, has a ring of the latest changes; a reader is a place in
it. So memory does not grow with readers. One that is too slow for the ring gets the contents anew; one that comes back
gets what it has missed, from the published files where the ring is too short for it.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from headrace.catalog.store import Catalog, StepRecord, ViewRecord
from headrace.model.delivery import WEIGHT
from headrace.model.errors import HeadraceError
from headrace.serve import snapshot
from headrace.serve.feed import weighted
from headrace.serve.mirror import Mirror
from headrace.serve.parts import Deltas, Keep, NotKept

LOOK_S = 0.02  # between two looks for a published step, while somebody follows
RING_EVENTS, RING_BYTES = 1_024, 16 << 20  # of a view's latest changes; of one that is larger, it alone
TAKEN_BYTES = 64 << 10  # a reader takes at a time: at least a change, and no more of them beyond these
PART_ROWS = 1_000  # of contents, sent at a time
SHARED_BYTES = (
    4 << 20
)  # contents that take no more are spelled once for all who begin while the ring reaches back to it
READERS = 4_096  # at once, of all views
READERS_OF_ONE = READERS // 4  # of one who follows: others find a place
FILTERED = 256  # parts of views that are followed at once
FILTERED_OF_ONE = FILTERED // 2  # that one began to follow
SMALLER = 16  # so many times is a part's ring smaller than a view's

Part = tuple[bytes, bool]  # the data of a part of a snapshot, and whether it is the last

TOO_SLOW = "changes came faster than they were taken"
NOT_KEPT = "the changes since then are not kept any more"
SWAPPED = "the view is another version now"


@dataclass(frozen=True, slots=True)
class Event:
    """``data``: JSON. Of ``snapshot`` and ``change`` ``{"commit", "rows": [{"row", "weight"}]}``, with ``last`` on
    each part of a snapshot; of ``progress`` ``{"commit"}``; of ``behind`` ``{"commit", "reason"}``: what the reader has
    is to be forgotten, and a snapshot follows, for readers without one a ``progress``. ``whole``: whether a reader has
    all of the commit once it has this.
    """

    kind: Literal["snapshot", "change", "progress", "behind"]
    commit: int
    data: bytes
    whole: bool = True


class Live:
    """The views of a project, for readers in any thread. ``on_change`` hears the name of a view with news.

    ``most``: readers at once, where fewer than ``READERS`` find room.
    """

    def __init__(
        self, project: Path, mirror: Mirror, on_change: Callable[[str], None] = lambda view: None, most: int = READERS
    ) -> None:
        self._most = most
        self._project, self._mirror, self.on_change = project, mirror, on_change
        self._lock = threading.Lock()
        self._followed: dict[tuple[str, Keep | None], _Followed] = {}
        self._catalog: Catalog | None = None
        self._wanted, self._closed = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self.readers = 0
        self._readers_of = Counter[str]()  # by who they are

    def subscribe(
        self,
        view: str,
        after: int | None = None,
        keep: Keep | None = None,
        whose: str | None = None,
        contents: bool = True,
    ) -> Reader:
        """A reader of a view, or of those rows of it that ``keep`` gives: from the contents on, or from the commit
        ``after`` that it has.

        ``whose``: the token that it is of, if any. ``contents``: whether it gets them from here; one that reads them
        elsewhere is told the commit after which its changes go on. Raises ``view.unknown``, and ``wait.busy`` beyond
        ``READERS``, ``READERS_OF_ONE`` and ``FILTERED``, and beyond ``most`` and half of that.
        """
        most, of_one = min(READERS, self._most), min(READERS_OF_ONE, self._most // 2)
        with self._lock:
            if self.readers >= most:
                raise HeadraceError("wait.busy", f"{most} follow views already", next="try again later")
            if whose is not None and self._readers_of[whose] >= of_one:
                raise HeadraceError(
                    "wait.busy", f"{of_one} follow views by this token already",
                    next="end some of them, or give others a token of their own",
                )  # fmt: skip
            catalog = self._opened()
            followed = self._followed.get((view, keep))
            if followed is None or followed.ended is not None:
                if keep is not None:
                    self._check_parts(whose)
                followed = self._followed[view, keep] = _Followed(catalog, view, self._mirror, keep, whose)
            followed.readers += 1
            self.readers += 1
            if whose is not None:
                self._readers_of[whose] += 1
        self._wanted.set()
        return Reader(self, followed, after, whose, contents)

    def _check_parts(self, whose: str | None) -> None:
        """Raises ``wait.busy`` where one more part of a view is one too many."""
        begun_by = [followed.begun_by for (_, keep), followed in self._followed.items() if keep is not None]
        if len(begun_by) >= FILTERED:
            raise HeadraceError(
                "wait.busy", f"{FILTERED} parts of views are followed already", next="follow the whole view"
            )
        if whose is not None and begun_by.count(whose) >= FILTERED_OF_ONE:
            raise HeadraceError(
                "wait.busy", f"{FILTERED_OF_ONE} parts of views are followed by this token already",
                next="follow the whole view, or give others a token of their own",
            )  # fmt: skip

    def leave(self, followed: _Followed, whose: str | None) -> None:
        with self._lock:
            followed.readers -= 1
            self.readers -= 1
            if whose is not None:
                self._readers_of -= Counter([whose])  # which forgets those of whom none is left
            of = followed.view, followed.keep
            if not followed.readers and self._followed.get(of) is followed:
                del self._followed[of]
            if not self._followed:
                self._wanted.clear()

    def end(self) -> None:
        """No more is followed: readers are told at once."""
        self._closed.set()
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            followed = list(self._followed.values())
        for each in followed:
            each.ended = HeadraceError(
                "project.not_running", "the project is stopping", next="follow again when it runs"
            )
            self.on_change(each.view)

    def close(self) -> None:
        """Once nobody reads any more."""
        self.end()
        with self._lock:
            if self._catalog is not None:
                self._catalog.close()

    @property
    def held(self) -> int:
        """Bytes of changes that are kept for readers."""
        with self._lock:
            return sum(followed.bytes for followed in self._followed.values())

    def _opened(self) -> Catalog:
        if self._catalog is None:
            self._catalog = Catalog(snapshot.catalog_path(self._project), read_only=True)
            self._thread = threading.Thread(target=self._run, args=(self._catalog,), name="headrace-live", daemon=True)
            self._thread.start()
        return self._catalog

    def _run(self, catalog: Catalog) -> None:
        seen = -1
        while not self._closed.is_set():
            self._wanted.wait()
            with self._lock:
                followed = list(self._followed.values())
            deltas = None
            try:
                if (now := catalog.changed) != seen:
                    deltas, seen = Deltas(catalog, _keeps(followed)), now
            except Exception as error:  # a disk that cannot be read, say: who connects again is told, or it is over
                for each in followed:
                    each.ended = error
                    self.on_change(each.view)
            if deltas is None:
                self._closed.wait(LOOK_S)
                continue
            parts = set[str]()  # views of which a part has news: their readers are woken once
            for each in sorted(followed, key=lambda each: each.keep is not None):
                try:
                    news = each.advance(deltas)
                except Exception as error:  # its readers are told; those of other views go on
                    each.ended, news = error, True
                if news and each.keep is None:
                    self.on_change(each.view)
                elif news:
                    parts.add(each.view)
            for view in parts:
                self.on_change(view)


class Reader:
    """One reader's place. ``begin`` brings it to the ring, which may read files; ``next`` never waits.

    As long as ``next`` gives None, ``begin`` is to be taken to its end.
    """

    def __init__(self, live: Live, followed: _Followed, after: int | None, whose: str | None, contents: bool) -> None:
        self._live, self._followed, self._whose, self._contents = live, followed, whose, contents
        self.commit = after  # that it has; None: nothing yet
        self._cursor: int | None = None  # the number of the next change of the ring; None: it is not there
        self._lost = False  # it was in the ring, and is not any more
        self._closed = False
        self._reason = NOT_KEPT  # why it gets the contents anew, if it had some before

    def begin(self) -> Iterator[Event]:
        """What it lacks up to where the ring begins: changes, the contents or their commit. Raises ``view.unknown``."""
        followed = self._followed
        if self.commit is not None and not self._lost:
            try:
                feed = followed.feed_of(self.commit)
                for event in followed.missed(feed, self.commit):
                    self.commit = event.commit
                    yield event
                self._cursor = followed.place(feed, self.commit)
            except NotKept:
                pass
        while self._cursor is None:
            if self.commit is not None:
                yield behind(self.commit, self._reason)
            if self._contents:
                feed, self.commit, parts = followed.contents()
                for part, last in parts:
                    yield Event("snapshot", self.commit, part, last)
            else:
                feed, self.commit = followed.newest()
                yield _event("progress", self.commit)
            self._lost, self._reason = False, TOO_SLOW
            self._cursor = followed.place(feed, self.commit)

    def next(self) -> list[Event] | None:
        """The next changes that are there by now. Raises what has ended it: ``view.unknown`` once the view is gone."""
        if self._cursor is None:
            return None
        found = self._followed.after(self._cursor)
        if found is None:
            self._cursor, self._lost, self._reason = None, True, self._followed.reason
            return None
        self._cursor += len(found)
        had = self.commit or 0
        news = [event for event in found if event.commit > had]  # contents may be ahead of the ring
        if news:
            self.commit = news[-1].commit
        return news

    def progress(self) -> Event | None:
        """That the view has reached a later commit without another change of it."""
        reached = self._followed.reached(self._cursor)
        if reached is None or self.commit is None or reached <= self.commit:
            return None
        self.commit = reached
        return _event("progress", reached)

    def close(self) -> None:
        """Once, or again."""
        if not self._closed:
            self._closed = True
            self._live.leave(self._followed, self._whose)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class _Followed:
    """A view that somebody follows: the changes of commits (``_floor``, ``_commit``] in a ring, numbered from 0 on."""

    def __init__(
        self, catalog: Catalog, view: str, mirror: Mirror, keep: Keep | None, begun_by: str | None
    ) -> None:  # fmt: skip
        self.begun_by = begun_by  # the token of its first reader
        self.keep, smaller = keep, 1 if keep is None else SMALLER
        self._ring_bytes, self._shared_bytes = RING_BYTES // smaller, SHARED_BYTES // smaller
        self.view, self.readers, self.reason, self.bytes = view, 0, TOO_SLOW, 0
        self.ended: Exception | None = None
        self._catalog, self._mirror = catalog, mirror
        self._lock = threading.Lock()
        self._ring: deque[Event] = deque()
        self._first = 0  # the number of the ring's first change
        self._shared: tuple[str, int, list[Part]] | None = None
        last, record = catalog.last_published(), snapshot.known(catalog, view)
        self._record = record
        self._number, self._commit = (last.number, last.upto) if last else (-1, 0)
        self._floor = self._commit

    # -- the thread that follows

    def advance(self, deltas: Deltas) -> bool:
        """Take what has been published since; whether that is news to readers. Raises ``view.unknown``."""
        last, record = deltas.last, deltas.record(self.view)
        if self.ended is not None or last is None or (record.feed == self._record.feed and last.number == self._number):
            return False
        events = None if record.feed != self._record.feed else self._read(deltas, record, last)
        with self._lock:
            if events is None:
                self.reason = SWAPPED if record.feed != self._record.feed else NOT_KEPT
                self._first += len(self._ring) + 1  # so that nobody's place is in the ring
                self._ring.clear()
                self.bytes, self._floor, self._shared = 0, last.upto, None
            for event in events or ():
                self._ring.append(event)
                self.bytes += len(event.data)
            while len(self._ring) > 1 and (len(self._ring) > RING_EVENTS or self.bytes > self._ring_bytes):
                left = self._ring.popleft()
                self._first, self._floor, self.reason = self._first + 1, left.commit, TOO_SLOW
                self.bytes -= len(left.data)
            self._record, self._number, self._commit = record, last.number, last.upto
        return events is None or bool(events)

    def _read(self, deltas: Deltas, record: ViewRecord, last: StepRecord) -> list[Event] | None:
        """The changes up to that step; None: something of them is not kept any more."""
        try:
            found = deltas.between(record, self.keep, self._number, self._commit, last.number)
            return [_change(commit, delta) for commit, delta in found]
        except NotKept:
            return None

    # -- readers

    def place(self, feed: str, commit: int) -> int | None:
        """Where a reader goes on that has ``commit``; None: the ring does not reach back to it. It may have some."""
        with self._lock:
            return self._first if feed == self._record.feed and commit >= self._floor else None

    def after(self, cursor: int) -> list[Event] | None:
        """The next changes from that number on; None: they are not in the ring any more."""
        if self.ended is not None:
            raise self.ended
        with self._lock:
            if cursor < self._first:
                return None
            found, size = list[Event](), 0
            for place in range(cursor - self._first, len(self._ring)):
                found.append(self._ring[place])
                size += len(found[-1].data)
                if size >= TAKEN_BYTES:
                    break
            return found

    def reached(self, cursor: int | None) -> int | None:
        """The commit that the view has reached, for a reader that has all changes; None for another."""
        with self._lock:
            return self._commit if cursor == self._first + len(self._ring) else None

    def feed_of(self, commit: int) -> str:
        """The feed whose changes a reader goes on with that has the contents at ``commit``. Raises ``NotKept``."""
        record, last = snapshot.known(self._catalog, self.view), self._catalog.last_published()
        # One of the version before may have been at the commit at which this one was swapped in.
        swapped = commit < record.created_commit or (commit == record.created_commit and record.schema.version > 1)
        inside = any(step.after < commit < step.upto and not step.shape.each for step in self._catalog.steps())
        if last is None or commit > last.upto or swapped or inside:
            raise NotKept
        return record.feed

    def missed(self, feed: str, commit: int) -> Iterator[Event]:
        """The changes after ``commit`` that the ring does not have any more, from files. Raises ``NotKept``."""
        deltas, record = Deltas(self._catalog, {}), snapshot.known(self._catalog, self.view)
        last = deltas.last
        if last is None or self.place(feed, commit) is not None:
            return
        if record.feed != feed:
            raise NotKept
        for at, delta in deltas.between(record, self.keep, -1, commit, last.number):
            yield _change(at, delta)
        yield _event("progress", last.upto)

    def newest(self) -> tuple[str, int]:
        """(feed, the last commit that the ring knows of)."""
        with self._lock:
            return self._record.feed, self._commit

    def contents(self) -> tuple[str, int, Iterator[Part]]:
        """(feed, commit, the parts of a snapshot)."""
        with self._lock:
            shared = self._shared
            if shared is not None and shared[0] == self._record.feed and shared[1] >= self._floor:
                return shared[0], shared[1], iter(shared[2])
        for _ in range(snapshot.ATTEMPTS):
            record = snapshot.known(self._catalog, self.view)
            moment = self._mirror.moment([self.view])
            if snapshot.known(self._catalog, self.view).feed == record.feed:
                rows = self._kept(record, moment.contents[self.view].table())
                return record.feed, moment.commit, self._parts(record.feed, moment.commit, rows)
        raise HeadraceError("state.missing", f"the view {self.view} changes faster than it can be read")

    def _kept(self, record: ViewRecord, rows: pa.Table) -> pa.Table:
        if self.keep is None:
            return rows
        (part,) = self.keep.together(record.schema, rows, [self.keep])
        if isinstance(part, HeadraceError):
            raise part
        return part

    def _parts(self, feed: str, commit: int, rows: pa.Table) -> Iterator[Part]:
        """Spelled piece by piece, and kept for others if that is little. ``rows``: as ``Contents.table`` gives them."""
        kept, size = list[Part](), 0
        for begin in range(0, max(rows.num_rows, 1), PART_ROWS):
            last, part = begin + PART_ROWS >= rows.num_rows, rows.slice(begin, PART_ROWS)
            spelled = _json(commit=commit, rows=weighted(part.filter(pc.greater(part[WEIGHT], 0))), last=last)
            size += len(spelled)
            if size <= self._shared_bytes:
                kept.append((spelled, last))
            yield spelled, last
        if size <= self._shared_bytes:
            with self._lock:
                self._shared = (feed, commit, kept)


def _keeps(followed: Iterable[_Followed]) -> dict[str, list[Keep]]:
    """The parts that are followed, by view."""
    found = dict[str, list[Keep]]()
    for each in followed:
        if each.keep is not None:
            found.setdefault(each.view, []).append(each.keep)
    return found


def behind(commit: int, reason: str) -> Event:
    return _event("behind", commit, reason=reason)


def nothing(commit: int) -> Event:
    """Contents without a row."""
    return Event("snapshot", commit, _json(commit=commit, rows=[], last=True))


def _change(commit: int, delta: pa.Table) -> Event:
    return _event("change", commit, rows=weighted(delta))


def _event(kind: Literal["change", "progress", "behind"], commit: int, **more: Any) -> Event:
    return Event(kind, commit, _json(commit=commit, **more), kind != "behind")


def _json(**values: Any) -> bytes:
    return orjson.dumps(values)
