"""The audit log on disk: lines of JSON, each sealed by a hash over itself and the seal of the one before.

An entry is changed, removed or moved only with every later entry, and those are held by ``head``: the file says which
entry is the last, by its number, seal and place. Who can write the folder can make all of it anew; against that, the
head is noted elsewhere now and then, and compared by ``verify``.

A file is named for its first entry. The next begins when one is full or old; none is ever changed. Where headrace.yaml
says how long they are kept, whole files go from the beginning: an entry says up to which one, and its seal, and the
file ``anchor`` says the same. What is left is sealed after it, so it is as verifiable as before.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

FOLDER = "audit"
HEAD = "head"
ANCHOR = "anchor"
REMOVED = "audit_retain"  # the action of the entry that says up to which one was removed, and its seal
NOTHING = "0" * 64  # what the first entry follows
LINE_MAX = 1 << 16  # bytes
_SEAL = re.compile(rb',"seal":"([0-9a-f]{64})"}\n')
_SEAL_BYTES = 76
_NAME = re.compile(r"\d{12}\.log")
_ANCHOR = re.compile(rb"(\d{12}) ([0-9a-f]{64})\n")
_HEAD = re.compile(rb"(\d{12}) ([0-9a-f]{64}) (\d{12}) (\d{12})\n")


@dataclass(frozen=True, slots=True)
class Head:
    """The last entry: its number and seal, the file it is in (its first entry's number), and where it ends there."""

    number: int = 0
    seal: str = NOTHING
    file: int = 1
    end: int = 0

    @property
    def noted(self) -> str:
        """As it is noted elsewhere."""
        return f"{self.number}:{self.seal}"

    def after(self, line: Line) -> Head:
        """Where ``line`` is the entry that follows."""
        return Head(self.number + 1, line.seal, self.file if line.offset else self.number + 1, line.end)

    def before_a_file(self) -> Head:
        """The same, where the next entry is to begin a file."""
        return replace(self, file=self.number + 1, end=0)

    def packed(self) -> bytes:
        return f"{self.number:012d} {self.seal} {self.file:012d} {self.end:012d}\n".encode()


@dataclass(frozen=True, slots=True)
class Damage:
    """The first place where the log is not as it was written. ``number``: the entry; ``end``: where in the file."""

    number: int
    file: str
    offset: int
    why: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """How many entries are as they were written; the head that they end in; what is wrong behind them, if anything.

    ``removed``: how many were before them, and went as headrace.yaml says.
    """

    entries: int
    head: str
    damage: Damage | None
    removed: int = 0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the log: ``entry`` None where it is no sealed one, for the reason ``why``."""

    file: str
    offset: int
    text: bytes
    entry: Mapping[str, Any] | None
    why: str = ""

    @property
    def end(self) -> int:
        return self.offset + len(self.text)

    @property
    def seal(self) -> str:
        return self.text[-_SEAL_BYTES:][9:73].decode()


def file_name(first: int) -> str:
    return f"{first:012d}.log"


def sealed(number: int, fields: Mapping[str, Any], before: str) -> tuple[bytes, str]:
    """An entry as a line, and its seal."""
    text = json.dumps({"number": number, **fields, "before": before}, separators=(",", ":"))[:-1].encode()
    seal = hashlib.sha256(text).hexdigest()
    return text + f',"seal":"{seal}"}}\n'.encode(), seal


def read_head(text: bytes) -> Head | None:
    """None for what is no head."""
    found = _HEAD.fullmatch(text)
    return None if found is None else Head(int(found[1]), found[2].decode(), int(found[3]), int(found[4]))


def files(folder: Path) -> list[Path]:
    """Those of the log, in order."""
    return sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name)) if folder.is_dir() else []


def lines(folder: Path) -> Iterator[Line]:
    """All lines, in order, of what is kept: a file that was to go and is still there is left out."""
    removed = read_anchor(folder) or Head()
    for path in files(folder):
        if int(path.stem) > removed.number:
            yield from lines_of(path)


def read_anchor(folder: Path) -> Head | None:
    """The last entry that was removed; None where the file is damaged, and nothing's where there is none."""
    try:
        text = (folder / ANCHOR).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return Head()
    found = _ANCHOR.fullmatch(text)
    return None if found is None else Head(int(found[1]), found[2].decode())


def anchor_text(removed: Head) -> bytes:
    return f"{removed.number:012d} {removed.seal}\n".encode()


def lines_of(path: Path, offset: int = 0) -> Iterator[Line]:
    with path.open("rb") as file:
        file.seek(offset)
        while text := file.readline(LINE_MAX):
            yield _line(path.name, offset, text)
            offset += len(text)


def last_line(path: Path) -> Line:
    """Only the end of the file is read."""
    with path.open("rb") as file:
        offset = max(file.seek(0, 2) - LINE_MAX, 0)
        file.seek(offset)
        text = file.read(LINE_MAX)
    begin = text.rfind(b"\n", 0, -1) + 1
    return _line(path.name, offset + begin, text[begin:])


def _line(name: str, offset: int, text: bytes) -> Line:
    seal = _SEAL.fullmatch(text[-_SEAL_BYTES:])
    if seal is None:
        return Line(name, offset, text, None, "it is no sealed entry")
    if hashlib.sha256(text[:-_SEAL_BYTES]).hexdigest().encode() != seal[1]:
        return Line(name, offset, text, None, "it was changed: its seal is another one's")
    try:
        entry = json.loads(text)
        known = isinstance(entry["number"], int) and isinstance(entry["before"], str)
    except (ValueError, KeyError, TypeError):
        known = False
    return Line(name, offset, text, entry, "") if known else Line(name, offset, text, None, "it is no entry")


def follows(entry: Mapping[str, Any], head: Head) -> str:
    """Why ``entry`` is not the one after ``head``; empty when it is."""
    if entry["number"] > head.number + 1:
        return _gone(head.number + 1, entry["number"] - 1)
    if entry["number"] != head.number + 1:
        return f"entry {entry['number']} stands where entry {head.number + 1} should"
    return "" if entry["before"] == head.seal else f"it was sealed after another entry {head.number} than is there"


def verify(folder: Path, noted: str = "") -> Verdict:
    """Reads all of it. ``noted``: the head of an earlier verdict, which the log must still have."""
    text = (folder / HEAD).read_bytes() if (folder / HEAD).is_file() else b""
    head, removed = read_head(text), read_anchor(folder)
    if removed is None:
        return _verdict(Head(), Head(), Damage(1, ANCHOR, 0, f"the file {ANCHOR} is damaged"))
    proven, known, told = removed, removed.noted == noted, not removed.number
    for line in lines(folder):
        if not line.text.endswith(b"\n") and head is not None and proven.number >= head.number:
            continue  # it was being written when its process, or the machine, ended
        why = line.why or (follows(line.entry, proven) if line.entry else "")
        if not why and line.offset == 0 and line.file != file_name(proven.number + 1):
            why = f"its file should be called {file_name(proven.number + 1)}"
        if why:
            return _verdict(removed, proven, Damage(proven.number + 1, line.file, line.offset, why))
        before, proven = proven, proven.after(line)
        known = known or proven.noted == noted
        told = told or (line.entry is not None and tells_of(line.entry, removed))
        if head is not None and proven.number == head.number and head not in (proven, proven.before_a_file()):
            why = f"the file {HEAD} says that another entry {head.number} is the last one"
            return _verdict(removed, before, Damage(head.number, HEAD, 0, why))
    damage = _end(head, proven, there=bool(text))
    if damage is None and not told:
        damage = Damage(removed.number, ANCHOR, 0, f"no entry says that those up to {removed.number} were removed")
    if damage is None and noted and not known:
        gone = f", and those up to {removed.number} were removed" if _number(noted) <= removed.number else ""
        damage = Damage(_number(noted), "", 0, f"the head {noted}, noted before, is not one of this log{gone}")
    return _verdict(removed, proven, damage)


def tells_of(entry: Mapping[str, Any], removed: Head) -> bool:
    """Whether it says that the entries up to that one were removed."""
    detail = entry.get("detail") or {}
    return entry.get("action") == REMOVED and (detail.get("upto"), detail.get("seal")) == (removed.number, removed.seal)


def _end(head: Head | None, proven: Head, *, there: bool) -> Damage | None:
    """What is wrong with where the log ends."""
    if head is None and (there or proven.number):
        return Damage(proven.number + 1, HEAD, 0, f"the file {HEAD} is {'damaged' if there else 'not there'}")
    if head is None or head.number < proven.number:
        return None
    if head.number == proven.number:
        sound = head in (proven, proven.before_a_file())  # the next entry may be to begin a file
        return None if sound else Damage(proven.number + 1, HEAD, 0, f"the file {HEAD} is damaged")
    why = _gone(proven.number + 1, head.number)
    return Damage(proven.number + 1, file_name(head.file), 0, why)


def _gone(first: int, last: int) -> str:
    return f"entries {first} to {last} are not there" if last > first else f"entry {first} is not there"


def _number(noted: str) -> int:
    number = noted.partition(":")[0]
    return int(number) if number.isascii() and number.isdigit() else 0


def _verdict(removed: Head, proven: Head, damage: Damage | None) -> Verdict:
    return Verdict(proven.number - removed.number, proven.noted, damage, removed.number)
