"""What the killed readers of a consumer group do: read, acknowledge, give back; each told in a ledger before and after.

Lines of the ledger: ``given ID``, ``acking ID ...``, ``acked``. The clock stands still in a run: it is in the file ``now``.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from headrace.model.errors import HeadraceError
from headrace.serve.groups import Groups

LEDGER, NOW, GROUP, LEASE_S, MOST_DELIVERIES = "ledger", "now", "g", 10, 5


def poison(commit: int) -> bool:
    """Transactions that no reader can take: they are given back each time."""
    return commit % 5 == 0


def work(folder: str) -> int:
    """Until there is nothing left to read."""
    now = int((Path(folder) / NOW).read_text())
    groups = Groups(Path(folder), lambda: now)
    ledger = os.open(Path(folder) / LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def tell(*words: str) -> None:
        os.write(ledger, (" ".join(words) + "\n").encode())

    with contextlib.suppress(HeadraceError):  # group.exists: it was made before a kill
        groups.create(GROUP, "orders", lease_s=LEASE_S, max_deliveries=MOST_DELIVERIES)
    turn = 0
    while found := groups.read(GROUP, "reader", 3):
        for delivery in found:
            tell("given", delivery.id)
        good = [delivery.id for delivery in found if not poison(delivery.commit)]
        bad = [delivery.id for delivery in found if poison(delivery.commit)]
        turn += 1
        if good:
            tell("acking", *good)
            if turn % 3 or bad:
                groups.ack(GROUP, *good)
            else:
                groups.ack_upto(GROUP, good[-1], "reader")
            tell("acked")
        if bad:
            groups.nack(GROUP, *bad, reason="poison")
    return 0
