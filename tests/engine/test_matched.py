"""Goal: a webhook that names stored queries is told which rows begin and cease to match, none lost, repeats by one id.

Method: the thread that delivers, over views published by hand, and a real HTTP receiver that fails at times. What it was
told, repeats dropped by id, adds up to what plain Python finds in the view after each commit.
"""

from __future__ import annotations

import math
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from alert_receivers import HANG_UP, HookReceiver, MailServer, once
from headrace.catalog.project import read
from headrace.engine import matched
from headrace.engine.connectors import make_sink
from headrace.engine.deliver import Deliver
from headrace.engine.matched import Searches
from headrace.engine.wanted import Wanted
from headrace.log.append import LogWriter
from headrace.log.read import LogReader
from headrace.model.errors import HeadraceError
from headrace.model.transaction import TransactionBatch, TransactionOrigin
from headrace.serve.search.matching import Matcher
from headrace.sinks.alerts import sink
from published_view import Published
from waiting import until

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class Shop:
    """A project with the query ``big``, and the sink ``hook`` that tells of it; each ``start`` is a new process's."""

    def __init__(self, folder: Path, url: str) -> None:
        self.published, self.rng = Published(folder), random.Random(3)
        self.log = LogWriter(self.published.state / "log")
        self.ask("n:>=3")
        (folder / "sinks").mkdir()
        self.url = url
        self.write_sink("skip")
        self.made = list[Deliver]()

    def write_sink(self, initial: str) -> None:
        text = f"type: webhook\nurl: {self.url}\nsecret: {SECRET}\nsearches: [big]\ninitial: {initial}\n"
        (self.published.folder / "sinks/hook.yaml").write_text(text)

    def ask(self, query: str) -> None:
        place = self.published.folder / "searches/big.yaml"
        place.parent.mkdir(exist_ok=True)
        place.write_text(f'view: Sums\nquery: "{query}"\n')

    def start(self) -> Deliver:
        project = read(self.published.folder)
        (definition,) = project.sinks
        searches = Searches(project.path, definition.searches)
        reader = LogReader(self.published.state / "log")
        made = make_sink(definition, project)
        deliver = Deliver(made, definition.views, self.published.catalog, reader, lambda event: None, searches)
        deliver.start()
        self.made.append(deliver)
        return deliver

    def step(self, commits: int = 1, *, each: bool = False) -> None:
        for _ in range(commits):
            self.log.append(TransactionBatch((TransactionOrigin("shop", "1", 1),), {}))
        self.published.step([self.published.changes(self.rng) for _ in range(commits)], each=each)
        for deliver in self.made:
            deliver.wake()

    @property
    def commit(self) -> int:
        return self.published.upto

    def matching(self, commit: int, least: int) -> Counter[tuple[int, int]]:
        return Counter({row: n for row, n in self.published.held[commit].items() if row[1] >= least})


@pytest.fixture
def hook() -> Iterator[HookReceiver]:
    with HookReceiver() as receiver:
        yield receiver


@pytest.fixture
def shop(tmp_path: Path, hook: HookReceiver, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.setattr(matched, "LOOK_S", 0.0)
    monkeypatch.setattr(matched, "LOOK_SHARE", math.inf)  # at every delivery
    made = Shop(tmp_path / "shop", hook.url)
    yield made
    for deliver in made.made:
        deliver.close()
    made.log.close()


def reach(deliver: Deliver, commit: int) -> None:
    until(lambda: deliver.reached >= commit and deliver.error is None)


def told(hook: HookReceiver, upto: int) -> Counter[tuple[int, int]]:
    """The matches after a commit, as far as the receiver was told."""
    found = Counter[tuple[int, int]]()
    for message in once(hook.requests):
        if message["commit"] <= upto:
            assert (message["view"], message["query"]) == ("sums", "big")
            found.update((row["id"], row["n"]) for row in message["entered"])
            found.subtract((row["id"], row["n"]) for row in message["left"])
            for change in message.get("changed", ()):
                found.subtract([(change["before"]["id"], change["before"]["n"])])
                found.update([(change["after"]["id"], change["after"]["n"])])
    return Counter({row: n for row, n in found.items() if n})


@pytest.mark.parametrize("each", [False, True])
def test_matches_that_come_and_go_are_told_through_failures_and_ends(
    shop: Shop, hook: HookReceiver, each: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Published, "changes", _keyed)
    shop.write_sink("send")
    first = shop.start()
    for _ in range(6):
        shop.step(2, each=each)
    hook.answers.extend([503, (500, {}, "later"), 503])
    for _ in range(6):
        shop.step(each=each)
    reach(first, shop.commit)
    hook.usual = 503
    for _ in range(4):
        shop.step(2, each=each)
    until(lambda: first.error is not None)
    first.close()  # what waits is in the outbox
    for _ in range(4):
        shop.step(each=each)
    hook.usual = 204
    second = shop.start()
    reach(second, shop.commit)
    ends = {message["commit"] for message in once(hook.requests)} | {shop.commit}
    for commit in sorted(ends):
        assert told(hook, commit) == shop.matching(commit, 3), commit
    assert sum(len(message["entered"]) for message in once(hook.requests)) > 10
    names = ("view", "query", "commit", "entered", "left", "changed")
    assert {tuple(name for name in message if name != "initial") for message in once(hook.requests)} == {names}


def test_a_query_that_is_edited_or_gone_is_as_a_view_that_is(shop: Shop, hook: HookReceiver) -> None:
    deliver = shop.start()

    def steps(count: int) -> int:
        for _ in range(count):
            shop.step()
        return shop.commit

    def happened(since: int, least: int) -> Counter[tuple[int, int]]:
        found = Counter(shop.matching(shop.commit, least))
        found.subtract(shop.matching(since, least))
        return Counter({row: n for row, n in found.items() if n})

    begun = steps(1)
    reach(deliver, begun)  # what matches at first is not told
    reach(deliver, steps(12))
    assert told(hook, shop.commit) == happened(begun, 3)
    shop.ask("n:>=1")  # what it matches besides is not told, what happens from now on is
    edited = steps(1)
    reach(deliver, edited)
    hook.requests.clear()
    reach(deliver, steps(12))
    assert told(hook, shop.commit) == happened(edited, 1)
    place, away = (shop.published.folder / name for name in ("searches/big.yaml", "kept"))
    place.rename(away)
    steps(1)
    until(lambda: deliver.error is not None)
    assert deliver.error is not None and deliver.error.code == "search.unknown"
    steps(3)
    away.rename(place)
    reach(deliver, shop.commit)  # nothing of what was published meanwhile is lost
    assert told(hook, shop.commit) == happened(edited, 1)
    shop.ask("n:many")
    steps(1)
    until(lambda: deliver.error is not None)
    assert deliver.error is not None and deliver.error.code == "search.query"
    assert deliver.taken(["sums", "others"]) == ["sums"]


@pytest.mark.parametrize("each", [False, True])
def test_many_queries_of_a_sink_are_told_their_own_and_cost_a_step_one_look(
    shop: Shop, hook: HookReceiver, monkeypatch: pytest.MonkeyPatch, each: bool
) -> None:
    wanted: dict[str, Callable[[int, int], bool]] = {}
    for number in range(30):
        id, least = number % 9, number % 5
        wanted[f"id{number}"] = lambda i, n, id=id: i == id
        wanted[f"n{number}"] = lambda i, n, least=least: n >= least
        for name, query in ((f"id{number}", f"id:{id}"), (f"n{number}", f"n:>={least}")):
            (shop.published.folder / f"searches/{name}.yaml").write_text(f'view: sums\nquery: "{query}"\n')
    place = shop.published.folder / "sinks/hook.yaml"
    place.write_text(place.read_text().replace("[big]", f"[{', '.join(wanted)}]"))
    looked, steps, places = list[int](), 12, Matcher.places_of_each
    monkeypatch.setattr(Matcher, "places_of_each", lambda matcher, rows: looked.append(1) or places(matcher, rows))
    deliver = shop.start()
    shop.step()
    begun = shop.commit
    reach(deliver, begun)
    for _ in range(steps):
        shop.step(2, each=each)
        reach(deliver, shop.commit)
    assert len(looked) <= steps + 1
    found = {name: Counter[tuple[int, int]]() for name in wanted}
    for message in once(hook.requests):
        of = found[message["query"]]
        of.update((row["id"], row["n"]) for row in message["entered"])
        of.subtract((row["id"], row["n"]) for row in message["left"])
        for change in message.get("changed", ()):
            of.subtract([(change["before"]["id"], change["before"]["n"])])
            of.update([(change["after"]["id"], change["after"]["n"])])
    before, after = shop.published.held[begun], shop.published.held[shop.commit]
    for name, has in wanted.items():
        rows = {row for row in {*before, *after} if has(*row) and before[row] != after[row]}
        told_of = {row: n for row, n in found[name].items() if n}
        assert told_of == {row: after[row] - before[row] for row in rows}, name


def test_a_mail_tells_of_matches_under_the_querys_name(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the mails say, one after the other, through refusals, is what matches in the end."""
    monkeypatch.setattr(Published, "changes", _keyed)
    monkeypatch.setattr(sink, "AGAIN_S", 0.01)
    with MailServer() as server:
        text = (
            f"type: mail\nhost: 127.0.0.1\nport: {server.port}\nfrom: shop@example.com\nto: ann@example.com\n"
            "searches: [big]\ninitial: send\nat_most: 1000/second\n"
            "subject: '{view} {count}'\nbody: '{event} {id} {n}'\n"
        )
        (shop.published.folder / "sinks/hook.yaml").write_text(text)
        deliver = shop.start()
        for _ in range(6):
            shop.step(2)
        server.answers.extend(["451 later", HANG_UP])
        for _ in range(6):
            shop.step()
        reach(deliver, shop.commit)
        until(lambda: not server.answers)
        deliver.close()
    held, sent, number = dict[int, int](), set[str](), 0
    for mail in server.mails:
        if mail.message["Message-ID"] in sent:  # of the server that hung up after it had taken one
            continue
        sent.add(mail.message["Message-ID"])
        lines = [line.split() for line in mail.text.splitlines()]
        assert mail.message["Subject"] == f"big {len(lines)}"
        number += len(lines)
        for event, id, n in lines:
            if event == "left":
                assert held.pop(int(id)) == int(n)
            else:
                assert (int(id) in held) == (event == "changed")
                held[int(id)] = int(n)
    assert held == dict(shop.matching(shop.commit, 3).keys())
    assert number > 10 and len(sent) < len(server.mails)


def test_whose_rows_are_matched_is_told_while_queries_come(shop: Shop) -> None:
    searches = Searches(shop.published.folder, ["big"])
    big = searches.wanted(shop.published.catalog.views()).records["big"]
    ends = threading.Event()

    def found() -> None:
        number = 0
        while not ends.is_set():
            searches._known = Wanted({f"q{each}": big for each in range(number % 50)})
            number += 1

    switch_s, thread = sys.getswitchinterval(), threading.Thread(target=found)
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        told, end = set[str](), time.monotonic() + 0.5
        while time.monotonic() < end:
            told.update(searches.views())
        assert told == {"sums"}
    finally:
        sys.setswitchinterval(switch_s)
        ends.set()
        thread.join()


def test_what_is_written_of_a_sinks_searches_is_checked(tmp_path: Path) -> None:
    def refused(text: str) -> HeadraceError:
        (tmp_path / "sinks/hook.yaml").write_text(text)
        with pytest.raises(HeadraceError) as found:
            project = read(tmp_path)
            make_sink(project.sinks[0], project)
        return found.value

    (tmp_path / "headrace.yaml").write_text("")
    for folder in ("sinks", "views"):
        (tmp_path / folder).mkdir()
    (tmp_path / "views/sums.sql").write_text("SELECT 1 AS id")
    hook = f"type: webhook\nurl: https://example.com\nsecret: {SECRET}\n"
    for text, said in (
        (f"{hook}searches: []\n", "names no query"), (f"{hook}searches: [a, a]\n", "twice"),
        (f"{hook}searches: [a]\nviews: [sums]\n", "do not go together"),
        (f"{hook}searches: [a]\nkeys: {{sums: [id]}}\n", "do not go together"),
        ("type: duckdb\npath: out.duckdb\nsearches: [a]\n", "takes views"),
    ):  # fmt: skip
        error = refused(text)
        assert error.code == "config.invalid" and said in error.what and error.where.startswith("sinks/hook.yaml:")


def _keyed(published: Published, rng: random.Random) -> Any:
    """What one commit changes, of a view in which each id is there once at most."""
    held = published.held[-1]
    delta: Counter[tuple[int, int]] = Counter()
    there = dict(held.keys())
    for id in rng.sample(range(9), 3):
        if id in there:
            delta[id, there[id]] -= 1
        if rng.random() < 0.7:
            delta[id, rng.randrange(5)] += 1
    delta = Counter({row: n for row, n in delta.items() if n})
    published.held.append(Counter({row: n for row in {*held, *delta} if (n := held[row] + delta[row])}))
    return delta
