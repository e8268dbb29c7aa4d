"""The events of Nexmark: people, their auctions, bids on them, as its generator deals them; and what changes later.

Of fifty events one is a person, three are auctions and the rest bids, most of them on the newest auctions and by the
newest people. The benchmark only ever appends. Here some bids arrive late, some arrive twice, some are taken back, and
people and auctions are edited, so that answers have to be revised.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.held import Changes, Contents, queries, relation
from headrace.model.transaction import DELETE, INSERT, UPDATE

SECOND_US = 1_000_000
TIME = pa.timestamp("us", tz="UTC")
SCHEMAS = {
    "person": pa.schema({
        "id": pa.int64(), "name": pa.string(), "emailAddress": pa.string(), "creditCard": pa.string(),
        "city": pa.string(), "state": pa.string(), "dateTime": TIME, "extra": pa.string(),
    }),
    "auction": pa.schema({
        "id": pa.int64(), "itemName": pa.string(), "description": pa.string(), "initialBid": pa.int64(),
        "reserve": pa.int64(), "dateTime": TIME, "expires": TIME, "seller": pa.int64(), "category": pa.int64(),
        "extra": pa.string(),
    }),
    "bid": pa.schema({
        "auction": pa.int64(), "bidder": pa.int64(), "price": pa.int64(), "channel": pa.string(), "url": pa.string(),
        "dateTime": TIME, "extra": pa.string(),
    }),
    "side_input": pa.schema({"key": pa.int64(), "value": pa.string()}),
}  # fmt: skip
KEYS: dict[str, tuple[str, ...]] = {"person": ("id",), "auction": ("id",), "bid": (), "side_input": ("key",)}
RELATIONS = {name: relation(name, KEYS[name], rows) for name, rows in SCHEMAS.items()}
QUERIES = queries(Path(__file__).with_name("queries"))

FIRST = 1000  # the first id of people and of auctions
BEGIN = int(datetime(2026, 3, 31, 23, 59, tzinfo=UTC).timestamp()) * SECOND_US  # so that a day ends on the way
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = ("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent")
NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
CHANNELS = ("Google", "Facebook", "Baidu", "Apple")


class Events:
    """Draws transactions over the tables as they are; the same seed, the same transactions.

    ``a_second``: how many events happen in a second of the events' own time.
    """

    def __init__(self, contents: Contents, seed: int, a_second: int = 100) -> None:
        self.contents, self.random, self.a_second = contents, np.random.default_rng(seed), a_second
        self.at = self.people = self.auctions = 0

    def side_input(self) -> Changes:
        """The side table, as a file brings it."""
        keys = np.arange(10_000)
        rows = pa.table([keys, [f"side {key}" for key in keys]], schema=SCHEMAS["side_input"])
        return {"side_input": [(INSERT, rows)]}

    def transaction(self, events: int) -> Changes:
        """The next so many events, and edits of what came before."""
        numbers = np.arange(self.at, self.at + events)
        times = BEGIN + numbers * SECOND_US // self.a_second
        self.at += events
        people, auctions = times[numbers % 50 == 0], times[(numbers % 50 > 0) & (numbers % 50 < 4)]
        edited = {"person": self.moved(), "auction": self.extended()}
        new = {"person": self.person(people), "auction": self.auction(auctions)}
        made = {name: [(UPDATE, edited[name]), (INSERT, new[name])] for name in new}
        bids = self.bid(times[numbers % 50 >= 4])
        made["bid"] = [(DELETE, self.some("bid", events // 100)), (INSERT, bids)]
        return {name: [(o, rows) for o, rows in parts if rows.num_rows] for name, parts in made.items()}

    def some(self, table: str, count: int) -> pa.Table:
        rows = self.contents.rows[table]
        return rows.take(pa.array(self.random.choice(rows.num_rows, min(count, rows.num_rows), replace=False)))

    def moved(self) -> pa.Table:
        """Some people live elsewhere."""
        rows = self.some("person", 2)
        return rows.set_column(5, rows.schema.field("state"), pa.array(self.words(STATES, len(rows)), pa.string()))

    def extended(self) -> pa.Table:
        """Some auctions end at another time and change their category."""
        rows = self.some("auction", 3)
        expires = rows["expires"].cast(pa.int64()).to_numpy() + self.random.integers(-20, 20, rows.num_rows) * SECOND_US
        rows = rows.set_column(6, rows.schema.field("expires"), pa.array(expires).cast(TIME))
        return rows.set_column(8, rows.schema.field("category"), pa.array(10 + self.random.integers(0, 5, len(rows))))

    def person(self, times: np.ndarray) -> pa.Table:
        count = len(times)
        ids = FIRST + self.people + np.arange(count)
        self.people += count
        names = self.words(NAMES, count)
        mails = [f"{name.lower()}@example.com" for name in names]
        cards = [" ".join(f"{n:04}" for n in four) for four in self.random.integers(0, 10_000, (count, 4))]
        places = [self.words(CITIES, count), self.words(STATES, count)]
        columns = [ids, names, mails, cards, *places, pa.array(times).cast(TIME), self.texts(count)]
        return pa.table(columns, schema=SCHEMAS["person"])

    def auction(self, times: np.ndarray) -> pa.Table:
        count = len(times)
        ids = FIRST + self.auctions + np.arange(count)
        self.auctions += count
        expires = times + self.random.integers(1, 40, count) * SECOND_US
        first = self.prices(count)
        reserve = first + self.prices(count)
        seller = FIRST + self.recent(self.people, count)
        texts = [self.texts(count), self.texts(count)]
        spans = [pa.array(times).cast(TIME), pa.array(expires).cast(TIME)]
        category = 10 + self.random.integers(0, 5, count)
        columns = [ids, *texts, first, reserve, *spans, seller, category, self.texts(count)]
        return pa.table(columns, schema=SCHEMAS["auction"])

    def bid(self, times: np.ndarray) -> pa.Table:
        """Bids; one in fifty is late by up to a minute, one in a hundred comes twice."""
        count = len(times)
        late = (self.random.random(count) < 0.02) * self.random.integers(0, 60, count) * SECOND_US
        number = self.random.integers(0, 10_000, count)
        hot = self.random.integers(0, 2 * len(CHANNELS), count)
        channels = [CHANNELS[h] if h < len(CHANNELS) else f"channel-{n}" for h, n in zip(hot, number, strict=True)]
        urls = [
            f"https://www.nexmark.com/{n % 7}/{n % 11}/item.htm?query=1"
            + ("" if h < len(CHANNELS) or n % 10 == 0 else f"&channel_id={n}")
            for h, n in zip(hot, number, strict=True)
        ]
        whom = [FIRST + self.recent(self.auctions, count), FIRST + self.recent(self.people, count)]
        columns = [*whom, self.prices(count), channels, urls, pa.array(times - late).cast(TIME), self.texts(count)]
        rows = pa.table(columns, schema=SCHEMAS["bid"])
        return rows.take(pa.array(np.repeat(np.arange(count), 1 + (self.random.random(count) < 0.01))))

    def recent(self, known: int, count: int) -> np.ndarray:
        """Ordinals below ``known``: half of them of the newest few."""
        newest = max(known - 20, 0)
        low = np.where(self.random.random(count) < 0.5, newest, 0)
        return low + (self.random.random(count) * (max(known, 1) - low)).astype(np.int64)

    def prices(self, count: int) -> np.ndarray:
        return np.round(10 ** (self.random.random(count) * 6) * 100).astype(np.int64)

    def words(self, known: Sequence[str], count: int) -> list[str]:
        return [known[i] for i in self.random.integers(0, len(known), count)]

    def texts(self, count: int) -> list[str]:
        letters = self.random.choice(np.frombuffer(b"abcdefghij ", np.uint8), (count, 12))
        return [bytes(row).decode() for row in letters]
