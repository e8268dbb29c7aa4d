"""The audit log: what was done, by whom, and what was refused. Appended to by any thread of any process.

The form on disk, and what it proves, is ``chain``'s. Nothing is ever changed here; what goes is what ``retain`` says.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from headrace.governance.chain import (
    ANCHOR,
    FOLDER,
    HEAD,
    LINE_MAX,
    REMOVED,
    Head,
    Line,
    Verdict,
    anchor_text,
    file_name,
    files,
    follows,
    last_line,
    lines,
    lines_of,
    read_anchor,
    read_head,
    sealed,
)
from headrace.governance.chain import verify as verified
from headrace.governance.principal import Principal
from headrace.governance.roles import RULES, Action
from headrace.model.errors import HeadraceError

FILE_BYTES = 16 << 20  # the next file begins behind these
TEXT_MAX = 200  # letters of a name, an address or a value of detail: who is refused chooses them
DETAIL_MAX = 20  # values of detail
AGES = 8  # the files in which what is kept for a time lies: a file begins anew once it is so old a part of that time
YOUNG_S = 7 * 86_400  # no entry goes for the sake of room before: a flood of them is to hide nothing
GOING_MAX = 16  # files that go in one call, while which nothing is appended
LOCK_S, LOCK_LOOK_S = 10.0, 0.001
Detail = Mapping[str, str | int | None]
_T = TypeVar("_T")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_US, _LAST_US = (
    (of.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1) for of in (datetime.min, datetime.max)
)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Event:
    """What is written down. ``outcome``: begun, done, failed or refused; ``of``: the number of the entry that began it.

    ``detail`` is short and known to hold no secret and no value of a row.
    """

    who: str
    action: str
    outcome: str
    token: str = ""
    relation: str | None = None
    address: str = ""
    of: int | None = None
    detail: Detail = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which entries: those for which all that is given here is so. Times are microseconds since the epoch.

    ``before``: a number; those with a smaller one.
    """

    who: str | None = None
    action: str | None = None
    relation: str | None = None
    outcome: str | None = None
    since_us: int | None = None
    before: int | None = None

    def detail(self) -> Detail:
        """As the audit log has it of who read it: what is given here."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    def takes(self, entry: Mapping[str, Any]) -> bool:
        equal = (("who", self.who), ("action", self.action), ("relation", self.relation), ("outcome", self.outcome))
        if any(value is not None and entry.get(name) != value for name, value in equal):
            return False
        if self.before is not None and entry["number"] >= self.before:
            return False
        return self.since_us is None or str(entry.get("at", "")) >= time_text(self.since_us)


class AuditLog:
    """The audit log of a project, in the folder ``audit`` of ``kept``. ``clock_us``: microseconds since the epoch."""

    def __init__(
        self, kept: Path, clock_us: Callable[[], int] = lambda: time.time_ns() // 1000, file_bytes: int = FILE_BYTES
    ) -> None:
        self.folder = kept / FOLDER
        self._clock_us, self._file_bytes = clock_us, file_bytes

    def append(self, event: Event) -> int:
        """Returns when it is on the disk: its number. Raises ``audit.failed``; then nothing was written."""
        with self._written_or_told():
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._locked() as held:
                return self._append(held, event)

    @contextmanager
    def _written_or_told(self) -> Iterator[None]:
        """Raises ``audit.failed``."""
        try:
            yield
        except OSError as error:
            raise HeadraceError(
                "audit.failed", "the audit log cannot be written", where=str(self.folder),
                why=error.strerror or str(error), next="make room on the disk, or give back the right to write there",
            ) from error  # fmt: skip

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """The file ``head``, for this thread of this process alone."""
        held = os.open(self.folder / HEAD, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            end = time.monotonic() + LOCK_S
            while True:
                try:
                    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > end:
                        raise OSError(f"another process has it for more than {LOCK_S:g} s") from None
                time.sleep(LOCK_LOOK_S)
            yield held
        finally:
            os.close(held)

    def _append(self, held: int, event: Event) -> int:
        head = self._caught_up(self._head(held))
        number = head.number + 1
        line, seal = sealed(number, self._fields(event), head.seal)
        path = self.folder / file_name(head.file)
        if path.exists() and path.stat().st_size + len(line) > self._file_bytes:
            head = replace(head, file=number, end=0)
            path = self.folder / file_name(number)
        end = _written(path, line, head.end)
        os.pwrite(held, replace(head, number=number, seal=seal, end=end).packed(), 0)
        return number

    def retain(self, keep_s: float | None, keep_bytes: int | None) -> int:
        """How many entries went: files from the beginning whose entries are all older than ``keep_s`` seconds, and
        those beyond about ``keep_bytes`` that are older than a week; None: none for that reason. At most ``GOING_MAX``
        files go. Raises ``audit.failed``.

        An entry says up to which. At whatever point it is killed, what is there is sound, and the next call goes on.
        """
        if not self.folder.is_dir():
            return 0
        with self._written_or_told(), self._locked() as held:
            head, removed = self._caught_up(self._head(held)), read_anchor(self.folder)
            if removed is None:
                return 0  # damaged: ``verify`` says so, and nothing more is to be lost
            for path in files(self.folder):
                if int(path.stem) <= removed.number:
                    path.unlink()  # one that ended in the middle has left it
            if keep_s is not None and self._is_old(self.folder / file_name(head.file), keep_s / AGES):
                head = head.before_a_file()
                os.pwrite(held, head.packed(), 0)
            last = self._last_to_go(head, keep_s, keep_bytes)
            if last is None:
                return 0
            gone = replace(Head(), number=int(last.entry["number"]), seal=last.seal) if last.entry else removed
            detail: Detail = {"upto": gone.number, "seal": gone.seal, "entries": gone.number - removed.number}
            self._append(held, Event("headrace", REMOVED, "done", detail=detail))
            self._remove(gone)
            return gone.number - removed.number

    def _is_old(self, path: Path, seconds: float) -> bool:
        first = next(lines_of(path), None) if path.exists() else None
        return first is not None and first.entry is not None and self._older(first.entry, seconds)

    def _older(self, entry: Mapping[str, Any], seconds: float) -> bool:
        return str(entry["at"]) < time_text(self._clock_us() - int(seconds * 1e6))

    def _last_to_go(self, head: Head, keep_s: float | None, keep_bytes: int | None) -> Line | None:
        """The last entry of the last file that goes; None: none does. The file that is being written stays."""
        full = [path for path in files(self.folder) if int(path.stem) < head.file]
        beyond = sum(path.stat().st_size for path in files(self.folder)) - keep_bytes if keep_bytes is not None else 0
        found = None
        for path in full[:GOING_MAX]:
            last = last_line(path)
            aged = keep_s is not None and last.entry is not None and self._older(last.entry, keep_s)
            spare = beyond > 0 and last.entry is not None and self._older(last.entry, YOUNG_S)
            if not (aged or spare):
                break
            found, beyond = last, beyond - path.stat().st_size
        return found

    def _remove(self, gone: Head) -> None:
        """The files up to an entry, once it is on the disk where they ended."""
        partial = self.folder / f".{ANCHOR}"
        file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, anchor_text(gone))
            os.fsync(file)
        finally:
            os.close(file)
        partial.replace(self.folder / ANCHOR)
        _sync_folder(self.folder)
        for path in files(self.folder):
            if int(path.stem) <= gone.number:
                path.unlink()

    def _head(self, held: int) -> Head:
        """What was appended last. Where the file does not say it, the last line that is an entry."""
        text = os.pread(held, LINE_MAX, 0)
        head = read_head(text)
        if head is None:
            head = Head()
            for line in lines(self.folder):
                if line.entry is not None:
                    head = replace(head.after(line), number=line.entry["number"])
            if not text:
                os.pwrite(held, head.packed(), 0)
        return head

    def _caught_up(self, head: Head) -> Head:
        """With the entries that are on the disk, and whose processes ended before they had said so."""
        path = self.folder / file_name(head.file)
        for line in lines_of(path, head.end) if path.exists() else ():
            if line.entry is None or follows(line.entry, head):
                break
            head = head.after(line)
        if head.end and (self.folder / file_name(head.number + 1)).exists():
            return self._caught_up(replace(head, file=head.number + 1, end=0))
        return head

    def _fields(self, event: Event) -> dict[str, Any]:
        return {
            "at": time_text(self._clock_us()),
            "who": event.who[:TEXT_MAX],
            "token": event.token,
            "action": event.action[:TEXT_MAX],
            "relation": None if event.relation is None else event.relation[:TEXT_MAX],
            "address": event.address[:TEXT_MAX],
            "outcome": event.outcome,
            "of": event.of,
            "detail": {
                key: value[:TEXT_MAX] if isinstance(value, str) else value
                for key, value in list(event.detail.items())[:DETAIL_MAX]
            },
        }

    @contextmanager
    def doing(
        self, principal: Principal, action: Action, relation: str | None = None, *, address: str = "",
        detail: Detail | None = None, must: bool = True,
    ) -> Iterator[None]:  # fmt: skip
        """What is done in the block is written down before and after: nothing changes without an entry.

        Raises ``audit.failed`` before the block; without ``must`` that is a warning. Nothing is written of an action
        that changes nothing.
        """
        if not RULES[action].changes:
            yield
            return
        begun = Event(principal.name, action, "begun", principal.token, relation, address, detail=detail or {})
        number = self.append(begun) if must else self.note(begun)
        try:
            yield
        except BaseException as failure:
            code = failure.code if isinstance(failure, HeadraceError) else type(failure).__name__
            self.note(replace(begun, outcome="failed", of=number, detail={**begun.detail, "code": code}))
            raise
        self.note(replace(begun, outcome="done", of=number))

    def note(self, event: Event) -> int | None:
        """As ``append``; where it cannot be written, that is a warning: it has happened all the same."""
        try:
            return self.append(event)
        except HeadraceError as error:
            _log.warning("not in the audit log: %s of %s by '%s'; %s", event.outcome, event.action, event.who, error)
            return None

    def recent(self, wanted: Wanted, most: int) -> tuple[list[Mapping[str, Any]], int]:
        """The last ``most`` entries that are wanted, oldest first; and how many lines of the log are no entries."""

        def read() -> tuple[list[Mapping[str, Any]], int]:
            found: deque[Mapping[str, Any]] = deque(maxlen=most)
            unreadable = 0
            for line in lines(self.folder):
                if line.entry is None:
                    unreadable += line.text.endswith(b"\n")  # without, it is being written
                elif wanted.takes(line.entry):
                    found.append(line.entry)
            return list(found), unreadable

        return self._read(read)

    def verify(self, noted: str = "") -> Verdict:
        return self._read(lambda: verified(self.folder, noted))

    def _read(self, read: Callable[[], _T]) -> _T:
        """Without the lock, so once more where the beginning of the log went meanwhile."""
        before = read_anchor(self.folder)
        try:
            found = read()
        except FileNotFoundError:
            return read()
        return found if read_anchor(self.folder) == before else read()


def _written(path: Path, line: bytes, end: int) -> int:
    """Appends a line behind what is acknowledged, ``end`` bytes, and returns where it ends once it is on the disk.

    The piece of a line that was never acknowledged goes. What else does not belong there stays, for ``verify`` to find.
    """
    new = not path.exists()
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(file).st_size
        behind = os.pread(file, LINE_MAX, end)
        if behind and len(behind) < LINE_MAX and b"\n" not in behind:
            os.ftruncate(file, end)
            size = end
        elif size and os.pread(file, 1, size - 1) != b"\n":
            line = b"\n" + line
        try:
            if os.write(file, line) != len(line):
                raise OSError("the disk took a part of the entry only")
            os.fsync(file)
        except OSError:
            os.ftruncate(file, size)
            raise
        if new:
            _sync_folder(path.parent)
        return size + len(line)
    finally:
        os.close(file)


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def time_text(microseconds: int) -> str:
    """A time as JSON has it: UTC, six digits, so that the order of texts is that of times; of the years 1 to 9999."""
    at = _EPOCH + timedelta(microseconds=min(max(microseconds, _FIRST_US), _LAST_US))
    return f"{at.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
