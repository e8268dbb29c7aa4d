"""What a sink must do: take whole deliveries, remember its frontier in the same transaction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping

from headrace.model.delivery import Delivery, Succession
from headrace.model.errors import HeadraceError
from headrace.model.finding import Finding
from headrace.sinks.comparison import Comparison, Expected


class Sink(ABC):
    """One store that views are delivered to. All calls come from the sink's own thread."""

    name: str
    quarantined: Mapping[str, int]
    """View -> its rows that the store cannot hold: they are in its quarantine. Known once it is open."""
    quarantine: tuple[str, str] = "its store cannot hold", "its table headrace_quarantine"
    """What is said of those rows to the user, and where he finds them."""
    attempts = 0
    """How often, one after the other, what is to be told next was sent in vain."""
    anew: str = ""
    """Why what the store held at ``open`` was not of this log; empty when it was, or when there was nothing."""
    tells = False
    """Whether it tells of changes and keeps no contents: then it may be given matches of stored queries for views."""
    apart = False
    """Whether every published step comes by itself, rather than several as one when the sink is behind."""

    @abstractmethod
    def open(self, end: int | None = None) -> int | None:
        """Connect, take over (fence older instances), and return the commit reached, or None for a new sink.

        A store that was written from another log, or is beyond ``end``, the last commit of a step, holds nothing that
        can be carried on with: its views are marked stale and have version 0, and it is as new.
        """

    def examine(self) -> Iterator[Finding]:
        """All that is there and all that is missing, changing nothing (`headrace doctor`).

        Raises ``HeadraceError`` for what ends the examination.
        """
        yield from ()

    @abstractmethod
    def held(self) -> dict[str, int]:
        """The views the store holds for this sink, each with its version."""

    def ready(self) -> bool:
        """Whether it takes a delivery now. Asked before each, and from time to time when there is none.

        What waits in it for its time is done here. Raises as ``write`` does.
        """
        return True

    @abstractmethod
    def write(self, delivery: Delivery) -> None:
        """Write all of ``delivery`` and the new frontier in one transaction, or raise and write nothing."""

    def write_each(self, succession: Succession) -> None:
        """Write every transaction as one of its own, in order, or raise: then those up to the one that failed stand.

        What is not beyond the sink's frontier was written before and is left out. All that this returns from is as
        durable as a ``write``.
        """
        for delivery in succession.deliveries():
            self.write(delivery)

    @abstractmethod
    def close(self) -> None:
        """Disconnect."""

    def drop(self) -> None:  # noqa: B027 - a sink may have nothing to remove
        """Remove every table made in the store."""

    def compare(self, expected: Expected) -> list[Comparison]:
        """The store's rows against the ``expected`` ones, as multisets of whole rows, over one snapshot of the store.

        It needs no ``open`` before, takes nothing over and changes nothing. Raises ``sink.unsupported`` for a store
        that cannot be read back.
        """
        del expected
        raise self._cannot("be compared with the views")

    def repair(self, expected: Expected) -> list[Comparison]:
        """Brings the store to the ``expected`` rows, in one transaction at the commit that it has reached.

        Only what differs is written; a table that is gone or has another form is made anew. Returns what was wrong.
        Raises as ``write`` does (nothing is written then) and ``compare``.
        """
        del expected
        raise self._cannot("be repaired row by row")

    def _cannot(self, what: str) -> HeadraceError:
        return HeadraceError(
            "sink.unsupported",
            f"the sink '{self.name}' cannot {what}",
            why=f"{type(self).__name__} has no way to read back what it wrote",
            next="to have its contents written anew, drop its tables in the store and restart",
        )
