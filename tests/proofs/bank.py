"""A history of transactions that a seed draws, and what every view must hold after each: plain Python, no product code.

Table ``left`` has accounts, ``right`` what was moved out of them; each transaction takes from one account and gives
to the other side, so that what both hold together never changes. ``sums`` holds the total of each that is not 0.
"""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa

from headrace.model.schema import Column, ViewSchema
from headrace.model.transaction import TransactionBatch, TransactionOrigin

SOURCE = "bank"
KEPT = ("left", "right")
TOTAL = 1000
Rows = Counter[tuple[int, int]]
VIEWS = tuple(
    ViewSchema(name, 1, (Column("id", "bigint"), Column("amount", "bigint")), key)
    for name, key in (("left", ("id",)), ("right", ()), ("sums", ("id",)))
)


class History:
    """``changes[n]``: the rows that transaction n (from 1) removes (1) and adds (0), by table."""

    def __init__(self, seed: int, transactions: int) -> None:
        rng = random.Random(seed)
        self.seed = seed
        self.changes: list[dict[str, list[tuple[int, int, int]]]] = [{}]
        self.held: list[dict[str, Rows]] = [{name: Counter() for name in (*KEPT, "sums")}]
        left, right = dict.fromkeys(range(10), TOTAL // 10), list[tuple[int, int]]()
        self._add({"left": [(0, n, amount) for n, amount in left.items()]})
        for number in range(2, transactions + 1):
            account = rng.randrange(10)
            if right and rng.random() < 0.4:
                mark, amount = right.pop(rng.randrange(len(right)))
                moved, other = amount, (1, mark, amount)
            else:
                amount = rng.randrange(1, 5)
                right.append((number % 7, amount))
                moved, other = -amount, (0, number % 7, amount)
            before, left[account] = left[account], left[account] + moved
            self._add({"left": [(1, account, before), (0, account, left[account])], "right": [other]})

    def _add(self, changes: dict[str, list[tuple[int, int, int]]]) -> None:
        self.changes.append(changes)
        held = {name: rows.copy() for name, rows in self.held[-1].items()}
        for name, rows in changes.items():
            for operation, identity, amount in rows:
                held[name][identity, amount] += 1 - 2 * operation
        totals = [sum(amount * copies for (_, amount), copies in held[name].items()) for name in KEPT]
        held["sums"] = Counter({(place, total): 1 for place, total in enumerate(totals) if total})
        self.held.append({name: +rows for name, rows in held.items()})

    def together(self, at: int) -> int:
        """How many transactions the source gives at once behind ``at``; the same whenever it is asked."""
        return min(random.Random(f"{self.seed} {at}").randrange(1, 4), len(self.changes) - 1 - at)

    def pause(self, at: int) -> int:
        """What happens behind transaction ``at``: 0 nothing, 1 a step, 2 the sink is waited for and a checkpoint."""
        return random.Random(f"{self.seed} pause {at}").choice([0, 1, 1, 2])

    def batch(self, first: int, size: int) -> TransactionBatch:
        changes = {}
        for name in KEPT:
            rows = [(t, *row) for t in range(size) for row in self.changes[first + t].get(name, [])]
            if rows:
                ordinals, operations, identities, amounts = zip(*rows, strict=True)
                changes[name] = pa.table(
                    {
                        "_t": pa.array(ordinals, pa.int32()),
                        "_op": pa.array([2 * operation for operation in operations], pa.int8()),
                        "id": pa.array(identities, pa.int64()),
                        "amount": pa.array(amounts, pa.int64()),
                    }
                )
        return TransactionBatch(
            tuple(TransactionOrigin(SOURCE, str(n), n) for n in range(first, first + size)), changes
        )
