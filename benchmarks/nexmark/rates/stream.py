"""The events of Nexmark as files: each value a function of the seed and the event's number alone.

Of fifty events one is a person, three are auctions, the rest bids; identities and hot keys as the reference generator
of Nexmark deals them (https://github.com/nexmark/nexmark: a hot auction every second time, a hot seller and a hot
bidder three times in four, a hundred auctions open). An event a millisecond, so that "the latest bid" is one. Texts
come from pools of 65,536. Hashes are splitmix64, so neither the size of a part nor numpy's version changes a byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

RELATIONS = ("person", "auction", "bid")
PART = 200_000  # events of a file
FIRST = 1000  # the first identity of each kind
GROUP, PERSONS, AUCTIONS = 50, 1, 3
OPEN, ACTIVE = 100, 1000  # auctions that are bid on, people who do something
BEGIN_MS = 1_699_920_000_000  # 2023-11-14 00:00 UTC
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = (
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
)
FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
POOL, CHANNELS = 1 << 16, 10_000
DECADES = 6.0 / (1 << 53)  # of a price, for each of 2^53 values
U = np.uint64


def write(folder: Path, events: int, seed: int = 42) -> None:
    """``folder/RELATION/part-NNNNN.parquet`` for each relation; nothing when they are there."""
    if (folder / "written").exists():
        return
    for name in RELATIONS:
        (folder / name).mkdir(parents=True, exist_ok=True)
    for number, tables in enumerate(parts(events, seed)):
        for name, table in tables.items():
            texts = [c for c in ("channel", "url", "city", "state", "name") if c in table.column_names]
            pq.write_table(table, folder / name / f"part-{number:05d}.parquet", use_dictionary=texts)
    (folder / "written").touch()


def parts(events: int, seed: int) -> Iterator[dict[str, pa.Table]]:
    dealer = Dealer(seed)
    for first in range(0, events, PART):
        yield dealer.deal(np.arange(first, min(first + PART, events)))


class Dealer:
    """Deals events by their numbers."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.item, self.description = self.texts(906, 3, 20), self.texts(908, 3, 100)
        self.of_bid, self.of_auction, self.of_person = (
            self.texts(900, 54, 82), self.texts(902, 270, 404), self.texts(904, 90, 136),
        )  # fmt: skip
        host = pc.binary_join_element_wise(self.texts(912, 3, 5), "com", ".")
        self.mail = pc.binary_join_element_wise(self.texts(910, 3, 7), host, "@")
        self.name = pa.array([f"{a} {b}" for a in FIRST_NAMES for b in LAST_NAMES])
        self.digits = pa.array([f"{n:04d}" for n in range(10_000)])
        self.channel = pa.array(["Google", "Facebook", "Baidu", "Apple", *(f"channel-{n}" for n in range(CHANNELS))])
        self.url = pa.array(self.urls())

    def deal(self, numbers: np.ndarray) -> dict[str, pa.Table]:
        place = numbers % GROUP
        kinds = (place < PERSONS, (place >= PERSONS) & (place < PERSONS + AUCTIONS), place >= PERSONS + AUCTIONS)
        makers: Sequence[Callable[[np.ndarray], pa.Table]] = (self.people, self.auctions, self.bids)
        return {name: make(numbers[kind]) for name, make, kind in zip(RELATIONS, makers, kinds, strict=True)}

    def people(self, numbers: np.ndarray) -> pa.Table:
        one, two, three, four, five, six = (self.drawn(numbers, salt) for salt in range(1, 7))
        card = [self.digits.take(below(v >> U(32), 10_000)) for v in (one, two, three, four)]
        return pa.table({
            "id": persons_before(numbers) + FIRST, "name": taken(self.name, one),
            "email_address": taken(self.mail, two), "credit_card": pc.binary_join_element_wise(*card, " "),
            "city": taken(pa.array(CITIES), three), "state": taken(pa.array(STATES), five),
            "date_time": times(BEGIN_MS + numbers), "extra": taken(self.of_person, six),
        })  # fmt: skip

    def auctions(self, numbers: np.ndarray) -> pa.Table:
        one, two, three = (self.drawn(numbers, salt) for salt in (11, 12, 13))
        hot = below(one >> U(32), 4).to_numpy() > 0
        last = persons_before(numbers)
        seller = np.where(hot, last // 100 * 100, self.person(numbers, one)) + FIRST
        price, begin = prices(two), BEGIN_MS + numbers
        spread = OPEN * GROUP // AUCTIONS * 2
        return pa.table({
            "id": auctions_before(numbers) + FIRST, "item_name": taken(self.item, self.drawn(numbers, 14)),
            "description": taken(self.description, self.drawn(numbers, 15)), "initial_bid": price,
            "reserve": price + prices(self.drawn(numbers, 16)), "date_time": times(begin),
            "expires": times(begin + 1 + below(three, spread).to_numpy()), "seller": seller,
            "category": 10 + below(three >> U(32), 5).to_numpy(),
            "extra": taken(self.of_auction, self.drawn(numbers, 17)),
        })  # fmt: skip

    def bids(self, numbers: np.ndarray) -> pa.Table:
        one, two, three = (self.drawn(numbers, salt) for salt in (21, 22, 23))
        last = auctions_before(numbers)
        oldest = np.maximum(last - OPEN, 0)
        some = oldest + below(one, last - oldest + 11).to_numpy()
        auction = np.where((one >> U(63)) > 0, last // 100 * 100, some) + FIRST
        hot = persons_before(numbers) // 100 * 100 + 1
        bidder = np.where(((two >> U(62)) & U(3)) > 0, hot, self.person(numbers, two)) + FIRST
        known, other = below(three, 4).to_numpy(), 4 + below(three, CHANNELS).to_numpy()
        channel = pa.array(np.where((three >> U(63)) > 0, known, other))
        return pa.table({
            "auction": auction, "bidder": bidder, "price": prices(self.drawn(numbers, 24)),
            "channel": self.channel.take(channel), "url": self.url.take(channel),
            "date_time": times(BEGIN_MS + numbers), "extra": taken(self.of_bid, self.drawn(numbers, 25)),
        })  # fmt: skip

    def person(self, numbers: np.ndarray, drawn: np.ndarray) -> np.ndarray:
        """One of the newest people, or of the next few."""
        known = persons_before(numbers) + 1
        active = np.minimum(known, ACTIVE)
        found: np.ndarray = known - active + below(drawn, active + 10).to_numpy()
        return found

    def drawn(self, numbers: np.ndarray, salt: int) -> np.ndarray:
        """64 bits for each number."""
        key = mixed(np.array([self.seed * 1_000_003 + salt], np.uint64))[0]
        return mixed(numbers.astype(np.uint64) * U(0xD1342543DE82EF95) ^ key)

    def texts(self, salt: int, shortest: int, longest: int, count: int = POOL) -> pa.Array:
        lengths = shortest + below(self.drawn(np.arange(count), salt), longest - shortest).to_numpy()
        total = int(lengths.sum())
        drawn = self.drawn(np.arange((total + 7) // 8), salt + 1).view(np.uint8)[:total]
        letters = np.frombuffer(LETTERS.encode(), np.uint8)[drawn % len(LETTERS)]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        return pa.StringArray.from_buffers(count, pa.py_buffer(offsets.tobytes()), pa.py_buffer(letters.tobytes()))

    def urls(self) -> list[str]:
        words = self.texts(914, 3, 5, 3 * (CHANNELS + 4)).to_pylist()
        named = below(self.drawn(np.arange(CHANNELS), 916), 10).to_numpy() > 0
        plain = ["https://www.nexmark.com/{}/{}/{}/item.htm?query=1".format(*words[3 * n : 3 * n + 3])
                 for n in range(CHANNELS + 4)]  # fmt: skip
        ends = [f"&channel_id={int(f'{n:032b}'[::-1], 2) % (1 << 31)}" if named[n] else "" for n in range(CHANNELS)]
        return [url + end for url, end in zip(plain, ["", "", "", "", *ends], strict=True)]


def persons_before(numbers: np.ndarray) -> np.ndarray:
    """The ordinal of the last person up to each event."""
    return numbers // GROUP


def auctions_before(numbers: np.ndarray) -> np.ndarray:
    """The ordinal of the last auction up to each event."""
    epoch, place = numbers // GROUP, numbers % GROUP
    of_before = place < PERSONS
    within = np.where(of_before | (place >= PERSONS + AUCTIONS), AUCTIONS - 1, place - PERSONS)
    found: np.ndarray = (epoch - of_before) * AUCTIONS + within
    return found


def mixed(values: np.ndarray) -> np.ndarray:
    """splitmix64."""
    values = values + U(0x9E3779B97F4A7C15)
    values = (values ^ (values >> U(30))) * U(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> U(27))) * U(0x94D049BB133111EB)
    mixed_: np.ndarray = values ^ (values >> U(31))
    return mixed_


def below(drawn: np.ndarray, bound: int | np.ndarray) -> pa.Array:
    """The lower 32 bits scaled to [0, bound)."""
    return pa.array(((drawn & U(0xFFFFFFFF)) * np.asarray(bound, np.uint64) >> U(32)).astype(np.int64))


def taken(pool: pa.Array, drawn: np.ndarray) -> pa.Array:
    return pool.take(below(drawn, len(pool)))


def prices(drawn: np.ndarray) -> np.ndarray:
    """From 100 to 100,000,000, as many of each length."""
    found: np.ndarray = np.round(np.power(10.0, (drawn >> U(11)).astype(np.float64) * DECADES) * 100).astype(np.int64)
    return found


def times(milliseconds: np.ndarray) -> pa.Array:
    return pa.array(milliseconds).cast(pa.timestamp("ms", tz="UTC"))
