"""What the catalogue may forget of the past: steps and deltas that neither recovery, nor a sink, nor a reader needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headrace.catalog.store import Catalog

RETAINED_STEPS = 256  # published steps kept for readers that follow, beside what the slowest sink needs


def forget(
    catalog: Catalog,
    number: int,
    durable: int,
    frontier: int,
    live: Collection[str],
    needed: Mapping[str, int] | None,
    begin: int = 0,
) -> set[str]:
    """Forgets what lies behind step ``number`` at commit ``frontier``; the files of feeds that are named still.

    ``durable``: the step of the newest checkpoint; a start runs those after it again.
    ``begin``: the commit that the log begins behind; a sink that lacks earlier ones was left behind.
    ``live``: the feeds of views that are kept. Of these stays every delta after the frontier of the slowest sink, its
    first one too, whether or not a base holds it: contents at that sink's commit are the base without those.
    ``needed``: view -> the least commit of its feed that consumer groups still need, of one that is gone it is of no
    concern; None: not known, they may need all there is.
    """
    views = catalog.views()
    readers = [0] if needed is None else [least - 1 for name, least in needed.items() if name in views]
    sinks = [max(begin, reached) for reached, _, _ in catalog.sinks().values()]
    slowest = min([*sinks, *readers], default=frontier)
    lacking = min((step.number for step in catalog.steps() if step.upto > slowest), default=number)
    before = min(lacking, number - RETAINED_STEPS, durable)
    files: set[str] = set()
    with catalog.transaction():
        for record in catalog.versions():
            if record.feed not in live:
                catalog.forget_feed(record.feed)
                continue
            base = catalog.base(record.feed)
            if base is not None:
                catalog.forget_outputs(record.feed, min(base[0], before - 1))
                files |= set(base[2])
            files |= {output.path for output in catalog.outputs(-1, number, record.feed)}
        if before > 0:
            catalog.forget_steps(before)
    return files
