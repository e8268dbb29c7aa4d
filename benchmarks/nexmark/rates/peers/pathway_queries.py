"""One query by Pathway, the whole input at once, which is its fastest mode; its changes go into a CSV file.

PATHWAY_PYTHON pathway_queries.py --data FOLDER --events N --query q4 --changes FOLDER. Runs in Pathway's own
environment, so it imports nothing of this repository. Queries are written as tables of Pathway, since it has no SQL
for them. One JSON line.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import pathway as pw
from pathway import this


class Person(pw.Schema):
    id_: int
    name: str
    email_address: str
    credit_card: str
    city: str
    state: str
    date_time: int
    extra: str


class Auction(pw.Schema):
    id_: int
    item_name: str
    description: str
    initial_bid: int
    reserve: int
    date_time: int
    expires: int
    seller: int
    category: int
    extra: str


class Bid(pw.Schema):
    auction: int
    bidder: int
    price: int
    channel: str
    url: str
    date_time: int
    extra: str


class Queries:
    """Each method is a query; times are milliseconds."""

    def __init__(self, data: str) -> None:
        self.data = data

    @property
    def person(self) -> Any:
        return pw.io.csv.read(f"{self.data}/person", schema=Person, mode="static")

    @property
    def auction(self) -> Any:
        return pw.io.csv.read(f"{self.data}/auction", schema=Auction, mode="static")

    @property
    def bid(self) -> Any:
        return pw.io.csv.read(f"{self.data}/bid", schema=Bid, mode="static")

    def q0(self) -> Any:
        return self.bid.select(this.auction, this.bidder, this.price, dt=this.date_time, extra=this.extra)

    def q1(self) -> Any:
        return self.bid.select(this.auction, this.bidder, price=908 * this.price, dt=this.date_time, extra=this.extra)

    def q2(self) -> Any:
        return self.bid.filter(this.auction % 123 == 0).select(this.auction, this.price)

    def q3(self) -> Any:
        auction = self.auction.filter(this.category == 10)
        person = self.person.filter((this.state == "OR") | (this.state == "ID") | (this.state == "CA"))
        joined = auction.join(person, auction.seller == person.id_)
        return joined.select(person.name, person.city, person.state, id_=auction.id_)

    def q4(self) -> Any:
        best = self.winning().groupby(this.id_, this.category).reduce(this.category, final=pw.reducers.max(this.price))
        of = best.groupby(this.category).reduce(this.category, s=pw.reducers.sum(this.final), n=pw.reducers.count())
        return of.select(this.category, final=this.s // this.n)

    def q5(self) -> Any:
        window = pw.temporal.sliding(hop=2000, duration=10000)
        counted = self.bid.windowby(this.date_time, window=window, instance=this.auction).reduce(
            auction=this._pw_instance, s=this._pw_window_start, num=pw.reducers.count()
        )
        most = counted.groupby(this.s).reduce(this.s, most=pw.reducers.max(this.num))
        joined = counted.join(most, counted.s == most.s).select(counted.auction, counted.num, most.most)
        return joined.filter(this.num >= this.most).select(this.auction, this.num)

    def q7(self) -> Any:
        bid = self.bid
        highest = bid.select(s=this.date_time - this.date_time % 10000, price=this.price)
        highest = highest.groupby(this.s).reduce(this.s, most=pw.reducers.max(this.price))
        joined = bid.join(highest, bid.price == highest.most).select(
            bid.auction, bid.price, bid.bidder, dt=bid.date_time, extra=bid.extra, s=highest.s
        )
        inside = joined.filter((this.dt >= this.s) & (this.dt <= this.s + 10000))
        return inside.select(this.auction, this.price, this.bidder, this.dt, this.extra)

    def q8(self) -> Any:
        person = self.person.select(this.id_, this.name, s=this.date_time - this.date_time % 10000)
        seller = self.auction.select(this.seller, s=this.date_time - this.date_time % 10000)
        seller = seller.groupby(this.seller, this.s).reduce(this.seller, this.s)
        joined = person.join(seller, person.id_ == seller.seller, person.s == seller.s)
        return joined.select(id_=person.id_, name=person.name, stime=person.s)

    def q9(self) -> Any:
        rows = self.winning()
        rows = rows.select(*pw.this, order=pw.make_tuple(this.price, -this.bdt))
        best = rows.groupby(this.id_).reduce(best=pw.reducers.argmax(this.order))
        return rows.ix(best.best).without(this.order)

    def q14(self) -> Any:
        dear = self.bid.select(*pw.this, p=908 * this.price).filter(
            (this.p > 1_000_000_000) & (this.p < 50_000_000_000)
        )
        hour = this.date_time // 3600000 % 24
        night = pw.if_else((hour <= 6) | (hour >= 20), "nightTime", "otherTime")
        return dear.select(
            this.auction, this.bidder, price=this.p, ty=pw.if_else((hour >= 8) & (hour <= 18), "dayTime", night),
            dt=this.date_time, extra=this.extra, c_counts=this.extra.str.count("c"),
        )  # fmt: skip

    def q15(self) -> Any:
        ranked = self.ranked().groupby(this.day).reduce(this.day, **self.counted())
        return ranked.select(this.day, **self.told())

    def q16(self) -> Any:
        ranked = self.ranked().groupby(this.channel, this.day)
        ranked = ranked.reduce(this.channel, this.day, minute=pw.reducers.max(this.minute), **self.counted())
        return ranked.select(this.channel, this.day, this.minute, **self.told())

    def q17(self) -> Any:
        def of(condition: Any) -> Any:
            return pw.reducers.sum(pw.if_else(condition, 1, 0))

        grouped = self.bid.select(this.auction, this.price, day=this.date_time // 86400000)
        grouped = grouped.groupby(this.auction, this.day).reduce(
            this.auction, this.day, total_bids=pw.reducers.count(), rank1_bids=of(this.price < 10000),
            rank2_bids=of((this.price >= 10000) & (this.price < 1000000)), rank3_bids=of(this.price >= 1000000),
            min_price=pw.reducers.min(this.price), max_price=pw.reducers.max(this.price),
            sum_price=pw.reducers.sum(this.price),
        )  # fmt: skip
        return grouped.with_columns(avg_price=this.sum_price // this.total_bids)

    def q18(self) -> Any:
        bid = self.bid
        best = bid.groupby(this.bidder, this.auction).reduce(best=pw.reducers.argmax(this.date_time))
        return bid.ix(best.best)

    def q20(self) -> Any:
        bid, auction = self.bid, self.auction.filter(this.category == 10)
        names = [c for c in Auction.column_names() if c not in ("date_time", "extra", "id_")]
        of_bid = [bid.auction, bid.bidder, bid.price, bid.channel, bid.url]
        return bid.join(auction, bid.auction == auction.id_).select(
            *of_bid, *[auction[c] for c in names],
            bdt=bid.date_time, bextra=bid.extra, adt=auction.date_time, aextra=auction.extra,
        )  # fmt: skip

    def q22(self) -> Any:
        def part(place: int) -> Any:
            return pw.apply_with_type(lambda url: url.split("/")[place], str, this.url)

        return self.bid.select(this.auction, this.bidder, this.price, this.channel, a=part(3), b=part(4), c=part(5))

    def ranked(self) -> Any:
        """Bids with day and minute, and bidder and auction once more for each rank; -1 where it is another."""
        spans = ((0, 10_000), (10_000, 1_000_000), (1_000_000, 1 << 60))
        of_rank = {
            f"rank{rank}_{name}": pw.if_else((this.price >= low) & (this.price < high), this[name], -1)
            for rank, (low, high) in enumerate(spans, 1)
            for name in ("bidder", "auction")
        }
        day, minute = this.date_time // 86_400_000, this.date_time // 60_000
        return self.bid.select(this.channel, this.price, this.bidder, this.auction, day=day, minute=minute, **of_rank)

    def counted(self) -> dict[str, Any]:
        """What q15 and q16 count; the -1 of other ranks is one of the values that are told apart."""
        found = {"total_bids": pw.reducers.count()}
        for name in ("bidder", "auction"):
            found[f"total_{name}s"] = pw.reducers.count_distinct(this[name])
            for rank in (1, 2, 3):
                found[f"rank{rank}_{name}s"] = pw.reducers.count_distinct(this[f"rank{rank}_{name}"])
                of_rank = pw.if_else(this[f"rank{rank}_{name}"] >= 0, 1, 0)
                found[f"rank{rank}_bids"] = pw.reducers.sum(of_rank)
        return found

    def told(self) -> dict[str, Any]:
        """The counts without the -1, which every group has that has bids of other ranks."""
        found = {name: this[name] for name in ("total_bids", "total_bidders", "total_auctions")}
        for rank in (1, 2, 3):
            bids = this[f"rank{rank}_bids"]
            found[f"rank{rank}_bids"] = bids
            for name in (f"rank{rank}_bidders", f"rank{rank}_auctions"):
                found[name] = this[name] - pw.if_else(bids < this.total_bids, 1, 0)
        return found

    def winning(self) -> Any:
        """Bids in time, each with its auction."""
        auction, bid = self.auction, self.bid
        names = [c for c in Auction.column_names() if c not in ("date_time", "extra")]
        rows = auction.join(bid, auction.id_ == bid.auction).select(
            *[auction[c] for c in names], adt=auction.date_time, aextra=auction.extra, auction=bid.auction,
            bidder=bid.bidder, price=bid.price, bdt=bid.date_time, bextra=bid.extra,
        )  # fmt: skip
        return rows.filter((this.bdt >= this.adt) & (this.bdt <= this.expires))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="folder with person, auction and bid")
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--query", required=True)
    parser.add_argument("--changes", required=True, help="folder where its changes go")
    chosen = parser.parse_args()
    query: Callable[[], Any] | None = getattr(Queries(chosen.data), chosen.query, None)
    if query is None:
        sys.exit(f"{chosen.query} has no form for Pathway here")
    pw.io.csv.write(query(), f"{chosen.changes}/changes.csv")
    started = time.time()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    seconds = time.time() - started
    print(json.dumps({
        "engine": "pathway", "events": chosen.events, "seconds": round(seconds, 3),
        "per_second": round(chosen.events / seconds),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
