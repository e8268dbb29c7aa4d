"""One reader of a consumer group, from Python: beside a running product or within it, without Spark."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from headrace.model.errors import HeadraceError
from headrace.model.group import GroupDelivery

if TYPE_CHECKING:
    from headrace.serve.groups import Groups

WAIT_S = 1.0  # an iteration looks so often whether it was closed


class Subscription:
    """Reads the group ``name``, which is made as ``options`` say where there is none and ``relation`` is given.

        with headrace.subscribe("billing", "orders") as reader:
            for delivery in reader:
                charge(delivery.changes)
                reader.ack(delivery)

    ``consumer``: what this reader is called; by default a name that no other has. ``options``: see ``Groups.create``.
    Raises ``HeadraceError``: group.unknown, and group.relation where the group follows something else.
    """

    def __init__(
        self, groups: Groups, name: str, relation: str | None = None, consumer: str | None = None, **options: Any
    ) -> None:
        self.name, self.consumer = name, consumer or uuid.uuid4().hex[:12]
        self._groups = groups
        self._closed = threading.Event()
        if relation is not None:
            try:
                groups.create(name, relation, **options)
            except HeadraceError as error:
                if error.code != "group.exists":
                    raise
        follows = groups.group(name).follows
        if relation is not None and follows.lower() != relation.lower():
            raise HeadraceError(
                "group.relation", f"the group '{name}' follows {follows}, not {relation}",
                next=f"subscribe to it without naming a feed, or give the group of {relation} another name",
            )  # fmt: skip

    def read(self, most: int = 1, wait_s: float = 0.0) -> list[GroupDelivery]:
        """See ``Groups.read``."""
        return self._groups.read(self.name, self.consumer, most, wait_s, self._closed.is_set)

    def __iter__(self) -> Iterator[GroupDelivery]:
        """One delivery after the other as they come, until ``close``."""
        while not self._closed.is_set():
            yield from self.read(1, WAIT_S)

    def ack(self, *deliveries: GroupDelivery | str) -> int:
        """These, or those of these ids, are done with; once it returns, durably. How many were not yet."""
        return self._groups.ack(self.name, *map(_id, deliveries))

    def ack_upto(self, delivery: GroupDelivery | str) -> int:
        """This one and all before it that this reader has; how many."""
        return self._groups.ack_upto(self.name, _id(delivery), self.consumer)

    def nack(self, *deliveries: GroupDelivery | str, delay_s: float = 0.0, reason: str = "") -> int:
        """These are given back, to come again after ``delay_s``; how many."""
        return self._groups.nack(self.name, *map(_id, deliveries), delay_s=delay_s, reason=reason)

    def extend(self, *deliveries: GroupDelivery | str, lease_s: float | None = None) -> int:
        """These take longer: their leases end ``lease_s`` from now, by default that of the group; how many."""
        return self._groups.extend(self.name, *map(_id, deliveries), lease_s=lease_s)

    def close(self) -> None:
        """End an iteration, from any thread; what was not acknowledged comes again when its lease is over."""
        self._closed.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _id(delivery: GroupDelivery | str) -> str:
    return delivery if isinstance(delivery, str) else delivery.id
