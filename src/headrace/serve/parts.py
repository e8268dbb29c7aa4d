"""The deltas of published steps, and the parts of them that readers want: each read once, all parts taken at once."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from headrace.catalog.store import Catalog, StepRecord, ViewRecord
from headrace.model.errors import HeadraceError
from headrace.model.schema import ViewSchema
from headrace.serve import snapshot

Delta = tuple[int, pa.Table]  # (commit, rows with ``_w``)
Place = tuple[str, int, int]  # of a delta: the feed, the step's number, the commit after which it is wanted


class Keep(Hashable, Protocol):
    """Which rows of a view a reader wants. Equal ones are followed once."""

    def together(self, schema: ViewSchema, rows: pa.Table, keeps: Sequence[Any]) -> list[pa.Table | HeadraceError]:
        """Those of the rows (with ``_w``) that each of ``keeps``, all of this kind, wants; what is wrong with it."""


def taken(keep: Keep, schema: ViewSchema, rows: pa.Table) -> pa.Table:
    """Those of the rows that one reader wants. Raises what is wrong with ``keep``."""
    (part,) = keep.together(schema, rows, [keep])
    if isinstance(part, HeadraceError):
        raise part
    return part


class NotKept(Exception):
    """Changes that are asked for are not kept any more, or are those of another version."""


class Deltas:
    """For one look at the published steps, up to the ``last`` of them that there is.

    ``keeps``: those of each view that are likely to be asked for.
    """

    def __init__(self, catalog: Catalog, keeps: Mapping[str, Sequence[Keep]]) -> None:
        self._catalog, self._keeps, self.last = catalog, keeps, catalog.last_published()
        self._records: dict[str, ViewRecord] = {}
        self._steps: dict[int, list[StepRecord]] = {}
        self._read: dict[Place, list[Delta]] = {}
        self._taken: dict[tuple[Place, Keep], list[tuple[int, pa.Table | HeadraceError]]] = {}

    def record(self, view: str) -> ViewRecord:
        """The view's version as this look finds it. Raises ``view.unknown``."""
        if view not in self._records:
            self._records[view] = snapshot.known(self._catalog, view)
        return self._records[view]

    def between(self, record: ViewRecord, keep: Keep | None, number: int, commit: int, upto: int) -> Iterator[Delta]:
        """Those of published steps (number, upto], the first of which begins at ``commit`` or before.

        Raises ``NotKept``, and what is wrong with ``keep``.
        """
        if number not in self._steps:
            self._steps[number] = [step for step in self._catalog.steps(number) if step.published_us is not None]
        steps = [step for step in self._steps[number] if commit < step.upto and step.number <= upto]
        if steps and steps[0].after > commit:
            raise NotKept
        for step in steps:
            place = record.feed, step.number, max(commit, step.after)
            for at, delta in (
                self._whole(record, step, place) if keep is None else self._part(record, step, place, keep)
            ):
                if isinstance(delta, HeadraceError):
                    raise delta
                if delta.num_rows:
                    yield at, delta

    def _whole(self, record: ViewRecord, step: StepRecord, place: Place) -> list[Delta]:
        if place not in self._read:
            try:
                found = list(snapshot.of_step(self._catalog, record, step, place[-1]))
            except HeadraceError as error:
                if error.code != "state.missing":
                    raise
                raise NotKept from error
            # Deltas are forgotten together with their steps, and with versions.
            kept = any(each.number == step.number for each in self._catalog.steps(step.number - 1)[:1])
            if not kept or snapshot.known(self._catalog, record.schema.name).feed != record.feed:
                raise NotKept
            self._read[place] = found
        return self._read[place]

    def _part(
        self, record: ViewRecord, step: StepRecord, place: Place, keep: Keep
    ) -> list[tuple[int, pa.Table | HeadraceError]]:
        if (place, keep) not in self._taken:
            known = self._keeps.get(record.schema.name, ())
            keeps = list(dict.fromkeys([keep, *(each for each in known if type(each) is type(keep))]))
            taken: list[list[tuple[int, pa.Table | HeadraceError]]] = [[] for _ in keeps]
            for commit, delta in self._whole(record, step, place):
                for parts, part in zip(taken, keep.together(record.schema, delta, keeps), strict=True):
                    parts.append((commit, part))
            # Only now, all of it being there: after a failure each of them is asked for anew.
            self._taken |= {(place, each): parts for each, parts in zip(keeps, taken, strict=True)}
        return self._taken[place, keep]
