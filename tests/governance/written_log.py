"""An audit log of a few entries in files of three each, and what a test asks of it."""

from __future__ import annotations

from pathlib import Path

from headrace.governance.audit import AuditLog, Event
from headrace.governance.chain import Damage

FILE_BYTES = 1_100  # three entries
HOUR_US = 3_600_000_000
NOON_US = 1_772_366_400_000_000  # 2026-03-01T12:00Z


def written(folder: Path, count: int, file_bytes: int = FILE_BYTES) -> AuditLog:
    """A log with that many entries, eight days apart."""
    times = iter(range(NOON_US, NOON_US + 10**15, 8 * 24 * HOUR_US))
    log = AuditLog(folder, lambda: next(times), file_bytes)
    for number in range(1, count + 1):
        assert log.append(Event("owner", "apply", "done", relation=f"view_{number}", detail={"rows": number})) == number
    return log


def files(log: AuditLog) -> list[Path]:
    return sorted(log.folder.glob("*.log"))


def text_of(log: AuditLog) -> list[bytes]:
    return [line for path in files(log) for line in path.read_bytes().splitlines(keepends=True)]


def sound(log: AuditLog) -> int:
    """How many entries there are; all are as they were written."""
    verdict = log.verify()
    assert verdict.damage is None
    return verdict.entries


def damage(log: AuditLog, noted: str = "") -> Damage:
    verdict = log.verify(noted)
    assert verdict.damage is not None
    assert verdict.entries == verdict.damage.number - 1 or noted
    return verdict.damage


def flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ (1 << place % 8)]) + content[place + 1 :]
