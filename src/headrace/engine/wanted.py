"""What a sink wants: views, or stored queries whose matches stand in their place, against what it holds of them.

A sink may want those of ten thousand queries, and a step comes every few milliseconds: what is made of all of them is
made once, and where the sink holds all of them as they are now, which is nearly always, none is looked at by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from headrace.catalog.store import StepRecord, ViewRecord
from headrace.model.schema import ViewSchema

Place = tuple[str, bool]  # a feed, and whether all of its rows are wanted, not those of steps
Held = Mapping[str, int]  # the version of each that the sink holds


class Wanted:
    """``records``: each by its name. Neither they nor what is given of them is to be changed."""

    def __init__(self, records: Mapping[str, ViewRecord]) -> None:
        self.records = records

    @cached_property
    def versions(self) -> Held:
        return {name: record.schema.version for name, record in self.records.items()}

    @cached_property
    def schemas(self) -> Mapping[str, ViewSchema]:
        return {name: record.schema for name, record in self.records.items()}

    @cached_property
    def stale(self) -> Mapping[str, str]:
        """Why those that have failed stay as they are."""
        return {name: record.reason for name, record in self.records.items() if record.state == "failed"}

    @cached_property
    def _by_feed(self) -> Mapping[Place, Mapping[str, ViewRecord]]:
        return self._placed(self.versions)

    def by_feed(self, held: Held) -> Mapping[Place, Mapping[str, ViewRecord]]:
        """Who wants rows of which feed. One that failed is not given anew."""
        return self._by_feed if held == self.versions else self._placed(held)

    def _placed(self, held: Held) -> Mapping[Place, Mapping[str, ViewRecord]]:
        placed: dict[Place, dict[str, ViewRecord]] = {}
        for name, record in self.records.items():
            whole = held.get(name) != record.schema.version
            if not (whole and record.state == "failed"):
                placed.setdefault((record.feed, whole), {})[name] = record
        return placed

    def dropped(self, held: Held) -> frozenset[str]:
        """What is held and wanted no more."""
        return frozenset() if held == self.versions else frozenset(held) - self.records.keys()

    def known(self, held: Held) -> Wanted:
        """Without those of which nothing is held."""
        return self if held == self.versions else Wanted({n: r for n, r in self.records.items() if n in held})

    def as_held(self, held: Held) -> Wanted:
        """Those alone that are held as they are now."""
        if held == self.versions:
            return self
        return Wanted({n: r for n, r in self.records.items() if held.get(n) == r.schema.version})

    def current(self, held: Held, upto: int | None = None) -> bool:
        """Whether the sink holds just the versions there are: then several small deliveries will do.

        ``upto``: or those that there were then, views being new since.
        """
        if held == self.versions:
            return True
        there = {n: r for n, r in self.records.items() if upto is None or n in held or r.created_commit <= upto}
        return {n: r.schema.version for n, r in there.items()} == held

    def had(self, step: StepRecord, held: Held) -> bool:
        """Whether the sink holds each that had contents at a step as it is now."""
        if held == self.versions:
            return True
        there = {
            n: r
            for n, r in self.records.items()
            if r.created_commit <= step.upto and (n in held or r.state != "failed")
        }
        return all(held.get(name) == record.schema.version for name, record in there.items())
