"""Removing the log's beginning: how far it may go, what is wanted, and doing it.

Nothing that somebody still needs is removed: the commits behind the engine's checkpoint, behind the frontier of each
sink that is waited for, those that a consumer group holds, and behind what the quarantine has under way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.catalog.groups import FILE as GROUPS
from headrace.catalog.groups import needed
from headrace.catalog.store import Catalog
from headrace.engine import bases
from headrace.engine.kept import Kept
from headrace.log.append import LogWriter
from headrace.log.base import Base, Part, PartsWriter
from headrace.log.files import Files
from headrace.log.read import LogReader, SegmentRef
from headrace.log.retain import based_on, boundary, sweep
from headrace.model.clock import CLOCK
from headrace.model.definition import Retention
from headrace.model.schema import Relation

HOLD_S = 30.0  # how long the removal waits for who reads the log from its beginning


@dataclass(frozen=True, slots=True)
class Holder:
    """Who needs the commits behind ``commit``, in words."""

    commit: int
    who: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The commits up to ``commit`` are to go; ``wanted`` would have been gone without ``holder``."""

    commit: int
    wanted: int
    segments: tuple[SegmentRef, ...]
    holder: Holder

    @property
    def names(self) -> set[str]:
        return {segment.name for segment in self.segments}

    @property
    def bytes(self) -> int:
        return sum(segment.bytes for segment in self.segments)


def holders(catalog: Catalog, wait_for: Collection[str] | None) -> list[Holder]:
    """Who holds the log back. ``wait_for``: the sinks that do; None: every one that has begun.

    Failed views do not: they are built again from the tables' state, or from a base and what lies behind it.
    """
    checkpoint = catalog.checkpoint()
    reached = {step.number: step.upto for step in catalog.steps()}
    found = [Holder(reached.get(checkpoint[0], 0) if checkpoint else 0, "the engine, from its checkpoint on")]
    for name, (frontier, _, _) in catalog.sinks().items():
        if wait_for is None or name in wait_for:
            found.append(Holder(frontier, f"sink {name}"))
    pending = [after for _, after in catalog.open_replays()] + [after for _, _, after, _ in catalog.untaken_refused()]
    return found + [Holder(after, "the quarantine") for after in pending]


def readers(log: Path) -> list[Holder]:
    """Of each table what consumer groups with ``hold`` still need; of views that is not in the log."""
    least = needed(log.parent / GROUPS, tables=True)
    if least is None:
        return [Holder(0, "the consumer groups, whose file cannot be read")]
    return [Holder(at - 1, f"the consumer groups of {name}") for name, at in least.items()]


def planned(log: Path, catalog: Catalog, wanted: int, wait_for: Collection[str] | None) -> Plan:
    """What of the commits up to ``wanted`` may go: whole segments, and none that a holder needs."""
    holder = min([*holders(catalog, wait_for), *readers(log)], key=lambda holder: holder.commit)
    commit = boundary(log, min(wanted, holder.commit))
    segments = tuple(s for s in LogReader(log).segments() if s.last <= commit and not s.active)
    return Plan(commit, wanted, segments, holder)


class Ages:
    """When the newest transaction of each closed segment was committed by its source; each is looked at once."""

    def __init__(self, log: Path) -> None:
        self._reader, self._newest = LogReader(log), dict[str, int]()

    def outlived(self, retention: Retention, now_us: int) -> int:
        """The last commit that ``retention`` wants gone: the segments before are all too old, or the rest is enough."""
        segments = self._reader.segments()
        self._newest = {s.name: self._newest[s.name] for s in segments if s.name in self._newest}
        wanted, left = self._reader.base.commit, sum(segment.bytes for segment in segments)
        for segment in segments:
            old = retention.keep_s is not None and self._at(segment) < now_us - int(retention.keep_s * 1e6)
            much = retention.keep_bytes is not None and left > retention.keep_bytes
            if segment.active or not (old or much):
                break
            wanted, left = segment.last, left - segment.bytes
        return wanted

    def _at(self, segment: SegmentRef) -> int:
        if segment.active:
            return 1 << 62
        if segment.name not in self._newest:
            frames = self._reader.frames(segment.first - 1, segment.last)
            self._newest[segment.name] = max(max(meta.committed_us) for _, meta in frames)
        return self._newest[segment.name]


def take_out(folder: Path, catalog: Catalog, plan: Plan) -> None:
    """While nothing runs: tables' rows that are kept in what the plan removes get files of their own."""
    checkpoint = catalog.checkpoint()
    if checkpoint is None:
        return
    step, runs = checkpoint
    kept = Kept(folder / "state")
    try:
        kept.restore(runs)
        if kept.take_out_of(plan.names):
            catalog.put_checkpoint(step, kept.checkpoint())
    finally:
        kept.close()


def carry_out(
    folder: Path, catalog: Catalog, log: LogWriter, plan: Plan, rest: Callable[[], None] = lambda: None
) -> Base | None:
    """A base at the plan's commit, then what it replaces is removed; None when somebody reads the log for too long.

    ``folder``: of the project's state. ``rest`` is called now and then while the base is written.
    """
    path, files = folder / "log", Files()
    written = bases.parts(path, relations(catalog), plan.commit, PartsWriter(path, plan.commit, files), rest)
    return _begun(log, path, plan.commit, written)


def _begun(log: LogWriter, path: Path, commit: int, written: Mapping[str, tuple[Part, ...]]) -> Base | None:
    base = based_on(path, commit, written)
    if log.begin_at(base, HOLD_S):
        return base
    sweep(path, Files())  # the next try writes parts of its own
    return None


def relations(catalog: Catalog) -> dict[str, Relation]:
    """Tables whose key is known, the clock among them."""
    return {CLOCK.name: CLOCK, **{name: relation for name, (_, relation) in catalog.relations().items()}}


def told(plan: Plan, *, removed: bool) -> dict[str, Any]:
    """As JSON: ``first``, the log's first commit then; what goes; who holds back what else was wanted, if anything."""
    held = plan.holder.commit < plan.wanted
    return {
        "first": plan.commit + 1, "segments": len(plan.segments), "bytes": plan.bytes, "removed": removed,
        "held": {"by": plan.holder.who, "commit": plan.holder.commit} if held else None,
    }  # fmt: skip
