"""Goal: who follows a view has, after every event, exactly what the view held at that commit, however it came there.

Method: views published by hand from random histories while readers connect, drop and resume, in threads of their own;
oracle: the rows that the test adds up itself, commit by commit.
"""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest

from headrace.catalog.store import Catalog
from headrace.model.errors import HeadraceError
from headrace.serve import live as live_module
from headrace.serve import snapshot
from headrace.serve.live import Event, Live, Reader
from headrace.serve.mirror import Mirror
from published_view import Published, Rows, Versions

WAIT_S = 20.0


class Following:
    """What a client makes of the events: its rows, and the commit that they are of."""

    def __init__(self) -> None:
        self.rows, self.commit = Rows(), -1
        self.kinds: Counter[str] = Counter()

    def take(self, event: Event) -> bool:
        """Whether the rows are whole now."""
        told = orjson.loads(event.data)
        self.kinds[event.kind] += 1
        assert told["commit"] == event.commit
        assert event.whole == (told["last"] if event.kind == "snapshot" else event.kind != "behind")
        assert event.kind != "change" or event.commit > self.commit
        if event.kind == "behind":
            self.rows, self.commit = Rows(), -1
        for change in told.get("rows", ()):
            self.rows[change["row"]["id"], change["row"]["n"]] += change["weight"]
        self.rows = Rows({row: count for row, count in self.rows.items() if count})
        self.commit = event.commit if event.whole else -1
        return event.whole


class Elsewhere(Following):
    """One that reads the contents elsewhere, at the commit that it is told."""

    def __init__(self, published: Published) -> None:
        super().__init__()
        self._published = published

    def take(self, event: Event) -> bool:
        assert event.kind != "snapshot" and (event.kind != "change" or self.commit >= 0)
        if self.commit < 0 and event.kind == "progress":
            self.rows = Rows(self._published.held[event.commit])
        return super().take(event)


def subscribed(live: Live, client: Following) -> Reader:
    after, contents = client.commit if client.commit >= 0 else None, not isinstance(client, Elsewhere)
    return live.subscribe("sums", after, contents=contents)


def taken(reader: Reader, following: Following, published: Published) -> None:
    """All that is there for a reader by now; after each event its rows are those of that commit."""
    news = reader.next()
    for event in reader.begin() if news is None else news:
        if following.take(event):
            assert following.rows == published.held[event.commit], event


@contextmanager
def following(published: Published) -> Iterator[Live]:
    live = Live(published.folder, Mirror(published.folder))
    try:
        yield live
    finally:
        live.close()


def until(reader: Reader, client: Following, published: Published, commit: int) -> None:
    end = time.monotonic() + WAIT_S
    while client.commit < commit:
        assert time.monotonic() < end, f"at {client.commit}, not {commit}"
        taken(reader, client, published)
        if client.commit < commit and (progress := reader.progress()) is not None:
            client.take(progress)
            assert client.rows == published.held[progress.commit]
        time.sleep(0.002)


@pytest.mark.parametrize("seed", range(3))
def test_readers_that_connect_drop_and_resume_have_what_the_view_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Steps of one and of several commits, told apart or not, while bases are made, the past goes, versions swap."""
    monkeypatch.setattr(live_module, "RING_EVENTS", 6)  # so that slow readers fall out of it
    monkeypatch.setattr(live_module, "PART_ROWS", 3)
    published, failures = Versions(tmp_path / "shop"), list[BaseException]()
    published.step([published.changes(random.Random(seed))])
    over, clients = threading.Event(), [Following() if n % 2 else Elsewhere(published) for n in range(8)]

    def read(client: Following, rng: random.Random, live: Live) -> None:
        try:
            while not over.is_set():
                with subscribed(live, client) as reader:
                    if client.commit < 0:
                        client.rows = Rows()
                    for _ in range(rng.randrange(1, 30)):
                        taken(reader, client, published)
                        time.sleep(rng.choice([0, 0.001, 0.02, 0.15]))
        except BaseException as error:
            failures.append(error)
            raise

    rng = random.Random(seed)
    with following(published) as live:
        threads = [threading.Thread(target=read, args=(c, random.Random(n), live)) for n, c in enumerate(clients)]
        for thread in threads:
            thread.start()
        for _ in range(60):
            published.step([published.changes(rng) for _ in range(rng.choice([1, 1, 3]))], each=rng.random() < 0.5)
            if rng.random() < 0.1:
                published.base()
            if rng.random() < 0.05:
                published.forget(kept=3)
            time.sleep(rng.choice([0, 0.002, 0.03]))
        over.set()
        for thread in threads:
            thread.join()
        assert not failures
        for client in clients:
            with subscribed(live, client) as reader:
                if client.commit < 0:
                    client.rows = Rows()
                until(reader, client, published, published.upto)
            assert client.rows == published.held[published.upto]
        assert live.readers == 0
    for kind, wanted in (Following, "snapshot change behind"), (Elsewhere, "progress change behind"):
        seen = sum((client.kinds for client in clients if type(client) is kind), Counter[str]())
        assert min(seen[each] for each in wanted.split()) > 0, seen


def test_a_reader_that_comes_back_gets_what_it_missed_and_nothing_twice(tmp_path: Path) -> None:
    published, rng, client = Published(tmp_path / "shop"), random.Random(3), Following()
    for _ in range(5):
        published.step([published.changes(rng)])
    with following(published) as live:
        with live.subscribe("sums") as reader:
            until(reader, client, published, 5)
        assert client.kinds == {"snapshot": 1}
        for _ in range(20):
            published.step([published.changes(rng), published.changes(rng)])
        with live.subscribe("sums", client.commit) as reader:
            until(reader, client, published, 45)
            published.step([published.changes(rng)])
            until(reader, client, published, 46)
        assert client.kinds["snapshot"] == 1 and client.kinds["behind"] == 0
        assert client.kinds["change"] <= 21


@pytest.mark.parametrize("after", [3, 7, 99])
def test_who_comes_from_inside_a_step_from_before_what_is_kept_or_from_nowhere_begins_anew(
    tmp_path: Path, after: int
) -> None:
    published, rng, client = Versions(tmp_path / "shop"), random.Random(4), Following()
    for _ in range(4):
        published.step([published.changes(rng), published.changes(rng)])
    if after == 3:
        published.base()
        published.forget(kept=1)
        published.step([published.changes(rng)])
    with following(published) as live, live.subscribe("sums", after) as reader:
        client.commit = 0
        until(reader, client, published, published.upto)
    assert client.kinds == {"behind": 1, "snapshot": 1}


def test_another_version_is_told_to_who_follows_and_to_who_comes_back(tmp_path: Path) -> None:
    """Also to one that was at the very commit at which it was swapped in."""
    published, rng, client, other = Versions(tmp_path / "shop"), random.Random(5), Following(), Following()
    published.step([published.changes(rng), published.changes(rng), published.changes(rng)])
    with following(published) as live:
        with live.subscribe("sums") as reader:
            until(reader, client, published, 3)
            other.rows, other.commit = client.rows.copy(), client.commit
            published.swap()
            end = time.monotonic() + WAIT_S
            while not client.kinds["behind"] and time.monotonic() < end:
                taken(reader, client, published)
                time.sleep(0.01)
            assert client.rows == published.held[3] and client.kinds["behind"] == 1
        with live.subscribe("sums", other.commit) as reader:
            taken(reader, other, published)
        assert other.rows == published.held[3] and other.kinds["behind"] == 1
        elsewhere = Elsewhere(published)
        elsewhere.commit = 3
        with subscribed(live, elsewhere) as reader:
            taken(reader, elsewhere, published)
            assert elsewhere.kinds == {"behind": 1, "progress": 1}
            published.step([Rows({(1, 1): 1})])
            published.held.append(published.held[3] + Rows({(1, 1): 1}))
            until(reader, elsewhere, published, 4)


def test_a_view_that_goes_ends_its_readers_and_is_unknown_from_then_on(tmp_path: Path) -> None:
    published, client = Published(tmp_path / "shop"), Following()
    published.step([published.changes(random.Random(6))])
    with following(published) as live, live.subscribe("sums") as reader:
        until(reader, client, published, 1)
        published.catalog.drop_view("sums", 0)
        with pytest.raises(HeadraceError, match=r"view\.unknown"):
            until(reader, client, published, 2)
        with pytest.raises(HeadraceError, match=r"view\.unknown"):
            live.subscribe("sums")


def test_a_catalogue_that_cannot_be_read_ends_its_readers_and_nobody_after_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published, client = Published(tmp_path / "shop"), Following()
    published.step([published.changes(random.Random(8))])

    def broken(catalog: Catalog) -> int:
        raise sqlite3.OperationalError("disk I/O error")

    with following(published) as live:
        with live.subscribe("sums") as reader:
            until(reader, client, published, 1)
            with monkeypatch.context() as patch:
                patch.setattr(Catalog, "changed", property(broken))
                with pytest.raises(sqlite3.OperationalError):
                    until(reader, client, published, 2)
        with live.subscribe("sums", client.commit) as again:
            published.step([published.changes(random.Random(9))])
            until(again, client, published, 2)


def test_readers_beyond_the_limit_are_told_to_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_module, "READERS", 1)
    published = Published(tmp_path / "shop")
    with following(published) as live:
        with live.subscribe("sums"), pytest.raises(HeadraceError, match=r"wait\.busy"):
            live.subscribe("sums")
        live.subscribe("sums").close()


def test_one_who_follows_leaves_room_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_module, "READERS_OF_ONE", 2)
    published = Published(tmp_path / "shop")
    with following(published) as live:
        mine = [live.subscribe("sums", whose="ann") for _ in range(2)]
        with pytest.raises(HeadraceError, match=r"wait\.busy"):
            live.subscribe("sums", whose="ann")
        others = [live.subscribe("sums", whose=whose) for whose in ("bob", None, None, None)]
        for reader in (mine[0], mine[0], others[0]):
            reader.close()
        again = live.subscribe("sums", whose="ann")
        with pytest.raises(HeadraceError, match=r"wait\.busy"):
            live.subscribe("sums", whose="ann")
        for reader in (*mine, *others, again):
            reader.close()
        assert live.readers == 0


def test_a_step_without_a_change_of_the_view_is_progress(tmp_path: Path) -> None:
    published, client = Published(tmp_path / "shop"), Following()
    published.step([published.changes(random.Random(7))])
    with following(published) as live, live.subscribe("sums") as reader:
        until(reader, client, published, 1)
        published.held.append(published.held[-1])
        published.step([Rows()])
        until(reader, client, published, 2)
    assert client.kinds["progress"] == 1 and snapshot.contents(published.folder, "sums")[0] == 2
