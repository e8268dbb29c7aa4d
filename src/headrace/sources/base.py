"""What a source must do. The engine pulls: it polls for whole transactions, logs them, then confirms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from headrace.model.errors import HeadraceError
from headrace.model.finding import OK, Finding
from headrace.model.group import GroupDelivery
from headrace.model.pace import Copying
from headrace.model.schema import Relation
from headrace.model.transaction import RefusedRow, TransactionBatch

if TYPE_CHECKING:
    import pyarrow as pa


WAIT, REFUSE, DROP = "wait", "refuse", "drop"  # what a source does when it is full


class Answers(Protocol):
    """What the clients of a push source may ask of the engine; from any thread."""

    def frontier(self) -> dict[str, Any]:
        """Which commit each view and sink has reached, and the least of them."""

    def wait_for(
        self, token: int | str, timeout_s: float, view: str | None, sink: str | None,
        on_progress: Callable[[dict[str, Any]], None] | None, whose: str | None,
    ) -> dict[str, Any]:  # fmt: skip
        """Wait until views and sinks have reached a write; what ``on_progress`` raises ends it.

        ``whose``: what all share who have the same token, so that they are not all who wait; None: there is none.
        Raises ``HeadraceError``: wait.token, wait.timeout, wait.busy, view.unknown, view.failed, sink.unknown.
        """


class Keeper(Protocol):
    """The quarantine, for a source that answers at once for what it cannot read."""

    def keep(self, refused: RefusedRow) -> str:
        """Keep it durably; its id."""


class GroupReading(Protocol):
    """The consumer groups, for a source that lets them be read where it listens; from any thread.

    See ``serve.groups.Groups``. Raises ``HeadraceError``: group.unknown, group.lease, group.invalid, group.position.
    """

    def entries(self) -> list[dict[str, Any]]: ...

    def read_now(self, name: str, consumer: str, most: int) -> list[GroupDelivery]: ...

    def ack(self, name: str, *ids: str) -> int: ...

    def ack_upto(self, name: str, id: str, consumer: str) -> int: ...

    def nack(self, name: str, *ids: str, delay_s: float = 0.0, reason: str = "") -> int: ...

    def extend(self, name: str, *ids: str, lease_s: float | None = None) -> int: ...


def _heard_by_nobody(event: dict[str, Any]) -> None:
    """Where no engine has set a source's ``tell``."""


def _noted_by_nobody(position: str) -> None:
    """Where no engine has set a source's ``note``."""


def _stored_by_nobody(relation: Relation, keys: pa.Table) -> pa.Table | None:
    """Where no engine has set a source's ``stored``."""


class Source(ABC):
    """One place where data changes.

    The engine calls ``start`` once, then ``poll`` and ``confirm`` in turn from a single thread; ``add`` and
    ``close`` come from that thread too. ``relations`` and ``warnings`` may be called at any time, also
    without ``start`` (by ``headrace plan``), and change nothing at the source.

    ``named``: the tables that its definition names, where it does: it has no others.

    ``copies``: whether a start without a position, or ``add``, delivers the whole contents of a table. Of a table in
    ``held`` (set by the engine) the log may hold rows of an earlier time: its copy begins by emptying it. Tables in
    ``refuses`` stop the engine at a strict change that does not fit what they hold; of others it is set aside.
    ``tell`` (set
    by the engine) takes events of its own (``{"event", "source", "what", ...}``, no failures); ``notices`` is what
    ``headrace status`` shows beside its state.
    ``note`` (set by the engine) puts a position into the log, durably, as a transaction without changes: for a source
    whose ``start`` is about to undo what the last position counts on. ``stored`` (set by the engine) gives the rows
    that the log, and so all that was polled before, has under these keys of a relation, and perhaps more of its rows;
    None: it is not known. ``answers`` (set by the engine before ``start``) is what a push source may pass on to its
    clients, and ``keeper`` where it may keep what it cannot read.
    ``groups``: the consumer groups that may be read where it listens.

    ``when_full`` (set by the engine before ``start``, one of ``fullness``): what becomes of changes that come
    faster than they are taken. A source that is polled waits, as it is not polled then; one that is pushed to may
    ``refuse``, or ``drop`` what comes and count it.
    """

    name: str
    named: Collection[str] | None = None
    copies: bool = False
    held: frozenset[str] = frozenset()
    refuses: frozenset[str] = frozenset()
    notices: tuple[str, ...] = ()
    tell: Callable[[dict[str, Any]], None] = staticmethod(_heard_by_nobody)
    note: Callable[[str], None] = staticmethod(_noted_by_nobody)
    stored: Callable[[Relation, pa.Table], pa.Table | None] = staticmethod(_stored_by_nobody)
    answers: Answers | None = None
    keeper: Keeper | None = None
    groups: GroupReading | None = None
    fullness: tuple[str, ...] = (WAIT,)
    when_full: str = WAIT

    @abstractmethod
    def relations(self) -> tuple[Relation, ...]:
        """Every relation the source offers. Raises ``HeadraceError`` when it cannot be reached."""

    def warnings(self, tables: frozenset[str]) -> tuple[str, ...]:
        """What the user should know before these tables are followed."""
        return ()

    def examine(self, wanted: Callable[[str], bool]) -> Iterator[Finding]:
        """All that is there and all that is missing, changing nothing (`headrace doctor`).

        ``wanted``: whether views read the table of that name. Raises ``HeadraceError`` for what ends the examination.
        """
        del wanted
        yield Finding(
            OK, f"offers {', '.join(sorted(relation.name for relation in self.relations())) or 'no table yet'}"
        )

    @abstractmethod
    def start(self, tables: frozenset[str], position: str | None) -> None:
        """Begin to follow ``tables``, after ``position`` (the last one in the log, or None at the very first start)."""

    @abstractmethod
    def add(self, tables: frozenset[str]) -> None:
        """Follow these tables too; their present contents arrive as one transaction, the others go on."""

    @abstractmethod
    def poll(self, wait_s: float) -> TransactionBatch | None:
        """The next whole transactions, or None when nothing came within ``wait_s`` seconds."""

    @abstractmethod
    def confirm(self, batch: TransactionBatch, first_commit: int) -> None:
        """The log holds ``batch`` durably; its first transaction has commit number ``first_commit``."""

    def reject(self, batch: TransactionBatch, error: Exception) -> None:  # noqa: B027 - only push sources answer
        """The log could not take ``batch``; nothing of it was kept. Push sources answer their client."""

    def reread(self, refused: RefusedRow) -> dict[str, pa.Table]:
        """The changes of one transaction that a refused row stands for, now or corrected; as in a batch.

        Raises ``HeadraceError`` where it still cannot be read.
        """
        raise HeadraceError("quarantine.replay", f"the source '{self.name}' keeps no rows", where=self.name)

    @abstractmethod
    def close(self) -> None:
        """Stop; what the source keeps for us (slot, publication) stays."""

    def caught_up(self) -> bool:
        """Whether all that was at the source when it was started has been polled; asked after a poll gave nothing.

        ``headrace up --once`` ends then. A source that clients push to holds nothing of its own.
        """
        return True

    def holding(self, point: str, tables: frozenset[str]) -> Callable[[str], bool]:
        """A test of positions: whether a log that has one holds all that had happened to ``tables`` by ``point``.

        ``point`` is spelled as users of the source read it there. Called at any time, also without ``start``. Raises
        ``wait.token`` for what is no such point, and where positions have no order.
        """
        raise HeadraceError(
            "wait.token",
            f"'{point}' is no point of the source '{self.name}' that can be waited for",
            why="the positions of a source of this type have no order that its users can read",
            next="wait for a commit number",
        )

    def altered(self) -> bool:
        """Whether tables have become others than it was made for: made anew, it takes them as they are.

        What they have lost it tells in the log, as changes of ``model.altered``.
        """
        return False

    def seen(self) -> str | None:
        """A position up to which all has been polled, though no transaction may stand there; None: not known now.

        The engine asks between two polls while somebody waits for a point of the source, and now and then while it does
        not poll since views or sinks are too far behind: a server that the source is connected to then hears of it.
        """
        return None

    def copying(self) -> Sequence[Copying]:
        """The tables whose first copy, or the reading of large files, is under way; asked from other threads."""
        return ()

    def pressure(self) -> dict[str, Any]:
        """For the status of a source that clients push to: what waits, and how much was refused or dropped."""
        return {}

    def endpoint(self) -> dict[str, str]:
        """``endpoint`` and ``token_file`` of a source that clients push to; empty for one that is pulled from."""
        return {}

    def drop(self) -> None:  # noqa: B027 - most sources make nothing
        """Remove everything made at the source."""
