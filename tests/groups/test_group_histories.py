"""Goal: what a consumer group hands out, takes back and gives up is what its rules say, whatever its readers do, also when
they die, and whatever the clock does. Nothing acknowledged comes again, nothing else is lost.

Method: random histories of reads, acknowledgements (also late, repeated and made up ones), refusals, restarts, growth of
the log and jumps of the clock, each answer and each state against a model in plain Python (group_model.py).
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from group_model import Held, Model
from grouped import World

from headrace.model.errors import HeadraceError

SECOND = 1_000_000


class History:
    """Two groups over one table, fan-out: each with its own model; two readers share each."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random, self.world = random.Random(seed), World(folder, seed, 40)
        self.groups = self.world.groups()
        self.models: dict[str, Model] = {}
        self.given: dict[str, list[str]] = {}
        for name in ("one", "two"):
            lease, most = self.random.choice([5, 30]), self.random.choice([1, 2, 4])
            ordered, in_flight = self.random.random() < 0.3, self.random.choice([3, 1000])
            self.groups.create(name, "orders", lease_s=lease, max_deliveries=most, ordered=ordered, in_flight=in_flight)
            self.models[name] = Model([], lease * SECOND, most, 1 if ordered else in_flight)
            self.given[name] = ["3.1"]
        self.counted = {"again": 0, "late": 0, "dead": 0, "acked": 0, "extended": 0}

    def step(self) -> None:
        for model in self.models.values():
            model.feed, model.end = self.world.feed("orders"), len(self.world.made.made)
        name = self.random.choice(list(self.models))
        does = [
            self.read,
            self.read,
            self.read,
            self.ack,
            self.ack,
            self.ack,
            self.ack_upto,
            self.nack,
            self.extend,
            self.time,
        ]
        self.random.choice([*does, self.restart, self.letters, self.grow])(name)
        for name, model in self.models.items():
            model.tick(self.world.now)
            shown = next(entry for entry in self.groups.entries() if entry["name"] == name)
            leased = sum(held.leased and held.until > self.world.now for held in model.open.values())
            found = tuple(shown[key] for key in ("frontier", "read", "in_flight", "waiting", "dead"))
            assert found == (model.frontier, model.read, leased, len(model.open) - leased, len(model.dead))
        assert self.world.needed() == {"orders": min(model.frontier for model in self.models.values()) + 1}

    def read(self, name: str) -> None:
        most, consumer = self.random.choice([1, 2, 7]), self.random.choice("ab")
        found = self.groups.read(name, consumer, most)
        assert [delivery.id for delivery in found] == self.models[name].take(consumer, most, self.world.now)
        for delivery in found:
            assert list(delivery.changes) == self.world.holds("orders", delivery.commit)
            self.counted["again"] += delivery.attempt > 1
        self.given[name] += [delivery.id for delivery in found]

    def ids(self, name: str) -> list[str]:
        """Mostly what was given last; sometimes anything that ever was, or never."""
        near = self.given[name][-6:] if self.random.random() < 0.7 else [*self.given[name], "9999.1"]
        return self.random.sample(near, min(len(near), self.random.randint(1, 3)))

    def ack(self, name: str) -> None:
        ids, model = self.ids(name), self.models[name]
        kept, late = model.held(ids, self.world.now)
        model.ack(kept)
        try:
            assert self.groups.ack(name, *ids) == len(kept)
            assert not late
        except HeadraceError as error:
            assert (error.code, late) == ("group.lease", True)
            self.counted["late"] += 1
        self.counted["acked"] += len(kept)

    def ack_upto(self, name: str) -> None:
        (id,), consumer, model = self.ids(name)[:1], self.random.choice("ab"), self.models[name]
        kept, late = model.held([id], self.world.now)
        if not late:
            commit = int(id.partition(".")[0])
            mine = [
                c for c, h in model.open.items()
                if c <= commit and h.consumer == consumer and h.leased and h.until > self.world.now
            ]  # fmt: skip
            kept = sorted({*kept, *mine})
            model.ack(kept)
        try:
            assert self.groups.ack_upto(name, id, consumer) == len(kept)
            assert not late
        except HeadraceError as error:
            assert (error.code, late) == ("group.lease", True)

    def nack(self, name: str) -> None:
        ids, delay, model = self.ids(name), self.random.choice([0, 3, 20]), self.models[name]
        kept, late = model.held(ids, self.world.now)
        for commit in kept:
            held: Held = model.open[commit]
            held.leased, held.until, held.span = False, self.world.now + delay * SECOND, delay * SECOND
        try:
            assert self.groups.nack(name, *ids, delay_s=delay, reason="no") == len(kept)
            assert not late
        except HeadraceError as error:
            assert (error.code, late) == ("group.lease", True)

    def extend(self, name: str) -> None:
        ids, lease, model = self.ids(name), self.random.choice([None, 2, 50]), self.models[name]
        kept, late = model.held(ids, self.world.now)
        span = model.lease if lease is None else lease * SECOND
        for commit in kept:
            model.open[commit].until, model.open[commit].span = self.world.now + span, span
        self.counted["extended"] += len(kept)
        try:
            assert self.groups.extend(name, *ids, lease_s=lease) == len(kept)
            assert not late
        except HeadraceError as error:
            assert (error.code, late) == ("group.lease", True)

    def letters(self, name: str) -> None:
        model = self.models[name]
        model.tick(self.world.now)
        found = self.groups.dead(name)
        assert [(x.commit, x.attempt) for x in found] == [at for _, at in sorted(model.dead.items())]
        if not found:
            return
        place = self.random.randrange(len(found))
        letter, mine = found[place], sorted(model.dead)[place]
        assert self.groups.letter(name, letter.number)[1]["changes"] == self.world.holds("orders", letter.commit)
        commit, attempt = model.dead.pop(mine)
        self.counted["dead"] += 1
        if self.random.random() < 0.5:
            assert self.groups.drop_dead(name, letter.number) == 1
        else:
            assert self.groups.replay_dead(name, letter.number) == 1
            model.open[commit] = Held(attempt, attempt + model.most_deliveries, 0, 0, leased=False, again=True)

    def time(self, name: str) -> None:
        by = self.random.choice([1, 4, 6, 31, 31, 86_400, -3, -40, -86_400])
        self.world.now = max(0, self.world.now + by * SECOND)

    def restart(self, name: str) -> None:
        self.groups.close()
        self.groups = self.world.groups()

    def grow(self, name: str) -> None:
        self.world.grow(self.random.randint(1, 6))


@pytest.mark.parametrize("seed", range(8))
def test_a_random_history_is_as_the_model_says(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    history = History(tmp_path, seed)
    for _ in range(120):
        history.step()
    assert all(history.counted[what] for what in ("again", "acked", "late", "extended")), history.counted


def test_a_reader_that_extends_keeps_what_it_has_until_it_stops(tmp_path: Path) -> None:
    world = World(tmp_path, 5, 10)
    groups = world.groups()
    groups.create("g", "orders", lease_s=10)
    with groups.subscribe("g", consumer="slow") as slow, groups.subscribe("g", consumer="other") as other:
        (delivery,) = slow.read()
        for _ in range(5):
            world.now += 9 * SECOND
            assert slow.extend(delivery) == 1
            assert delivery.commit not in [d.commit for d in other.read(99)]
        assert slow.extend(delivery.id, lease_s=100) == 1
        world.now += 99 * SECOND
        assert delivery.commit not in [d.commit for d in other.read(99)]
        assert slow.extend(delivery, lease_s=1) == 1  # for less, too
        world.now += 1 * SECOND
        again = next(d for d in other.read(99) if d.commit == delivery.commit)
        assert again.attempt == 2
        with pytest.raises(HeadraceError) as caught:
            slow.extend(delivery)  # it is with another now, whose lease stays as it is
        assert (caught.value.code, again.id in caught.value.why) == ("group.lease", True)
        world.now += 9 * SECOND
        assert other.ack(again) == 1 and slow.extend(again) == 0
    for wrong in (0, -1, 43_201):
        with pytest.raises(HeadraceError, match=r"group\.invalid"):
            groups.extend("g", again.id, lease_s=wrong)


def test_all_that_is_not_acknowledged_comes_until_it_is(tmp_path: Path) -> None:
    """Readers that die half of the time, two at once, and a clock that goes back: in the end each has all, exactly once."""
    world, rng, settled = World(tmp_path, 3, 120), random.Random(3), list[int]()
    groups = world.groups()
    groups.create("g", "orders", lease_s=10, max_deliveries=1000)
    while len(settled) < len(world.feed("orders")):
        for consumer in ("a", "b"):
            for delivery in groups.read("g", consumer, 4):
                if rng.random() < 0.5:
                    assert groups.ack("g", delivery.id) == 1
                    settled.append(delivery.commit)
        world.now += rng.choice([11, 11, -100]) * SECOND
    assert sorted(settled) == world.feed("orders")
    assert (groups.read("g"), world.needed()) == ([], {"orders": groups.group("g").read + 1})
