"""The life of a small shop as transactions: the same seed and the same beginning give the same transactions."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

REGIONS = ("north", "south", "east", "west", "overseas")
CATEGORIES: dict[str, tuple[str, ...]] = {
    "books": ("Atlas", "Cookbook", "Diary", "Dictionary", "Novel", "Sketchbook", "Songbook", "Travel guide"),
    "garden": ("Hose", "Lantern", "Planter", "Rake", "Seeds", "Shears", "Spade", "Wheelbarrow"),
    "kitchen": ("Bowl", "Grater", "Kettle", "Knife", "Mill", "Pan", "Scales", "Teapot"),
    "music": ("Drum", "Flute", "Guitar", "Harmonica", "Metronome", "Music stand", "Ukulele", "Violin"),
}
CAMPAIGNS = ("autumn sale", "free delivery", "newsletter", "new arrivals")
FIRST_NAMES = ("Ada", "Bela", "Chidi", "Dana", "Emil", "Farah", "Goran", "Hana", "Ines", "Jonas", "Kira", "Leo")
LAST_NAMES = ("Abel", "Brandt", "Costa", "Dietz", "Endo", "Fuchs", "Gruber", "Haas", "Ito", "Jansen", "Kovac", "Lund")
STREETS = ("Mill Lane", "Race Street", "Weir Road", "Wheel Yard", "Sluice Walk")
METHODS = ("card", "invoice", "transfer")
CUSTOMERS_AT_FIRST = 150
REMEMBERED = 2_000  # orders and impressions that may still change: what is older is left as it is
IDS_PER_TRANSACTION = 1_000  # more than any transaction takes; the ids of a later run begin beyond those of this one

Row = dict[str, Any]
Tables = dict[str, dict[str, list[Row]]]  # table -> operation -> rows


@dataclass(slots=True)
class Order:
    """An order that may still be paid back, shipped or cancelled."""

    id: int
    lines: int
    payment: int


@dataclass
class Shop:
    """Makes transactions in the form that the HTTP source takes. ``begins``: the time of the first one."""

    seed: int
    begins: datetime
    first_id: int = 1
    _random: random.Random = field(init=False)
    _id: int = field(init=False)
    _customers: list[int] = field(default_factory=list)
    _prices: dict[int, Decimal] = field(default_factory=dict)
    _campaigns: list[int] = field(default_factory=list)
    _paid: deque[Order] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    _shipped: deque[Order] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    _unclicked: deque[int] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._id = self.first_id - 1
        kinds: tuple[tuple[Callable[[str], Tables], int], ...] = (
            (self._order, 34),
            (self._page, 27),
            (self._click, 15),
            (self._ship, 8),
            (self._register, 6),
            (self._move, 4),
            (self._cancel, 4),
            (self._reprice, 2),
        )
        self._kinds = [kind for kind, _ in kinds]
        self._weights = [weight for _, weight in kinds]

    def opening(self) -> dict[str, Tables]:
        """The first transaction: the assortment, the campaigns, the customers so far. No order yet."""
        at = _text(self.begins)
        products, customers, campaigns = [], [], []
        for category, names in CATEGORIES.items():
            for name in names:
                price = Decimal(self._random.randint(400, 9_900)) / 100
                self._prices[key := self._next()] = price
                products.append({"id": key, "name": name, "category": category, "price": str(price)})
        for name in CAMPAIGNS:
            self._campaigns.append(key := self._next())
            campaigns.append({"id": key, "name": name})
        for _ in range(CUSTOMERS_AT_FIRST):
            customers.append(self._customer(at))
        inserted = {"products": products, "campaigns": campaigns, "customers": customers}
        return {"tables": {table: {"insert": rows} for table, rows in inserted.items()}}

    def next(self, after_s: float) -> dict[str, Tables]:
        """The next transaction, ``after_s`` seconds after the first one."""
        at = _text(self.begins + timedelta(seconds=after_s))
        while True:
            [kind] = self._random.choices(self._kinds, self._weights)
            if tables := kind(at):
                return {"tables": tables}

    # -- kinds of transactions; one that has nothing to do gives no tables

    def _order(self, at: str) -> Tables:
        """An order, its lines and its payment."""
        customer = self._random.choice(self._customers)
        chosen = self._random.sample(list(self._prices), self._random.choices((1, 2, 3, 4, 5), (3, 4, 3, 2, 1))[0])
        order = Order(self._next(), len(chosen), self._next())
        lines, total = [], Decimal(0)
        for line, product in enumerate(chosen, 1):
            quantity, price = self._random.randint(1, 3), self._prices[product]
            total += quantity * price
            values = {"product_id": product, "quantity": quantity, "unit_price": str(price)}
            lines.append({"order_id": order.id, "line": line, **values})
        self._paid.append(order)
        payment = {"id": order.payment, "order_id": order.id, "amount": str(total)}
        payment |= {"method": self._random.choice(METHODS), "paid_at": at}
        return {
            "orders": {"insert": [{"id": order.id, "customer_id": customer, "status": "paid", "placed_at": at}]},
            "order_lines": {"insert": lines},
            "payments": {"insert": [payment]},
        }

    def _page(self, at: str) -> Tables:
        """A page with some advertisements on it."""
        shown = []
        for _ in range(self._random.randint(3, 8)):
            self._unclicked.append(key := self._next())
            shown.append({"id": key, "campaign_id": self._random.choice(self._campaigns), "shown_at": at})
        return {"impressions": {"insert": shown}}

    def _click(self, at: str) -> Tables:
        """Clicks on what was shown before, each at most once."""
        clicks = []
        for _ in range(min(self._random.randint(1, 3), len(self._unclicked))):
            place = -self._random.randint(1, min(len(self._unclicked), 200))
            clicks.append({"id": self._next(), "impression_id": self._unclicked[place], "clicked_at": at})
            del self._unclicked[place]
        return {"clicks": {"insert": clicks}} if clicks else {}

    def _ship(self, at: str) -> Tables:
        """A parcel run: the oldest paid orders are shipped, and now and then one comes back."""
        rows: list[Row] = []
        for _ in range(min(self._random.randint(1, 5), len(self._paid))):
            self._shipped.append(order := self._paid.popleft())
            rows.append({"id": order.id, "status": "shipped"})
        if len(self._shipped) > 20 and self._random.random() < 0.3:
            place = self._random.randrange(len(self._shipped) - len(rows))
            rows.append({"id": self._shipped[place].id, "status": "returned"})
            del self._shipped[place]
        return {"orders": {"update": rows}} if rows else {}

    def _register(self, at: str) -> Tables:
        """A new customer, half of them with a first order in the same transaction."""
        tables: Tables = {"customers": {"insert": [self._customer(at)]}}
        if self._random.random() < 0.5:
            first = self._order(at)
            first["orders"]["insert"][0]["customer_id"] = self._customers[-1]
            tables |= first
        return tables

    def _move(self, at: str) -> Tables:
        """A customer has a new address, sometimes in another region."""
        row = {"id": self._random.choice(self._customers), "address": self._address()}
        if self._random.random() < 0.5:
            row["region"] = self._random.choice(REGIONS)
        return {"customers": {"update": [row]}}

    def _cancel(self, at: str) -> Tables:
        """An order that was not shipped goes, with its lines and its payment."""
        if not self._paid:
            return {}
        place = -self._random.randint(1, min(len(self._paid), 50))
        order = self._paid[place]
        del self._paid[place]
        lines = [{"order_id": order.id, "line": line} for line in range(1, order.lines + 1)]
        return {
            "order_lines": {"delete": lines},
            "payments": {"delete": [{"id": order.payment}]},
            "orders": {"delete": [{"id": order.id}]},
        }

    def _reprice(self, at: str) -> Tables:
        """Some products have a new price, for orders to come."""
        rows = []
        for product in self._random.sample(list(self._prices), 3):
            percent = Decimal(self._random.randint(85, 116))
            price = max(Decimal(1), self._prices[product] * percent / 100).quantize(Decimal("0.01"))
            self._prices[product] = price
            rows.append({"id": product, "price": str(price)})
        return {"products": {"update": rows}}

    # -- parts

    def _customer(self, at: str) -> Row:
        key, name = self._next(), f"{self._random.choice(FIRST_NAMES)} {self._random.choice(LAST_NAMES)}"
        self._customers.append(key)
        email = f"{name.lower().replace(' ', '.')}.{key}@example.org"
        place = {"region": self._random.choice(REGIONS), "address": self._address()}
        return {"id": key, "name": name, "email": email, **place, "created_at": at}

    def _address(self) -> str:
        return f"{self._random.randint(1, 99)} {self._random.choice(STREETS)}"

    def _next(self) -> int:
        self._id += 1
        return self._id


def rows_in(transaction: dict[str, Tables]) -> int:
    """How many rows it changes."""
    return sum(len(rows) for lists in transaction["tables"].values() for rows in lists.values())


def _text(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds")
