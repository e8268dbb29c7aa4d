"""What the log holds (segments, the rows and positions of each table and source), and whether it is sound."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.catalog.store import Catalog
from headrace.log.base import Base
from headrace.log.layout import FrameMeta
from headrace.log.read import FrameRef, SegmentRef
from headrace.log.verify import verify
from headrace.serve.history import LOG, reader_of, time_text
from headrace.serve.snapshot import STATE, catalog_path

_TOLD = 1_000  # frames between two looks at how far it is


@dataclass(slots=True)
class _Span:
    """Rows, and the oldest and newest commit time in microseconds, of some frames."""

    rows: int = 0
    oldest_us: int | None = None
    newest_us: int | None = None

    def add(self, rows: int, oldest_us: int, newest_us: int) -> None:
        self.rows += rows
        self.oldest_us = oldest_us if self.oldest_us is None else min(self.oldest_us, oldest_us)
        self.newest_us = newest_us if self.newest_us is None else max(self.newest_us, newest_us)

    def shown(self) -> dict[str, Any]:
        return {"rows": self.rows, "oldest": time_text(self.oldest_us), "newest": time_text(self.newest_us)}


@dataclass(slots=True)
class _Feed:
    """A table in the log; ``sources``: those that every frame with rows of it has transactions of."""

    sources: set[str]
    rows: int = 0
    bytes: int = 0


@dataclass(slots=True)
class _Source:
    commits: int = 0
    last: int = 0
    position: str = ""
    committed_us: int = 0


@dataclass(slots=True)
class _Held:
    """All of it, added up frame by frame."""

    whole: _Span = field(default_factory=_Span)
    segments: dict[str, _Span] = field(default_factory=dict)
    feeds: dict[str, _Feed] = field(default_factory=dict)
    sources: dict[str, _Source] = field(default_factory=dict)

    def add(self, ref: FrameRef, meta: FrameMeta) -> None:
        rows, times = sum(ref.rows.values()), meta.committed_us
        for span in (self.whole, self.segments.setdefault(ref.segment, _Span())):
            span.add(rows, min(times), max(times))
        names = {name for name, _ in meta.sources}
        for table, payload in meta.payloads.items():
            feed = self.feeds.setdefault(table, _Feed(names))
            feed.sources = feed.sources & names
            feed.rows, feed.bytes = feed.rows + payload.rows, feed.bytes + payload.length
        at = 0
        for name, count in meta.sources:
            at += count
            source = self.sources.setdefault(name, _Source())
            source.commits, source.last = source.commits + count, ref.first + at - 1
            source.position, source.committed_us = meta.positions[at - 1], times[at - 1]


def overview(project_path: Path, on_progress: Callable[[dict[str, Any]], None] = lambda event: None) -> dict[str, Any]:
    """``{"segments", "base", "total", "tables", "sources"}`` of the durable log now, as JSON values.

    ``base``: None, or what stands for the commits that retention has removed: ``{"commit", "tables": [{"table", "rows",
    "bytes"}], "rows", "bytes"}``. The rest is of those that are left, which begin with ``total["first"]``.

    Reads no row. Work: the heads and tables of contents of all frames, about 15 µs each; ``on_progress`` hears how
    far it is.
    """
    reader = reader_of(project_path)
    segments = reader.segments()
    end = segments[-1].last if segments else 0
    held = _Held()
    base = reader.base
    for number, (ref, meta) in enumerate(reader.frames(base.commit, end)):
        held.add(ref, meta)
        if number % _TOLD == 0:
            on_progress({"text": "reading the log's contents, commits", "done": ref.last, "total": end})
    of_table = _of_table(project_path)
    total = {
        "segments": len(segments), "first": base.commit + 1, "commits": end - base.commit,
        "bytes": sum(segment.bytes for segment in segments),
    }  # fmt: skip
    return {
        "segments": [_segment(segment, held.segments.get(segment.name, _Span())) for segment in segments],
        "base": _base(base) if base.commit else None,
        "total": {**total, **held.whole.shown()},
        "tables": [
            {"table": name, "source": _owner(of_table.get(name), feed), "rows": feed.rows, "bytes": feed.bytes}
            for name, feed in sorted(held.feeds.items())
        ],
        "sources": [
            {
                "source": name, "commits": source.commits, "last": source.last,
                "committed_at": time_text(source.committed_us), "position": source.position,
            }
            for name, source in sorted(held.sources.items())
        ],
    }  # fmt: skip


def _base(base: Base) -> dict[str, Any]:
    tables = [
        {"table": table, "rows": sum(p.rows for p in parts), "bytes": sum(p.bytes for p in parts)}
        for table, parts in sorted(base.parts.items())
    ]
    return {"commit": base.commit, "tables": tables, "rows": sum(base.rows.values()), "bytes": base.size}


def verified(project_path: Path, on_progress: Callable[[dict[str, Any]], None] = lambda event: None) -> dict[str, Any]:
    """What ``headrace.log.verify`` finds, as JSON values; ``damage`` is empty for a sound log."""

    def told(done: int, total: int) -> None:
        on_progress({"text": "reading the log, MiB", "done": done >> 20, "total": total >> 20})

    since = time.monotonic()
    report = verify(project_path / STATE / LOG, told)
    return {
        "segments": report.segments, "groups": report.frames, "first": report.base + 1,
        "commits": report.end - report.base, "base_parts": report.parts, "rows": sum(report.rows.values()),
        "bytes": report.bytes, "reserved": report.reserved, "seconds": round(time.monotonic() - since, 3),
        "damage": [
            {"segment": d.segment, "offset": d.offset, "first": d.first, "last": d.last, "table": d.relation,
             "why": d.why}
            for d in report.damages
        ],
        "readable": [{"first": first, "last": last} for first, last in report.stands()],
    }  # fmt: skip


def _segment(segment: SegmentRef, span: _Span) -> dict[str, Any]:
    return {
        "segment": segment.name, "first": segment.first, "last": segment.last,
        "commits": segment.last - segment.first + 1, "bytes": segment.bytes, "active": segment.active, **span.shown(),
    }  # fmt: skip


def _owner(known: str | None, feed: _Feed) -> str | None:
    """The one source whose transactions hold all its rows; where the frames leave a choice, the catalogue's."""
    return next(iter(feed.sources)) if len(feed.sources) == 1 else known


def _of_table(project_path: Path) -> dict[str, str]:
    if not catalog_path(project_path).exists():
        return {}
    catalog = Catalog(catalog_path(project_path), read_only=True)
    try:
        return {name: source for name, (source, _) in catalog.relations().items()}
    finally:
        catalog.close()
