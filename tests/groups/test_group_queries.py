"""Goal: a group over a stored query gets all that it matches first, then what each step lets begin and cease to match,
whole; all anew once the query or its view is another; and an error with a next step while there is none.

Method: random steps of a view written here as the engine writes them, queries that are words, what they match by a
plain look at the words of each row; what readers have acknowledged is added up and held against it after every step.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import orjson
import pytest
from benchmarks.published import PublishedView

import headrace
from headrace.catalog import searches
from headrace.catalog.groups import FILE, GroupStore, needed
from headrace.engine.forget import forget
from headrace.model.definition import StoredQuery
from headrace.model.errors import HeadraceError
from headrace.serve.feed import ViewFeed
from headrace.serve.groups import Groups
from published_view import Published

COLUMNS = {"id": "bigint", "note": "string"}
WORDS = ("late", "lost", "paid", "parcel")
READER = """
import sys, time, orjson, headrace
with headrace.subscribe("g", consumer="r", project=sys.argv[1]) as reader:
    for delivery in reader:
        print(orjson.dumps([delivery.commit, delivery.snapshot, delivery.changes]).decode(), flush=True)
        input()  # its place is the test's word
        reader.ack(delivery)
        print("acknowledged", flush=True)
"""


class Orders:
    """A view of (id, note), whose rows come, go and change their words."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.rng, self.now = folder, random.Random(seed), 1_000_000
        self.view = PublishedView(folder, "orders", COLUMNS)
        self.held: dict[int, str] = {}
        self.at = {0: dict[int, str]()}  # commit -> rows

    def step(self) -> int:
        delta = list[tuple[tuple[int, str], int]]()
        for id in self.rng.sample(range(12), 4):
            if id in self.held:
                delta.append(((id, self.held.pop(id)), -1))
            if self.rng.random() < 0.7:
                self.held[id] = " ".join(self.rng.sample(WORDS, 2))
                delta.append(((id, self.held[id]), 1))
        commit = self.view.publish([change for change in delta if (change[0], -change[1]) not in delta])
        self.at[commit] = dict(self.held)
        return commit

    def matches(self, word: str, commit: int) -> Counter[tuple[int, str]]:
        return Counter((id, note) for id, note in self.at[commit].items() if word in note.split())

    def forget(self) -> None:
        """As the engine does it: what no group holds goes, into a base before."""
        self.view.rebase([(row, 1) for row in self.held.items()])
        live = {self.view.feed}
        forget(self.view.catalog, self.view.step, self.view.step, self.view.commit, live, self.needed())

    def needed(self) -> dict[str, int] | None:
        return needed(self.folder / ".headrace" / FILE, tables=False)

    def groups(self) -> Groups:
        return Groups(self.folder, lambda: self.now)


class Taken:
    """Adds up what was acknowledged, as the rules of a group say."""

    def __init__(self) -> None:
        self.commit, self.rows, self.snapshots = 0, Counter[tuple[int, str]](), 0

    def take(self, commit: int, snapshot: bool, changes: object) -> None:
        assert snapshot or commit > self.commit
        if snapshot:
            self.rows, self.snapshots = Counter(), self.snapshots + 1
        assert isinstance(changes, list)
        assert changes or snapshot  # a step without a change of the matches is of no concern
        for change in changes:
            self.rows[change["row"]["id"], change["row"]["note"]] += change["weight"]
        assert min(self.rows.values(), default=0) >= 0
        self.commit, self.rows = commit, +self.rows


def drain(groups: Groups, taken: Taken) -> None:
    while found := groups.read("g", "r", 3):
        for delivery in found:
            taken.take(delivery.commit, delivery.snapshot, delivery.changes)
        groups.ack("g", *(delivery.id for delivery in found))


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    made = Orders(tmp_path / "project", 5)
    for _ in range(3):
        made.step()
    searches.add(made.folder, StoredQuery("Urgent", "ORDERS", "late"))
    return made


@pytest.mark.parametrize("seed", range(3))
def test_what_is_acknowledged_adds_up_to_what_matches_after_every_step(tmp_path: Path, seed: int) -> None:
    orders, taken, word, made, came = Orders(tmp_path / "project", seed), Taken(), "late", 1, 1
    orders.step()
    searches.add(orders.folder, StoredQuery("urgent", "orders", word))
    groups = orders.groups()
    shown = groups.create("g", "URGENT")
    assert (shown["relation"], shown["kind"]) == ("urgent", "query")
    for _ in range(40):
        commit = orders.step()
        match orders.rng.randrange(8):
            case 0:
                before, word = word, orders.rng.choice(WORDS)
                searches.change(orders.folder, StoredQuery("urgent", "orders", word))
                came += before != word
            case 1:  # somebody takes it and dies
                groups.read("g", "dead", orders.rng.randrange(1, 3))
                orders.now += 31_000_000
                groups.close()
                groups = orders.groups()
            case 2:
                made += 1
                came += 1
                orders.view.put_version(made)
                commit = orders.view.publish([(row, 1) for row in orders.held.items()])
                orders.at[commit] = dict(orders.held)
            case 3:
                orders.forget()
            case 4:
                continue  # the reader is slow
        drain(groups, taken)
        assert taken.rows == orders.matches(word, commit), f"seed {seed}, commit {commit}"
    drain(groups, taken)
    assert taken.rows == orders.matches(word, orders.view.commit)
    assert 1 < taken.snapshots <= came  # two changes at once are one
    assert groups.entries()[0]["lag"] < 40 * 10


def test_of_steps_with_each_transaction_apart_each_comes_whole(tmp_path: Path) -> None:
    published, rng, held = Published(tmp_path / "shop"), random.Random(4), Counter[tuple[int, int]]()
    searches.add(published.folder, StoredQuery("large", "sums", "n:>=3"))
    groups = Groups(published.folder)
    groups.create("g", "large")
    for _ in range(20):
        published.step([published.changes(rng) for _ in range(3)], each=True)
        while found := groups.read("g", "r", 2):
            for delivery in found:
                for change in delivery.changes:
                    held[change["row"]["id"], change["row"]["n"]] += change["weight"]
                wanted = {row: n for row, n in published.held[delivery.commit].items() if row[1] >= 3}
                assert {row: n for row, n in held.items() if n} == wanted, delivery.commit
            groups.ack("g", *(delivery.id for delivery in found))
    assert {row: n for row, n in held.items() if n} == {
        row: n for row, n in published.held[published.upto].items() if row[1] >= 3
    }


def test_steps_are_kept_for_a_group_of_a_query_until_they_are_acknowledged(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.engine.forget.RETAINED_STEPS", 2)
    groups, taken = orders.groups(), Taken()
    groups.create("g", "urgent")
    drain(groups, taken)
    read = groups.group("g").read
    for _ in range(10):
        orders.step()
    orders.forget()
    assert orders.needed() == {"orders": read + 1}
    searches.remove(orders.folder, "urgent")  # by mistake: the steps wait for it
    orders.forget()
    with pytest.raises(HeadraceError) as gone:
        groups.read("g")
    assert (gone.value.code, "headrace queries add" in gone.value.next) == ("search.unknown", True)
    assert "Urgent" in groups.entries()[0]["problem"]
    searches.add(orders.folder, StoredQuery("urgent", "orders", "late"))
    drain(groups, taken)
    assert (taken.rows, taken.snapshots) == (orders.matches("late", orders.view.commit), 1)
    groups.drop("g")
    groups.create("g", "urgent", hold=False)
    drain(groups, loose := Taken())
    for _ in range(10):
        orders.step()
    orders.forget()
    assert (orders.needed(), len(orders.view.catalog.steps()) < 5) == ({}, True)
    drain(groups, loose)
    assert (loose.rows, loose.snapshots) == (orders.matches("late", orders.view.commit), 2)


def test_a_query_with_a_mistake_or_of_another_view_is_told_and_nothing_is_lost(orders: Orders) -> None:
    groups, taken = orders.groups(), Taken()
    groups.create("g", "urgent")
    drain(groups, taken)
    orders.step()
    for text, view, code in (("note:(", "orders", "search.query"), ("late", "invoices", "view.unknown")):
        searches.change(orders.folder, StoredQuery("Urgent", view, text))
        with pytest.raises(HeadraceError) as wrong:
            groups.read("g")
        assert (wrong.value.code, wrong.value.where) == (code, "searches/Urgent.yaml")
        assert wrong.value.next
        with pytest.raises(HeadraceError, match=wrong.value.code.replace(".", r"\.")):
            groups.create("other", "urgent")
    searches.change(orders.folder, StoredQuery("Urgent", "orders", "late"))
    drain(groups, taken)
    assert (taken.rows, taken.snapshots) == (orders.matches("late", orders.view.commit), 1)


def test_a_subscription_in_python_follows_a_query_by_its_name(orders: Orders) -> None:
    with headrace.subscribe("g", "URGENT", project=orders.folder) as reader:
        (contents,) = reader.read()
        found = Counter((change["row"]["id"], change["row"]["note"]) for change in contents.changes)
        assert found == orders.matches("late", orders.view.commit)
        assert reader.ack(contents) == 1
    with (
        pytest.raises(HeadraceError, match="follows Urgent, not orders"),
        headrace.subscribe("g", "orders", project=orders.folder),
    ):
        pass


def test_a_relation_goes_before_a_query_of_its_name(orders: Orders) -> None:
    searches.add(orders.folder, StoredQuery("orders", "orders", "late"))
    assert orders.groups().create("g", "orders")["kind"] == "view"


def test_what_is_given_back_too_often_is_kept_as_it_was(orders: Orders) -> None:
    groups = orders.groups()
    groups.create("g", "urgent", max_deliveries=1, start="now")
    while not (found := groups.read("g", "r")):
        orders.step()
    groups.nack("g", found[0].id, reason="no")
    (letter,) = groups.dead("g")
    assert (letter.commit, letter.reason) == (found[0].commit, "no")
    searches.change(orders.folder, StoredQuery("Urgent", "orders", "paid"))
    assert groups.letter("g", letter.number)[1]["changes"] == list(found[0].changes)


def test_what_comes_anew_without_a_new_commit_has_an_id_of_its_own(orders: Orders) -> None:
    groups, ids, words = orders.groups(), list[str](), ("paid", "lost", "late")
    groups.create("g", "urgent")
    for word in words:
        (contents,) = groups.read("g", "r")
        assert contents.snapshot
        ids.append(contents.id)
        assert groups.ack("g", contents.id) == 1
        assert groups.ack("g", *ids) == 0  # acknowledged again: no other delivery is taken for it
        searches.change(orders.folder, StoredQuery("Urgent", "orders", word))
    assert ids == [f"{orders.view.commit}.{n}" for n in (1, 2, 3)]
    (last,) = groups.read("g", "r")
    with pytest.raises(HeadraceError, match=rf"{ids[2]} was delivered again as {last.id}"):
        groups.ack("g", ids[2])
    assert groups.ack("g", last.id) == 1
    commit = orders.step()
    while not (found := groups.read("g", "r")):
        commit = orders.step()
    assert found[0].id == f"{commit}.1"


class Died(Exception):
    """In the place of a kill."""


def begun_by_another(orders: Orders, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The query gets another word; somebody begins the group anew, and dies before it takes what comes."""

    def dies(feed: ViewFeed, commit: int, is_snapshot: bool) -> object:
        raise Died

    searches.change(orders.folder, StoredQuery("Urgent", "orders", word))
    with monkeypatch.context() as dying:
        dying.setattr(ViewFeed, "at", dies)
        with pytest.raises(Died):
            orders.groups().read("g", "other")


@pytest.mark.parametrize("again", ["delivered", "buried"])
def test_what_was_read_by_the_words_before_is_not_taken_for_what_came_anew(
    orders: Orders, monkeypatch: pytest.MonkeyPatch, again: str
) -> None:
    groups, taken, commit, at = orders.groups(), Taken(), orders.view.commit, ViewFeed.at
    groups.create("g", "urgent", max_deliveries=5 if again == "delivered" else 1)
    (old,) = groups.read("g", "r")

    def slow(feed: ViewFeed, commit: int, is_snapshot: bool) -> object:
        entry = at(feed, commit, is_snapshot)
        begun_by_another(orders, "paid", monkeypatch)
        monkeypatch.setattr(ViewFeed, "at", at)
        return entry

    monkeypatch.setattr(ViewFeed, "at", slow)
    if again == "delivered":
        orders.now += 31_000_000
        assert groups.read("g", "r") == []
    else:
        assert groups.nack("g", old.id, reason="no") == 1
    assert groups.dead("g") == []
    drain(groups, taken)
    assert (taken.rows, taken.snapshots) == (orders.matches("paid", commit), 1)
    assert taken.rows != orders.matches("late", commit)


def test_commits_without_a_match_of_the_words_before_are_not_passed_over(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches.change(orders.folder, StoredQuery("Urgent", "orders", "nowhere"))
    groups, taken, before = orders.groups(), Taken(), orders.view.commit
    groups.create("g", "urgent")
    drain(groups, taken)
    read = groups.group("g")
    begun_by_another(orders, "paid", monkeypatch)
    with closing(GroupStore(orders.folder / ".headrace" / FILE)) as store:
        store.advance(read, orders.step())  # by who looked for what has the words before
    drain(groups, taken)
    assert taken.rows == orders.matches("paid", orders.view.commit) != orders.matches("paid", before)


def test_what_is_to_die_while_the_query_is_away_dies_once_it_is_there(orders: Orders) -> None:
    groups = orders.groups()
    groups.create("g", "urgent", max_deliveries=1)
    (first,) = groups.read("g", "r")
    groups.nack("g", first.id, reason="first")
    while not (second := groups.read("g", "r")):
        orders.step()
    searches.remove(orders.folder, "urgent")
    assert groups.nack("g", second[0].id, reason="second") == 1
    (letter,) = groups.dead("g")
    assert letter.reason == "first"
    assert groups.replay_dead("g", letter.number) == 1
    searches.add(orders.folder, StoredQuery("urgent", "orders", "late"))
    (letter,) = groups.dead("g")
    assert (letter.reason, letter.commit) == ("second", second[0].commit)
    assert groups.letter("g", letter.number)[1]["changes"] == list(second[0].changes)


def test_a_dead_letter_at_the_commit_of_contents_that_come_anew_is_kept_and_has_an_id_of_its_own(
    orders: Orders,
) -> None:
    groups = orders.groups()
    groups.create("g", "urgent", max_deliveries=1, start="now")
    while not (found := groups.read("g", "r")):
        orders.step()
    (old,) = found
    groups.nack("g", old.id, reason="no")
    groups.replay_dead("g")
    searches.change(orders.folder, StoredQuery("Urgent", "orders", "paid"))
    (contents,) = groups.read("g", "r")
    assert (contents.snapshot, contents.commit) == (True, old.commit)
    (letter,) = groups.dead("g")
    assert (letter.commit, "came anew" in letter.reason) == (old.commit, True)
    assert groups.letter("g", letter.number)[1]["changes"] == list(old.changes)
    assert groups.ack("g", contents.id) == 1
    assert groups.replay_dead("g") == 1
    (again,) = groups.read("g", "r")
    groups.nack("g", again.id, reason="no")
    while not (later := groups.read("g", "r")):
        orders.step()
    groups.ack("g", *(each.id for each in later))
    assert groups.replay_dead("g") == 1
    (last,) = groups.read("g", "r")
    ids = [old.id, contents.id, again.id, last.id]
    assert ids == [f"{old.commit}.{n}" for n in (1, 2, 3, 4)]
    assert list(last.changes) == list(old.changes)
    with pytest.raises(HeadraceError, match=rf"{contents.id} was delivered again as {last.id}"):
        groups.ack("g", contents.id)  # a second time: the letter is not settled by it
    assert groups.ack("g", last.id) == 1


@pytest.mark.parametrize("stray", ["late.yml", "2024-late.yaml", "URGENT.yaml", "more/late.yaml"])
def test_a_stray_file_beside_the_queries_ends_no_group(orders: Orders, stray: str) -> None:
    groups, taken = orders.groups(), Taken()
    groups.create("of_view", "orders", start="now")
    path = orders.folder / "searches" / stray
    path.parent.mkdir(exist_ok=True)
    path.write_text("view: orders\nquery: lost\n")
    with headrace.subscribe("of_view", "orders", project=orders.folder) as reader:
        assert reader.read() == []
    with headrace.subscribe("new", "orders", project=orders.folder) as reader:
        assert reader.read()[0].snapshot
    groups.create("g", "urgent")
    orders.step()
    drain(groups, taken)
    assert taken.rows == orders.matches("lost" if stray == "URGENT.yaml" else "late", orders.view.commit)


def test_a_reader_that_is_killed_is_followed_by_one_that_gets_what_it_had(orders: Orders) -> None:
    orders.groups().create("g", "urgent", lease_s=8, ordered=True)
    taken, readers = Taken(), list[subprocess.Popen[str]]()

    def reading() -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", READER, str(orders.folder)]
        readers.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=os.environ))
        return readers[-1]

    def told(reader: subprocess.Popen[str]) -> list[object]:
        assert reader.stdout is not None
        found: list[object] = orjson.loads(reader.stdout.readline())
        return found

    try:
        first = told(reading())
        assert first[1] is True
        os.kill(readers[-1].pid, signal.SIGKILL)
        wanted = orders.view.commit
        while orders.matches("late", wanted) == orders.matches("late", orders.view.commit):
            orders.step()
        reader = reading()
        while taken.rows != orders.matches("late", orders.view.commit):
            commit, snapshot, changes = told(reader)
            assert isinstance(commit, int)
            taken.take(commit, bool(snapshot), changes)
            assert reader.stdin is not None
            assert reader.stdout is not None
            reader.stdin.write("\n")
            reader.stdin.flush()
            assert reader.stdout.readline() == "acknowledged\n"
        assert taken.snapshots == 1
    finally:
        for each in readers:
            each.kill()
            each.communicate()


def test_groups_that_were_made_before_there_were_those_of_queries_go_on(orders: Orders) -> None:
    groups = orders.groups()
    groups.create("v", "orders")
    before = groups.group("v")
    groups.close()
    with closing(sqlite3.connect(orders.folder / ".headrace" / FILE)) as db:
        db.execute("alter table consumer_group drop column query")
        db.execute("alter table consumer_group drop column settled")
        db.execute("drop index dead_by_commit")
        db.execute("alter table dead drop column used")
        db.execute("update meta set value = '1' where name = 'layout'")
        db.commit()
    assert orders.needed() == {"orders": before.read}
    again = orders.groups()
    assert again.group("v") == before
    assert again.create("g", "urgent")["kind"] == "query"
