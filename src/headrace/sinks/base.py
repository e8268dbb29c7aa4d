"""What a sink must do: take whole deliveries, remember its frontier in the same transaction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from headrace.model.delivery import Delivery


class Sink(ABC):
    """One store that views are delivered to. All calls come from the sink's own thread."""

    name: str
    quarantined: Mapping[str, int]
    """View -> its rows that the store cannot hold: they are in its quarantine. Known once it is open."""

    @abstractmethod
    def open(self) -> int | None:
        """Connect, take over (fence older instances), and return the commit reached, or None for a new sink."""

    @abstractmethod
    def held(self) -> dict[str, int]:
        """The views the store holds for this sink, each with its version."""

    @abstractmethod
    def write(self, delivery: Delivery) -> None:
        """Write all of ``delivery`` and the new frontier in one transaction, or raise and write nothing."""

    @abstractmethod
    def close(self) -> None:
        """Disconnect."""

    def drop(self) -> None:  # noqa: B027 - a sink may have nothing to remove
        """Remove every table made in the store."""
