"""A sink that tells of changes: it takes a delivery into its outbox, and sends what is in there, in order.

Who is told keeps nothing that could be read back, so the frontier is kept in the project. A connector only sends.
"""

from __future__ import annotations

import random
import ssl
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

from headrace.catalog.project import STATE
from headrace.model.delivery import Delivery
from headrace.model.errors import HeadraceError
from headrace.sinks.alerts import FOLDER
from headrace.sinks.alerts.happened import Happening, Message, happened, messages, unsayable, untellable
from headrace.sinks.alerts.options import AlertOptions
from headrace.sinks.alerts.outbox import LETTER_MESSAGES, Letter, Outbox
from headrace.sinks.base import Sink
from headrace.sinks.comparison import Comparison, Expected
from headrace.sinks.quarantine import Unheld, sifted
from headrace.sinks.target import Target, other_history, pending, targets
from headrace.sinks.tenure import Tenure

AGAIN_S = 0.5  # until the second attempt; doubled for each one after that
AGAIN_S_MAX = 300.0
WAITING_MAX = 10_000  # messages; what is beyond stays in the views' feeds


class Again(Exception):
    """It was not taken this time, or not by ``rest``. ``after_s``: when the receiver wants it again."""

    def __init__(self, error: HeadraceError, after_s: float | None = None, rest: tuple[str, ...] | None = None) -> None:
        super().__init__(error.what)
        self.error, self.after_s, self.rest = error, after_s, rest


class Refused(Exception):
    """It will never be taken, or not by ``rest``."""

    def __init__(self, reason: str, rest: tuple[str, ...] | None = None) -> None:
        super().__init__(reason)
        self.reason, self.rest = reason, rest


class AlertSink(Sink):
    """``about``: what the ids of messages are made from beside view and commit.

    A connector gives ``send``, and may give ``together`` and ``check``.
    """

    apart = tells = True
    together = False
    """Whether what waits of a view is told as one; with ``per: row`` only once more waits than may be sent."""

    def __init__(
        self,
        name: str,
        options: AlertOptions,
        keys: Mapping[str, tuple[str, ...]],
        where: str,
        project: str,
        base: Path | None,
        log: str,
    ) -> None:
        self.name = name
        self.quarantined: Mapping[str, int] = {}
        self.quarantine = "it could not tell", f"`headrace alerts ls {name}`"
        self._alerts, self._where, self._base = options, where, base or Path.cwd()
        self._keys = {view: tuple(key) for view, key in keys.items()}
        self._about: tuple[str, ...] = (log, project, name)
        self._path = self._base / STATE / FOLDER / f"{name}.db"
        self._tenure = Tenure(where)
        self._kept: Outbox | None = None
        self.attempts, self._not_before = 0, 0.0
        self._last: Again | None = None

    @abstractmethod
    def send(self, letter: Letter, outbox: Outbox) -> None:
        """Sends it, once. Raises ``Again`` and ``Refused``; anything else stops the sink for now."""

    def rest(self) -> None:
        """Nothing more is to be sent for now."""

    def check(self, target: Target) -> None:
        """Raises when the sink cannot tell of such a view as it is configured."""

    def open(self, end: int | None = None) -> int | None:
        """Also sends what was waiting. Raises as ``write`` does, ``state.corrupt`` and ``state.layout``."""
        self.close()
        self._kept = outbox = Outbox(self._path, check=self._tenure.generation is None)
        reached = outbox.take_over(self._tenure)
        self.anew = other_history(reached, None, "", end)
        if self.anew:
            outbox.begin_anew()
        self._about = (*self._about[:3], str(outbox.history()))
        self._send()
        return outbox.frontier()

    def held(self) -> dict[str, int]:
        return {view: held.version for view, held in self._outbox.held().items()}

    def ready(self) -> bool:
        """Sends what may be sent by now. Raises as ``write`` does."""
        self._send()
        return self._outbox.waiting(WAITING_MAX) < WAITING_MAX

    def write(self, delivery: Delivery) -> None:
        """Takes the delivery and sends what it says. Raises what keeps it from being sent: it is taken all the same.

        ``sink.connect``, ``sink.auth``, ``sink.rights``, ``sink.refused`` (it is sent again), ``sink.gone``,
        ``sink.fenced``; ``config.invalid``, ``sink.conflict`` and ``sink.value``: nothing of it is taken.
        """
        outbox = self._outbox
        checked = targets(delivery, self._keys, self._where)
        for target in checked.values():
            self.check(target)
        frontier = outbox.frontier()
        due = pending(delivery, frontier, outbox.held() if frontier == delivery.commit else {}, checked)
        due, bad = sifted(due, checked, untellable)
        told: list[Iterator[Message]] = []
        for view, table in due.replacements.items():
            if self._alerts.initial == "send":
                told.append(self._messages(checked[view], happened(checked[view], table, ["enter"]), due.commit, True))
            else:
                bad.pop(view, None)
        for view, table in due.deltas.items():
            changes = happened(checked[view], table, self._alerts.on)
            told.append(self._messages(checked[view], changes, due.commit, False))
        outbox.take(
            self._tenure,
            delivery.commit,
            chain.from_iterable(told),
            [checked[view] for view in due.replacements],
            due.dropped,
            [dead for view, rows in bad.items() for dead in self._dead(checked[view], rows, due.commit)],
        )
        self._send()

    def compare(self, expected: Expected) -> list[Comparison]:
        """Raises ``sink.unsupported``: who was told keeps nothing that could be read."""
        del expected
        raise HeadraceError(
            "sink.unsupported",
            f"what the sink '{self.name}' has told cannot be compared with the views, or put right",
            where=self._where,
            why="its receiver cannot be read back",
            next=f"headrace alerts ls {self.name}",
        )

    repair = compare

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def drop(self) -> None:
        """Removes the outbox, with all that waits in it."""
        self.close()
        for suffix in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
        self._tenure.left()

    def tls(self) -> ssl.SSLContext:
        """How a receiver must prove who it is. Raises ``config.invalid`` for a ``ca`` that is none."""
        ca = self._alerts.ca
        try:
            return ssl.create_default_context(cafile=str(self._base / Path(ca).expanduser()) if ca else None)
        except OSError as error:
            raise HeadraceError(
                "config.invalid",
                f"'ca' names {ca}, which is no file of certificates",
                where=self._where,
                why=error.strerror or str(error),
                next="a path starts at the project folder; the file is PEM",
            ) from error

    @property
    def _outbox(self) -> Outbox:
        if self._kept is None:
            raise HeadraceError("internal", "a sink is written to before it is open", where=self._where)
        return self._kept

    def _messages(self, target: Target, found: Iterator[Happening], commit: int, initial: bool) -> Iterator[Message]:
        each = self._alerts.per == "row"
        return messages(target, found, commit, self._about, each=each, initial=initial)

    def _dead(self, target: Target, rows: list[Unheld], commit: int) -> list[tuple[Message, str]]:
        """Rows that cannot be told, as dead letters."""
        told = [row for row in rows if ("enter" if row.weight > 0 else "leave") in self._alerts.on]
        return [(unsayable(target, row, commit, self._about), row.reason) for row in told]

    def _send(self) -> None:
        """All that may be sent by now, in order."""
        outbox, rate = self._outbox, self._alerts.at_most
        try:
            while outbox.waiting(1) and (turns := WAITING_MAX if rate is None else outbox.turns(rate)):
                wait_s = self._not_before - time.monotonic()
                if self._last is not None and wait_s > 0:
                    raise self._told(self._last, wait_s)
                self._send_one(outbox.next(self._tenure, self._gathers(turns)))
                self.attempts, self._last = 0, None
            self.rest()
        finally:
            self.quarantined = outbox.dead_rows()

    def _gathers(self, turns: int) -> int:
        """Of how many waiting messages of one view a letter is made; ``turns``: how many letters may go now."""
        each = not self.together or (self._alerts.per == "row" and self._outbox.waiting(turns + 1) <= turns)
        return 1 if each else LETTER_MESSAGES

    def _send_one(self, letter: Letter) -> None:
        outbox, longest_s = self._outbox, self._alerts.retry_for
        try:
            self.send(letter, outbox)
        except Again as again:
            if again.rest is not None:
                outbox.owed(self._tenure, letter, again.rest)
            if longest_s is None or letter.waits_s < longest_s:
                raise self._told(again, self._later(again)) from again
            tried = f"it was tried for {letter.waits_s:.0f} s: {again.error.what}"
            outbox.bury(self._tenure, letter, f"{tried}: {again.error.why}" if again.error.why else tried, again.rest)
        except Refused as refused:
            outbox.bury(self._tenure, letter, refused.reason, refused.rest)
        else:
            outbox.sent(self._tenure, letter, self._alerts.at_most)

    def _later(self, again: Again) -> float:
        """Seconds until the next attempt: a random part of what is doubled each time, or what the receiver wants."""
        self.attempts += 1
        most_s = min(AGAIN_S_MAX, AGAIN_S * float(2 ** min(self.attempts - 1, 20)))
        wait_s = max(most_s * (0.5 + random.random() / 2), again.after_s or 0.0)
        self._not_before, self._last = time.monotonic() + wait_s, again
        return wait_s

    def _told(self, again: Again, wait_s: float) -> HeadraceError:
        error = again.error
        later = f"it is sent again in {max(wait_s, 1):.0f} s; nothing is lost"
        return HeadraceError(
            error.code,
            error.what,
            where=error.where,
            why=error.why,
            next=f"{error.next}; {later}" if error.next else later,
        )
