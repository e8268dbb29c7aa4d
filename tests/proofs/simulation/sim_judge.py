"""What stores show against what sources have given: no code of the product.

At each commit a store must show, of every source, its first so many transactions whole, in both of the bank's tables
and in the sums; together as many as the commit's number says; and the same at each store and after every recovery.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

from sim_sources import TABLES, Client, Drops, Server, rows_of
from sim_stores import Contents, Store
from sim_world import World

Rows = Counter[tuple[int, int]]
VIEWS = ("orders", "others", "sums")
PLACE = {"lines": 0, "pushed": 1, "files": 2}  # of a table in the view of all others
APART = 100_000  # so far apart are their ids there
NONE: Rows = Counter()


@lru_cache(maxsize=4096)
def prefix(source: str, upto: int) -> tuple[frozenset[tuple[tuple[int, int], int]], Rows]:
    """Rows of the orders, and of all tables but that, after the first transactions of a source."""
    orders: Rows = Counter()
    others: Rows = Counter()
    for number in range(1, upto + 1):
        for table, identity, amount, weight in rows_of(source, number):
            if table == "orders":
                orders[identity, amount] += weight
            else:
                others[PLACE[table] * APART + identity, amount] += weight
    return frozenset((+orders).items()), +others


def transactions(rows: Rows) -> dict[str, int]:
    """How many of each source the rows can be of: its last one is always among them."""
    found = dict.fromkeys(TABLES, 0)
    for identity, _ in rows:
        source = ("bank", "pushed", "files")[identity // APART]
        number = identity % APART if source == "bank" else identity % APART // 10
        found[source] = max(found[source], number)
    return found


class Judge:
    def __init__(self, world: World) -> None:
        self.world = world
        self.at: dict[int, dict[str, int]] = {0: dict.fromkeys(TABLES, 0)}
        self.reached: dict[str, int] = {}
        self.published = 0
        self.looks = 0

    def look(self, store: Store) -> None:
        """At a store, after each of its transactions."""
        contents = store.contents
        commit = contents.commit or 0
        if commit < self.reached.get(store.name, 0):
            self.world.violated(f"{store.name} goes from commit {self.reached[store.name]} back to {commit}")
        self.reached[store.name] = commit
        self.shown(f"{store.name} at commit {commit}", commit, contents.rows)

    def shown(self, where: str, commit: int, rows: dict[str, Rows]) -> None:
        self.looks += 1
        found = transactions(rows.get("others", NONE))
        orders, others = prefix("bank", found["bank"])[0], Counter[tuple[int, int]]()
        for source, upto in found.items():
            others += prefix(source, upto)[1]
        for view, expected in (("orders", Counter(dict(orders))), ("others", others)):
            there = rows.get(view, NONE)
            if there != expected:
                self.world.violated(
                    f"{where}: {view} lacks {dict(expected - there)}, has too many {dict(there - expected)}"
                )
        sums: Rows = Counter()
        for place, table in enumerate(VIEWS[:-1]):
            total = sum(amount * copies for (_, amount), copies in rows.get(table, NONE).items())
            sums[place, total] += bool(total)
        if +sums != rows.get("sums", NONE):
            self.world.violated(
                f"{where}: the sums are {dict(rows.get('sums', NONE))}, the rows add up to {dict(+sums)}"
            )
        if sum(found.values()) != commit:
            self.world.violated(f"{where}: there are {found}, which is another number of transactions")
        if self.at.setdefault(commit, found) != found:
            self.world.violated(f"{where}: there are {found}, elsewhere or before there were {self.at[commit]}")

    def publishes(self, commit: int) -> None:
        if commit < self.published:
            self.world.violated(f"published was commit {self.published}, and is {commit}")
        self.published = max(commit, self.published)

    def told(self, sinks: dict[str, int], stores: dict[str, Store]) -> None:
        """The catalogue never says more of a sink than its store has."""
        for name, commit in sinks.items():
            if commit > (stores[name].contents.commit or 0):
                self.world.violated(f"the catalogue has {name} at commit {commit}: {stores[name].contents.commit}")

    def end(self, server: Server, client: Client, drops: Drops, stores: dict[str, Store]) -> None:
        """Nothing fails any more: everything has arrived, at the commits that clients were told."""
        given = {"bank": server.committed, "pushed": client.wanted, "files": drops.made}
        for store in stores.values():
            contents: Contents = store.contents
            if contents.commit != sum(given.values()) or self.at.get(contents.commit) != given:
                self.world.violated(
                    f"at the end {store.name} has commit {contents.commit} with {self.at.get(contents.commit or 0)},"
                    f" given were {given}"
                )
        for first, begin, last in client.heard:
            for commit, found in self.at.items():
                if (
                    first
                    and (found["pushed"] < last) != (commit < first + last - begin)
                    and not (begin <= found["pushed"] < last)
                ):
                    self.world.violated(f"the client heard {first} for {begin} to {last}; commit {commit} has {found}")
        if (client.kept, server.confirmed) != (client.wanted, server.committed):
            self.world.violated(f"the client heard of {client.kept} of {client.wanted}, the bank of {server.confirmed}")
