"""A consumer group as a plain Python object: what it has to hand out, and what it has to refuse."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Held:
    attempt: int
    last: int
    until: int
    span: int
    consumer: str = ""
    leased: bool = True
    reason: str = ""
    again: bool = False  # a dead letter that is sent again


@dataclass
class Model:
    """``feed``: the commits it follows, those of the log so far, which ends at ``end``. ``dead``: (commit, attempt) by
    number."""

    feed: list[int]
    lease: int
    most_deliveries: int
    in_flight: int
    read: int = 0
    open: dict[int, Held] = field(default_factory=dict)
    dead: dict[int, tuple[int, int]] = field(default_factory=dict)
    letters: int = 0
    end: int = 0
    acked: set[int] = field(default_factory=set)

    def tick(self, now: int) -> None:
        """What time alone does."""
        for commit, held in sorted(self.open.items()):
            held.until = min(held.until, now + held.span)
            if held.attempt >= held.last and (held.until <= now or not held.leased):
                self.letters += 1
                self.dead[self.letters] = (commit, held.attempt)
                del self.open[commit]

    def take(self, consumer: str, most: int, now: int) -> list[str]:
        self.tick(now)
        busy = sum(held.leased and held.until > now for held in self.open.values())
        due = [c for c in sorted(self.open) if self.open[c].until <= now][: max(0, self.in_flight - busy)][:most]
        for commit in due:
            held = self.open[commit]
            held.attempt, held.consumer, held.leased = held.attempt + 1, consumer, True
            held.until, held.span = now + self.lease, self.lease
        new = [c for c in self.feed if c > self.read]
        room = max(0, min(most - len(due), self.in_flight - len(self.open)))
        new = new[:room]
        for commit in new:
            self.open[commit] = Held(1, self.most_deliveries, now + self.lease, self.lease, consumer)
            self.read = commit if len(new) == room else self.end  # it looked for more, up to there
        assert not self.acked & {*due, *new} - {c for c in due if self.open[c].again}
        return [f"{c}.{self.open[c].attempt}" for c in (*due, *new)]

    def held(self, ids: list[str], now: int) -> tuple[list[int], bool]:
        """(the commits whose readers still have them, whether another one is refused)."""
        for held in self.open.values():
            held.until = min(held.until, now + held.span)
        kept, late = set(), False
        for commit, attempt in (map(int, id.split(".")) for id in ids):
            held = self.open.get(commit)
            if held is not None and held.attempt == attempt and held.leased and held.until > now:
                kept.add(commit)
            elif held is not None or commit > self.read or (commit, attempt) in self.dead.values():
                late = True
        return sorted(kept), late

    def ack(self, commits: list[int]) -> None:
        for commit in commits:
            del self.open[commit]
            self.acked.add(commit)

    @property
    def frontier(self) -> int:
        waiting = [commit for commit, held in self.open.items() if not held.again]
        return min(waiting) - 1 if waiting else self.read
